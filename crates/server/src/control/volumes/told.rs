//! What pools tell of volumes that are in them: each pool is asked once for any number of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Name, ObjectState, Volume};
use node::{Protection, SnapshotInfo, VolumeId, VolumeInfo};
use uuid::Uuid;

use crate::control::pools::why_offline;
use crate::control::{Control, Objects, VolumeEntry, volumes};
use crate::rules::in_words;
use crate::state::Place;

/// What pools told of some volumes. For one answer: it does not follow what changes.
pub(in crate::control) struct Told {
    objects: Arc<Objects>,
    /// Nothing of a pool that is not open.
    pools: BTreeMap<Name, OfPool>,
    /// Of volumes that are write protected, by their identities.
    protections: BTreeMap<Uuid, Protection>,
}

/// What one pool told.
struct OfPool {
    /// Volumes, each with the snapshot that it began as, if that is still there.
    volumes: BTreeMap<VolumeId, (VolumeInfo, Option<SnapshotInfo>)>,
    /// Why it is offline though it is open.
    offline: Option<String>,
}

impl Control {
    /// A volume as clients see it.
    pub(in crate::control) async fn shown_volume(
        &self,
        name: &Name,
        entry: &VolumeEntry,
    ) -> Volume {
        Told::of(self, [entry]).await.shown(name, entry)
    }

    /// Volumes as clients see them.
    pub(super) async fn shown_volumes(&self, entries: Vec<(&Name, &VolumeEntry)>) -> Vec<Volume> {
        let told = Told::of(self, entries.iter().map(|(_, entry)| *entry)).await;
        let shown = |(name, entry)| told.shown(name, entry);
        entries.into_iter().map(shown).collect()
    }
}

impl Told {
    /// Asks the pools of these volumes, and who has these write protected.
    pub(in crate::control) async fn of(
        control: &Control,
        entries: impl IntoIterator<Item = &VolumeEntry>,
    ) -> Told {
        let entries: Vec<&VolumeEntry> = entries.into_iter().collect();
        let mut wanted = BTreeMap::<Name, Vec<VolumeId>>::new();
        for entry in &entries {
            let Place::Pool { name, volume } = &entry.record.place else {
                continue;
            };
            match wanted.get_mut(name) {
                Some(volumes) => volumes.push(VolumeId(*volume)),
                None => drop(wanted.insert(name.clone(), vec![VolumeId(*volume)])),
            }
        }
        let mut pools = BTreeMap::new();
        for (pool, volumes) in wanted {
            let told = control.node.pool_volumes(pool.as_str(), volumes).await;
            let volumes = told.unwrap_or_default().into_iter();
            let facts = control.node.pool_seen(pool.as_str()).await;
            let of_pool = OfPool {
                volumes: volumes.map(|told| (told.0.id, told)).collect(),
                offline: facts.ok().as_ref().and_then(why_offline),
            };
            pools.insert(pool, of_pool);
        }
        // A node that is stopping knows of none.
        let protections = control.protections(&entries).await.unwrap_or_default();
        let uuids = entries.iter().map(|entry| entry.record.uuid);
        let known = uuids.zip(protections);
        Told {
            objects: control.objects.seen(),
            pools,
            protections: known
                .filter(|(_, protection)| *protection != Protection::None)
                .collect(),
        }
    }

    /// What the pool of a volume says of it, if it is in one that is open.
    pub(in crate::control) fn info(&self, entry: &VolumeEntry) -> Option<&VolumeInfo> {
        let Place::Pool { name, volume } = &entry.record.place else {
            return None;
        };
        let (info, _) = self.pools.get(name)?.volumes.get(&VolumeId(*volume))?;
        Some(info)
    }

    /// One of the volumes as clients see it.
    fn shown(&self, name: &Name, entry: &VolumeEntry) -> Volume {
        let mut volume = volumes::shown(name, entry);
        let protection = self.protections.get(&entry.record.uuid);
        volume.write_protection = protection.copied().and_then(in_words);
        let Place::Pool {
            name: pool,
            volume: id,
        } = &entry.record.place
        else {
            return volume;
        };
        let id = VolumeId(*id);
        let scrub = self
            .objects
            .pools
            .get(pool)
            .map(|entry| &entry.record.scrub);
        volume.lost_blocks = scrub.map_or(0, |scrub| scrub.lost_of(id));
        let Some(told) = self.pools.get(pool) else {
            return volume;
        };
        if let Some((info, origin)) = told.volumes.get(&id) {
            volume.reserved = info.reserved;
            volume.origin = origin.as_ref().map(|origin| origin.name.clone());
        }
        if let (None, Some(reason)) = (&volume.reason, &told.offline) {
            volume.state = ObjectState::Offline;
            volume.reason = Some(format!("pool {pool} is offline: {reason}"));
        }
        volume
    }
}
