//! [`Served`]: an open pool with all its shards, which here live on one reactor.

use crate::drive::SimDrive;
use pool::{
    CreateOptions, DriveId, OpenOptions, Pool, PoolError, PoolVolume, Shard, Sliced, SnapshotId,
    VolumeId, Wiring,
};
use std::ops::Deref;

/// A volume or snapshot, put together from what the shards have of it.
pub type Device = Sliced<PoolVolume<SimDrive>>;

/// A pool and its other shards.
#[derive(Clone)]
pub struct Served {
    pool: Pool<SimDrive>,
    others: Vec<Shard<SimDrive>>,
    slice_blocks: u32,
}

impl Deref for Served {
    type Target = Pool<SimDrive>;

    fn deref(&self) -> &Pool<SimDrive> {
        &self.pool
    }
}

impl Served {
    /// Opens a pool with so many shards.
    pub async fn open(
        shards: usize,
        drives: Vec<SimDrive>,
        options: OpenOptions,
    ) -> Result<Served, PoolError> {
        let slice_blocks = options.settings.slice_blocks;
        let given = drives.clone();
        Served::start(shards, given, slice_blocks, async move |first| {
            Pool::open_on(first, drives, options).await
        })
        .await
    }

    /// Makes a pool and serves it with so many shards.
    pub async fn create(
        shards: usize,
        drives: Vec<SimDrive>,
        options: CreateOptions,
    ) -> Result<Served, PoolError> {
        let slice_blocks = options.settings.slice_blocks;
        let given = drives.clone();
        Served::start(shards, given, slice_blocks, async move |first| {
            Pool::create_on(first, drives, options).await
        })
        .await
    }

    async fn start(
        shards: usize,
        drives: Vec<SimDrive>,
        slice_blocks: u32,
        first: impl AsyncFnOnce(Wiring) -> Result<Pool<SimDrive>, PoolError>,
    ) -> Result<Served, PoolError> {
        let mut wiring = pool::wire(shards);
        let others = wiring.split_off(1);
        let joining: Vec<_> = others
            .into_iter()
            .map(|wiring| reactor::spawn(Shard::join(wiring, drives.clone())))
            .collect();
        let opened = first(wiring.swap_remove(0)).await;
        let mut others = Vec::new();
        for joined in joining {
            let joined = joined.await;
            if opened.is_ok() {
                others.push(joined?);
            }
        }
        Ok(Served {
            pool: opened?,
            others,
            slice_blocks,
        })
    }

    /// How many there are.
    pub fn shards(&self) -> usize {
        1 + self.others.len()
    }

    /// A volume to read and write.
    pub fn volume(&self, id: VolumeId) -> Result<Device, PoolError> {
        let mut parts = vec![self.pool.volume(id)?];
        for shard in &self.others {
            parts.push(shard.volume(id)?);
        }
        Ok(Sliced::new(parts, self.slice_blocks))
    }

    /// A snapshot to read.
    pub fn snapshot_device(&self, id: SnapshotId) -> Result<Device, PoolError> {
        let mut parts = vec![self.pool.snapshot_device(id)?];
        for shard in &self.others {
            parts.push(shard.snapshot_device(id)?);
        }
        Ok(Sliced::new(parts, self.slice_blocks))
    }

    /// Adds a drive, with a handle for each shard.
    pub async fn add_drive(&self, drive: SimDrive) -> Result<DriveId, PoolError> {
        for shard in &self.others {
            shard.offer_drive(drive.clone());
        }
        let added = self.pool.add_drive(drive).await;
        for shard in &self.others {
            shard.withdraw_drives();
        }
        added
    }
}
