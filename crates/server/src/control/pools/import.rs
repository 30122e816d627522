//! Finding pools on drives, opening them, and serving what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::{ErrorBody, ErrorCode, ImportablePool, Name, Pool, PoolImport, Severity, VolumeSpec};
use node::{Backing, DriveLabel, PoolFacts, VolumeId, VolumeInfo};

use super::{Labels, PoolEntry, hexadecimal, list, pool_of, remembered, volumes_of};
use crate::control::drives::{refused, user};
use crate::control::kept;
use crate::control::{Control, Objects, VolumeEntry};
use crate::state::{Kind, Place, PoolRecord, VolumeRecord};

impl Control {
    /// Pools on drives that nothing uses, by identity.
    pub async fn importable_pools(&self) -> Vec<ImportablePool> {
        let mut objects = self.objects.lock().await;
        self.look_at_pools(&mut objects).await;
        let mut found: BTreeMap<String, ImportablePool> = BTreeMap::new();
        for (drive, label) in self.labels(&objects).await.whole {
            let id = hexadecimal(&label.pool.0);
            let open = |entry: &PoolEntry| entry.record.id == id && entry.offline.is_none();
            if objects.pools.values().any(open) {
                continue;
            }
            let Ok(level) = label.level.to_string().parse() else {
                continue;
            };
            let pool = found.entry(id.clone()).or_insert(ImportablePool {
                name: label.pool_name,
                id,
                level,
                drives: Vec::new(),
                members: label.members as u32,
                holder: label.holder.map(|holder| hexadecimal(&holder.0)),
            });
            pool.drives.push(drive);
        }
        found.into_values().collect()
    }

