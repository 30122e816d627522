//! Identities of snapshots: a copy that was received has that of its original.

use api::{ErrorBody, Name};
use node::SnapshotInfo;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

use crate::control::tenants::grants::volume_of;
use crate::control::volumes::identified;
use crate::control::words::refused;
use crate::control::{Control, Objects};
use crate::state::{CopyRecord, VolumeRecord};

/// Copies that are remembered of a volume, the newest: attributes have little room. A difference
/// builds on the last one, or on one that was kept from before.
const COPIES_MAX: usize = 8;

/// A snapshot's identity: that of its original where it is a copy, and otherwise its own, which
/// follows from where it is. A pool gives no number twice.
pub(in crate::control) fn identity(objects: &Objects, pool: &Name, info: &SnapshotInfo) -> Uuid {
    let volume = volume_of(objects, pool, info);
    let copies = volume.map_or(&[][..], |(_, entry)| &entry.record.copies);
    let copy = copies.iter().find(|copy| copy.0 == info.id.0);
    copy.map_or_else(|| own(objects, pool, info), |copy| copy.1)
}

fn own(objects: &Objects, pool: &Name, info: &SnapshotInfo) -> Uuid {
    let pool = objects.pools.get(pool);
    let pool = pool.map_or("", |entry| &entry.record.id);
    let digest = Sha256::new()
        .chain_update(b"flashyard snapshot\0")
        .chain_update(pool)
        .chain_update(info.id.0.to_le_bytes())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

impl Control {
    /// Remembers that a snapshot of a volume is a copy of the one with this identity.
    pub(in crate::control) async fn note_copy(
        &self,
        objects: &mut Objects,
        volume: &Name,
        snapshot: &SnapshotInfo,
        original: Uuid,
    ) -> Result<(), ErrorBody> {
        let record = identified(objects, volume)?.record.clone();
        let Some(pool) = record.place.pool() else {
            return Ok(());
        };
        let contents = self.node.pool_contents(pool.as_str()).await;
        let (_, there) = contents.map_err(|error| refused(&error))?;
        let mut copies = record.copies.clone();
        copies.retain(|copy| there.iter().any(|info| info.id.0 == copy.0));
        copies.push(CopyRecord(snapshot.id.0, original));
        copies.drain(..copies.len().saturating_sub(COPIES_MAX));
        let record = VolumeRecord { copies, ..record };
        self.remember_volumes(objects, vec![(volume.clone(), record.clone())])
            .await?;
        if let Some(entry) = objects.volumes.get_mut(volume) {
            entry.record = record;
        }
        Ok(())
    }
}
