//! Whether the pool may refuse for want of space: only if all that it may hold by the model, and
//! what was asked for, comes to more than half of what it says it can hold. These pools have some
//! thirty segments, so what is open, half empty or kept for the cleaner is a large part of them.

use super::{BLOCK, Served, World};

/// How full the pool may be, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// What it may hold or have promised, at most.
    held: u64,
    /// What it can hold on the drives that it has.
    usable: u64,
}

impl Fill {
    /// False if there certainly was room for `blocks` more.
    fn may_refuse(self, blocks: u64) -> bool {
        2 * (self.held + blocks) > self.usable
    }
}

/// Space that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub blocks: u64,
    /// How full the pool was when it was asked.
    before: Fill,
}

impl World {
    /// How full the pool may be now.
    fn fill(&self, pool: &Served) -> Fill {
        let model = self.model.borrow();
        let images = model.volumes.values().chain(model.snapshots.values());
        let written: u64 = images.map(|image| image.blocks_written_at_most()).sum();
        let volumes = pool.volumes();
        let promised = volumes.iter().filter(|volume| volume.reserved);
        let promised: u64 = promised.map(|volume| volume.bytes).sum();
        Fill {
            held: written + promised / BLOCK as u64 + self.unnamed.get(),
            usable: pool.status().usable_bytes / BLOCK as u64,
        }
    }

    /// Room for so many blocks is about to be asked for.
    pub(super) fn asked(&self, pool: &Served, blocks: u64) -> Asked {
        let before = self.fill(pool);
        Asked { blocks, before }
    }

    /// Checks a refusal.
    pub(super) fn check_refusal(&self, pool: &Served, asked: Asked) -> Result<(), String> {
        let Asked { blocks, before } = asked;
        let now = self.fill(pool);
        match before.may_refuse(blocks) || now.may_refuse(blocks) {
            true => Ok(()),
            false => Err(format!(
                "{blocks} blocks were refused although there was room: {before:?}, {now:?}: {}",
                pool.describe()
            )),
        }
    }
}