    /// Takes the pool `name` that the node's drives carry, and serves its volumes.
    pub async fn import_pool(&self, name: &Name, how: PoolImport) -> Result<Pool, ErrorBody> {
        let mut objects = self.objects.lock().await;
        self.look_at_pools(&mut objects).await;
        let known = objects.pools.get(name);
        if known.is_some_and(|entry| entry.offline.is_none()) {
            let message = format!("a pool named {name} is open already");
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        let labels = self.labels(&objects).await;
        let id = chosen(name, &how, &labels)?;
        let drives = carriers(&labels, &id).map_err(|problem| {
            let error = ErrorBody::new(ErrorCode::InvalidArgument, problem);
            error.at("name".to_owned())
        })?;
        let drives: Vec<String> = drives.iter().map(Name::to_string).collect();
        let opened = self.node.open_pool(name.as_str(), drives, how.force).await;
        let facts = opened.map_err(|error| refused(&error))?;
        if let Err(error) = self.take_over(&mut objects, name, facts).await {
            // Opened a moment ago under this lock: it is there to be closed.
            let _ = self.node.export_pool(name.as_str()).await;
            return Err(error);
        }
        self.tell_pool(Severity::Info, name, "imported");
        self.pool_now(&mut objects, name).await
    }

    /// Makes an imported pool the node's own.
    async fn take_over(
        &self,
        objects: &mut Objects,
        name: &Name,
        facts: PoolFacts,
    ) -> Result<(), ErrorBody> {
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, _) = contents.map_err(|error| refused(&error))?;
        let taken = |volume: &VolumeInfo| {
            let here = volume.name.parse().ok();
            let here = here.and_then(|here: Name| objects.volumes.get(&here));
            here.is_some_and(|here| here.record.place.pool() != Some(name))
        };
        let taken: Vec<&str> = volumes
            .iter()
            .filter(|volume| taken(volume))
            .map(|volume| volume.name.as_str())
            .collect();
        if !taken.is_empty() {
            let message = format!(
                "the pool's volumes {} have names of volumes that are here: rename these first",
                taken.join(", ")
            );
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        let entry = PoolEntry::open(facts);
        self.remember(Kind::Pool, name, entry.record.clone())
            .await?;
        objects.pools.insert(name.clone(), entry);
        self.adopt(objects, name, volumes).await;
        self.look_at_pools(objects).await;
        Ok(())
    }

    /// Opens every remembered pool that its drives allow; the others stay, offline. One that lacks
    /// members waits for them so long.
    pub(in crate::control) async fn restore_pools(
        &self,
        pools: BTreeMap<Name, PoolRecord>,
        wait: Duration,
    ) {
        let waits_until = (!wait.is_zero()).then(|| Instant::now() + wait);
        let mut objects = self.objects.lock().await;
        for (name, record) in pools {
            let entry = PoolEntry {
                record,
                offline: Some("not opened yet".to_owned()),
                facts: None,
                unserved: Vec::new(),
                waits_until,
            };
            objects.pools.insert(name, entry);
        }
        self.open_offline_pools(&mut objects).await;
    }

    /// Tries the pools that are not open: drives may have come back.
    pub(in crate::control) async fn open_offline_pools(&self, objects: &mut Objects) {
        let pools = objects.pools.iter();
        let offline = pools.filter(|(_, entry)| entry.offline.is_some());
        let offline: Vec<Name> = offline.map(|(name, _)| name.clone()).collect();
        self.open_pools(objects, offline).await;
    }

    /// Tries pools that are not open, but for those that still wait for drives.
    pub(super) async fn open_pools(&self, objects: &mut Objects, offline: Vec<Name>) {
        if offline.is_empty() {
            return;
        }
        let labels = self.labels(objects).await;
        for name in offline {
            if self.goes_on_waiting(objects, &name, &labels).await {
                continue;
            }
            if let Err(reason) = self.open_remembered(objects, &name, &labels).await
                && let Some(entry) = objects.pools.get_mut(&name)
            {
                let message = format!("offline: {reason}");
                entry.offline = Some(reason);
                self.tell_pool(Severity::Error, &name, &message);
                self.hold_places(objects, &name).await;
            }
        }
    }

    /// Has hosts find the volumes of a pool that is not open, not ready until it is.
    pub(super) async fn hold_places(&self, objects: &mut Objects, pool: &Name) {
        let entry = objects.pools.get(pool);
        let volumes = entry.map(|entry| entry.record.volumes.clone());
        for (name, record) in volumes.unwrap_or_default() {
            if objects.volumes.contains_key(&name) {
                continue;
            }
            let served = self.restore_volume(objects, &name, &record).await;
            let offline = served.err();
            objects
                .volumes
                .insert(name, VolumeEntry { record, offline });
        }
        self.enforce_restored(objects).await;
    }

    async fn open_remembered(
        &self,
        objects: &mut Objects,
        name: &Name,
        labels: &Labels,
    ) -> Result<(), String> {
        let Some(entry) = objects.pools.get(name) else {
            return Ok(());
        };
        let before = entry.record.clone();
        let drives = carriers(labels, &before.id)?;
        if drives.is_empty() {
            let members: Vec<Name> = before.members.values().cloned().collect();
            return Err(format!(
                "none of its drives is here; they were {}",
                list(&members)
            ));
        }
        let drives: Vec<String> = drives.iter().map(Name::to_string).collect();
        let opened = self.node.open_pool(name.as_str(), drives, false).await;
        let facts = opened.map_err(|error| error.to_string())?;
        let contents = self.node.pool_contents(name.as_str()).await;
        let (volumes, _) = contents.map_err(|error| error.to_string())?;
        let entry = PoolEntry {
            record: remembered(&facts, &before),
            ..PoolEntry::open(facts)
        };
        objects.pools.insert(name.clone(), entry);
        self.adopt(objects, name, volumes).await;
        self.look_at_pools(objects).await;
        Ok(())
    }

    /// Serves the volumes of a pool that was opened a moment ago.
    async fn adopt(&self, objects: &mut Objects, pool: &Name, volumes: Vec<VolumeInfo>) {
        let mut unserved = Vec::new();
        let there: BTreeSet<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        let held = volumes_of(objects, pool).into_iter();
        for gone in held.filter(|held| !there.contains(held.as_str())) {
            self.give_up_place(objects, &gone).await;
        }
        for volume in volumes {
            let name = volume.name.clone();
            if let Err(problem) = self.adopt_volume(objects, pool, volume).await {
                let message = format!("volume {name} cannot be served: {problem}");
                self.tell_pool(Severity::Error, pool, &message);
                unserved.push(message);
            }
        }
        if let Some(entry) = objects.pools.get_mut(pool) {
            entry.unserved = unserved;
        }
        self.enforce_restored(objects).await;
    }

    async fn adopt_volume(
        &self,
        objects: &mut Objects,
        pool: &Name,
        volume: VolumeInfo,
    ) -> Result<(), String> {
        let name: Name = volume.name.parse().map_err(|error| format!("{error}"))?;
        let here = objects.volumes.get(&name);
        if here.is_some_and(|here| here.record.place.pool() != Some(pool)) {
            return Err("a volume of that name is here already".to_owned());
        }
        let place = Place::Pool {
            name: pool.clone(),
            volume: volume.id.0,
        };
        let record = match kept::decode(&volume.attributes, place.clone()) {
            Ok((record, hosts)) => VolumeRecord {
                hosts: self.know_hosts(objects, pool, hosts).await,
                capacity_bytes: volume.bytes,
                ..record
            },
            Err(problem) => {
                let message = format!("volume {name} gets a new identity: {problem}");
                self.tell_pool(Severity::Warning, pool, &message);
                let record = self.new_record(objects, &name, place, &VolumeSpec::default());
                let record = VolumeRecord {
                    capacity_bytes: volume.bytes,
                    ..record
                };
                let kept = self.remember_volumes(objects, vec![(name.clone(), record.clone())]);
                kept.await.map_err(|error| error.message)?;
                record
            }
        };
        let served = self.take_place(objects, &name, &record).await;
        let entry = VolumeEntry {
            record,
            offline: served.as_ref().err().cloned(),
        };
        objects.volumes.insert(name, entry);
        served
    }

    /// Serves a volume, where its place was held without a break for its hosts.
    async fn take_place(
        &self,
        objects: &mut Objects,
        name: &Name,
        record: &VolumeRecord,
    ) -> Result<(), String> {
        if let Some(held) = objects.volumes.get(name) {
            let same = VolumeRecord {
                capacity_bytes: held.record.capacity_bytes,
                ..record.clone()
            };
            if let Place::Pool { name: pool, volume } = &record.place
                && same == held.record
            {
                let backing = Backing::Pool {
                    pool: pool.to_string(),
                    volume: VolumeId(*volume),
                };
                let back = self.node.set_backing(name.as_str(), backing).await;
                return back.map(drop).map_err(|error| error.to_string());
            }
            // It was changed where the pool was meanwhile.
            self.give_up_place(objects, name).await;
        }
        self.restore_volume(objects, name, record).await
    }

    /// Has hosts no longer find a volume whose place was held.
    async fn give_up_place(&self, objects: &mut Objects, name: &Name) {
        // One that is not served need not be stopped.
        let _ = self.node.delete_volume(name.as_str()).await;
        objects.volumes.remove(name);
    }

    /// What the drives carry that work and that nothing uses.
    async fn labels(&self, objects: &Objects) -> Labels {
        let mut labels = Labels::default();
        for (name, entry) in &objects.drives {
            let open = |pool: &Name| {
                let entry = objects.pools.get(pool);
                entry.is_some_and(|entry| entry.offline.is_none())
            };
            let used = user(objects, name).is_some() || pool_of(objects, name).is_some_and(open);
            if entry.offline.is_some() || used {
                continue;
            }
            match self.node.drive_label(name.as_str()).await {
                Ok(DriveLabel::Newer(version)) => {
                    let message = format!(
                        "it carries a pool of format version {version}: use a newer program"
                    );
                    let object = format!("drive/{name}");
                    self.events.record(Severity::Warning, &object, &message);
                }
                Ok(DriveLabel::Pool(label)) => drop(labels.whole.insert(name.clone(), label)),
                Ok(DriveLabel::Damaged(label)) => {
                    labels.damaged.insert(name.clone(), label);
                }
                // A drive that cannot be read carries nothing.
                Ok(DriveLabel::Blank | DriveLabel::Unreadable(_)) | Err(_) => {}
            }
        }
        labels
    }
}

/// Which pool `name` stands for.
fn chosen(name: &Name, how: &PoolImport, labels: &Labels) -> Result<String, ErrorBody> {
    let named = labels
        .whole
        .values()
        .filter(|label| label.pool_name == name.as_str());
    let ids: BTreeSet<String> = named.map(|label| hexadecimal(&label.pool.0)).collect();
    if let Some(id) = &how.id {
        return match ids.contains(id) {
            true => Ok(id.clone()),
            false => {
                let found: Vec<String> = ids.into_iter().collect();
                let message = format!(
                    "no pool named {name} has identity {id}; found: {}",
                    found.join(", ")
                );
                Err(ErrorBody::invalid("id", message))
            }
        };
    }
    let mut found = ids.iter();
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id.clone()),
        (None, _) => {
            let all: BTreeSet<&str> = labels
                .whole
                .values()
                .map(|l| l.pool_name.as_str())
                .collect();
            let all: Vec<&str> = all.into_iter().collect();
            let all = if all.is_empty() {
                "none".to_owned()
            } else {
                all.join(", ")
            };
            let mut message = format!("no free drive carries a pool named {name}; found: {all}");
            for (drive, label) in &labels.damaged {
                let pool = &label.pool_name;
                message.push_str(&format!(
                    "; drive {drive}: a damaged label of pool {pool:?}"
                ));
            }
            Err(ErrorBody::new(ErrorCode::NotFound, message))
        }
        (Some(_), Some(_)) => {
            let ids: Vec<String> = ids.into_iter().collect();
            let message = format!(
                "several pools are named {name}: say which by its identity, one of {}",
                ids.join(", ")
            );
            Err(ErrorBody::invalid("id", message))
        }
    }
}

/// The drives that carry a pool; never a drive and its copy. Those whose labels are damaged are
/// among them: the pool says what that means.
fn carriers(labels: &Labels, id: &str) -> Result<Vec<Name>, String> {
    let of_pool = labels
        .whole
        .iter()
        .filter(|(_, label)| hexadecimal(&label.pool.0) == id);
    let mut by_member: BTreeMap<_, &Name> = BTreeMap::new();
    for (name, label) in of_pool {
        if let Some(other) = by_member.insert(label.drive, name) {
            return Err(format!(
                "drives {other} and {name} are copies of one another, both member {}: remove the \
                 copy from the node, or wipe it",
                label.index
            ));
        }
    }
    let damaged = labels.damaged.iter();
    let damaged = damaged.filter(|(_, label)| hexadecimal(&label.pool.0) == id);
    let whole = by_member.into_values();
    Ok(whole
        .chain(damaged.map(|(name, _)| name))
        .cloned()
        .collect())
}
