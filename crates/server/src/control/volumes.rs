//! Volumes: serve, show, allow, deny, stop serving.

pub(super) mod copies;
pub(super) mod kept;
pub(super) mod pool_volumes;
pub(super) mod protection;
pub(super) mod room;
pub(super) mod schedules;
pub(super) mod serving;
pub(super) mod snapshots;
pub(super) mod standing;
pub(super) mod subsystems;
pub(super) mod told;

use std::collections::BTreeSet;

use api::{
    ANY_HOST, Caller, ErrorBody, ErrorCode, Limits, List, Name, ObjectState, PageQuery, Severity,
    Size, Volume, VolumeSpec,
};
use node::{AllowedHosts, Backing, NodeError, Taking, VolumeId};
use uuid::Uuid;

use crate::control::drives::wiped;
use crate::control::hosts::{check_owner, nqn_of};
use crate::control::replications::replicas;
use crate::control::tenants::grants::{Asker, is_hidden};
use crate::control::volumes::serving::node_volume;
use crate::control::volumes::standing::Standing;
use crate::control::volumes::subsystems::{group_agrees, members};
use crate::control::volumes::told::Told;
use crate::control::words::{list, not_found, parsed, refused};
use crate::control::{Control, Objects, VolumeEntry};
use crate::rules;
use crate::state::{Kind, Place, VolumeRecord};

impl Control {
    /// Every volume, by name.
    pub async fn volumes(&self) -> Vec<Volume> {
        let objects = self.objects.seen();
        self.shown_volumes(objects.volumes.iter().collect()).await
    }

    /// The volumes that a caller may know of, by name: the part that `query` asks for.
    pub async fn volumes_for(
        &self,
        caller: &Caller,
        query: &PageQuery,
    ) -> Result<List<Volume>, ErrorBody> {
        let objects = self.objects.seen();
        let known = objects.volumes.iter();
        let known = known.filter(|(_, entry)| caller.sees(entry.record.tenant.as_ref()));
        let List { items, next } = List::page(known.collect(), query, |(name, _)| (*name).clone())?;
        let items = self.shown_volumes(items).await;
        Ok(List { items, next })
    }

    /// One volume.
    pub async fn volume(&self, name: &Name) -> Result<Volume, ErrorBody> {
        let objects = self.objects.seen();
        let entry = objects
            .volumes
            .get(name)
            .ok_or_else(|| not_found("volume", name))?;
        Ok(self.shown_volume(name, entry).await)
    }

    /// Makes the volume `name` be what `spec` says, and serves it.
    pub async fn create_volume(
        &self,
        asker: Asker<'_>,
        name: &Name,
        spec: VolumeSpec,
    ) -> Result<Volume, ErrorBody> {
        let spec = VolumeSpec {
            size: spec.size.map(Size::in_blocks),
            ..spec
        };
        let mut objects = self.objects.change().await;
        if let Some(entry) = objects.volumes.get(name) {
            let reserved = self.reserved(entry).await;
            return match is_what(&entry.record, reserved, &spec) {
                true => Ok(self.shown_volume(name, entry).await),
                false => Err(differs(name, &entry.record, reserved)),
            };
        }
        replicas::check_spec(&spec)?;
        self.clash(&objects, asker, name, &spec)?;
        group_agrees(&objects, &spec)?;
        self.room_in_subsystem(&objects, &spec)?;
        known_hosts(&objects, asker, &spec.hosts)?;
        for (index, host) in spec.hosts.iter().enumerate() {
            let field = format!("hosts[{index}]");
            check_owner(&objects, (&field, host), spec.tenant.as_ref())?;
        }
        let allowed = allowed_hosts(&objects, &spec.hosts)?;
        match self.standing(&objects, asker, &spec).await? {
            Standing::Drive(drive, taking) => {
                self.create_on_drive(&mut objects, name, (drive, taking), &spec, allowed)
                    .await?;
            }
            Standing::Pool(pool, beginning) => {
                self.create_in_pool(&mut objects, name, &pool, beginning, &spec, allowed)
                    .await?;
            }
        }
        self.enforce(&objects).await?;
        let entry = objects.volumes.get(name);
        let entry = entry.ok_or_else(|| not_found("volume", name))?;
        Ok(self.shown_volume(name, entry).await)
    }

    /// Whether space for all of a volume is kept; nobody knows while its pool is not open.
    async fn reserved(&self, entry: &VolumeEntry) -> Option<bool> {
        match &entry.record.place {
            Place::Drive(_) => Some(false),
            Place::Pool { .. } => {
                let told = Told::of(self, [entry]).await;
                told.info(entry).map(|info| info.reserved)
            }
        }
    }

