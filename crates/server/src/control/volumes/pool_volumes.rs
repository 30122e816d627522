//! Volumes of pools: make, change, delete.

use std::collections::BTreeSet;
use std::convert::Infallible;

use api::{
    ANY_HOST, ErrorBody, ErrorCode, GrantUse, Name, Severity, Size, Volume, VolumeRename,
    VolumeReserve, VolumeResize, VolumeRollback, VolumeSpec,
};
use node::{AllowedHosts, Backing, NodeError, SnapshotInfo, VolumeId, VolumeOptions};

use crate::control::replications::replicas;
use crate::control::tenants::grants::{Asker, volume_of};
use crate::control::volumes::identified;
use crate::control::volumes::kept;
use crate::control::volumes::room::check_size;
use crate::control::volumes::serving::node_volume;
use crate::control::volumes::snapshots::pool_volume;
use crate::control::words::{not_found, refused};
use crate::control::{Control, Objects, VolumeEntry};
use crate::state::{Place, VolumeRecord};

/// What a volume of a pool begins as.
pub(in crate::control) enum Beginning {
    /// Nothing but zeroes.
    Empty {
        /// Its size.
        size: Size,
        /// Space for all of it is kept.
        reserved: bool,
    },
    /// A snapshot of the pool.
    Snapshot {
        /// Which.
        info: SnapshotInfo,
        /// Its size, if it is to be another than the snapshot's.
        size: Option<Size>,
        /// Space for all of it is kept.
        reserved: bool,
    },
}

/// Where a volume of a pool is that is to be changed.
fn changeable(objects: &Objects, name: &Name) -> Result<(Name, VolumeId), ErrorBody> {
    identified(objects, name)?;
    pool_volume(objects, name)
}

impl Control {
    /// Makes a volume in a pool, and serves it.
    pub(in crate::control) async fn create_in_pool(
        &self,
        objects: &mut Objects,
        name: &Name,
        pool: &Name,
        beginning: Beginning,
        spec: &VolumeSpec,
        allowed: AllowedHosts,
    ) -> Result<(), ErrorBody> {
        let place = |id: VolumeId| Place::Pool {
            name: pool.clone(),
            volume: id.0,
        };
        let record = self.new_record(objects, name, place(VolumeId(0)), spec);
        kept::check_room(&record, objects)?;
        let attributes = kept::encode(&record, objects)?;
        let id = self.begin(name, pool, beginning, attributes).await?;
        let record = VolumeRecord {
            place: place(id),
            ..record
        };
        let backing = Backing::Pool {
            pool: pool.to_string(),
            volume: id,
        };
        let served = node_volume(objects, name, &record, backing, allowed)?;
        let capacity_bytes = match self.node.create_volume(served).await {
            Ok(bytes) => bytes,
            Err(error) => {
                // Made a moment ago under this lock: it is there to be deleted.
                let _ = self.node.delete_pool_volume(pool.as_str(), id).await;
                return Err(refused(&error));
            }
        };
        let record = VolumeRecord {
            capacity_bytes,
            ..record
        };
        let message = format!("created in pool {pool} as {}", record.nqn);
        self.tell_volume(name, &message);
        let entry = VolumeEntry::new(record, None);
        objects.volumes.insert(name.clone(), entry);
        self.look_at_pools(objects).await;
        Ok(())
    }

    async fn begin(
        &self,
        name: &Name,
        pool: &Name,
        beginning: Beginning,
        attributes: Vec<u8>,
    ) -> Result<VolumeId, ErrorBody> {
        let (info, size, reserved) = match beginning {
            Beginning::Empty { size, reserved } => {
                let asked = size.bytes();
                let options = VolumeOptions {
                    bytes: size.bytes(),
                    reserved,
                    attributes,
                };
                let made = self
                    .node
                    .create_pool_volume(pool.as_str(), name.as_str(), options);
                return match made.await {
                    Ok(id) => Ok(id),
                    Err(error) => Err(self.refused_by_pool(pool, &error, Some(asked)).await),
                };
            }
            Beginning::Snapshot {
                info,
                size,
                reserved,
            } => (info, size, reserved),
        };
        check_room_for(&info, size)?;
        let cloned = self
            .node
            .clone_pool_snapshot(pool.as_str(), info.id, name.as_str());
        let id = cloned.await.map_err(|error| refused(&error))?;
        let finish = async {
            if let Some(size) = size.filter(|size| size.bytes() != info.bytes) {
                let bytes = size.bytes();
                self.node
                    .resize_pool_volume(pool.as_str(), id, bytes, false)
                    .await?;
            }
            if reserved {
                self.node
                    .reserve_pool_volume(pool.as_str(), id, true)
                    .await?;
            }
            self.describe(pool, id, attributes).await
        };
        if let Err(error) = finish.await {
            // Made a moment ago under this lock: it is there to be deleted.
            let _ = self.node.delete_pool_volume(pool.as_str(), id).await;
            let asked = size.map_or(info.bytes, Size::bytes);
            return Err(self.refused_by_pool(pool, &error, Some(asked)).await);
        }
        Ok(id)
    }

