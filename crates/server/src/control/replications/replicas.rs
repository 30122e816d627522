//! Replicas: volumes that another node writes. Hosts see one once it is promoted.

use api::{ErrorBody, ErrorCode, Name, Volume, VolumeSpec};
use uuid::Uuid;

use crate::control::volumes::identified;
use crate::control::words::in_use;
use crate::control::{Control, Objects};
use crate::state::VolumeRecord;

impl Control {
    /// Makes a replica a volume as any other: hosts may be allowed on it, and its original's node
    /// writes it no more. One that is none stays as it is.
    pub async fn promote_volume(&self, name: &Name) -> Result<Volume, ErrorBody> {
        let mut objects = self.objects.change().await;
        let before = identified(&objects, name)?.record.clone();
        if before.replica_of.is_some() {
            let record = VolumeRecord {
                replica_of: None,
                ..before
            };
            let changed = vec![(name.clone(), record.clone())];
            self.remember_volumes(&objects, changed).await?;
            if let Some(entry) = objects.volumes.get_mut(name) {
                entry.record = record;
            }
            // Who finds the volume while its pool is not open is in the pool's record.
            self.look_at_pools(&mut objects).await;
            self.tell_volume(name, "promoted: it is a replica no more");
        }
        self.volume_now(&objects, name).await
    }
}

/// Refuses hosts for a replica that is to be made, and one that takes a drive whole.
pub(in crate::control) fn check_spec(spec: &VolumeSpec) -> Result<(), ErrorBody> {
    let Some(original) = spec.replica_of else {
        return Ok(());
    };
    if original.is_nil() {
        let message = "an identity of zeroes; allowed: that of a volume";
        return Err(ErrorBody::invalid("replica_of", message));
    }
    if spec.drive.is_some() {
        let message = "a replica has snapshots, and a drive none; allowed: a pool";
        return Err(ErrorBody::invalid("drive", message));
    }
    if !spec.hosts.is_empty() {
        let message = "no host may see a replica; allowed: none until it is promoted";
        return Err(ErrorBody::invalid("hosts", message));
    }
    Ok(())
}

/// Refuses to let hosts see a replica.
pub(in crate::control) fn check_promoted(objects: &Objects, name: &Name) -> Result<(), ErrorBody> {
    match identified(objects, name)?.record.replica_of {
        None => Ok(()),
        Some(original) => Err(in_use(format!(
            "volume {name} is the replica of volume {original} of another node; allowed: once it \
             is promoted, as `flashyard volume promote {name}` does"
        ))),
    }
}

/// Refuses a change that is meant for a replica of this volume where it is none: it was promoted.
pub(in crate::control) fn check_is(
    objects: &Objects,
    name: &Name,
    original: Option<Uuid>,
) -> Result<(), ErrorBody> {
    let found = identified(objects, name)?.record.replica_of;
    match original {
        Some(original) if found != Some(original) => {
            let message = format!("volume {name} is no replica of volume {original}");
            Err(ErrorBody::new(ErrorCode::InUse, message).at("replica_of".to_owned()))
        }
        _ => Ok(()),
    }
}