    async fn create_on_drive(
        &self,
        objects: &mut Objects,
        name: &Name,
        (drive, taking): (Name, Taking),
        spec: &VolumeSpec,
        allowed: AllowedHosts,
    ) -> Result<(), ErrorBody> {
        let backing = Backing::Drive(drive.to_string());
        let mut record = self.new_record(objects, name, Place::Drive(drive.clone()), spec);
        let served = node_volume(objects, name, &record, backing, allowed)?;
        self.check_before(taking).await?;
        let created = self.node.create_volume_taking(served, taking).await;
        record.capacity_bytes = created.map_err(|error| not_taken(&error))?;
        if let Err(error) = self.remember(Kind::Volume, name, record.clone()).await {
            // Created a moment ago under this lock: it is there to be deleted.
            let _ = self.node.delete_volume(name.as_str()).await;
            return Err(wiped::after(taking, &[drive], error));
        }
        let message = format!("created on drive {drive} as {}", record.nqn);
        self.events
            .record(Severity::Info, &format!("volume/{name}"), &message);
        let entry = VolumeEntry::new(record, None);
        objects.volumes.insert(name.clone(), entry);
        Ok(())
    }

    /// Stops serving a volume and forgets it: what was written to a drive stays there but for
    /// labels of pools, a pool takes the space back. With `force` while hosts are connected.
    pub async fn delete_volume(
        &self,
        asker: Asker<'_>,
        name: &Name,
        force: bool,
    ) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        let entry = objects.volumes.get(name);
        let record = entry
            .ok_or_else(|| not_found("volume", name))?
            .record
            .clone();
        self.check_no_snapshots(&objects, asker, name).await?;
        if !force {
            self.check_unused(&objects, name, &record).await?;
        }
        if record.place.drive().is_some() {
            self.forget(Kind::Volume, name).await?;
            objects.volumes.remove(name);
        }
        self.stop_serving(name).await?;
        if let Some(drive) = record.place.drive() {
            self.clear_label(&objects, drive).await;
        }
        self.delete_in_pool(&objects, name, &record).await?;
        objects.volumes.remove(name);
        self.enforce(&objects).await?;
        self.with_state(move |state| rules::forget(state, &record.nqn, record.nsid))
            .await?;
        self.events
            .record(Severity::Info, &format!("volume/{name}"), "deleted");
        Ok(())
    }

    /// Makes a drive that a volume took whole forget labels of pools: hosts can write what they
    /// like there, and nobody may take that for a pool.
    async fn clear_label(&self, objects: &Objects, drive: &Name) {
        if drive_online(objects, drive).is_err() {
            return;
        }
        if let Err(error) = self.node.clear_label(drive.as_str()).await {
            let message = format!("what hosts wrote may look like a pool: {error}");
            self.events
                .record(Severity::Warning, &format!("drive/{drive}"), &message);
        }
    }

    /// Lets `host` (or every host) see the volume.
    pub async fn allow_host(&self, volume: &Name, host: &Name) -> Result<Volume, ErrorBody> {
        let mut objects = self.objects.change().await;
        if host.as_str() != ANY_HOST && !objects.hosts.contains_key(host) {
            return Err(unknown_host("host", host));
        }
        let owner = objects.volumes.get(volume);
        let owner = owner.and_then(|entry| entry.record.tenant.as_ref());
        check_owner(&objects, ("host", host), owner)?;
        replicas::check_promoted(&objects, volume)?;
        self.change_hosts(&mut objects, volume, |hosts| {
            if !hosts.contains(host) {
                hosts.push(host.clone());
                hosts.sort();
            }
        })
        .await
    }

    /// Hides the volume from `host`, or takes back that every host may see it.
    pub async fn deny_host(&self, volume: &Name, host: &Name) -> Result<Volume, ErrorBody> {
        let mut objects = self.objects.change().await;
        let changed = self.change_hosts(&mut objects, volume, |hosts| {
            hosts.retain(|other| other != host)
        });
        let shown = changed.await?;
        drop(objects);
        // Whether this call changed it or an earlier one that gave up here.
        let nqn = parsed(&shown.nqn)?;
        let fenced = self.node.await_fence(&nqn, shown.nsid).await;
        fenced.map_err(|error| refused(&error))?;
        Ok(shown)
    }

    /// Changes which hosts may see a volume.
    async fn change_hosts(
        &self,
        objects: &mut Objects,
        volume: &Name,
        change: impl FnOnce(&mut Vec<Name>),
    ) -> Result<Volume, ErrorBody> {
        let entry = identified(objects, volume)?;
        let before = entry.record.clone();
        let mut hosts = before.hosts.clone();
        change(&mut hosts);
        if hosts != before.hosts {
            let allowed = allowed_hosts(objects, &hosts)?;
            let record = VolumeRecord {
                hosts: hosts.clone(),
                ..before.clone()
            };
            if record.place.pool().is_some() && before.hosts.len() < hosts.len() {
                kept::check_room(&record, objects)?;
            }
            let changed = vec![(volume.clone(), record.clone())];
            self.remember_volumes(objects, changed).await?;
            if let Some(entry) = objects.volumes.get_mut(volume) {
                entry.record = record;
            }
            let (nqn, nsid) = (parsed(&before.nqn)?, before.nsid);
            let done = self.node.set_allowed_hosts(&nqn, nsid, allowed).await;
            done.map_err(|error| refused(&error))?;
            // Who finds the volume while its pool is not open is in the pool's record.
            self.look_at_pools(objects).await;
            let message = match hosts.as_slice() {
                [] => "visible to no host".to_owned(),
                hosts => format!("visible to: {}", list(hosts)),
            };
            self.events
                .record(Severity::Info, &format!("volume/{volume}"), &message);
        }
        let entry = objects
            .volumes
            .get(volume)
            .ok_or_else(|| not_found("volume", volume))?;
        Ok(self.shown_volume(volume, entry).await)
    }

    /// Makes it durable what volumes are: in the node's state, or on the pools that hold them.
    pub(super) async fn remember_volumes(
        &self,
        objects: &Objects,
        records: Vec<(Name, VolumeRecord)>,
    ) -> Result<(), ErrorBody> {
        for (name, record) in &records {
            if objects.volumes.contains_key(name) {
                identified(objects, name)?;
            }
            if let Place::Pool { name, volume } = &record.place {
                let (pool, id) = (name.as_str(), VolumeId(*volume));
                let identity = kept::encode(record, objects)?;
                let before = self.node.pool_volume_attributes(pool, id).await;
                let before = before.map_err(|error| refused(&error))?;
                // A change is a checkpoint of the pool, which writes MiBs.
                if kept::with_identity(&identity, &before)? == before {
                    continue;
                }
                let kept = self
                    .node
                    .change_pool_volume_attributes(pool, id, move |kept| {
                        kept::with_identity(&identity, kept)
                    });
                kept.await.map_err(|error| refused(&error))??;
            }
        }
        let on_drives = |record: &VolumeRecord| record.place.drive().is_some();
        let own = records.into_iter().filter(|(_, record)| on_drives(record));
        self.remember_all(Kind::Volume, own.collect()).await
    }

    /// The identity of a volume that does not exist yet.
    pub(super) fn new_record(
        &self,
        objects: &Objects,
        name: &Name,
        place: Place,
        spec: &VolumeSpec,
    ) -> VolumeRecord {
        let uuid = Uuid::new_v4();
        let subsystem = spec.subsystem.as_ref().unwrap_or(name);
        let mut nqn = self.nqn(subsystem);
        if spec.subsystem.is_none() && members(objects, &nqn).next().is_some() {
            // A volume that was renamed keeps the NQN of its first name.
            nqn = format!("{nqn}-{}", uuid.simple());
        }
        let taken: BTreeSet<u32> = members(objects, &nqn).map(|volume| volume.nsid).collect();
        let nsid = (1..).find(|nsid| !taken.contains(nsid)).unwrap_or(1);
        VolumeRecord {
            place,
            block_bytes: spec.block_bytes,
            hosts: sorted(spec.hosts.clone()),
            subsystem: spec.subsystem.clone(),
            nqn,
            nsid,
            uuid,
            capacity_bytes: 0,
            tenant: spec.tenant.clone(),
            snapshot: spec.snapshot.as_ref().map(|from| from.name.clone()),
            limits: Limits::default(),
            copies: Vec::new(),
            replica_of: spec.replica_of,
        }
    }
}

