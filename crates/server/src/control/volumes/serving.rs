//! Serving volumes that there are already: at the start, and when what they stand on comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{ErrorBody, Name, Severity};
use node::{AllowedHosts, Backing, NodeError, Rules, VolumeId};

use crate::control::volumes::kept;
use crate::control::volumes::{allowed_hosts, drive_online};
use crate::control::words::{parsed, refused};
use crate::control::{Control, Objects, VolumeEntry};
use crate::rules;
use crate::state::{Place, VolumeRecord};

impl Control {
    /// Serves every remembered volume; one without its drive is served as not ready, so that
    /// hosts keep their sessions and retry.
    pub(in crate::control) async fn restore_volumes(&self, volumes: BTreeMap<Name, VolumeRecord>) {
        let mut objects = self.objects.change().await;
        for (name, record) in volumes {
            let offline = self.restore_volume(&objects, &name, &record).await.err();
            if let Some(reason) = &offline {
                let message = format!("offline: {reason}");
                self.events
                    .record(Severity::Error, &format!("volume/{name}"), &message);
            }
            objects
                .volumes
                .insert(name, VolumeEntry::new(record, offline));
        }
        self.enforce_restored(&objects).await;
    }

    /// Serves one remembered volume; the error says why it is not online, served or not.
    pub(in crate::control) async fn restore_volume(
        &self,
        objects: &Objects,
        name: &Name,
        record: &VolumeRecord,
    ) -> Result<(), String> {
        let allowed =
            allowed_hosts(objects, &record.hosts).map_err(|error| error.message.clone())?;
        let (online, backing) = match &record.place {
            Place::Drive(drive) => (
                drive_online(objects, drive),
                Backing::Drive(drive.to_string()),
            ),
            Place::Pool { name, volume } => {
                let backing = Backing::Pool {
                    pool: name.to_string(),
                    volume: VolumeId(*volume),
                };
                (pool_open(objects, name), backing)
            }
        };
        let backing = match online {
            Ok(()) => backing,
            Err(_) => Backing::Offline {
                capacity_bytes: record.capacity_bytes,
            },
        };
        let known = match &online {
            Err(_) if record.place.pool().is_some() => None,
            _ => Some(self.kept_rules(record).await?),
        };
        let served = node_volume(objects, name, record, backing, allowed);
        let served = served.map_err(|error| error.message)?;
        let served = node::VolumeSpec {
            rules: known,
            ..served
        };
        self.node
            .create_volume(served)
            .await
            .map_err(|error| error.to_string())?;
        self.quality.forget(record.uuid);
        online
    }

    /// The rules of a volume from before, where what holds it is there: a pool that is not
    /// open says nothing of them.
    pub(in crate::control) async fn kept_rules(
        &self,
        record: &VolumeRecord,
    ) -> Result<Arc<Rules>, String> {
        let (nqn, nsid) = (record.nqn.clone(), record.nsid);
        let on_node = self.read_state(move |state| rules::kept(state, &nqn, nsid));
        let on_node = on_node.await?;
        let Place::Pool { name, volume } = &record.place else {
            return Ok(on_node.unwrap_or_default());
        };
        let (pool, id) = (name.as_str(), VolumeId(*volume));
        let kept = self.node.pool_volume_attributes(pool, id).await;
        let kept = kept.map_err(|error| error.to_string())?;
        let in_pool = kept::rules(&kept).map_err(|unread| unread.to_string())?;
        let Some(from_earlier) = on_node else {
            return Ok(in_pool.map(Arc::new).unwrap_or_default());
        };
        // An earlier version kept those of pools' volumes on the node too.
        let known = match in_pool {
            Some(in_pool) => Arc::new(in_pool),
            None => {
                let moved = Arc::clone(&from_earlier);
                let change = move |kept: &[u8]| kept::with_rules(kept, Some(&moved));
                let written = self.node.change_pool_volume_attributes(pool, id, change);
                let written = written.await.map_err(|error| error.to_string())?;
                written.map_err(|unkept| unkept.to_string())?;
                from_earlier
            }
        };
        let (nqn, nsid) = (record.nqn.clone(), record.nsid);
        let forgotten = self.with_state(move |state| rules::forget(state, &nqn, nsid));
        forgotten.await.map_err(|error| error.message)?;
        Ok(known)
    }

    /// Puts the volume of a drive that came back on it again.
    pub(in crate::control) async fn reconnect_volumes(&self, objects: &mut Objects, drive: &Name) {
        let members = objects.volumes.iter_mut();
        let on = |volume: &VolumeEntry| volume.record.place.drive() == Some(drive);
        for (name, entry) in members.filter(|(_, volume)| on(volume)) {
            let backing = Backing::Drive(drive.to_string());
            let object = format!("volume/{name}");
            match self.node.set_backing(name.as_str(), backing, None).await {
                Ok(_) => {
                    entry.offline = None;
                    self.events.record(Severity::Info, &object, "online again");
                }
                Err(error) => {
                    let message = format!("still offline: {error}");
                    self.events.record(Severity::Error, &object, &message);
                    entry.offline = Some(error.to_string());
                }
            }
        }
    }

    /// Stops serving a volume; one that is not served need not be stopped.
    pub(in crate::control) async fn stop_serving(&self, name: &Name) -> Result<(), ErrorBody> {
        match self.node.delete_volume(name.as_str()).await {
            Ok(()) | Err(NodeError::UnknownVolume(_)) => Ok(()),
            Err(error) => Err(refused(&error)),
        }
    }
}

fn pool_open(objects: &Objects, pool: &Name) -> Result<(), String> {
    let offline = objects.pools.get(pool).map(|entry| &entry.offline);
    match offline {
        Some(Some(reason)) => Err(format!("pool {pool} is offline: {reason}")),
        _ => Ok(()),
    }
}

/// As the data path takes a volume that nobody has used yet.
pub(in crate::control) fn node_volume(
    objects: &Objects,
    name: &Name,
    record: &VolumeRecord,
    backing: Backing,
    allowed: AllowedHosts,
) -> Result<node::VolumeSpec, ErrorBody> {
    Ok(node::VolumeSpec {
        name: name.to_string(),
        backing,
        block_bytes: record.block_bytes.bytes(),
        subsystem: parsed(&record.nqn)?,
        nsid: record.nsid,
        uuid: record.uuid,
        group: objects.group_of(record),
        allowed,
        tenant: record.tenant.as_ref().map(|tenant| tenant.as_str().into()),
        rules: Some(Arc::default()),
    })
}
