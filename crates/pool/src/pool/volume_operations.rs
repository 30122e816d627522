//! Volumes and snapshots: a change is new tables, published while no stripe is in flight.

use crate::checkpoint::Resume;
use crate::error::PoolError;
use crate::format::plausible::is_printable;
use crate::ids::{SnapshotId, VolumeId};
use crate::location::{BLOCK_BYTES, BlockNumber, VOLUME_BLOCKS_MAX};
use crate::pool::Pool;
use crate::pool::volume::PoolVolume;
use crate::shard::state::State;
use crate::volumes::{ATTRIBUTES_BYTES_MAX, Holder, NAME_BYTES_MAX, Snapshot, Tables, Volume};
use block::BlockDevice;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// What a new volume is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Size: a multiple of 4 KiB, up to 4 PiB.
    pub bytes: u64,
    /// Keep space for all of it, so that no write fails for want of space. Otherwise space is
    /// taken when it is written.
    pub reserved: bool,
    /// Up to [`ATTRIBUTES_BYTES_MAX`] bytes that the pool keeps for its user.
    pub attributes: Vec<u8>,
}

/// A volume as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its identifier.
    pub id: VolumeId,
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What it holds that its snapshots do not, as of the last checkpoint.
    pub unique_bytes: u64,
    /// Space for all of it is kept.
    pub reserved: bool,
    /// The snapshot that it was cloned from or rolled back to last.
    pub origin: Option<SnapshotId>,
    /// What its user gave.
    pub attributes: Vec<u8>,
}

/// A snapshot as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its identifier.
    pub id: SnapshotId,
    /// Its name.
    pub name: String,
    /// The size of the volume when it was taken.
    pub bytes: u64,
    /// The volume it was taken of; that one may be gone.
    pub volume: VolumeId,
    /// When it was taken, by the clock of its node; nothing where that was not noted yet.
    pub taken: Option<SystemTime>,
}

fn check_name(tables: &Tables, name: &str) -> Result<(), PoolError> {
    check_names(tables, &BTreeSet::from([name]))
}

/// Looks at each name that there is once, however many are new.
fn check_names(tables: &Tables, names: &BTreeSet<&str>) -> Result<(), PoolError> {
    names.iter().try_for_each(|name| may_be_name(name))?;
    let mut there = tables.tops().map(|top| top.name);
    match there.find(|name| names.contains(name)) {
        Some(name) => Err(PoolError::NameTaken(name.to_owned())),
        None => Ok(()),
    }
}

fn may_be_name(name: &str) -> Result<(), PoolError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(PoolError::Invalid("a name has 1 to 255 bytes"));
    }
    if !is_printable(name) {
        return Err(PoolError::Invalid("names have no control characters"));
    }
    Ok(())
}

fn blocks_of(bytes: u64) -> Result<u64, PoolError> {
    let blocks = bytes / BLOCK_BYTES as u64;
    let whole = bytes.is_multiple_of(BLOCK_BYTES as u64);
    if !whole || blocks == 0 || blocks > VOLUME_BLOCKS_MAX {
        return Err(PoolError::Invalid(
            "a size is a multiple of 4 KiB, from 4 KiB to 4 PiB",
        ));
    }
    Ok(blocks)
}

fn check_attributes(attributes: &[u8]) -> Result<(), PoolError> {
    if attributes.len() > ATTRIBUTES_BYTES_MAX {
        return Err(PoolError::Invalid("attributes have at most 8 KiB"));
    }
    Ok(())
}

fn volume_mut(tables: &mut Tables, id: VolumeId) -> Result<&mut Volume, PoolError> {
    tables
        .volumes
        .get_mut(id)
        .ok_or(PoolError::NotFound("volume"))
}

