//! Schedules: snapshots that the node takes by itself, and deletes again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::{ErrorBody, ErrorCode, Name, SCHEDULE_VOLUMES_MAX, Schedule, ScheduleSpec, Severity};
use node::{SnapshotId, VolumeId, VolumeInfo};

use crate::control::tenants::grants::{Asker, is_hidden};
use crate::control::volumes::snapshots::{own_volume, space_of};
use crate::control::words::not_found;
use crate::control::{Control, Objects};
use crate::events::{seconds, time_at, timestamp};
use crate::schedules::{ScheduleRecord, snapshot_name};
use crate::state::Kind;

/// The most schedules of a node.
const SCHEDULES_MAX: usize = 1000;

/// Periods begin with a minute of the clock.
const LOOK_SECONDS: u64 = 60;

/// A schedule, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::control) struct ScheduleEntry {
    pub record: ScheduleRecord,
    pub problem: Option<String>,
}

/// Schedules as they were remembered.
pub(in crate::control) fn restored(
    records: BTreeMap<Name, ScheduleRecord>,
) -> BTreeMap<Name, ScheduleEntry> {
    let entry = |record| ScheduleEntry {
        record,
        problem: None,
    };
    let records = records.into_iter();
    records
        .map(|(name, record)| (name, entry(record)))
        .collect()
}

/// What a look at a schedule did.
#[derive(Default)]
struct Done {
    taken: usize,
    deleted: usize,
}

impl Control {
    /// Every schedule that the asker may know of, by name.
    pub async fn schedules(&self, asker: Asker<'_>) -> Vec<Schedule> {
        let objects = self.objects.seen();
        let all = objects.schedules.iter();
        all.filter(|(_, entry)| !is_hidden(asker, entry.record.tenant.as_ref()))
            .map(|(name, entry)| shown(&objects, name, entry))
            .collect()
    }

    /// One schedule.
    pub async fn schedule(&self, asker: Asker<'_>, name: &Name) -> Result<Schedule, ErrorBody> {
        let objects = self.objects.seen();
        let entry = own_schedule(&objects, asker, name)?;
        Ok(shown(&objects, name, entry))
    }

