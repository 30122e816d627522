//! Snapshots: take, show, delete.

use api::{
    ErrorBody, ErrorCode, Extent, Extents, ExtentsQuery, GrantUse, Name, NamedSnapshot, Severity,
    Snapshot, SnapshotGroup, SnapshotName, SnapshotSpec,
};
use node::{NodeError, PoolError, SnapshotInfo, VolumeId};

use crate::control::tenants::grants::{Asker, is_hidden, volume_of};
use crate::control::volumes::copies::identity;
use crate::control::words::{not_found, refused};
use crate::control::{Control, Objects};
use crate::events::timestamp;
use crate::state::Place;

/// A snapshot, and the pool that holds it.
pub(in crate::control) type Found = (Name, SnapshotInfo);

impl Control {
    /// Every snapshot that the asker may know of, by name, then by pool.
    pub async fn snapshots(&self, asker: Asker<'_>) -> Result<Vec<Snapshot>, ErrorBody> {
        let objects = self.objects.seen();
        let found = self.all_snapshots(&objects).await?;
        let mut shown: Vec<Snapshot> = found
            .iter()
            .filter(|(pool, info)| !is_hidden(asker, owner(&objects, pool, info)))
            .map(|(pool, info)| shown(&objects, pool, info))
            .collect();
        // Pools come in order.
        shown.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(shown)
    }

    /// One snapshot.
    pub async fn snapshot(
        &self,
        asker: Asker<'_>,
        name: &SnapshotName,
    ) -> Result<Snapshot, ErrorBody> {
        let objects = self.objects.seen();
        let (pool, info) = self.own_snapshot(&objects, asker, name).await?;
        Ok(shown(&objects, &pool, &info))
    }

    /// The bytes of a snapshot that hold something, or may differ from another one's.
    pub async fn snapshot_extents(
        &self,
        asker: Asker<'_>,
        name: &SnapshotName,
        query: &ExtentsQuery,
    ) -> Result<Extents, ErrorBody> {
        let most = query.most()?;
        let objects = self.objects.seen();
        let (pool, info) = self.own_snapshot(&objects, asker, name).await?;
        let since = match &query.since {
            None => None,
            Some(since) => {
                let found = self.snapshot_in(&objects, asker, since, Some(&pool)).await;
                let (found_in, since) = found.map_err(|error| error.at("since".to_owned()))?;
                if found_in != pool {
                    let message = format!(
                        "snapshot {} is in pool {found_in}, and {name} in {pool}; allowed: a \
                         snapshot of that pool",
                        since.name
                    );
                    return Err(ErrorBody::invalid("since", message));
                }
                Some(since.id)
            }
        };
        let (from, most) = (query.from.unwrap_or(0), most as usize);
        let found = self
            .node
            .pool_snapshot_extents(pool.as_str(), info.id, since, from, most)
            .await;
        let found = found.map_err(|error| refused(&error))?;
        let extent = |extent: node::Extent| Extent {
            start: extent.start,
            bytes: extent.bytes,
            zeroes: extent.zeroes,
        };
        Ok(Extents {
            bytes: found.bytes,
            extents: found.extents.into_iter().map(extent).collect(),
            next: found.next,
        })
    }

