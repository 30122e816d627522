//! What pools tell of what is in them, asked once of each for any number of volumes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use api::{Name, ObjectState, Volume};
use node::{SnapshotId, SnapshotInfo, VolumeId, VolumeInfo};

use crate::control::pools::why_offline;
use crate::control::{Control, VolumeEntry, volumes};
use crate::state::Place;

/// What pools told so far. For one answer: it does not follow what changes.
#[derive(Default)]
pub(in crate::control) struct Told {
    /// Nothing of a pool that is not open.
    pools: BTreeMap<Name, Contents>,
}

/// The volumes and snapshots of one pool.
pub(in crate::control) struct Contents {
    volumes: BTreeMap<VolumeId, VolumeInfo>,
    snapshots: BTreeMap<SnapshotId, SnapshotInfo>,
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
        self.shown_beside(&mut Told::default(), name, entry).await
    }

    /// The same, as one of many.
    pub(in crate::control) async fn shown_beside(
        &self,
        told: &mut Told,
        name: &Name,
        entry: &VolumeEntry,
    ) -> Volume {
        let mut volume = volumes::shown(name, entry);
        if let Place::Pool {
            name: pool,
            volume: id,
        } = &entry.record.place
        {
            let objects = self.objects.seen();
            let scrub = objects.pools.get(pool).map(|entry| &entry.record.scrub);
            volume.lost_blocks = scrub.map_or(0, |scrub| scrub.lost_of(VolumeId(*id)));
            drop(objects);
            let contents = told.of(self, pool).await;
            if let Some(info) = contents.volume(VolumeId(*id)) {
                volume.reserved = info.reserved;
                let origin = info
                    .origin
                    .and_then(|origin| contents.snapshot_name(origin));
                volume.origin = origin.map(str::to_owned);
            }
            if let (None, Some(reason)) = (&volume.reason, &contents.offline) {
                volume.state = ObjectState::Offline;
                volume.reason = Some(format!("pool {pool} is offline: {reason}"));
            }
        }
        volume
    }
}

impl Told {
    /// What the pool of a volume says of it, if it is in one that is open.
    pub(in crate::control) async fn info(
        &mut self,
        control: &Control,
        entry: &VolumeEntry,
    ) -> Option<VolumeInfo> {
        let Place::Pool { name, volume } = &entry.record.place else {
            return None;
        };
        let contents = self.of(control, name).await;
        contents.volume(VolumeId(*volume)).cloned()
    }

    /// What is in a pool; it is asked if it was not before.
    pub(in crate::control) async fn of(&mut self, control: &Control, pool: &Name) -> &Contents {
        match self.pools.entry(pool.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let told = control.node.pool_contents(pool.as_str()).await;
                let (volumes, snapshots) = told.unwrap_or_default();
                let facts = control.node.pool_seen(pool.as_str()).await;
                unknown.insert(Contents {
                    offline: facts.ok().as_ref().and_then(why_offline),
                    volumes: volumes.into_iter().map(|info| (info.id, info)).collect(),
                    snapshots: snapshots.into_iter().map(|info| (info.id, info)).collect(),
                })
            }
        }
    }
}

impl Contents {
    /// A volume, if the pool is open and has it.
    pub(in crate::control) fn volume(&self, id: VolumeId) -> Option<&VolumeInfo> {
        self.volumes.get(&id)
    }

    /// What a snapshot is called.
    pub(in crate::control) fn snapshot_name(&self, id: SnapshotId) -> Option<&str> {
        self.snapshots.get(&id).map(|info| info.name.as_str())
    }
}
