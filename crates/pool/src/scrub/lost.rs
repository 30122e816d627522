//! What a scrub says it found: totals that are true, and the first places of each kind, so that a
//! report has a bound however much is lost.

use crate::location::{Entry, Mapping, VOLUME_BLOCKS_MAX};
use crate::map::holes::{Runs, add_run};
use crate::reporting::lost::{Lost, LostBlock, LostNode, ScrubReport};
use crate::shard::core::Core;
use crate::volumes::{Holder, Tables};
use block::{BlockDevice, BlockRange, Lba};
use std::collections::BTreeMap;

/// Ranges that are told of each volume and snapshot, the first ones.
const RANGES_TOLD: usize = 64;
/// Ranges that are remembered meanwhile: what lies together is mostly found one by one.
const RANGES_KEPT: usize = 1024;
/// Map nodes that are told one by one.
const NODES_TOLD: usize = 64;

/// Blocks that were found one by one, as ranges; behind too many of them only their number.
#[derive(Default)]
struct Ranges {
    runs: Runs,
    blocks: u64,
}

impl Ranges {
    /// True if the block is not known to be among them.
    fn add(&mut self, block: u64) -> bool {
        let before = self.runs.range(..=block).next_back();
        if before.is_some_and(|(_, end)| block < *end) {
            return false;
        }
        self.blocks += 1;
        add_run(&mut self.runs, block..block + 1);
        if self.runs.len() > RANGES_KEPT {
            self.runs.pop_last();
        }
        true
    }

    fn told(&self) -> Vec<BlockRange> {
        let ranges = self.runs.iter().take(RANGES_TOLD);
        let ranges = ranges.map(|(start, end)| BlockRange::new(Lba(*start), end - start));
        ranges.collect()
    }
}

/// What has been lost so far.
#[derive(Default)]
pub(super) struct Losses {
    /// A block may be met twice.
    by_layer: BTreeMap<u32, Ranges>,
    by_holder: BTreeMap<Holder, Ranges>,
    nodes: Vec<LostNode>,
    nodes_in_all: u64,
}

impl Losses {
    /// A block is lost that these read.
    pub fn lose(&mut self, lost: LostBlock, holders: &[Holder]) {
        if self.by_layer.entry(lost.layer).or_default().add(lost.block) {
            for holder in holders {
                self.by_holder.entry(*holder).or_default().add(lost.block);
            }
        }
    }

    /// A node is lost that told of the blocks from `start` to `end`, or to the last. It is met
    /// twice where a layer is walked through again.
    pub fn lose_node(&mut self, tables: &Tables, layer: u32, start: u64, end: Option<u64>) {
        let known = |node: &LostNode| node.layer == layer && node.blocks.start.0 == start;
        if self.nodes.iter().any(known) {
            return;
        }
        self.nodes_in_all += 1;
        if self.nodes.len() < NODES_TOLD {
            let end = end.unwrap_or(VOLUME_BLOCKS_MAX);
            let above = holders_above(tables, layer, start).map(|(holder, _)| holder);
            self.nodes.push(LostNode {
                layer,
                blocks: BlockRange::new(Lba(start), end - start),
                holders: above.collect(),
            });
        }
    }

    pub fn tell(self, report: &mut ScrubReport) {
        let all = self.by_layer.values().map(|ranges| ranges.blocks);
        report.lost_blocks = all.sum();
        let lost = self.by_holder.iter().map(|(holder, ranges)| Lost {
            holder: *holder,
            blocks: ranges.blocks,
            ranges: ranges.told(),
        });
        report.lost = lost.collect();
        report.lost_nodes = self.nodes_in_all;
        report.nodes_lost = self.nodes;
    }
}

/// Volumes and snapshots that stand on a layer and reach as far as a block, each with the layer
/// that it begins at.
fn holders_above(
    tables: &Tables,
    layer: u32,
    block: u64,
) -> impl Iterator<Item = (Holder, u32)> + '_ {
    let above = tables.tops_above(layer);
    let reaching = above.filter(move |top| block < top.blocks);
    reaching.map(|top| (top.holder, top.layer))
}

impl<D: BlockDevice> Core<D> {
    /// Who reads a block of this shard's that `layer` has at `entry`; `None` if it has it there no
    /// more.
    pub async fn readers_of(&self, layer: u32, block: u64, entry: Entry) -> Option<Vec<Holder>> {
        let found = self.find_own(layer, block).await;
        if found != Ok(Some(Mapping::Block(entry))) {
            return None;
        }
        let above: Vec<(Holder, u32)> = {
            let state = self.state.borrow();
            holders_above(&state.tables, layer, block).collect()
        };
        let mut readers = Vec::new();
        for (holder, top) in above {
            if !self.is_hidden(top, layer, block).await {
                readers.push(holder);
            }
        }
        Some(readers)
    }

    /// Whether a layer from `top` down says something about a block, before `layer` is asked.
    async fn is_hidden(&self, top: u32, layer: u32, block: u64) -> bool {
        let mut at = Some(top);
        while let Some(id) = at.filter(|id| *id != layer) {
            // Where its map cannot be read it may say nothing.
            if matches!(self.find_own(id, block).await, Ok(Some(_))) {
                return true;
            }
            at = self.state.borrow().tables.parent(id);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;

    #[test]
    fn however_much_is_lost_the_total_is_true_and_what_is_told_is_bounded() {
        let mut losses = Losses::default();
        let holder = Holder::Volume(VolumeId(7));
        for block in (0..3 * RANGES_KEPT as u64).rev() {
            let lost = LostBlock {
                layer: 1,
                block: 2 * block,
            };
            losses.lose(lost, &[holder]);
        }
        for block in 1..9 {
            losses.lose(LostBlock { layer: 1, block }, &[holder]);
        }
        let tables = Tables::default();
        for node in 0..1000 {
            losses.lose_node(&tables, 1, node, Some(node + 1));
        }
        let mut report = ScrubReport::default();
        losses.tell(&mut report);
        // Of the last ones 2, 4, 6 and 8 were lost before.
        assert_eq!(report.lost_blocks, 3 * RANGES_KEPT as u64 + 4);
        assert_eq!(report.lost_nodes, 1000);
        assert_eq!(report.nodes_lost.len(), NODES_TOLD);
        let [lost] = &report.lost[..] else {
            panic!("{report:?}");
        };
        assert_eq!((lost.holder, lost.blocks), (holder, report.lost_blocks));
        assert_eq!(lost.ranges.len(), RANGES_TOLD);
        assert_eq!(lost.ranges[0], BlockRange::new(Lba(0), 9));
        assert_eq!(lost.ranges[1], BlockRange::new(Lba(10), 1));
    }
}
