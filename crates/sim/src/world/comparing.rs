//! What a pool holds, compared with the model, with nothing in flight that anybody waits for.

use super::{BLOCK, Device, Model, Served, World};
use crate::model::{self, Image};
use block::{BlockDevice, Lba};
use pool::{SnapshotId, VolumeId};
use std::collections::BTreeMap;

impl World {
    /// Compares every block of everything, with nothing in flight.
    pub(super) async fn compare(&self, pool: &Served) -> Result<(), String> {
        let volumes: Vec<u32> = self.model.borrow().volumes.keys().copied().collect();
        for id in volumes {
            let device = pool
                .volume(VolumeId(id))
                .map_err(|error| format!("{id}: {error}"))?;
            self.compare_image(&device, |model| model.volumes.get_mut(&id), id)
                .await?;
        }
        let snapshots: Vec<u32> = self.model.borrow().snapshots.keys().copied().collect();
        for id in snapshots {
            let device = pool.snapshot_device(SnapshotId(id));
            let device = device.map_err(|error| format!("snapshot {id}: {error}"))?;
            self.compare_image(&device, |model| model.snapshots.get_mut(&id), id)
                .await?;
        }
        if self.options.extents {
            self.check_extents(pool).await?;
        }
        if self.extra.once_in(4) {
            self.check_accounts(pool).await?;
        }
        Ok(())
    }

    /// Every block in use is somebody's, and every volume has what it reads as.
    async fn check_accounts(&self, pool: &Served) -> Result<(), String> {
        let before = pool.status().used_bytes;
        let accounts = self.at_last(|| pool.accounting()).await;
        let accounts = accounts.map_err(|error| format!("accounts: {error}"))?;
        // A layer without a name may be freed while maps are read for the accounts.
        let used = before.max(pool.status().used_bytes);
        // What several share is nobody's when each of them has overwritten it.
        let users = accounts.volumes.values().chain(accounts.snapshots.values());
        let shared: u64 = users.map(|used| used.shared_bytes).sum();
        self.unnamed
            .set((accounts.unnamed_bytes + shared) / BLOCK as u64);
        // What the cleaner moves meanwhile counts twice until the next checkpoint.
        if accounts.total_bytes > used {
            return Err(format!("{used} bytes in use, but {accounts:?}"));
        }
        let model = self.model.borrow();
        let volumes = model.volumes.iter();
        let volumes = volumes.map(|(id, image)| (accounts.volumes.get(&VolumeId(*id)), image));
        let snapshots = model.snapshots.iter();
        let snapshots =
            snapshots.map(|(id, image)| (accounts.snapshots.get(&SnapshotId(*id)), image));
        for (found, image) in volumes.chain(snapshots) {
            // What nobody waits for any more may have come, or come yet.
            let expected = image.blocks_written()..=image.blocks_written_at_most();
            let blocks = found.map(|found| found.logical_bytes / BLOCK as u64);
            if blocks.is_none_or(|blocks| !expected.contains(&blocks)) {
                return Err(format!("{expected:?} blocks are written, but {found:?}"));
            }
        }
        Ok(())
    }

    async fn compare_image(
        &self,
        device: &Device,
        image: impl Fn(&mut Model) -> Option<&mut Image>,
        id: u32,
    ) -> Result<(), String> {
        let size = device.geometry().block_count;
        let expected = image(&mut self.model.borrow_mut()).map_or(0, |image| image.size);
        if size != expected {
            return Err(format!("{id} has {size} blocks, not {expected}"));
        }
        let mut now = BTreeMap::new();
        let mut at = 0;
        while at < size {
            let blocks = (size - at).min(16);
            let (buffer, result) = self.read_in_time(device, Lba(at), blocks).await;
            self.still_holds()?;
            result.map_err(|error| format!("{id}: blocks {at}+{blocks} do not read: {error}"))?;
            let mut model = self.model.borrow_mut();
            let Some(image) = image(&mut model) else {
                return Ok(());
            };
            for (block, content) in (at..).zip(buffer.chunks(BLOCK)) {
                let allowed = image.allowed(block);
                let Some(stamp) = model::stamp_of(content) else {
                    return Err(format!("{id}: block {block} is a mixture"));
                };
                if !allowed.contains(&stamp) {
                    return Err(format!(
                        "{id}: block {block} reads {stamp}, not {allowed:?}"
                    ));
                }
                now.insert(block, stamp);
                image.pin(block, stamp);
            }
            at += blocks;
        }
        let mut model = self.model.borrow_mut();
        if let Some(image) = image(&mut model) {
            if let Some(write) = image.torn(&now) {
                return Err(format!(
                    "{id}: write {:?} is torn",
                    image.writes.get(&write)
                ));
            }
            image.crash();
        }
        Ok(())
    }
}