/// A volume to be changed. One whose identity its pool keeps, and this program cannot read, stays
/// as it is: what would be written in its place might be all that hosts know it by.
pub(super) fn identified<'a>(
    objects: &'a Objects,
    name: &Name,
) -> Result<&'a VolumeEntry, ErrorBody> {
    let entry = objects.volumes.get(name);
    let entry = entry.ok_or_else(|| not_found("volume", name))?;
    match (entry.unread, &entry.offline) {
        (true, reason) => {
            let reason = reason.as_deref().unwrap_or("its identity cannot be read");
            let message = format!("volume {name} cannot be changed: {reason}");
            Err(ErrorBody::new(ErrorCode::NotReady, message))
        }
        (false, _) => Ok(entry),
    }
}

/// Why a drive was not taken whole.
fn not_taken(error: &NodeError) -> ErrorBody {
    let mut body = refused(error);
    if matches!(error, NodeError::Carries { .. }) {
        body.message += ", --keep-data serves it";
        body.field = Some("drive".to_owned());
    }
    body
}

pub(super) fn drive_online(objects: &Objects, drive: &Name) -> Result<(), String> {
    match objects.drives.get(drive).map(|entry| &entry.offline) {
        None => Err(format!("no drive is named {drive}")),
        Some(Some(reason)) => Err(format!("drive {drive} is offline: {reason}")),
        Some(None) => Ok(()),
    }
}

