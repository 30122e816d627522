//! What a scrub says it found: totals that are true, and the first places of each kind, so that a
//! report has a bound however much is lost.

use crate::ids::LayerId;
use crate::location::{BlockNumber, LayerBlock, Mapping};
use crate::map::holes::{Runs, add_run};
use crate::reporting::lost::{Lost, LostNode, ScrubReport};
use crate::segments::runs::Live;
use crate::shard::core::Core;
use crate::volumes::{Holder, Tables};
use block::{BlockDevice, BlockRange};
use std::collections::{BTreeMap, BTreeSet};

/// Ranges that are told of each volume and snapshot, the first ones.
const RANGES_TOLD: usize = 64;
/// Ranges and nodes that are remembered meanwhile: what lies together is mostly found one by one.
const RANGES_KEPT: usize = 1024;
/// Others on the core have a turn after so many layers.
const LAYERS_IN_A_ROW: usize = 64;
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
    fn add(&mut self, block: BlockNumber) -> bool {
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
        let ranges = ranges.map(|(start, end)| BlockRange::new(start.lba(), *end - *start));
        ranges.collect()
    }
}

/// What has been lost so far.
#[derive(Default)]
pub(super) struct Losses {
    /// A block may be met twice.
    by_layer: BTreeMap<LayerId, Ranges>,
    by_holder: BTreeMap<Holder, Ranges>,
    nodes: Vec<LostNode>,
    /// A node may be met twice: where a layer is walked through again, and once for each part.
    nodes_met: BTreeSet<LayerBlock>,
    nodes_in_all: u64,
}

impl Losses {
    /// A block is lost that these read.
    pub fn lose(&mut self, lost: LayerBlock, holders: &[Holder]) {
        if self.by_layer.entry(lost.layer).or_default().add(lost.block) {
            for holder in holders {
                self.by_holder.entry(*holder).or_default().add(lost.block);
            }
        }
    }

    /// A node is lost that told of the blocks from `start` to `end`, or to the last.
    pub fn lose_node(
        &mut self,
        tables: &Tables,
        layer: LayerId,
        start: BlockNumber,
        end: Option<BlockNumber>,
    ) {
        let first = LayerBlock {
            layer,
            block: start,
        };
        if self.nodes_met.contains(&first) {
            return;
        }
        if self.nodes_met.len() < RANGES_KEPT {
            self.nodes_met.insert(first);
        }
        self.nodes_in_all += 1;
        if self.nodes.len() < NODES_TOLD {
            let end = end.unwrap_or(BlockNumber::END);
            let above = holders_above(tables, layer, start).map(|(holder, _)| holder);
            self.nodes.push(LostNode {
                layer: layer.get(),
                blocks: BlockRange::new(start.lba(), end - start),
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
    layer: LayerId,
    block: BlockNumber,
) -> impl Iterator<Item = (Holder, LayerId)> + '_ {
    let above = tables.tops_above(layer);
    let reaching = above.filter(move |top| block < BlockNumber::FIRST + top.blocks);
    reaching.map(|top| (top.holder, top.layer))
}

impl<D: BlockDevice> Core<D> {
    /// Who reads a block of this shard's; `None` if its layer has it there no more.
    pub async fn readers_of(&self, live: Live) -> Option<Vec<Holder>> {
        let Live { owner, entry } = live;
        let found = self.find_own(owner).await;
        if found != Ok(Some(Mapping::Block(entry))) {
            return None;
        }
        let above: Vec<(Holder, LayerId)> = {
            let state = self.state.borrow();
            holders_above(&state.tables, owner.layer, owner.block).collect()
        };
        let hidden = self.hidden_from(owner).await;
        let seeing = above.into_iter().filter(|(_, top)| !hidden.contains(top));
        Some(seeing.map(|(holder, _)| holder).collect())
    }

    /// The layers on that of a block from which it is not seen: they say something about it, or one
    /// between does. Each is asked once.
    async fn hidden_from(&self, of: LayerBlock) -> BTreeSet<LayerId> {
        let above: Vec<(LayerId, Option<LayerId>)> = {
            let state = self.state.borrow();
            let standing = state.tables.standing_on(of.layer).into_iter();
            let above = standing.filter(|id| *id != of.layer);
            above.map(|id| (id, state.tables.parent(id))).collect()
        };
        let mut hidden = BTreeSet::new();
        for (turn, (id, parent)) in (1_usize..).zip(above) {
            let below = parent.is_some_and(|parent| hidden.contains(&parent));
            let here = LayerBlock { layer: id, ..of };
            // Where its map cannot be read it may say nothing.
            if below || matches!(self.find_own(here).await, Ok(Some(_))) {
                hidden.insert(id);
            }
            if turn.is_multiple_of(LAYERS_IN_A_ROW) {
                reactor::yield_now().await;
            }
        }
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;
    use block::Lba;

    #[test]
    fn however_much_is_lost_the_total_is_true_and_what_is_told_is_bounded() {
        let mut losses = Losses::default();
        let (holder, layer) = (Holder::Volume(VolumeId(7)), LayerId::new(1));
        let at = |number| LayerBlock {
            layer,
            block: BlockNumber::new(number),
        };
        for block in (0..3 * RANGES_KEPT as u64).rev() {
            losses.lose(at(2 * block), &[holder]);
        }
        for block in 1..9 {
            losses.lose(at(block), &[holder]);
        }
        let tables = Tables::default();
        for node in BlockNumber::FIRST.onwards().take(1000) {
            losses.lose_node(&tables, layer, node, Some(node + 1));
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