    /// Has a pool keep this about a volume that is not served.
    pub(in crate::control) async fn describe(
        &self,
        pool: &Name,
        id: VolumeId,
        attributes: Vec<u8>,
    ) -> Result<(), NodeError> {
        let change = move |_: &[u8]| Ok::<_, Infallible>(attributes);
        let changed = self
            .node
            .change_pool_volume_attributes(pool.as_str(), id, change);
        changed.await.map(|Ok(())| ())
    }

    /// Gives a volume of a pool another size; connected hosts see it.
    pub async fn resize_volume(
        &self,
        asker: Asker<'_>,
        name: &Name,
        to: VolumeResize,
    ) -> Result<Volume, ErrorBody> {
        check_size(to.size)?;
        let mut objects = self.objects.change().await;
        let (pool, id) = changeable(&objects, name)?;
        let bytes = to.size.in_blocks().bytes();
        let before = identified(&objects, name)?.record.capacity_bytes;
        if self.check_shrink(&objects, asker, name, bytes, to.allow_shrink)? {
            let unprotected = self.check_unprotected(&objects, name).await;
            unprotected.map_err(|error| error.at("size".to_owned()))?;
            let users = self
                .users(&objects, &identified(&objects, name)?.record)
                .await?;
            unused(name, &users, "a volume shrinks once no host is connected")
                .map_err(|error| error.at("size".to_owned()))?;
        }
        self.check_growth(&objects, asker, name, bytes)
            .await
            .map_err(|error| error.at("size".to_owned()))?;
        let resized = self
            .node
            .resize_pool_volume(pool.as_str(), id, bytes, to.allow_shrink);
        if let Err(error) = resized.await {
            let more = bytes.saturating_sub(before);
            let refusal = self.refused_by_pool(&pool, &error, Some(more)).await;
            return Err(refusal.at("size".to_owned()));
        }
        self.size_changed(&mut objects, name).await?;
        self.tell_volume(name, &format!("resized to {}", to.size));
        self.volume_now(&objects, name).await
    }

    /// Refuses to make a volume larger than the asker was granted.
    async fn check_growth(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        name: &Name,
        bytes: u64,
    ) -> Result<(), ErrorBody> {
        let entry = objects.volumes.get(name);
        let record = &entry.ok_or_else(|| not_found("volume", name))?.record;
        let more = GrantUse {
            bytes: bytes.saturating_sub(record.capacity_bytes),
            ..GrantUse::default()
        };
        match record.place.pool() {
            Some(pool) if more.bytes > 0 => self.check_grant(objects, asker, pool, more).await,
            _ => Ok(()),
        }
    }

    /// Whether a volume would be smaller, which has to be allowed: what is cut off may be all there
    /// is of it. Tenants shrink nothing.
    fn check_shrink(
        &self,
        objects: &Objects,
        asker: Asker<'_>,
        name: &Name,
        bytes: u64,
        allowed: bool,
    ) -> Result<bool, ErrorBody> {
        let before = identified(objects, name)?.record.capacity_bytes;
        if bytes >= before {
            return Ok(false);
        }
        let (before, after) = (Size(before), Size(bytes));
        if asker.is_some() {
            let message = format!(
                "volume {name} has {before}, and {after} is less; allowed for this token: a larger \
                 size"
            );
            return Err(ErrorBody::new(ErrorCode::Forbidden, message).at("size".to_owned()));
        }
        if !allowed {
            let message = format!(
                "volume {name} has {before}, and {after} is less: what is behind it would be lost; \
                 allowed: a larger size, or --allow-shrink"
            );
            return Err(ErrorBody::invalid("size", message));
        }
        Ok(true)
    }

