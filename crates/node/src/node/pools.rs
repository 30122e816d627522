//! What a node does with pools: each method is one control operation.

use pool::{
    Accounting, Extents, ScrubReport, SnapshotId, SnapshotInfo, VolumeId, VolumeInfo, VolumeOptions,
};

use super::Node;
use crate::core::open_pools::{PoolOpening, PoolSpec};
use crate::error::NodeError;
use crate::layout::PoolEnd;
use crate::spec::{DriveLabel, PoolFacts};
use crate::taking::Taking;

impl Node {
    /// Makes a pool out of open drives that nothing uses and that carry none, and holds it.
    pub async fn create_pool(&self, name: &str, spec: PoolSpec) -> Result<PoolFacts, NodeError> {
        let name = name.to_owned();
        self.run(move |layout| async move { layout.create_pool(name, spec).await })
            .await
    }

    /// Opens the pool that `drives` carry, and holds it. Drives that are no current members of it
    /// are not used.
    pub async fn open_pool(
        &self,
        name: &str,
        drives: Vec<String>,
        how: PoolOpening,
    ) -> Result<PoolFacts, NodeError> {
        let name = name.to_owned();
        self.run(move |layout| async move { layout.open_pool(name, drives, how).await })
            .await
    }

    /// Has a pool be called otherwise on its drives; here it keeps the name that it was opened
    /// under.
    pub async fn rename_pool(&self, pool: &str, name: &str) -> Result<(), NodeError> {
        let (pool, name) = (pool.to_owned(), name.to_owned());
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move { pool.rename(&name).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Closes a pool of which no volume is served, and lets go of it, so that any host may open
    /// it.
    pub async fn export_pool(&self, name: &str) -> Result<(), NodeError> {
        let name = name.to_owned();
        self.run(move |layout| async move { layout.close_pool(name, PoolEnd::Export).await })
            .await
    }

    /// Makes the drives of a pool of which no volume is served forget it, with all its data.
    pub async fn destroy_pool(&self, name: &str) -> Result<(), NodeError> {
        let name = name.to_owned();
        self.run(move |layout| async move { layout.close_pool(name, PoolEnd::Destroy).await })
            .await
    }

    /// A pool as it stands.
    pub async fn pool_facts(&self, name: &str) -> Result<PoolFacts, NodeError> {
        let name = name.to_owned();
        self.run(move |layout| async move { layout.pool_facts(name).await })
            .await
    }

    /// The same, also while pools are made, opened or closed and whatever else is being changed.
    pub async fn pool_seen(&self, name: &str) -> Result<PoolFacts, NodeError> {
        let name = name.to_owned();
        self.run(move |layout| async move { layout.pool_seen(name).await })
            .await
    }

    /// What an open drive carries.
    pub async fn drive_label(&self, drive: &str) -> Result<DriveLabel, NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.drive_label(drive).await })
            .await
    }

    /// Makes a drive that nothing uses forget the pool that it carries.
    pub async fn wipe_drive(&self, drive: &str) -> Result<(), NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.wipe_drive(drive).await })
            .await
    }

    /// The contents of a drive beside labels of pools, in words.
    pub async fn drive_contents(&self, drive: &str) -> Result<Option<String>, NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.drive_contents(drive).await })
            .await
    }

    /// The contents of a drive before the label of a pool, in words: another program wrote them.
    pub async fn drive_leftovers(&self, drive: &str) -> Result<Option<String>, NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.leftovers(drive).await })
            .await
    }

    /// Wipes a drive before the label of its pool.
    pub async fn wipe_drive_leftovers(&self, drive: &str) -> Result<(), NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.wipe_leftovers(drive).await })
            .await
    }

    /// Makes a drive that nothing uses forget a pool that it carries, and nothing else.
    pub async fn clear_label(&self, drive: &str) -> Result<(), NodeError> {
        let drive = drive.to_owned();
        self.run(move |layout| async move { layout.clear_label(drive).await })
            .await
    }

    /// Adds a drive that nothing uses to a pool. Unless it carries a label of that pool,
    /// `taking` says how.
    pub async fn add_pool_drive(
        &self,
        pool: &str,
        drive: &str,
        taking: Taking,
    ) -> Result<(), NodeError> {
        let (pool, drive) = (pool.to_owned(), drive.to_owned());
        self.run(move |layout| async move { layout.add_pool_drive(pool, drive, taking).await })
            .await
    }

    /// Moves everything off a drive of a pool and lets go of it; returns when that is done.
    pub async fn remove_pool_drive(&self, pool: &str, drive: &str) -> Result<(), NodeError> {
        let (pool, drive) = (pool.to_owned(), drive.to_owned());
        self.run(move |layout| async move { layout.remove_pool_drive(pool, drive).await })
            .await
    }

    /// Takes a drive of a pool out of use for good; what was on it is rebuilt.
    pub async fn fail_pool_drive(&self, pool: &str, drive: &str) -> Result<(), NodeError> {
        let (pool, drive) = (pool.to_owned(), drive.to_owned());
        self.run(move |layout| async move { layout.fail_pool_drive(pool, drive).await })
            .await
    }

    /// Checks every block, node and redundancy of a pool and repairs what can be; returns when
    /// that is done.
    pub async fn scrub_pool(&self, pool: &str) -> Result<ScrubReport, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move { layout.scrub_pool(pool).await })
            .await
    }

    /// Ends a scrub that is under way; it says so itself.
    pub async fn stop_scrub(&self, pool: &str) -> Result<(), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move { layout.stop_scrub(pool).await })
            .await
    }

    /// The volumes and snapshots of a pool.
    pub async fn pool_contents(
        &self,
        pool: &str,
    ) -> Result<(Vec<VolumeInfo>, Vec<SnapshotInfo>), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let read = |pool: pool::Pool<_>| async move { Ok((pool.volumes(), pool.snapshots())) };
            layout.with_pool(pool, read).await
        })
        .await
    }

    /// Those of these volumes that a pool has, each with the snapshot that it began as, if that is
    /// still there.
    pub async fn pool_volumes(
        &self,
        pool: &str,
        volumes: Vec<VolumeId>,
    ) -> Result<Vec<(VolumeInfo, Option<SnapshotInfo>)>, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let read = move |pool: pool::Pool<_>| async move {
                let told = |id| {
                    let info = pool.volume_info(id)?;
                    let origin = info.origin.and_then(|origin| pool.snapshot_info(origin));
                    Some((info, origin))
                };
                Ok(volumes.into_iter().filter_map(told).collect())
            };
            layout.with_pool(pool, read).await
        })
        .await
    }

    /// Whose every block of a pool is; reads the maps of volumes that have snapshots or clones.
    pub async fn pool_accounting(&self, pool: &str) -> Result<Accounting, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = |pool: pool::Pool<_>| async move { pool.accounting().await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// The bytes of a snapshot of a pool that hold something, or may differ from another one's.
    pub async fn pool_snapshot_extents(
        &self,
        pool: &str,
        snapshot: SnapshotId,
        since: Option<SnapshotId>,
        from: u64,
        limit: usize,
    ) -> Result<Extents, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move {
                pool.extents(snapshot, since, from, limit).await
            };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Makes an empty volume in a pool; it is not served yet.
    pub async fn create_pool_volume(
        &self,
        pool: &str,
        name: &str,
        options: VolumeOptions,
    ) -> Result<VolumeId, NodeError> {
        let (pool, name) = (pool.to_owned(), name.to_owned());
        self.run(move |layout| async move {
            let work =
                |pool: pool::Pool<_>| async move { pool.create_volume(&name, options).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Deletes a volume of a pool that is not served any more; its snapshots stay.
    pub async fn delete_pool_volume(&self, pool: &str, id: VolumeId) -> Result<(), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move { pool.delete_volume(id).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Changes the size of a volume of a pool; see [`Node::volume_resized`].
    pub async fn resize_pool_volume(
        &self,
        pool: &str,
        id: VolumeId,
        bytes: u64,
        allow_shrink: bool,
    ) -> Result<(), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move {
                pool.resize_volume(id, bytes, allow_shrink).await
            };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Keeps space for all of a volume of a pool from now on, or no longer.
    pub async fn reserve_pool_volume(
        &self,
        pool: &str,
        id: VolumeId,
        reserved: bool,
    ) -> Result<(), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work =
                move |pool: pool::Pool<_>| async move { pool.reserve_volume(id, reserved).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Tells connected hosts the size that a served volume has now; gives it in bytes.
    pub async fn volume_resized(&self, volume: &str) -> Result<u64, NodeError> {
        let volume = volume.to_owned();
        self.run(move |layout| async move { layout.volume_resized(volume).await })
            .await
    }

    /// Replaces what a pool keeps for the user of a volume by what `change` makes of it; its own
    /// errors are the inner ones.
    pub async fn change_pool_volume_attributes<E: Send + 'static>(
        &self,
        pool: &str,
        id: VolumeId,
        change: impl FnOnce(&[u8]) -> Result<Vec<u8>, E> + Send + 'static,
    ) -> Result<Result<(), E>, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work =
                move |pool: pool::Pool<_>| async move { pool.change_attributes(id, change).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// What a pool keeps for the user of a volume.
    pub async fn pool_volume_attributes(
        &self,
        pool: &str,
        id: VolumeId,
    ) -> Result<Vec<u8>, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move { pool.attributes(id) };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Gives a volume of a pool another name.
    pub async fn rename_pool_volume(
        &self,
        pool: &str,
        id: VolumeId,
        name: &str,
    ) -> Result<(), NodeError> {
        let (pool, name) = (pool.to_owned(), name.to_owned());
        self.run(move |layout| async move {
            let work =
                move |pool: pool::Pool<_>| async move { pool.rename_volume(id, &name).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Takes snapshots of several volumes of a pool at one instant.
    pub async fn snapshot_pool_volumes(
        &self,
        pool: &str,
        volumes: Vec<(VolumeId, String)>,
    ) -> Result<Vec<SnapshotId>, NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move { pool.snapshot(&volumes).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Makes a volume that starts out as a snapshot; it is not served yet.
    pub async fn clone_pool_snapshot(
        &self,
        pool: &str,
        snapshot: SnapshotId,
        name: &str,
    ) -> Result<VolumeId, NodeError> {
        let (pool, name) = (pool.to_owned(), name.to_owned());
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move {
                pool.clone_snapshot(snapshot, &name).await
            };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Makes a volume what a snapshot is; what was written since is lost.
    pub async fn rollback_pool_volume(
        &self,
        pool: &str,
        id: VolumeId,
        snapshot: SnapshotId,
    ) -> Result<(), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work = move |pool: pool::Pool<_>| async move { pool.rollback(id, snapshot).await };
            layout.with_pool(pool, work).await
        })
        .await
    }

    /// Deletes a snapshot; clones of it, and its volume, stay as they are.
    pub async fn delete_pool_snapshot(
        &self,
        pool: &str,
        snapshot: SnapshotId,
    ) -> Result<(), NodeError> {
        let pool = pool.to_owned();
        self.run(move |layout| async move {
            let work =
                move |pool: pool::Pool<_>| async move { pool.delete_snapshot(snapshot).await };
            layout.with_pool(pool, work).await
        })
        .await
    }
}