    /// Makes the schedule `name` be what `spec` says, and takes and deletes what is due by that.
    pub async fn set_schedule(
        &self,
        asker: Asker<'_>,
        name: &Name,
        spec: &ScheduleSpec,
    ) -> Result<Schedule, ErrorBody> {
        spec.keep.check()?;
        let mut objects = self.objects.change().await;
        let before = objects.schedules.get(name);
        if before.is_some_and(|entry| is_hidden(asker, entry.record.tenant.as_ref())) {
            let message = format!("schedule {name} exists; allowed: another name");
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        if before.is_none() && objects.schedules.len() >= SCHEDULES_MAX {
            let message = format!("{SCHEDULES_MAX} schedules exist; allowed: {SCHEDULES_MAX}");
            return Err(ErrorBody::new(ErrorCode::OutOfSpace, message));
        }
        let (pool, volumes) = scheduled(&objects, asker, spec)?;
        let record = match before.map(|entry| &entry.record) {
            Some(before) if before.pool != pool => {
                let message = format!(
                    "schedule {name} is for volumes of another pool, and keeps snapshots there; \
                     allowed: volumes of that pool, or another schedule"
                );
                return Err(ErrorBody::invalid("volumes", message));
            }
            Some(before) => ScheduleRecord {
                volumes,
                keep: spec.keep,
                ..before.clone()
            },
            None => ScheduleRecord {
                pool,
                volumes,
                keep: spec.keep,
                tenant: asker.cloned(),
                last: None,
                taken: Vec::new(),
                noted: None,
            },
        };
        if before.is_none_or(|entry| entry.record != record) {
            self.remember(Kind::Schedule, name, record.clone()).await?;
            self.tell_schedule(Severity::Info, name, &in_words(&record));
        }
        let problem = before.and_then(|entry| entry.problem.clone());
        let entry = ScheduleEntry { record, problem };
        objects.schedules.insert(name.clone(), entry);
        self.look_at_schedule(&mut objects, name, seconds(SystemTime::now()))
            .await;
        let entry = own_schedule(&objects, asker, name)?;
        Ok(shown(&objects, name, entry))
    }

    /// Takes no more snapshots; those that there are stay.
    pub async fn remove_schedule(&self, asker: Asker<'_>, name: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        own_schedule(&objects, asker, name)?;
        self.forget(Kind::Schedule, name).await?;
        objects.schedules.remove(name);
        self.tell_schedule(Severity::Info, name, "removed; its snapshots stay");
        Ok(())
    }

    /// Takes and deletes snapshots when it is time, until the node stops.
    pub async fn take_on_schedule(self: Arc<Self>) {
        loop {
            let now = seconds(SystemTime::now());
            let names: Vec<Name> = self.objects.seen().schedules.keys().cloned().collect();
            for name in names {
                // One after the other: other changes come in between.
                let mut objects = self.objects.change().await;
                self.look_at_schedule(&mut objects, &name, now).await;
            }
            let now = seconds(SystemTime::now());
            tokio::time::sleep(Duration::from_secs(LOOK_SECONDS - now % LOOK_SECONDS)).await;
        }
    }

    /// Takes and deletes what is due, and says so; a problem is told once.
    async fn look_at_schedule(&self, objects: &mut Objects, name: &Name, now: u64) {
        let Some(entry) = objects.schedules.get(name) else {
            return;
        };
        let before = entry.clone();
        let mut record = before.record.clone();
        let mut done = Done::default();
        let outcome = self
            .keep_schedule(objects, name, &mut record, now, &mut done)
            .await;
        let problem = outcome.err();
        if problem != before.problem {
            match &problem {
                Some(problem) => self.tell_schedule(Severity::Warning, name, problem),
                None => self.tell_schedule(Severity::Info, name, "goes on"),
            }
        }
        if done.taken + done.deleted > 0 {
            let message = format!("took {} snapshots, deleted {}", done.taken, done.deleted);
            self.tell_schedule(Severity::Info, name, &message);
        }
        let entry = ScheduleEntry { record, problem };
        // Most looks change nothing, and what changes is copied for those who only ask.
        if entry != before {
            objects.schedules.insert(name.clone(), entry);
        }
    }

    /// Nothing is deleted unless what is due was taken: a schedule that fails keeps what it has.
    async fn keep_schedule(
        &self,
        objects: &Objects,
        name: &Name,
        record: &mut ScheduleRecord,
        now: u64,
        done: &mut Done,
    ) -> Result<(), String> {
        let pool = pool_of(objects, record).ok_or("its pool is not on this node")?;
        if let Some(reason) = objects
            .pools
            .get(pool)
            .and_then(|entry| entry.offline.as_ref())
        {
            return Err(format!("pool {pool} is offline: {reason}"));
        }
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (volumes, snapshots) = contents.map_err(|error| error.to_string())?;
        let there: BTreeMap<&str, SnapshotId> = snapshots
            .iter()
            .map(|info| (info.name.as_str(), info.id))
            .collect();
        let remembered = record.clone();
        record.settle(|snapshot| there.contains_key(snapshot.as_str()));
        self.follow_volumes(name, record, &volumes);
        if record.volumes.is_empty() {
            return Err("its volumes are gone: nothing is left to take".to_owned());
        }
        if record.is_due(now) {
            let names = record.names(now)?;
            // Another schedule of the volume has this minute; the next is as good.
            let is_there = |(_, snapshot): &(u32, Name)| there.contains_key(snapshot.as_str());
            if names.iter().any(is_there) {
                return Ok(());
            }
            self.take_due(objects, (name, pool), record, names, now)
                .await?;
            done.taken = record.volumes.len();
        }
        for expired in record.expired() {
            for snapshot in &expired.snapshots {
                let Some(id) = there.get(snapshot.as_str()) else {
                    continue;
                };
                let deleted = self.node.delete_pool_snapshot(pool.as_str(), *id).await;
                deleted.map_err(|error| format!("snapshot {snapshot} stays: {error}"))?;
                done.deleted += 1;
            }
            record.taken.retain(|taken| taken.at != expired.at);
        }
        match *record == remembered {
            true => Ok(()),
            false => self.remember_schedule(name, record).await,
        }
    }

    /// Notes what is taken before it is: were it the other way round, a node that dies in between
    /// would never delete it.
    async fn take_due(
        &self,
        objects: &Objects,
        (name, pool): (&Name, &Name),
        record: &mut ScheduleRecord,
        names: Vec<(u32, Name)>,
        now: u64,
    ) -> Result<(), String> {
        let in_words = |error: ErrorBody| error.message;
        let more = space_of(objects, record.volumes.values());
        let asker = record.tenant.clone();
        let granted = self.check_grant(objects, asker.as_ref(), pool, more);
        granted.await.map_err(in_words)?;
        let only_names = names.iter().map(|(_, snapshot)| snapshot.clone());
        record.note(now, only_names.collect());
        self.remember_schedule(name, record).await?;
        let wanted = names.into_iter();
        let wanted = wanted.map(|(number, snapshot)| (VolumeId(number), snapshot));
        let taken = self.take(objects, pool, wanted.collect()).await;
        record.confirm(taken.is_ok());
        self.remember_schedule(name, record).await?;
        taken.map(drop).map_err(in_words)
    }

    async fn remember_schedule(&self, name: &Name, record: &ScheduleRecord) -> Result<(), String> {
        let remembered = self.remember(Kind::Schedule, name, record.clone()).await;
        remembered.map_err(|error| error.message)
    }

    /// Volumes may have got other names, or be gone.
    fn follow_volumes(&self, name: &Name, record: &mut ScheduleRecord, volumes: &[VolumeInfo]) {
        let there: BTreeMap<u32, &VolumeInfo> =
            volumes.iter().map(|info| (info.id.0, info)).collect();
        for (number, volume) in &mut record.volumes {
            let now = there.get(number).and_then(|info| info.name.parse().ok());
            if let Some(now) = now {
                *volume = now;
            }
        }
        record.volumes.retain(|number, volume| {
            let stays = there.contains_key(number);
            if !stays {
                let message = format!("volume {volume} is gone; its snapshots stay");
                self.tell_schedule(Severity::Info, name, &message);
            }
            stays
        });
    }

    fn tell_schedule(&self, severity: Severity, name: &Name, message: &str) {
        let object = format!("schedule/{name}");
        self.events.record(severity, &object, message);
    }
}

/// The schedule, if the asker may know of it.
fn own_schedule<'a>(
    objects: &'a Objects,
    asker: Asker<'_>,
    name: &Name,
) -> Result<&'a ScheduleEntry, ErrorBody> {
    let entry = objects.schedules.get(name);
    let entry = entry.filter(|entry| !is_hidden(asker, entry.record.tenant.as_ref()));
    entry.ok_or_else(|| not_found("schedule", name))
}