    /// The hosts that see a volume and are connected to its subsystem.
    async fn users(
        &self,
        objects: &Objects,
        volume: &VolumeRecord,
    ) -> Result<BTreeSet<String>, ErrorBody> {
        let sees = |host: &str| {
            let mut hosts = volume.hosts.iter();
            hosts.any(|name| {
                let known = objects.hosts.get(name);
                name.as_str() == ANY_HOST || known.is_some_and(|known| known.nqn == host)
            })
        };
        let sessions = self.node.sessions().await;
        let sessions = sessions.map_err(|error| refused(&error))?.into_iter();
        let users = sessions
            .filter(|session| session.subsystem_nqn == volume.nqn && sees(&session.host_nqn));
        Ok(users.map(|session| session.host_nqn).collect())
    }

    /// Refuses to take a volume from hosts that are connected.
    pub(in crate::control) async fn check_unused(
        &self,
        objects: &Objects,
        name: &Name,
        volume: &VolumeRecord,
    ) -> Result<(), ErrorBody> {
        let users = self.users(objects, volume).await?;
        let advice = "they would lose their disk; allowed: once no host is connected, or with \
                      --force";
        unused(name, &users, advice)
    }

    /// Keeps space for all of a volume of a pool from now on, or no longer; hosts do not notice.
    pub async fn reserve_volume(
        &self,
        name: &Name,
        to: VolumeReserve,
    ) -> Result<Volume, ErrorBody> {
        let objects = self.objects.change().await;
        let (pool, id) = changeable(&objects, name)?;
        let before = self.volume_now(&objects, name).await?.reserved;
        if before != to.reserved {
            let reserved = self
                .node
                .reserve_pool_volume(pool.as_str(), id, to.reserved);
            if let Err(error) = reserved.await {
                return Err(self.refused_by_pool(&pool, &error, None).await);
            }
            let message = match to.reserved {
                true => "space for all of it is kept from now on",
                false => "no space is kept for it any more",
            };
            self.tell_volume(name, message);
        }
        self.volume_now(&objects, name).await
    }

    /// Gives a volume of a pool another name; hosts do not notice.
    pub async fn rename_volume(&self, name: &Name, to: VolumeRename) -> Result<Volume, ErrorBody> {
        let mut objects = self.objects.change().await;
        let (pool, id) = changeable(&objects, name)?;
        if to.name == *name {
            return self.volume_now(&objects, name).await;
        }
        if objects.volumes.contains_key(&to.name) {
            let message = format!("a volume named {} exists", to.name);
            return Err(ErrorBody::new(ErrorCode::AlreadyExists, message));
        }
        let renamed = self
            .node
            .rename_pool_volume(pool.as_str(), id, to.name.as_str());
        renamed.await.map_err(|error| refused(&error))?;
        let renamed = self.node.rename_volume(name.as_str(), to.name.as_str());
        renamed.await.map_err(|error| refused(&error))?;
        if let Some(entry) = objects.volumes.remove(name) {
            objects.volumes.insert(to.name.clone(), entry);
        }
        self.tell_volume(&to.name, &format!("renamed, was {name}"));
        self.volume_now(&objects, &to.name).await
    }

    /// Makes a volume of a pool what a snapshot is.
    pub async fn rollback_volume(
        &self,
        asker: Asker<'_>,
        name: &Name,
        to: VolumeRollback,
    ) -> Result<Volume, ErrorBody> {
        let mut objects = self.objects.change().await;
        let (pool, id) = changeable(&objects, name)?;
        replicas::check_is(&objects, name, to.replica_of)?;
        self.check_unprotected(&objects, name).await?;
        let snapshot = self.snapshot_in(&objects, asker, &to.snapshot, Some(&pool));
        let (found_in, info) = snapshot.await?;
        if found_in != pool {
            let message = format!(
                "snapshot {} is in pool {found_in} and volume {name} in {pool}",
                to.snapshot
            );
            return Err(ErrorBody::invalid("snapshot", message));
        }
        let at = |error: ErrorBody| error.at("snapshot".to_owned());
        // A clone goes back to what it began as.
        let began = self.volume_now(&objects, name).await?.origin;
        if began.as_deref() != Some(info.name.as_str()) && !self.of_clone(&pool, id, &info).await? {
            check_own(&objects, name, (&pool, id), &info).map_err(at)?;
        }
        let shrinks = self
            .check_shrink(&objects, asker, name, info.bytes, to.allow_shrink)
            .map_err(at)?;
        let users = self
            .users(&objects, &identified(&objects, name)?.record)
            .await?;
        if shrinks {
            unused(name, &users, "a volume shrinks once no host is connected").map_err(at)?;
        } else if !to.force {
            let advice = "its data would change under them; allowed: once no host is connected, \
                          or with --force";
            unused(name, &users, advice).map_err(at)?;
        }
        self.check_growth(&objects, asker, name, info.bytes).await?;
        let rolled = self
            .node
            .rollback_pool_volume(pool.as_str(), id, info.id)
            .await;
        rolled.map_err(|error| refused(&error))?;
        self.size_changed(&mut objects, name).await?;
        let message = match users.len() {
            0 => format!("rolled back to snapshot {}", to.snapshot),
            _ => format!(
                "rolled back to snapshot {} under connected hosts",
                to.snapshot
            ),
        };
        self.tell_volume(name, &message);
        self.volume_now(&objects, name).await
    }

