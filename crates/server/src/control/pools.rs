//! Pools: make, show, import, let go of; their drives.

pub(super) mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use api::{ErrorBody, ErrorCode, Job, JobKind, Name, Pool, PoolSpec, PoolState, Severity};
use node::{PoolFacts, Taking};

use crate::control::drives::wiped;
use crate::control::words::{list, not_found, refused};

use crate::control::{Control, Objects, VolumeEntry};
use crate::state::{Place, PoolRecord, ScrubRecord, VolumeRecord};
use crate::words::hexadecimal;

mod absent;
mod adopt;
mod agreement;
mod carried;
mod export;
mod found;
mod hosts;
mod import;
mod leftovers;
mod looks;
mod losses;
mod opening;
mod renaming;
mod scrub;
mod show;
mod usage;
mod waiting;
mod wiping;

pub(super) use self::looks::Looks;
pub(super) use self::scrub::check_interval_days;
use self::show::shown;
pub(in crate::control) use self::show::why_offline;
pub(super) use self::usage::Usages;

/// How long those who look at pools wait until what has changed is remembered.
const REMEMBERED_WITHIN: Duration = Duration::from_secs(5);

/// A pool that the node serves, or would.
#[derive(Clone)]
pub(super) struct PoolEntry {
    pub record: PoolRecord,
    /// Nobody is certain that the state has the record as it is: it could not be remembered, or
    /// may have been by an earlier version, which did so otherwise.
    pub unremembered: bool,
    /// Why it is not open.
    pub offline: Option<String>,
    /// As it was when it was last looked at.
    pub facts: Option<PoolFacts>,
    /// What of it cannot be served, and why.
    pub unserved: Vec<String>,
    /// What drives carried where members were missed when it was opened, by members' identities.
    pub instead: BTreeMap<String, String>,
    /// Until when it waits for members before it is opened without them.
    pub waits_until: Option<Instant>,
}

impl Control {
    /// Every pool, by name.
    pub async fn pools(&self) -> Vec<Pool> {
        let objects = self.look().await;
        let pools = objects.pools.iter();
        pools
            .map(|(name, entry)| shown(&objects, name, entry))
            .collect()
    }

    /// One pool.
    pub async fn pool(&self, name: &Name) -> Result<Pool, ErrorBody> {
        let objects = self.look().await;
        let entry = objects.pools.get(name);
        let entry = entry.ok_or_else(|| not_found("pool", name))?;
        Ok(shown(&objects, name, entry))
    }

