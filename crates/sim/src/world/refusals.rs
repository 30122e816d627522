//! Whether the pool may refuse for want of space.
//!
//! A write: only if all that the pool may hold by the model, and what was asked for, comes to more
//! than it says it can hold, what is just being written counting twice; several shards may, between
//! them, have taken an eighth of it for what is overwritten. A promise, that it will hold a volume:
//! only if it comes to more than half, for what was overwritten since the last merge may count
//! twice as well. To let a drive go: only if too few would be left, or if a quarter of what they
//! can hold might not be enough. That depends on how wide segments are, and on the sizes of
//! drives. Every shard keeps as many segments open as before. These pools have some thirty
//! segments, so what is open, half empty or kept for the cleaner is much of a smaller one.
//!
//! Zones that a former holder of the pool may still write to are no space for a while, and where
//! hosts take the pool from one another a drive may be kept for any reason.
//!
//! Each shard keeps segments open. A pool that is served with more shards than before, and that is
//! too full for them, may break its promises.

use super::{BLOCK, Served, World, ZONE_BLOCKS};
use crate::model::Image;
use pool::Level;
use std::cell::Cell;
use std::collections::BTreeSet;

/// How many shards have served the pool.
#[derive(Debug, Default)]
pub(super) struct Dealt {
    /// The fewest of any life.
    fewest: Cell<usize>,
    /// Those of this life are more, and the pool is too full for them.
    too_many: Cell<bool>,
}

/// How full the pool may be, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// What it may hold or have promised, at most.
    held: u64,
    /// How much of that is being written: parts of it may count twice until it is answered.
    under_way: u64,
    /// What it can hold on the drives that it has, but for what is left to a former holder.
    usable: u64,
    shards: usize,
}

/// What space is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Promise,
}

impl Fill {
    /// False if there certainly was room for `blocks` more.
    fn may_refuse(self, blocks: u64, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Write => {
                let taken = if self.shards > 1 { self.usable / 8 } else { 0 };
                self.held + self.under_way + blocks + taken > self.usable
            }
            Purpose::Promise => 2 * (self.held + blocks) > self.usable,
        }
    }

    /// False if one of `drives` that work could certainly go, and a pool that survives the loss
    /// of `lost_max` would go on. So much that it can hold is `gone` with the drive, at most. One
    /// that can hold nothing then has no drive to spare, empty as it may be.
    fn may_keep(self, drives: usize, lost_max: usize, gone: u64) -> bool {
        let usable = self.usable.saturating_sub(gone);
        drives <= lost_max + 1 || 4 * self.held >= usable
    }
}

/// Space that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub blocks: u64,
    purpose: Purpose,
    /// When it was asked for, and how full the pool was then.
    pub at: u64,
    before: Fill,
}

/// So many blocks of data segments hold, over drives of some sizes, if they are `width` wide or as
/// wide as there are drives. Of two columns of a segment each has a drive of its own.
fn holds(level: Level, width: usize, sizes: &[u64]) -> u64 {
    let width = width.min(sizes.len()) as u64;
    let (width, data) = match level {
        Level::Raid0 => (width, width),
        Level::Raid1 => (width, 1),
        Level::Raid5 => (width, width.saturating_sub(1)),
        Level::Raid6 => (width, width.saturating_sub(2)),
        Level::Raid10 => (width & !1, width / 2),
    };
    let fits = |rows: &u64| sizes.iter().map(|size| size.min(rows)).sum::<u64>() >= width * rows;
    let most = sizes.iter().sum::<u64>() / width.max(1);
    data * (0..=most).rev().find(fits).unwrap_or(0)
}

impl World {
    /// How full the pool may be now.
    fn fill(&self, pool: &Served) -> Fill {
        let model = self.model.borrow();
        let images = model.volumes.values().chain(model.snapshots.values());
        let written: u64 = images.map(|image| image.blocks_written_at_most()).sum();
        let under_way = model.volumes.values().map(Image::blocks_under_way).sum();
        let (volumes, status) = (pool.volumes(), pool.status());
        let promised = volumes.iter().filter(|volume| volume.reserved);
        let promised: u64 = promised.map(|volume| volume.bytes).sum();
        Fill {
            held: written + promised / BLOCK as u64 + self.unnamed.get(),
            under_way,
            usable: status.usable_bytes.saturating_sub(status.quarantined_bytes) / BLOCK as u64,
            shards: pool.shards(),
        }
    }