    /// Whether a snapshot is of a volume that began as a snapshot of this one: it became something
    /// else aside, and this one becomes that.
    async fn of_clone(
        &self,
        pool: &Name,
        id: VolumeId,
        info: &SnapshotInfo,
    ) -> Result<bool, ErrorBody> {
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (volumes, snapshots) = contents.map_err(|error| refused(&error))?;
        let clone = volumes.iter().find(|volume| volume.id == info.volume);
        let began = clone.and_then(|clone| clone.origin);
        let of_this = |snapshot: &SnapshotInfo| Some(snapshot.id) == began && snapshot.volume == id;
        Ok(snapshots.iter().any(of_this))
    }

    /// Deletes a volume of a pool that is not served any more.
    pub(in crate::control) async fn delete_in_pool(
        &self,
        objects: &Objects,
        name: &Name,
        record: &VolumeRecord,
    ) -> Result<(), ErrorBody> {
        let Place::Pool { name: pool, volume } = &record.place else {
            return Ok(());
        };
        let id = VolumeId(*volume);
        let deleted = self.node.delete_pool_volume(pool.as_str(), id).await;
        if let Err(error) = deleted {
            // It is still there: hosts get it back.
            let _ = self.restore_volume(objects, name, record).await;
            self.enforce_restored(objects).await;
            return Err(refused(&error));
        }
        Ok(())
    }

    async fn size_changed(&self, objects: &mut Objects, name: &Name) -> Result<(), ErrorBody> {
        let resized = self.node.volume_resized(name.as_str()).await;
        let bytes = resized.map_err(|error| refused(&error))?;
        if let Some(entry) = objects.volumes.get_mut(name) {
            entry.record.capacity_bytes = bytes;
        }
        self.enforce(objects).await
    }

    pub(in crate::control) async fn volume_now(
        &self,
        objects: &Objects,
        name: &Name,
    ) -> Result<Volume, ErrorBody> {
        let entry = objects.volumes.get(name);
        let entry = entry.ok_or_else(|| not_found("volume", name))?;
        Ok(self.shown_volume(name, entry).await)
    }

    pub(in crate::control) fn tell_volume(&self, name: &Name, message: &str) {
        self.events
            .record(Severity::Info, &format!("volume/{name}"), message);
    }
}

/// Refuses a volume that would not hold all of the snapshot that it is to begin as.
fn check_room_for(info: &SnapshotInfo, size: Option<Size>) -> Result<(), ErrorBody> {
    match size.filter(|size| size.bytes() < info.bytes) {
        None => Ok(()),
        Some(size) => {
            let message = format!(
                "snapshot {} has {}, and {size} is less; allowed: its size or a larger one",
                info.name,
                Size(info.bytes)
            );
            Err(ErrorBody::invalid("size", message))
        }
    }
}

/// Refuses a snapshot of another volume: what it holds is that one's data.
fn check_own(
    objects: &Objects,
    name: &Name,
    (pool, id): (&Name, VolumeId),
    info: &SnapshotInfo,
) -> Result<(), ErrorBody> {
    if info.volume == id {
        return Ok(());
    }
    let whose = match volume_of(objects, pool, info) {
        Some((other, _)) => format!("volume {other}"),
        None => "a volume that has been deleted".to_owned(),
    };
    let message = format!(
        "snapshot {} is of {whose}, not of {name}; make a volume of it with volume clone",
        info.name
    );
    Err(ErrorBody::new(ErrorCode::InvalidArgument, message))
}

/// Refuses what hosts would notice that are connected: what they have cached, or may be writing, is
/// of what the volume is now.
fn unused(name: &Name, users: &BTreeSet<String>, advice: &str) -> Result<(), ErrorBody> {
    if users.is_empty() {
        return Ok(());
    }
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let message = format!(
        "volume {name} is connected to {}: {advice}",
        users.join(", ")
    );
    Err(ErrorBody::new(ErrorCode::InUse, message))
}