    /// Makes a pool called `name` out of drives that nothing uses.
    pub async fn create_pool(&self, name: &Name, spec: PoolSpec) -> Result<Pool, ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        if let Some(entry) = objects.pools.get(name) {
            let pool = shown(&objects, name, entry);
            return match same(&pool, &spec) {
                true => Ok(pool),
                false => Err(differs(&pool)),
            };
        }
        for (index, drive) in spec.drives.iter().enumerate() {
            let field = format!("drives[{index}]");
            free_drive(&objects, drive, None).map_err(|error| error.at(field))?;
        }
        let level = spec.level.as_str().parse();
        let level = level
            .map_err(|error: node::UnknownLevel| ErrorBody::invalid("level", error.to_string()))?;
        let taking = taking(spec.force);
        self.check_before(taking).await?;
        let made = node::PoolSpec {
            level,
            width: spec.width.map(usize::from),
            drives: spec.drives.iter().map(Name::to_string).collect(),
            taking,
        };
        let made = self.node.create_pool(name.as_str(), made).await;
        let facts = made.map_err(|error| refused(&error))?;
        let entry = PoolEntry::open(facts, &PoolRecord::new());
        if let Err(error) = self.remember_pool(name, None, &entry.record).await {
            // Made a moment ago under this lock: it is there to be destroyed.
            let _ = self.node.destroy_pool(name.as_str()).await;
            return Err(wiped::after(taking, &spec.drives, error));
        }
        let message = format!("created as {} on {}", spec.level, list(&spec.drives));
        self.tell_pool(Severity::Info, name, &message);
        objects.pools.insert(name.clone(), entry);
        self.pool_now(&mut objects, name).await
    }

    /// Destroys a pool that has no volumes and no snapshots.
    pub async fn destroy_pool(&self, name: &Name) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        self.online_pool(&objects, name)?;
        self.check_idle(name)?;
        self.usages.check_none(name)?;
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, snapshots) = contents.map_err(|error| refused(&error))?;
        let volumes = volumes.into_iter().map(|volume| volume.name);
        let held: Vec<String> = volumes
            .chain(snapshots.into_iter().map(|snapshot| snapshot.name))
            .collect();
        if !held.is_empty() {
            let held = held.join(", ");
            let message = format!("pool {name} holds {held}: delete these first, or export it");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        self.forget_grants_in(&mut objects, name).await?;
        self.forget_paths(&objects, name).await?;
        self.forget_pool(name).await?;
        objects.pools.remove(name);
        let destroyed = self.node.destroy_pool(name.as_str()).await;
        destroyed.map_err(|error| refused(&error))?;
        self.tell_pool(Severity::Info, name, "destroyed");
        Ok(())
    }

    /// Adds a drive to a pool that nothing uses, be it one of its members that failed.
    pub async fn add_pool_drive(
        &self,
        name: &Name,
        drive: &Name,
        force: bool,
    ) -> Result<Pool, ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        self.online_pool(&objects, name)?;
        if !works_in(&objects, name, drive) {
            free_drive(&objects, drive, Some(name))?;
            let added = self
                .node
                .add_pool_drive(name.as_str(), drive.as_str(), taking(force));
            added.await.map_err(|error| refused(&error))?;
        }
        self.pool_now(&mut objects, name).await
    }

    /// Begins to move everything off a drive of a pool.
    pub async fn remove_pool_drive(
        self: &Arc<Self>,
        name: &Name,
        drive: &Name,
    ) -> Result<Job, ErrorBody> {
        let mut objects = self.objects.change().await;
        self.look_at_pools(&mut objects).await;
        self.online_pool(&objects, name)?;
        member(&objects, name, drive)?;
        self.check_idle(name)?;
        let (control, pool, drive) = (Arc::clone(self), name.clone(), drive.clone());
        Ok(self.run_job(JobKind::RemoveDrive, name, async move {
            let removed = control
                .node
                .remove_pool_drive(pool.as_str(), drive.as_str());
            removed.await.map_err(|error| error.to_string())?;
            Ok(format!("drive {drive} is free"))
        }))
    }

    /// Takes a drive of a pool out of use for good.
    ///
    /// Waits for no change that is under way: one may be waiting for this drive.
    pub async fn fail_pool_drive(&self, name: &Name, drive: &Name) -> Result<Pool, ErrorBody> {
        let objects = self.look().await;
        self.online_pool(&objects, name)?;
        member(&objects, name, drive)?;
        if !works_in(&objects, name, drive) {
            let message = format!("drive {drive} has failed already: pool {name} does not use it");
            return Err(ErrorBody::new(ErrorCode::InUse, message));
        }
        let failed = self.node.fail_pool_drive(name.as_str(), drive.as_str());
        failed.await.map_err(|error| refused(&error))?;
        self.pool(name).await
    }

    /// What takes long, and lately did.
    pub fn jobs(&self) -> Vec<Job> {
        self.jobs.all()
    }

    /// One job.
    pub fn job(&self, id: u64) -> Result<Job, ErrorBody> {
        let found = self.jobs.get(id);
        found.ok_or_else(|| ErrorBody::new(ErrorCode::NotFound, format!("no job has number {id}")))
    }

    fn run_job(
        &self,
        kind: JobKind,
        pool: &Name,
        work: impl Future<Output = Result<String, String>> + Send + 'static,
    ) -> Job {
        let job = self.jobs.start(kind, &object(pool));
        let (jobs, id) = (Arc::clone(&self.jobs), job.id);
        tokio::spawn(async move { jobs.finish(id, work.await) });
        job
    }

    /// Refuses a pool on which something long is under way.
    fn check_idle(&self, name: &Name) -> Result<(), ErrorBody> {
        let object = object(name);
        for (kind, what) in [
            (JobKind::Scrub, "a scrub"),
            (JobKind::RemoveDrive, "the removal of a drive"),
        ] {
            if let Some(id) = self.jobs.running(kind, &object) {
                let advice = match kind {
                    JobKind::Scrub => "wait for it or stop it",
                    _ => "wait for it",
                };
                let message = format!("pool {name} is busy with {what}, job {id}: {advice}");
                return Err(ErrorBody::new(ErrorCode::InUse, message));
            }
        }
        Ok(())
    }

    /// Refuses a pool that is unknown or not open.
    pub(super) fn online_pool(&self, objects: &Objects, name: &Name) -> Result<(), ErrorBody> {
        let Some(entry) = objects.pools.get(name) else {
            let existing: Vec<Name> = objects.pools.keys().cloned().collect();
            let message = format!("no pool is named {name}; pools: {}", list(&existing));
            return Err(ErrorBody::new(ErrorCode::NotFound, message));
        };
        match &entry.offline {
            None => Ok(()),
            Some(reason) => {
                let message = format!("pool {name} is offline: {reason}");
                Err(ErrorBody::new(ErrorCode::NotReady, message))
            }
        }
    }

    /// Everything, with what is known about pools and drives up to date. While something is being
    /// changed that is kept for this answer only.
    pub(super) async fn look(&self) -> Arc<Objects> {
        if let Some(mut objects) = self.objects.try_change() {
            self.look_at_pools(&mut objects).await;
            self.note_resized(&mut objects);
            drop(objects);
            return self.objects.seen();
        }
        let mut objects = Objects::clone(&self.objects.seen());
        for (name, entry) in objects.pools.iter_mut() {
            if entry.offline.is_none()
                && let Ok(facts) = self.node.pool_seen(name.as_str()).await
            {
                entry.record = remembered(&facts, &entry.record);
                entry.facts = Some(facts);
            }
        }
        Arc::new(objects)
    }

    /// Brings what is known about open pools up to date.
    pub(super) async fn look_at_pools(&self, objects: &mut Objects) {
        let volumes = &objects.volumes;
        for (name, entry) in objects.pools.iter_mut() {
            if entry.offline.is_some() {
                continue;
            }
            let Ok(facts) = self.node.pool_facts(name.as_str()).await else {
                continue;
            };
            let record = PoolRecord {
                volumes: held(volumes, name, &entry.record.volumes),
                ..remembered(&facts, &entry.record)
            };
            entry.facts = Some(facts);
            if record != entry.record || entry.unremembered {
                // It only helps while the pool is not open: the next look tries again. Figures, and
                // those who only ask, do not wait for a disk that does not answer.
                let kept = self.remember_pool(name, entry.surely_remembered(), &record);
                let kept = tokio::time::timeout(REMEMBERED_WITHIN, kept).await;
                entry.unremembered = !matches!(kept, Ok(Ok(())));
                entry.record = record;
            }
        }
    }

    pub(super) async fn pool_now(
        &self,
        objects: &mut Objects,
        name: &Name,
    ) -> Result<Pool, ErrorBody> {
        self.look_at_pools(objects).await;
        let entry = objects.pools.get(name);
        let entry = entry.ok_or_else(|| not_found("pool", name))?;
        Ok(shown(objects, name, entry))
    }

    pub(super) fn tell_pool(&self, severity: Severity, name: &Name, message: &str) {
        self.events.record(severity, &object(name), message);
    }
}