/// The identity of the pool, and the volumes in it that a schedule is to be for.
fn scheduled(
    objects: &Objects,
    asker: Asker<'_>,
    spec: &ScheduleSpec,
) -> Result<(String, BTreeMap<u32, Name>), ErrorBody> {
    let count = spec.volumes.len();
    if count == 0 || count > SCHEDULE_VOLUMES_MAX {
        let message = format!("{count} volumes; allowed: 1 to {SCHEDULE_VOLUMES_MAX}");
        return Err(ErrorBody::invalid("volumes", message));
    }
    let mut pools: BTreeSet<Name> = BTreeSet::new();
    let mut volumes = BTreeMap::new();
    for (index, volume) in spec.volumes.iter().enumerate() {
        let at = |error: ErrorBody| error.at(format!("volumes[{index}]"));
        let (pool, number) = own_volume(objects, asker, volume).map_err(at)?;
        let name = snapshot_name(volume, 0);
        name.map_err(|problem| at(ErrorBody::invalid("volumes", problem)))?;
        pools.insert(pool);
        if volumes.insert(number.0, volume.clone()).is_some() {
            let message = format!("volume {volume} is named twice; allowed: once");
            return Err(at(ErrorBody::invalid("volumes", message)));
        }
    }
    let mut pools = pools.into_iter();
    let (pool, other) = (pools.next(), pools.next());
    if let (Some(pool), Some(other)) = (&pool, &other) {
        let message = format!("volumes of pools {pool} and {other}; allowed: of one pool");
        return Err(ErrorBody::invalid("volumes", message));
    }
    let entry = pool.and_then(|pool| objects.pools.get(&pool));
    let entry = entry.ok_or_else(|| {
        let message = "the pool is being closed; ask again";
        ErrorBody::new(ErrorCode::NotReady, message)
    })?;
    Ok((entry.record.id.clone(), volumes))
}

/// The pool of a schedule, by whatever name it is here.
fn pool_of<'a>(objects: &'a Objects, record: &ScheduleRecord) -> Option<&'a Name> {
    let mut pools = objects.pools.iter();
    let found = pools.find(|(_, entry)| entry.record.id == record.pool);
    found.map(|(name, _)| name)
}

fn in_words(record: &ScheduleRecord) -> String {
    let keep = record.keep;
    format!(
        "set: {} volumes; {} hourly, {} daily and {} weekly snapshots of each stay",
        record.volumes.len(),
        keep.hourly,
        keep.daily,
        keep.weekly
    )
}

fn shown(objects: &Objects, name: &Name, entry: &ScheduleEntry) -> Schedule {
    let record = &entry.record;
    let at = |seconds| timestamp(time_at(seconds));
    Schedule {
        name: name.clone(),
        volumes: record.volumes.values().cloned().collect(),
        pool: pool_of(objects, record).cloned(),
        keep: record.keep,
        snapshots: record
            .taken
            .iter()
            .flat_map(|taken| taken.snapshots.iter().cloned())
            .collect(),
        last: record.last.map(at),
        next: at(record.next(seconds(SystemTime::now()))),
        problem: entry.problem.clone(),
        tenant: record.tenant.clone(),
    }
}
