//! What the pool says of its snapshots' blocks, beside what these read as.

use super::{BLOCK, World};
use crate::model::Stamp;
use crate::world::Served;
use pool::SnapshotId;

/// What a pool says of each block: nothing, that it holds something, or zeroes.
type Told = Vec<Option<bool>>;

impl World {
    /// Every block that a snapshot holds is told of; and every one that differs from another
    /// snapshot, with what it is now. All has been compared before: each block has one value.
    pub(super) async fn check_extents(&self, pool: &Served) -> Result<(), String> {
        let ids: Vec<u32> = self.model.borrow().snapshots.keys().copied().collect();
        for (turn, id) in (1_usize..).zip(ids.iter().copied()) {
            let now = self.stamps(id);
            let told = self.extents(pool, id, None, (now.len(), turn)).await?;
            for (block, (told, stamp)) in told.iter().zip(&now).enumerate() {
                if told.is_some() != (*stamp != 0) {
                    return Err(format!(
                        "{id}: block {block} is {stamp}, and told: {told:?}"
                    ));
                }
            }
            // Older and newer ones, and those of other volumes.
            for other in ids.iter().copied().filter(|other| *other != id) {
                let before = self.stamps(other);
                let shape = (now.len(), 2 * turn);
                let told = self.extents(pool, id, Some(other), shape).await?;
                for (block, (told, stamp)) in told.iter().zip(&now).enumerate() {
                    let former = before.get(block).copied().unwrap_or(0);
                    let right = match told {
                        None => former == *stamp,
                        Some(zeroes) => !zeroes || *stamp == 0,
                    };
                    if !right {
                        let what = format!("block {block} was {former} and is {stamp}");
                        return Err(format!("{other} to {id}: {what}, and told: {told:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// What each block of a snapshot reads as.
    fn stamps(&self, id: u32) -> Vec<Stamp> {
        let model = self.model.borrow();
        let Some(image) = model.snapshots.get(&id) else {
            return Vec::new();
        };
        let stamp = |block| image.allowed(block).first().copied().unwrap_or(0);
        (0..image.size).map(stamp).collect()
    }

    /// All extents of a snapshot, so many at a time.
    async fn extents(
        &self,
        pool: &Served,
        id: u32,
        since: Option<u32>,
        (blocks, limit): (usize, usize),
    ) -> Result<Told, String> {
        let mut told = vec![None; blocks];
        let mut from = Some(0);
        while let Some(at) = from {
            let since = since.map(SnapshotId);
            let some = self.at_last(|| pool.extents(SnapshotId(id), since, at, limit));
            let some = some.await.map_err(|error| format!("extents: {error}"))?;
            if some.extents.len() > limit || some.next.is_some_and(|next| next <= at) {
                return Err(format!("from {at}, at most {limit}: {some:?}"));
            }
            for extent in &some.extents {
                let start = (extent.start / BLOCK as u64) as usize;
                let end = start + (extent.bytes / BLOCK as u64) as usize;
                let Some(run) = told.get_mut(start..end) else {
                    return Err(format!("{id}: {extent:?} is beyond {blocks} blocks"));
                };
                if run.iter().any(Option::is_some) || extent.start < at {
                    return Err(format!("{id}: {extent:?} comes again"));
                }
                run.fill(Some(extent.zeroes));
            }
            from = some.next;
        }
        Ok(told)
    }
}