impl PoolRecord {
    /// Of a pool that is the node's from now on: it is time for a scrub an interval later.
    fn new() -> PoolRecord {
        PoolRecord {
            scrub: ScrubRecord::counting_from(SystemTime::now()),
            ..PoolRecord::default()
        }
    }
}

impl PoolEntry {
    /// What the state has of it, where that is certain.
    fn surely_remembered(&self) -> Option<PoolRecord> {
        (!self.unremembered).then(|| self.record.clone())
    }

    /// One that was opened a moment ago, and what was remembered of it before.
    fn open(facts: PoolFacts, before: &PoolRecord) -> PoolEntry {
        PoolEntry {
            record: remembered(&facts, before),
            unremembered: true,
            offline: None,
            facts: Some(facts),
            unserved: Vec::new(),
            instead: BTreeMap::new(),
            waits_until: None,
        }
    }
}

/// How a pool takes its drives.
fn taking(force: bool) -> Taking {
    match force {
        true => Taking::Wiped,
        false => Taking::Blank,
    }
}

/// The volumes that a pool holds, as they are to be remembered: those of `before` where nothing is
/// new.
fn held(
    volumes: &BTreeMap<Name, VolumeEntry>,
    pool: &Name,
    before: &Arc<BTreeMap<Name, VolumeRecord>>,
) -> Arc<BTreeMap<Name, VolumeRecord>> {
    let of_pool = volumes.iter();
    let of_pool = of_pool.filter(|(_, held)| held.record.place.pool() == Some(pool));
    let records = of_pool.filter_map(|(name, held)| match held.unread {
        false => Some((name, &held.record)),
        // As it was when it could be read.
        true => before.get_key_value(name),
    });
    match records.clone().eq(before.iter()) {
        true => Arc::clone(before),
        false => {
            let records = records.map(|(name, record)| (name.clone(), record.clone()));
            Arc::new(records.collect())
        }
    }
}

/// What events and jobs call a pool.
fn object(pool: &Name) -> String {
    format!("pool/{pool}")
}

/// What is to be remembered of an open pool; `before` knows what missing members were called.
fn remembered(facts: &PoolFacts, before: &PoolRecord) -> PoolRecord {
    let mut members = BTreeMap::new();
    for drive in &facts.status.drives {
        let id = hexadecimal(&drive.id.0);
        let named = facts
            .names
            .get(&drive.id)
            .and_then(|name| name.parse().ok());
        // One that failed and joined anew is called by its name as what it is now.
        let is_another = |name: &&Name| facts.names.values().any(|other| *other == name.as_str());
        let earlier = before.members.get(&id).filter(|name| !is_another(name));
        if let Some(name) = named.or_else(|| earlier.cloned()) {
            members.insert(id, name);
        }
    }
    PoolRecord {
        id: hexadecimal(&facts.status.id.0),
        members,
        volumes: before.volumes.clone(),
        scrub: before.scrub.clone(),
        left_out: before.left_out.clone(),
    }
}

