//! Snapshots: take, show, delete.

use api::{
    ErrorBody, ErrorCode, Name, NamedSnapshot, Severity, Snapshot, SnapshotGroup, SnapshotSpec,
};
use node::{SnapshotId, SnapshotInfo, VolumeId};

use super::drives::refused;
use super::{Control, Objects, not_found};
use crate::state::Place;

impl Control {
    /// Every snapshot, by name.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, ErrorBody> {
        let objects = self.objects.lock().await;
        let found = self.all_snapshots(&objects).await?;
        let mut shown: Vec<Snapshot> = found
            .iter()
            .map(|(pool, info)| shown(&objects, pool, info))
            .collect();
        shown.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(shown)
    }

    /// One snapshot.
    pub async fn snapshot(&self, name: &Name) -> Result<Snapshot, ErrorBody> {
        let objects = self.objects.lock().await;
        let (pool, info) = self.find_snapshot(&objects, name).await?;
        Ok(shown(&objects, &pool, &info))
    }

    /// Takes a snapshot of a volume.
    pub async fn create_snapshot(
        &self,
        name: &Name,
        spec: SnapshotSpec,
    ) -> Result<Snapshot, ErrorBody> {
        let objects = self.objects.lock().await;
        let (pool, volume) = pool_volume(&objects, &spec.volume)?;
        if let Ok((found_in, info)) = self.find_snapshot(&objects, name).await {
            return if found_in == pool && info.volume == volume {
                Ok(shown(&objects, &found_in, &info))
            } else {
                let message = format!("snapshot {name} exists, of another volume");
                Err(ErrorBody::new(ErrorCode::AlreadyExists, message))
            };
        }
        let wanted = vec![(volume, name.clone())];
        let mut taken = self.take(&objects, &pool, wanted).await?;
        taken.pop().ok_or_else(|| not_found("snapshot", name))
    }

    /// Takes snapshots of several volumes of one pool at one instant.
    pub async fn create_snapshots(&self, group: SnapshotGroup) -> Result<Vec<Snapshot>, ErrorBody> {
        let objects = self.objects.lock().await;
        let mut wanted = Vec::with_capacity(group.snapshots.len());
        let mut of_pool: Option<(Name, Name)> = None;
        for (index, NamedSnapshot { name, volume }) in group.snapshots.into_iter().enumerate() {
            let field = format!("snapshots[{index}]");
            let (pool, id) = pool_volume(&objects, &volume).map_err(|error| error.at(field))?;
            if self.find_snapshot(&objects, &name).await.is_ok() {
                let message = format!("snapshot {name} exists");
                return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
            }
            match &of_pool {
                Some((first, other)) if *first != pool => {
                    let message = format!(
                        "volume {other} is in pool {first} and {volume} in {pool}; allowed: \
                         volumes of one pool"
                    );
                    return Err(ErrorBody::invalid("snapshots", message));
                }
                _ => of_pool = Some((pool, volume)),
            }
            wanted.push((id, name));
        }
        let Some((pool, _)) = of_pool else {
            let message = "no snapshot is named; allowed: one or more";
            return Err(ErrorBody::invalid("snapshots", message));
        };
        self.take(&objects, &pool, wanted).await
    }

    /// Deletes a snapshot; clones of it stay as they are.
    pub async fn delete_snapshot(&self, name: &Name) -> Result<(), ErrorBody> {
        let objects = self.objects.lock().await;
        let (pool, info) = self.find_snapshot(&objects, name).await?;
        let deleted = self.node.delete_pool_snapshot(pool.as_str(), info.id).await;
        deleted.map_err(|error| refused(&error))?;
        self.events
            .record(Severity::Info, &format!("snapshot/{name}"), "deleted");
        Ok(())
    }

    async fn take(
        &self,
        objects: &Objects,
        pool: &Name,
        wanted: Vec<(VolumeId, Name)>,
    ) -> Result<Vec<Snapshot>, ErrorBody> {
        let named = wanted.iter().map(|(id, name)| (*id, name.to_string()));
        let taken = self
            .node
            .snapshot_pool_volumes(pool.as_str(), named.collect())
            .await;
        let taken = taken.map_err(|error| refused(&error))?;
        for (_, name) in &wanted {
            self.events
                .record(Severity::Info, &format!("snapshot/{name}"), "taken");
        }
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (_, snapshots) = contents.map_err(|error| refused(&error))?;
        let new = snapshots.iter().filter(|info| taken.contains(&info.id));
        Ok(new.map(|info| shown(objects, pool, info)).collect())
    }

    /// The snapshot `name`, and its pool.
    pub(super) async fn find_snapshot(
        &self,
        objects: &Objects,
        name: &Name,
    ) -> Result<(Name, SnapshotInfo), ErrorBody> {
        let found = self.all_snapshots(objects).await?.into_iter();
        let mut named = found.filter(|(_, info)| info.name == name.as_str());
        named.next().ok_or_else(|| not_found("snapshot", name))
    }

    /// What a snapshot of a pool is called.
    pub(super) async fn snapshot_name(&self, pool: &Name, id: SnapshotId) -> Option<String> {
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (_, snapshots) = contents.ok()?;
        let found = snapshots.into_iter().find(|info| info.id == id);
        found.map(|info| info.name)
    }

    async fn all_snapshots(
        &self,
        objects: &Objects,
    ) -> Result<Vec<(Name, SnapshotInfo)>, ErrorBody> {
        let mut all = Vec::new();
        for (pool, entry) in &objects.pools {
            if entry.offline.is_some() {
                continue;
            }
            let contents = self.node.pool_contents(pool.as_str()).await;
            let (_, snapshots) = contents.map_err(|error| refused(&error))?;
            all.extend(snapshots.into_iter().map(|info| (pool.clone(), info)));
        }
        Ok(all)
    }
}

/// Where a volume of a pool is; refuses one that takes a drive whole.
pub(super) fn pool_volume(objects: &Objects, name: &Name) -> Result<(Name, VolumeId), ErrorBody> {
    let entry = objects.volumes.get(name);
    let entry = entry.ok_or_else(|| not_found("volume", name))?;
    match &entry.record.place {
        Place::Pool { name: pool, volume } => Ok((pool.clone(), VolumeId(*volume))),
        Place::Drive(drive) => {
            let message =
                format!("volume {name} takes drive {drive} whole; allowed: a volume of a pool");
            Err(ErrorBody::invalid("volume", message))
        }
    }
}

fn shown(objects: &Objects, pool: &Name, info: &SnapshotInfo) -> Snapshot {
    let of = |place: &Place| match place {
        Place::Pool { name, volume } => name == pool && *volume == info.volume.0,
        Place::Drive(_) => false,
    };
    let mut volumes = objects.volumes.iter();
    let volume = volumes.find(|(_, entry)| of(&entry.record.place));
    Snapshot {
        name: info.name.clone(),
        pool: pool.clone(),
        volume: volume.map(|(name, _)| name.clone()),
        bytes: info.bytes,
    }
}