pub(super) fn allowed_hosts(objects: &Objects, hosts: &[Name]) -> Result<AllowedHosts, ErrorBody> {
    if hosts.iter().any(|host| host.as_str() == ANY_HOST) {
        return Ok(AllowedHosts::Any);
    }
    let mut nqns = Vec::with_capacity(hosts.len());
    for (index, host) in hosts.iter().enumerate() {
        let field = format!("hosts[{index}]");
        let spec = objects
            .hosts
            .get(host)
            .ok_or_else(|| unknown_host(&field, host))?;
        nqns.push(nqn_of(spec).map_err(|problem| ErrorBody::invalid(&field, problem))?);
    }
    Ok(AllowedHosts::list(nqns))
}

/// Refuses hosts that the asker may not know of, as if they were not there.
fn known_hosts(objects: &Objects, asker: Asker<'_>, hosts: &[Name]) -> Result<(), ErrorBody> {
    let mut named = hosts.iter().enumerate();
    let hidden = |host: &Name| {
        let known = objects.hosts.get(host);
        known.is_some_and(|known| is_hidden(asker, known.tenant.as_ref()))
    };
    match named.find(|(_, host)| hidden(host)) {
        Some((index, host)) => Err(unknown_host(&format!("hosts[{index}]"), host)),
        None => Ok(()),
    }
}

fn unknown_host(field: &str, host: &Name) -> ErrorBody {
    let message = format!("no host is named {host}; allowed: a host that was added, or \"any\"");
    ErrorBody::invalid(field, message)
}

/// Whether a volume, `reserved` as far as is known, is what `spec` asks for.
fn is_what(record: &VolumeRecord, reserved: Option<bool>, spec: &VolumeSpec) -> bool {
    let size = spec.size.map(Size::bytes);
    let snapshot = spec.snapshot.as_ref();
    let pool = spec.pool.as_ref();
    let pool = pool.or_else(|| snapshot.and_then(|from| from.pool.as_ref()));
    record.place.drive() == spec.drive.as_ref()
        && (pool.is_none() || record.place.pool() == pool)
        && size.is_none_or(|size| size == record.capacity_bytes)
        && reserved.is_none_or(|kept| kept == spec.reserved)
        && record.snapshot.as_ref() == snapshot.map(|from| &from.name)
        && record.block_bytes == spec.block_bytes
        && record.subsystem == spec.subsystem
        && record.tenant == spec.tenant
        && record.replica_of == spec.replica_of
        && record.hosts == sorted(spec.hosts.clone())
}

fn differs(name: &Name, record: &VolumeRecord, reserved: Option<bool>) -> ErrorBody {
    let place = match &record.place {
        Place::Drive(drive) => format!("on drive {drive}"),
        Place::Pool { name, .. } => {
            let kept = match reserved {
                Some(true) => " thick,",
                Some(false) => " thin,",
                None => "",
            };
            let from = record.snapshot.as_ref();
            let from = from.map_or(String::new(), |from| format!(" from snapshot {from},"));
            let size = Size(record.capacity_bytes);
            format!("in pool {name},{kept}{from} with {size}")
        }
    };
    let message = format!(
        "volume {name} exists {place} with blocks of {} bytes and hosts: {}",
        record.block_bytes.bytes(),
        list(&record.hosts)
    );
    ErrorBody::new(ErrorCode::AlreadyExists, message)
}

pub(super) fn sorted(mut hosts: Vec<Name>) -> Vec<Name> {
    hosts.sort();
    hosts.dedup();
    hosts
}

pub(super) fn shown(name: &Name, entry: &VolumeEntry) -> Volume {
    let record = &entry.record;
    Volume {
        name: name.clone(),
        drive: record.place.drive().cloned(),
        pool: record.place.pool().cloned(),
        reserved: false,
        origin: None,
        state: if entry.offline.is_none() {
            ObjectState::Online
        } else {
            ObjectState::Offline
        },
        reason: entry.offline.clone(),
        capacity_bytes: record.capacity_bytes,
        lost_blocks: 0,
        block_bytes: record.block_bytes,
        hosts: record.hosts.clone(),
        tenant: record.tenant.clone(),
        replica_of: record.replica_of,
        limits: record.limits,
        write_protection: None,
        nqn: record.nqn.clone(),
        nsid: record.nsid,
        uuid: record.uuid,
    }
}