    /// Takes a snapshot of a volume.
    pub async fn create_snapshot(
        &self,
        asker: Asker<'_>,
        name: &Name,
        spec: SnapshotSpec,
    ) -> Result<Snapshot, ErrorBody> {
        if spec.copy_of.is_some_and(|original| original.is_nil()) {
            let message = "an identity of zeroes; allowed: that of a snapshot";
            return Err(ErrorBody::invalid("copy_of", message));
        }
        let mut objects = self.objects.change().await;
        let (pool, volume) = own_volume(&objects, asker, &spec.volume)?;
        let named = self.named(&objects, name).await?;
        let own = |(found_in, info): &&Found| *found_in == pool && info.volume == volume;
        if let Some((found_in, info)) = named.iter().find(own) {
            let there = shown(&objects, found_in, info);
            if spec.copy_of.is_some_and(|original| original != there.uuid) {
                let message = format!("snapshot {name} exists, and is no copy of that one");
                return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
            }
            return Ok(there);
        }
        if !named.is_empty() {
            let message = format!("snapshot {name} exists, of another volume");
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        let more = space_of(&objects, [&spec.volume]);
        self.check_grant(&objects, asker, &pool, more).await?;
        let wanted = vec![(volume, name.clone())];
        self.take_and_tell(&objects, &pool, wanted).await?;
        let in_pool = SnapshotName {
            pool: Some(pool),
            name: name.clone(),
        };
        let (pool, info) = self.own_snapshot(&objects, asker, &in_pool).await?;
        if let Some(original) = spec.copy_of {
            self.note_copy(&mut objects, &spec.volume, &info, original)
                .await?;
        }
        Ok(shown(&objects, &pool, &info))
    }

    /// Takes snapshots of several volumes of one pool at one instant.
    pub async fn create_snapshots(
        &self,
        asker: Asker<'_>,
        group: SnapshotGroup,
    ) -> Result<Vec<Snapshot>, ErrorBody> {
        let objects = self.objects.change().await;
        let more = space_of(&objects, group.snapshots.iter().map(|one| &one.volume));
        let mut wanted = Vec::with_capacity(group.snapshots.len());
        let mut of_pool: Option<(Name, Name)> = None;
        for (index, NamedSnapshot { name, volume }) in group.snapshots.into_iter().enumerate() {
            let field = format!("snapshots[{index}]");
            let found = own_volume(&objects, asker, &volume);
            let (pool, id) = found.map_err(|error| error.at(field.clone()))?;
            let problem = if wanted.iter().any(|(_, other)| *other == name) {
                "is named twice; allowed: once"
            } else if !self.named(&objects, &name).await?.is_empty() {
                "exists; allowed: another name"
            } else {
                ""
            };
            if !problem.is_empty() {
                let message = format!("snapshot {name} {problem}");
                let refusal = ErrorBody::new(ErrorCode::AlreadyExists, message);
                return Err(refusal.at(format!("{field}.name")));
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
        self.check_grant(&objects, asker, &pool, more).await?;
        self.take_and_tell(&objects, &pool, wanted).await
    }

    async fn take_and_tell(
        &self,
        objects: &Objects,
        pool: &Name,
        wanted: Vec<(VolumeId, Name)>,
    ) -> Result<Vec<Snapshot>, ErrorBody> {
        let taken = self.take(objects, pool, wanted).await?;
        for Snapshot { name, .. } in &taken {
            self.events
                .record(Severity::Info, &format!("snapshot/{name}"), "taken");
        }
        Ok(taken)
    }

    /// Deletes a snapshot; clones of it stay as they are.
    pub async fn delete_snapshot(
        &self,
        asker: Asker<'_>,
        name: &SnapshotName,
    ) -> Result<(), ErrorBody> {
        let objects = self.objects.change().await;
        let (pool, info) = self.own_snapshot(&objects, asker, name).await?;
        let deleted = self.node.delete_pool_snapshot(pool.as_str(), info.id).await;
        deleted.map_err(|error| refused(&error))?;
        let object = format!("snapshot/{}", name.name);
        let message = format!("deleted, was in pool {pool}");
        self.events.record(Severity::Info, &object, &message);
        Ok(())
    }

    /// Takes snapshots of volumes of one pool at one instant.
    pub(in crate::control) async fn take(
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
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => return Err(self.refused_by_pool(pool, &error, None).await),
        };
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (_, snapshots) = contents.map_err(|error| refused(&error))?;
        let new = snapshots.iter().filter(|info| taken.contains(&info.id));
        Ok(new.map(|info| shown(objects, pool, info)).collect())
    }

    /// The snapshot that `name` stands for, and its pool, among those that the asker may know of.
    ///
    /// # Errors
    /// There is none; or there are several, in different pools, and the name does not say which.
    pub(in crate::control) async fn own_snapshot(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        name: &SnapshotName,
    ) -> Result<Found, ErrorBody> {
        let mut found = self.named(objects, &name.name).await?;
        found.retain(|(pool, info)| {
            name.pool.as_ref().is_none_or(|wanted| wanted == pool)
                && !is_hidden(asker, owner(objects, pool, info))
        });
        if found.len() > 1 {
            let all = found
                .iter()
                .map(|(pool, info)| format!("{pool}/{}", info.name));
            let message = format!(
                "several snapshots are named {name}: say which by its pool, one of {}",
                all.collect::<Vec<String>>().join(", ")
            );
            return Err(ErrorBody::invalid("name", message));
        }
        found.pop().ok_or_else(|| {
            let message = format!("no snapshot is named {name}");
            ErrorBody::new(ErrorCode::NotFound, message)
        })
    }

    /// The same, where a snapshot of the pool `there` is wanted: it is meant where only the pool
    /// tells which.
    pub(in crate::control) async fn snapshot_in(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        name: &SnapshotName,
        there: Option<&Name>,
    ) -> Result<Found, ErrorBody> {
        if let (None, Some(there)) = (&name.pool, there) {
            let in_pool = SnapshotName {
                pool: Some(there.clone()),
                ..name.clone()
            };
            if let Ok(found) = self.own_snapshot(objects, asker, &in_pool).await {
                return Ok(found);
            }
        }
        self.own_snapshot(objects, asker, name).await
    }

    /// Every snapshot of this name, whoever may know of it: a pool has one at most.
    async fn named(&self, objects: &Objects, name: &Name) -> Result<Vec<Found>, ErrorBody> {
        let mut all = self.all_snapshots(objects).await?;
        all.retain(|(_, info)| info.name == name.as_str());
        Ok(all)
    }

    /// Refuses to leave snapshots behind that would be nobody's, for a tenant.
    pub(in crate::control) async fn check_no_snapshots(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        volume: &Name,
    ) -> Result<(), ErrorBody> {
        if asker.is_none() {
            return Ok(());
        }
        let all = self.all_snapshots(objects).await?;
        let of = |(pool, info): &&Found| {
            volume_of(objects, pool, info).is_some_and(|(name, _)| name == volume)
        };
        let taken = all.iter().filter(of).map(|(_, info)| info.name.as_str());
        let taken: Vec<&str> = taken.collect();
        if taken.is_empty() {
            return Ok(());
        }
        let message = format!(
            "volume {volume} has snapshots {}: delete these first",
            taken.join(", ")
        );
        Err(ErrorBody::new(ErrorCode::InUse, message))
    }

    async fn all_snapshots(&self, objects: &Objects) -> Result<Vec<Found>, ErrorBody> {
        let mut all = Vec::new();
        for (pool, entry) in objects.pools.iter() {
            if entry.offline.is_some() {
                continue;
            }
            match self.node.pool_contents(pool.as_str()).await {
                Ok((_, snapshots)) => {
                    all.extend(snapshots.into_iter().map(|info| (pool.clone(), info)));
                }
                // It is being closed and this was asked meanwhile, or it is as good as not open.
                Err(
                    NodeError::UnknownPool(_)
                    | NodeError::Pool {
                        error: PoolError::Offline(_),
                        ..
                    },
                ) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        Ok(all)
    }
}

/// Where a volume of a pool is; refuses one that takes a drive whole.
pub(in crate::control) fn pool_volume(
    objects: &Objects,
    name: &Name,
) -> Result<(Name, VolumeId), ErrorBody> {
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

/// Where a volume of a pool is, if the asker may know of it.
pub(in crate::control) fn own_volume(
    objects: &Objects,
    asker: Asker<'_>,
    name: &Name,
) -> Result<(Name, VolumeId), ErrorBody> {
    let entry = objects.volumes.get(name);
    let owner = entry.and_then(|entry| entry.record.tenant.as_ref());
    match is_hidden(asker, owner) {
        false => pool_volume(objects, name),
        true => Err(not_found("volume", name)),
    }
}

/// Whose a snapshot is: whose its volume is.
fn owner<'a>(objects: &'a Objects, pool: &Name, info: &SnapshotInfo) -> Option<&'a Name> {
    let (_, entry) = volume_of(objects, pool, info)?;
    entry.record.tenant.as_ref()
}

/// What snapshots of these volumes count as.
pub(in crate::control) fn space_of<'a>(
    objects: &Objects,
    volumes: impl IntoIterator<Item = &'a Name>,
) -> GrantUse {
    let mut space = GrantUse::default();
    for volume in volumes {
        let entry = objects.volumes.get(volume);
        let bytes = entry.map_or(0, |entry| entry.record.capacity_bytes);
        space.bytes = space.bytes.saturating_add(bytes);
        space.snapshots += 1;
    }
    space
}

fn shown(objects: &Objects, pool: &Name, info: &SnapshotInfo) -> Snapshot {
    Snapshot {
        name: info.name.clone(),
        pool: pool.clone(),
        volume: volume_of(objects, pool, info).map(|(name, _)| name.clone()),
        bytes: info.bytes,
        taken: info.taken.map(timestamp),
        uuid: identity(objects, pool, info),
    }
}