fn snapshot_of(tables: &Tables, id: SnapshotId) -> Result<Snapshot, PoolError> {
    tables
        .snapshots
        .get(id)
        .cloned()
        .ok_or(PoolError::NotFound("snapshot"))
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Changes the tables, if there is room for what it `promises` to volumes that reserve space.
    async fn change<T: 'static>(
        &self,
        promises: bool,
        change: impl FnOnce(&mut Tables) -> Result<T, PoolError> + 'static,
    ) -> Result<T, PoolError> {
        let change = async move |pool: Pool<D>| pool.change_now(promises, change).await;
        self.wholly(change).await
    }

    async fn change_now<T>(
        &self,
        promises: bool,
        change: impl FnOnce(&mut Tables) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        let _turn = self.coordinator.changes_lock.lock().await;
        if promises && self.coordinator.updates_wait() {
            // What was overwritten must not count.
            let merged = self
                .coordinator
                .checkpoint_with(Resume::AtFreeze, |_| Ok(()));
            merged.await?;
        }
        // Room that was dealt to shards and that they do not use is not theirs meanwhile.
        let _dealing = self.coordinator.room_lock.lock().await;
        let others = self.coordinator.take_back_room(false).await?.blocks;
        self.coordinator
            .change_tables(promises, |state, before| {
                let changed = state.tables.change(change)?;
                let more = state.tables.promised() > before.promised_blocks();
                let committed = || state.committed_blocks_next() + others;
                if more && committed() > self.coordinator.shard.size().usable_blocks() {
                    return Err(PoolError::NoSpace);
                }
                self.check_table_room(before, &state.tables)?;
                Ok(changed)
            })
            .await
    }

    fn reserves(&self, id: VolumeId) -> bool {
        let state = self.coordinator.shard.state.borrow();
        let found = state.tables.volumes.get(id);
        found.is_some_and(|volume| volume.reserved)
    }

    /// Makes an empty volume.
    pub async fn create_volume(
        &self,
        name: &str,
        options: VolumeOptions,
    ) -> Result<VolumeId, PoolError> {
        let blocks = blocks_of(options.bytes)?;
        check_attributes(&options.attributes)?;
        let name = name.to_owned();
        self.change(options.reserved, move |tables| {
            check_name(tables, &name)?;
            let layer = tables.add_layer(None)?;
            let id = VolumeId(tables.take_id()?);
            let volume = Volume {
                name,
                blocks,
                layer,
                origin: None,
                reserved: options.reserved,
                attributes: options.attributes,
            };
            tables.volumes.insert(id, volume);
            Ok(id)
        })
        .await
    }

    /// Makes a volume larger, or smaller when `allow_shrink` says that what is cut off may go.
    pub async fn resize_volume(
        &self,
        id: VolumeId,
        bytes: u64,
        allow_shrink: bool,
    ) -> Result<(), PoolError> {
        let blocks = blocks_of(bytes)?;
        let promises = self.reserves(id);
        let smaller = move |tables: &Tables| {
            let volume = tables.volumes.get(id);
            volume.is_some_and(|volume| blocks < volume.blocks)
        };
        if allow_shrink && smaller(&self.coordinator.shard.state.borrow().tables) {
            return self.shrink_volume(id, blocks).await;
        }
        self.change(promises, move |tables| {
            if smaller(tables) {
                return Err(PoolError::Invalid(
                    "shrinking loses data and must be allowed",
                ));
            }
            volume_mut(tables, id)?.blocks = blocks;
            Ok(())
        })
        .await
    }

    /// What is cut off must read as zeroes should it ever come back: the maps are to know.
    async fn shrink_volume(&self, id: VolumeId, blocks: u64) -> Result<(), PoolError> {
        let coordinator = Rc::clone(&self.coordinator);
        let shrink = move |state: &mut State| {
            let share = state.share;
            let (layer, cut_off) = state.tables.change(|tables| {
                let volume = volume_mut(tables, id)?;
                let cut_off = BlockNumber::FIRST + blocks..BlockNumber::FIRST + volume.blocks;
                volume.blocks = blocks.min(volume.blocks);
                Ok::<_, PoolError>((volume.layer, cut_off))
            })?;
            state.unmap(share, layer, cut_off.clone());
            let mut orders = coordinator.at_freeze.borrow_mut();
            orders.cut_off.push((layer, cut_off));
            Ok(())
        };
        self.wholly(async move |pool: Pool<D>| {
            let _turn = pool.coordinator.changes_lock.lock().await;
            pool.coordinator
                .checkpoint_with(Resume::WhenDurable, shrink)
                .await
        })
        .await
    }

    /// Keeps space for all of a volume from now on, or no longer. Fails with
    /// [`PoolError::NoSpace`] if there is not so much.
    pub async fn reserve_volume(&self, id: VolumeId, reserved: bool) -> Result<(), PoolError> {
        self.change(true, move |tables| {
            volume_mut(tables, id)?.reserved = reserved;
            Ok(())
        })
        .await
    }

    /// Gives a volume another name.
    pub async fn rename_volume(&self, id: VolumeId, name: &str) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.change(false, move |tables| {
            check_name(tables, &name)?;
            volume_mut(tables, id)?.name = name;
            Ok(())
        })
        .await
    }

    /// Replaces what the pool keeps for the volume's user by what `change` makes of it. Changes
    /// come one after the other, so none is lost beside another.
    ///
    /// # Errors
    /// The pool's; `change`'s own are the inner ones, and nothing is changed then either.
    pub async fn change_attributes<E: 'static>(
        &self,
        id: VolumeId,
        change: impl FnOnce(&[u8]) -> Result<Vec<u8>, E> + 'static,
    ) -> Result<Result<(), E>, PoolError> {
        let refused = Rc::new(Cell::new(None));
        let refusal = Rc::clone(&refused);
        let changed = self.change(false, move |tables| {
            let volume = volume_mut(tables, id)?;
            match change(&volume.attributes) {
                Ok(attributes) => {
                    check_attributes(&attributes)?;
                    volume.attributes = attributes;
                    Ok(())
                }
                Err(error) => {
                    refusal.set(Some(error));
                    Err(PoolError::Invalid("attributes that their user refuses"))
                }
            }
        });
        let changed = changed.await;
        match refused.take() {
            Some(error) => Ok(Err(error)),
            None => changed.map(Ok),
        }
    }

    /// What the pool keeps for the volume's user.
    pub fn attributes(&self, id: VolumeId) -> Result<Vec<u8>, PoolError> {
        let state = self.coordinator.shard.state.borrow();
        let volume = state.tables.volumes.get(id);
        let volume = volume.ok_or(PoolError::NotFound("volume"))?;
        Ok(volume.attributes.clone())
    }

    /// Deletes a volume; its snapshots stay.
    pub async fn delete_volume(&self, id: VolumeId) -> Result<(), PoolError> {
        self.change(false, move |tables| {
            tables
                .volumes
                .remove(id)
                .ok_or(PoolError::NotFound("volume"))?;
            Ok(())
        })
        .await
    }

    /// Takes snapshots of several volumes at one instant: every write acknowledged before is in
    /// them, none submitted after. A volume that reserves space needs as much again, for it no
    /// longer has its blocks for itself.
    pub async fn snapshot(
        &self,
        volumes: &[(VolumeId, String)],
    ) -> Result<Vec<SnapshotId>, PoolError> {
        let promises = volumes.iter().any(|(id, _)| self.reserves(*id));
        let volumes = volumes.to_vec();
        let taken = self.coordinator.entropy.milliseconds();
        self.change(promises, move |tables| {
            let mut names = BTreeSet::new();
            for (id, name) in &volumes {
                if !names.insert(name.as_str()) {
                    return Err(PoolError::NameTaken(name.clone()));
                }
                volume_mut(tables, *id)?;
            }
            check_names(tables, &names)?;
            volumes
                .iter()
                .map(|(id, name)| take_snapshot(tables, *id, name, taken))
                .collect()
        })
        .await
    }

    /// Makes a volume that starts out as a snapshot.
    pub async fn clone_snapshot(
        &self,
        snapshot: SnapshotId,
        name: &str,
    ) -> Result<VolumeId, PoolError> {
        let name = name.to_owned();
        self.change(false, move |tables| {
            check_name(tables, &name)?;
            let from = snapshot_of(tables, snapshot)?;
            let layer = tables.add_layer(Some(from.layer))?;
            let id = VolumeId(tables.take_id()?);
            let volume = Volume {
                name,
                blocks: from.blocks,
                layer,
                origin: Some(snapshot),
                reserved: false,
                attributes: Vec::new(),
            };
            tables.volumes.insert(id, volume);
            Ok(id)
        })
        .await
    }

    /// Makes a volume what a snapshot of any volume is; what was written since is lost.
    pub async fn rollback(&self, id: VolumeId, snapshot: SnapshotId) -> Result<(), PoolError> {
        let promises = self.reserves(id);
        self.change(promises, move |tables| {
            let from = snapshot_of(tables, snapshot)?;
            volume_mut(tables, id)?;
            let layer = tables.add_layer(Some(from.layer))?;
            let volume = volume_mut(tables, id)?;
            volume.layer = layer;
            volume.blocks = from.blocks;
            volume.origin = Some(snapshot);
            Ok(())
        })
        .await
    }

    /// Deletes a snapshot; clones of it and the volume stay as they are.
    pub async fn delete_snapshot(&self, id: SnapshotId) -> Result<(), PoolError> {
        self.change(false, move |tables| {
            tables
                .snapshots
                .remove(id)
                .ok_or(PoolError::NotFound("snapshot"))?;
            Ok(())
        })
        .await
    }

    /// Every volume.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let tables = &self.coordinator.shard.state.borrow().tables;
        let info = |(id, volume): (&VolumeId, &Volume)| VolumeInfo::of(tables, *id, volume);
        tables.volumes.iter().map(info).collect()
    }

    /// One volume.
    pub fn volume_info(&self, id: VolumeId) -> Option<VolumeInfo> {
        let tables = &self.coordinator.shard.state.borrow().tables;
        let volume = tables.volumes.get(id)?;
        Some(VolumeInfo::of(tables, id, volume))
    }

    /// Every snapshot.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let tables = &self.coordinator.shard.state.borrow().tables;
        let info = |(id, snapshot): (&SnapshotId, &Snapshot)| SnapshotInfo::of(*id, snapshot);
        tables.snapshots.iter().map(info).collect()
    }

    /// One snapshot.
    pub fn snapshot_info(&self, id: SnapshotId) -> Option<SnapshotInfo> {
        let tables = &self.coordinator.shard.state.borrow().tables;
        let snapshot = tables.snapshots.get(id)?;
        Some(SnapshotInfo::of(id, snapshot))
    }

    /// A volume to read and write.
    pub fn volume(&self, id: VolumeId) -> Result<PoolVolume<D>, PoolError> {
        PoolVolume::new(self.coordinator.shard.clone(), Holder::Volume(id))
            .ok_or(PoolError::NotFound("volume"))
    }

    /// A snapshot to read.
    pub fn snapshot_device(&self, id: SnapshotId) -> Result<PoolVolume<D>, PoolError> {
        PoolVolume::new(self.coordinator.shard.clone(), Holder::Snapshot(id))
            .ok_or(PoolError::NotFound("snapshot"))
    }
}

