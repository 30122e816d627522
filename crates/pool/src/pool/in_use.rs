//! How many blocks a volume has in use, for those who ask often and wait for nothing.
//!
//! What stands alone is in the tables. What shares layers with others is counted by a walk through
//! its maps, one at a time on each core, in the background and only when somebody asks.

use crate::ids::LayerId;
use crate::shard::core::Core;
use crate::shard::in_use::Counted;
use crate::shard::messages::Report;
use crate::volumes::Holder;
use block::BlockDevice;
use std::rc::Rc;

/// After a walk nobody walks for so many times as long as it took.
const REST: u32 = 9;

impl<D: BlockDevice + 'static> Core<D> {
    /// Blocks that a volume or snapshot has in use which begins with `layer`, as of the last
    /// checkpoint, as far as they were counted.
    pub(super) fn used_blocks(self: &Rc<Self>, name: Holder, layer: LayerId) -> u64 {
        let (version, own, shares) = {
            let state = self.state.borrow();
            let tables = &state.tables;
            let shares = tables.parent(layer).is_some();
            (state.tables.version(), tables.own_blocks(layer), shares)
        };
        self.ask_for_merge(version);
        if !shares {
            return own;
        }
        let (counted, starts) = self.in_use.look_up(name, version);
        if starts {
            drop(reactor::spawn(self.clone().count_wanted()));
        }
        match counted {
            Some(counted) => counted.by_now((layer, own)),
            None => self.blocks_at_most(layer),
        }
    }

    /// The next merge comes soon.
    fn ask_for_merge(&self, version: u64) {
        match self.coordinator() {
            Some(coordinator) => coordinator.idle_merge.ask(),
            // A merge makes other tables: between two of them one question is enough.
            None if self.in_use.asks_first(version) => self.report(Report::Asked),
            None => {}
        }
    }

    /// What the layers hold that are read from `layer` on: blocks that are in several count for
    /// each.
    fn blocks_at_most(&self, layer: LayerId) -> u64 {
        let state = self.state.borrow();
        let tables = &state.tables;
        let layers = std::iter::successors(Some(layer), |at| tables.parent(*at));
        layers.map(|layer| tables.own_blocks(layer)).sum()
    }

    /// Counts one after the other, for a tenth of the time at most.
    async fn count_wanted(self: Rc<Self>) {
        while let Some(name) = self.in_use.next() {
            if self.stopping.get() || self.offline.get().is_some() {
                break;
            }
            let begun = reactor::now();
            let (version, top) = {
                let state = self.state.borrow();
                let layer = state.tables.layer_of(name);
                let top = layer.map(|layer| (layer, state.tables.own_blocks(layer)));
                (state.tables.version(), top)
            };
            // What cannot be read now is counted when somebody asks again.
            if let (Some(top), Ok(blocks)) = (top, self.count_one(name).await) {
                let counted = Counted {
                    version,
                    top,
                    blocks,
                };
                self.in_use.note(name, counted, &self.state.borrow().tables);
            }
            reactor::sleep((reactor::now() - begun) * REST).await;
        }
        self.in_use.give_up();
    }
}
