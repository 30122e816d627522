//! One method per operation on pools, their volumes and snapshots, and on jobs.

use api::{
    CarriedLabel, Extents, ExtentsQuery, ImportablePool, Job, List, Name, Pool, PoolImport,
    PoolSpec, PoolUsage, Replication, ReplicationSpec, Schedule, ScheduleSpec, Snapshot,
    SnapshotGroup, SnapshotName, SnapshotSpec, Volume, VolumeProtect, VolumeRename, VolumeReserve,
    VolumeResize, VolumeRollback,
};

use crate::{Client, ClientError};

impl Client {
    /// Every pool, by name.
    pub fn pools(&self) -> Result<List<Pool>, ClientError> {
        self.list("/v1/pools")
    }

    /// One pool.
    pub fn pool(&self, name: &Name) -> Result<Pool, ClientError> {
        self.get(&format!("/v1/pools/{name}"))
    }

    /// Where the space of a pool has gone.
    pub fn pool_usage(&self, name: &Name) -> Result<PoolUsage, ClientError> {
        self.get(&format!("/v1/pools/{name}/usage"))
    }

    /// Makes a pool called `name` out of drives.
    pub fn create_pool(&self, name: &Name, spec: &PoolSpec) -> Result<Pool, ClientError> {
        self.put(&format!("/v1/pools/{name}"), spec)
    }

    /// Destroys a pool that has no volumes and no snapshots.
    pub fn destroy_pool(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/pools/{name}"))
    }

    /// Stops serving a pool and lets go of it, so that another node may import it; with `force`
    /// while hosts are connected to its volumes.
    pub fn export_pool(&self, name: &Name, force: bool) -> Result<(), ClientError> {
        self.command(&format!("/v1/pools/{name}/export?force={force}"))
    }

    /// Pools on the node's drives that it does not hold.
    pub fn importable_pools(&self) -> Result<List<ImportablePool>, ClientError> {
        self.list("/v1/importable-pools")
    }

    /// What drives carry that neither a volume nor an open pool uses.
    pub fn carried_labels(&self) -> Result<List<CarriedLabel>, ClientError> {
        self.list("/v1/carried-labels")
    }

    /// Takes a pool that the node's drives carry, and serves its volumes.
    pub fn import_pool(&self, name: &Name, how: &PoolImport) -> Result<Pool, ClientError> {
        self.post(&format!("/v1/pools/{name}/import"), how)
    }

    /// Begins to check everything in a pool.
    pub fn scrub_pool(&self, name: &Name) -> Result<Job, ClientError> {
        self.post_empty(&format!("/v1/pools/{name}/scrub"))
    }

    /// Ends a scrub that is under way.
    pub fn stop_scrub(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/pools/{name}/scrub"))
    }

    /// Adds a drive to a pool.
    pub fn add_pool_drive(
        &self,
        pool: &Name,
        drive: &Name,
        force: bool,
    ) -> Result<Pool, ClientError> {
        self.put_empty(&format!("/v1/pools/{pool}/drives/{drive}?force={force}"))
    }

    /// Begins to move everything off a drive of a pool.
    pub fn remove_pool_drive(&self, pool: &Name, drive: &Name) -> Result<Job, ClientError> {
        self.delete(&format!("/v1/pools/{pool}/drives/{drive}"))
    }

    /// Takes a drive of a pool out of use for good.
    pub fn fail_pool_drive(&self, pool: &Name, drive: &Name) -> Result<Pool, ClientError> {
        self.post_empty(&format!("/v1/pools/{pool}/drives/{drive}/fail"))
    }

    /// Makes a drive that nothing uses forget the pool that it carries; `force` although another
    /// host holds that pool.
    pub fn wipe_drive(&self, drive: &Name, force: bool) -> Result<(), ClientError> {
        self.command(&format!("/v1/drives/{drive}/wipe?force={force}"))
    }

    /// Gives a volume of a pool another size.
    pub fn resize_volume(&self, name: &Name, to: &VolumeResize) -> Result<Volume, ClientError> {
        self.post(&format!("/v1/volumes/{name}/resize"), to)
    }

    /// Keeps space for all of a volume of a pool, or no longer.
    pub fn reserve_volume(&self, name: &Name, to: &VolumeReserve) -> Result<Volume, ClientError> {
        self.post(&format!("/v1/volumes/{name}/reserve"), to)
    }

    /// Has a volume be write protected, or no longer.
    pub fn protect_volume(&self, name: &Name, to: &VolumeProtect) -> Result<Volume, ClientError> {
        self.post(&format!("/v1/volumes/{name}/protect"), to)
    }