/// Which pool has a drive among its members.
pub(super) fn pool_of<'a>(objects: &'a Objects, drive: &Name) -> Option<&'a Name> {
    let mut pools = objects.pools.iter();
    let found = pools.find(|(_, entry)| entry.record.members.values().any(|name| name == drive));
    found.map(|(name, _)| name)
}

/// True when a pool uses a drive: a member that failed is listed and not used.
fn works_in(objects: &Objects, pool: &Name, drive: &Name) -> bool {
    let Some(entry) = objects.pools.get(pool) else {
        return false;
    };
    let members = entry.facts.iter().flat_map(|facts| &facts.status.drives);
    let mut used = members.filter(|member| member.active);
    used.any(|member| entry.record.members.get(&hexadecimal(&member.id.0)) == Some(drive))
}

/// Refuses a drive that is unknown, offline or used, be it by a pool other than `unless`.
fn free_drive(objects: &Objects, drive: &Name, unless: Option<&Name>) -> Result<(), ErrorBody> {
    let Some(entry) = objects.drives.get(drive) else {
        let existing: Vec<Name> = objects.drives.keys().cloned().collect();
        let message = format!("no drive is named {drive}; drives: {}", list(&existing));
        return Err(ErrorBody::new(ErrorCode::NotFound, message));
    };
    if let Some(volume) = crate::control::drives::user(objects, drive) {
        let message = format!("drive {drive} is used by volume {volume}");
        return Err(ErrorBody::new(ErrorCode::InUse, message));
    }
    if let Some(pool) = pool_of(objects, drive).filter(|pool| Some(*pool) != unless) {
        let message = format!("drive {drive} is used by pool {pool}");
        return Err(ErrorBody::new(ErrorCode::InUse, message));
    }
    match &entry.offline {
        None => Ok(()),
        Some(reason) => {
            let message = format!("drive {drive} is offline: {reason}");
            Err(ErrorBody::new(ErrorCode::NotReady, message))
        }
    }
}

/// Refuses a drive that is no member of the pool.
fn member(objects: &Objects, pool: &Name, drive: &Name) -> Result<(), ErrorBody> {
    let entry = objects.pools.get(pool);
    let members = entry.map(|entry| entry.record.members.values().cloned());
    let mut members: Vec<Name> = members.into_iter().flatten().collect();
    members.sort();
    if members.contains(drive) {
        return Ok(());
    }
    let message = format!(
        "drive {drive} is no member of pool {pool}; members: {}",
        list(&members)
    );
    Err(ErrorBody::new(ErrorCode::NotFound, message))
}

/// The volumes of a pool that are served, or would be.
pub(super) fn volumes_of(objects: &Objects, pool: &Name) -> Vec<Name> {
    let on = |place: &Place| place.pool() == Some(pool);
    let volumes = objects.volumes.iter();
    volumes
        .filter(|(_, volume)| on(&volume.record.place))
        .map(|(name, _)| name.clone())
        .collect()
}

fn same(pool: &Pool, spec: &PoolSpec) -> bool {
    let members: BTreeSet<&Name> = pool
        .members
        .iter()
        .flat_map(|member| &member.drive)
        .collect();
    let usual = || {
        let level: node::Level = spec.level.as_str().parse().ok()?;
        u8::try_from(level.default_width(spec.drives.len())).ok()
    };
    pool.level == Some(spec.level)
        && members == spec.drives.iter().collect()
        && pool.width == spec.width.or_else(usual)
}

fn differs(pool: &Pool) -> ErrorBody {
    let members = pool.members.iter().flat_map(|member| member.drive.clone());
    let level = match (pool.level, pool.width) {
        (Some(level), Some(width)) => format!("{level}, {width} wide,"),
        _ => "a pool that is not open".to_owned(),
    };
    let message = format!(
        "pool {} exists as {level} on {}",
        pool.name,
        list(&members.collect::<Vec<_>>())
    );
    ErrorBody::new(ErrorCode::AlreadyExists, message)
}

/// The state of a pool in the words of the API.
fn state_of(state: node::PoolState) -> PoolState {
    match state {
        node::PoolState::Online => PoolState::Online,
        node::PoolState::Degraded => PoolState::Degraded,
        node::PoolState::Offline => PoolState::Offline,
    }
}