impl VolumeInfo {
    fn of(tables: &Tables, id: VolumeId, volume: &Volume) -> VolumeInfo {
        VolumeInfo {
            id,
            name: volume.name.clone(),
            bytes: volume.blocks * BLOCK_BYTES as u64,
            unique_bytes: tables.own_blocks(volume.layer) * BLOCK_BYTES as u64,
            reserved: volume.reserved,
            origin: volume.origin,
            attributes: volume.attributes.clone(),
        }
    }
}

impl SnapshotInfo {
    fn of(id: SnapshotId, snapshot: &Snapshot) -> SnapshotInfo {
        SnapshotInfo {
            id,
            name: snapshot.name.clone(),
            bytes: snapshot.blocks * BLOCK_BYTES as u64,
            volume: snapshot.volume,
            taken: snapshot
                .taken
                .and_then(|taken| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(taken))),
        }
    }
}

/// Freezes a volume's layer under the snapshot and puts an empty one on top.
fn take_snapshot(
    tables: &mut Tables,
    id: VolumeId,
    name: &str,
    taken: Option<u64>,
) -> Result<SnapshotId, PoolError> {
    let (frozen, blocks) = {
        let volume = volume_mut(tables, id)?;
        (volume.layer, volume.blocks)
    };
    let top = tables.add_layer(Some(frozen))?;
    volume_mut(tables, id)?.layer = top;
    let snapshot = SnapshotId(tables.take_id()?);
    let entry = Snapshot {
        name: name.to_owned(),
        blocks,
        layer: frozen,
        volume: id,
        taken,
    };
    tables.snapshots.insert(snapshot, entry);
    Ok(snapshot)
}