    /// The pool was made, and is served with so many shards.
    pub(super) fn was_made(&self, pool: &Served) {
        self.dealt.fewest.set(pool.shards());
        self.dealt.too_many.set(false);
    }

    /// The pool was opened.
    pub(super) fn was_opened(&self, pool: &Served) {
        let (shards, status) = (pool.shards(), pool.status());
        let fewest = self.dealt.fewest.get().min(shards);
        let is_too_full = status.used_bytes + status.reserved_bytes > status.usable_bytes;
        self.dealt.fewest.set(fewest);
        self.dealt.too_many.set(shards > fewest && is_too_full);
    }

    /// Space that is kept is there as long as no drive is lost, and shards are not too many.
    pub(super) fn may_be_refused(&self, reserving: &BTreeSet<u32>, id: u32) -> bool {
        !reserving.contains(&id) || self.options.bad_drives || self.dealt.too_many.get()
    }

    /// Room for so many blocks is about to be asked for.
    pub(super) fn asked(&self, pool: &Served, blocks: u64, purpose: Purpose) -> Asked {
        Asked {
            blocks,
            purpose,
            at: self.now.get(),
            before: self.fill(pool),
        }
    }

    /// What there is is about to become less.
    pub(super) fn was_fuller(&self, pool: &Served) {
        let fill = self.fill(pool);
        self.fuller.borrow_mut().push((self.now.get(), fill));
    }

    /// Checks a refusal.
    pub(super) fn check_refusal(&self, pool: &Served, asked: Asked) -> Result<(), String> {
        let Asked {
            blocks,
            purpose,
            at,
            before,
        } = asked;
        let now = self.fill(pool);
        let fuller = self.fuller.borrow();
        let since = fuller.iter().rev().take_while(|(then, _)| *then >= at);
        let mut fills = since.map(|(_, fill)| *fill).chain([before, now]);
        match fills.any(|fill| fill.may_refuse(blocks, purpose)) {
            true => Ok(()),
            false => Err(format!(
                "{blocks} blocks were refused although there was room: {before:?}, {now:?}: {}",
                pool.describe()
            )),
        }
    }

    /// So many blocks fewer segments hold, at most, without the largest of drives of some sizes.
    /// That is more than it has, where they are nearly as wide as there are drives, which differ.
    fn goes_with_a_drive(&self, mut sizes: Vec<u64>) -> u64 {
        sizes.sort_unstable();
        let before = holds(self.level, self.width, &sizes);
        sizes.pop();
        let after = holds(self.level, self.width, &sizes);
        // There is no part of a segment, before or after.
        before.saturating_sub(after) + 2 * ZONE_BLOCKS * self.width as u64
    }

    /// Checks that one of `drives` that worked may not leave; `asked`, for no block, then.
    pub(super) fn check_stays(
        &self,
        pool: &Served,
        asked: Asked,
        drives: usize,
    ) -> Result<(), String> {
        let (now, status) = (self.fill(pool), pool.status());
        let active = status.drives.iter().filter(|drive| drive.active);
        let sizes: Vec<u64> = active.map(|drive| drive.bytes / BLOCK as u64).collect();
        let (left, gone) = (sizes.len(), self.goes_with_a_drive(sizes));
        let may = |drives| {
            let mut fills = [asked.before, now].into_iter();
            fills.any(|fill: Fill| fill.may_keep(drives, self.lost_max, gone))
        };
        match self.options.rivals || may(drives) || may(left) {
            true => Ok(()),
            false => Err(format!(
                "one of {drives} drives may not leave although there is room: {asked:?}, {now:?}: \
                 {}",
                pool.describe()
            )),
        }
    }
}