    /// Gives a volume of a pool another name.
    pub fn rename_volume(&self, name: &Name, to: &VolumeRename) -> Result<Volume, ClientError> {
        self.post(&format!("/v1/volumes/{name}/rename"), to)
    }

    /// Makes a volume of a pool what a snapshot is.
    pub fn rollback_volume(&self, name: &Name, to: &VolumeRollback) -> Result<Volume, ClientError> {
        self.post(&format!("/v1/volumes/{name}/rollback"), to)
    }

    /// Makes a replica a volume as any other.
    pub fn promote_volume(&self, name: &Name) -> Result<Volume, ClientError> {
        self.post_empty(&format!("/v1/volumes/{name}/promote"))
    }

    /// Every snapshot, by name.
    pub fn snapshots(&self) -> Result<List<Snapshot>, ClientError> {
        self.list("/v1/snapshots")
    }

    /// At most `limit` of the snapshots that come after `after` by name.
    pub fn snapshots_after(&self, after: &str, limit: u32) -> Result<List<Snapshot>, ClientError> {
        self.page("/v1/snapshots", after, limit)
    }

    /// One snapshot.
    pub fn snapshot(&self, name: &SnapshotName) -> Result<Snapshot, ClientError> {
        self.get(&path(name))
    }

    /// The bytes of a snapshot that hold something, or may differ from another one's: one answer.
    pub fn snapshot_extents(
        &self,
        name: &SnapshotName,
        query: &ExtentsQuery,
    ) -> Result<Extents, ClientError> {
        let ExtentsQuery { since, from, limit } = query;
        let since = since.as_ref().map(|since| ("since", since.to_string()));
        let from = from.map(|from| ("from", from.to_string()));
        let limit = limit.map(|limit| ("limit", limit.to_string()));
        let asked = [since, from, limit].into_iter().flatten();
        self.get_with(&format!("{}/extents", path(name)), asked)
    }

    /// Takes a snapshot of a volume.
    pub fn create_snapshot(
        &self,
        name: &Name,
        spec: &SnapshotSpec,
    ) -> Result<Snapshot, ClientError> {
        self.put(&format!("/v1/snapshots/{name}"), spec)
    }

    /// Takes snapshots of several volumes at one instant.
    pub fn create_snapshots(&self, group: &SnapshotGroup) -> Result<List<Snapshot>, ClientError> {
        self.post("/v1/snapshots", group)
    }

    /// Deletes a snapshot.
    pub fn delete_snapshot(&self, name: &SnapshotName) -> Result<(), ClientError> {
        self.delete_object(&path(name))
    }

    /// Every schedule of snapshots, by name.
    pub fn schedules(&self) -> Result<List<Schedule>, ClientError> {
        self.list("/v1/schedules")
    }

    /// One schedule.
    pub fn schedule(&self, name: &Name) -> Result<Schedule, ClientError> {
        self.get(&format!("/v1/schedules/{name}"))
    }

    /// Takes snapshots on a schedule from now on.
    pub fn set_schedule(&self, name: &Name, spec: &ScheduleSpec) -> Result<Schedule, ClientError> {
        self.put(&format!("/v1/schedules/{name}"), spec)
    }

    /// Takes no more of them; those that were taken stay.
    pub fn remove_schedule(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/schedules/{name}"))
    }

    /// Every replication, by name.
    pub fn replications(&self) -> Result<List<Replication>, ClientError> {
        self.list("/v1/replications")
    }

    /// One replication.
    pub fn replication(&self, name: &Name) -> Result<Replication, ClientError> {
        self.get(&format!("/v1/replications/{name}"))
    }

    /// Keeps a replica of a volume up to date on another node from now on.
    pub fn set_replication(
        &self,
        name: &Name,
        spec: &ReplicationSpec,
    ) -> Result<Replication, ClientError> {
        self.put(&format!("/v1/replications/{name}"), spec)
    }

    /// Copies no more; the replica and the snapshots stay.
    pub fn remove_replication(&self, name: &Name) -> Result<(), ClientError> {
        self.delete_object(&format!("/v1/replications/{name}"))
    }

    /// What takes long, oldest first.
    pub fn jobs(&self) -> Result<List<Job>, ClientError> {
        self.list("/v1/jobs")
    }

    /// One job.
    pub fn job(&self, id: u64) -> Result<Job, ClientError> {
        self.get(&format!("/v1/jobs/{id}"))
    }
}

/// Where a snapshot is found.
fn path(snapshot: &SnapshotName) -> String {
    let SnapshotName { pool, name } = snapshot;
    match pool {
        Some(pool) => format!("/v1/pools/{pool}/snapshots/{name}"),
        None => format!("/v1/snapshots/{name}"),
    }
}
