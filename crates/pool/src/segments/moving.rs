//! [`Moving`]: blocks on their way out of a segment that is being cleaned. Every block written
//! looks here, and every block moved does so three times. No I/O.

use crate::hashing::Seed;
use crate::ids::LayerId;
use crate::location::{BlockNumber, LayerBlock, Location, each_of};
use crate::segments::slices::Share;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Where each of them was when it was marked, by layer and number.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    blocks: HashMap<LayerBlock, Location, Seed>,
}

impl Moving {
    /// Marks a block that lives at `at`. False if it is on its way already.
    pub fn begin(&mut self, block: LayerBlock, at: Location) -> bool {
        match self.blocks.entry(block) {
            Entry::Vacant(place) => {
                place.insert(at);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Where a block was that nobody wrote or gave back since it was marked.
    pub fn from(&self, block: LayerBlock) -> Option<Location> {
        self.blocks.get(&block).copied()
    }

    /// Takes a mark off.
    pub fn end(&mut self, block: LayerBlock) {
        // Mostly nothing is being cleaned.
        if !self.blocks.is_empty() {
            self.blocks.remove(&block);
        }
    }

    /// Takes the mark off a block that was marked at `from`. True if it was there.
    pub fn arrive(&mut self, block: LayerBlock, from: Location) -> bool {
        match self.blocks.entry(block) {
            Entry::Occupied(held) if *held.get() == from => {
                held.remove();
                true
            }
            _ => false,
        }
    }

    /// Takes the marks off those blocks of a range that are in `share`.
    pub fn end_all(&mut self, layer: LayerId, blocks: Range<BlockNumber>, share: Share) {
        if blocks.end - blocks.start <= self.blocks.len() as u64 {
            for block in share.pieces(blocks).flat_map(each_of) {
                self.blocks.remove(&LayerBlock { layer, block });
            }
            return;
        }
        self.blocks.retain(|at, _| {
            let inside = at.layer == layer && blocks.contains(&at.block);
            !inside || share.owner(at.block) != share.shard
        });
    }

    /// Nothing is on its way any more.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SegmentNumber, ShardId};
    use crate::location::numbered;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn at(row: u32) -> Location {
        Location {
            segment: SegmentNumber::new(1),
            column: 2,
            row,
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(
            steps in proptest::collection::vec((0..4, 0u32..2, 0u64..40, 0u64..30), 1..100),
            shards in 1u64..4,
        ) {
            let share = Share { slice_blocks: 4, shards, shard: ShardId::new(shards / 2) };
            let (mut moving, mut model) = (Moving::default(), BTreeMap::new());
            for (turn, (step, layer, block, length)) in (0..).zip(steps) {
                let layer = LayerId::new(layer);
                let range = numbered(block..block + length);
                let block = range.start;
                let key = LayerBlock { layer, block };
                match step {
                    0 => {
                        let free = !model.contains_key(&key);
                        prop_assert_eq!(moving.begin(key, at(turn)), free);
                        model.entry(key).or_insert(at(turn));
                    }
                    1 => {
                        let held = model.get(&key).copied().unwrap_or(at(u32::MAX));
                        prop_assert!(!moving.arrive(key, at(held.row ^ 1 << 30)));
                        let there = model.remove(&key).is_some();
                        prop_assert_eq!(moving.arrive(key, held), there);
                    }
                    2 => {
                        moving.end(key);
                        model.remove(&key);
                    }
                    _ => {
                        moving.end_all(layer, range.clone(), share);
                        model.retain(|of: &LayerBlock, _| {
                            let own = share.owner(of.block) == share.shard;
                            of.layer != layer || !range.contains(&of.block) || !own
                        });
                    }
                }
                prop_assert_eq!(moving.len(), model.len());
                for (key, held) in &model {
                    prop_assert_eq!(moving.from(*key), Some(*held));
                }
            }
        }
    }
}
