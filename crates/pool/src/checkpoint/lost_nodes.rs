//! Nodes of the map that cannot be read, with all the redundancy there is: what each told of is
//! lost, and nothing else.
//!
//! A merge that has something to say below such a node puts one in its place that says that its
//! blocks are lost. So does the next checkpoint where the cleaner or a scrub came on one: until
//! then segments in which one of its blocks may be cannot be emptied.
//!
//! What the node had told of stays in the counts of segments, and would keep them from being freed.
//! It is taken off where it is proven to be no more:
//!
//! - A segment of data was emptied by headers of which none was missing, every block that they tell
//!   of was looked up, and the next merge is in place: the maps have nothing there.
//! - Every node of all maps was moved out of a segment of the maps.
//! - A segment was freed because the log had replaced every block that the maps had there, and the
//!   next merge is in place.
//!
//! Until a node has been lost these come out as counted, and nothing is taken off that does not: it
//! would be a sign of damage. After a restart a [scrub](crate::scrub) counts anew what is still to
//! be taken off.

use crate::checkpoint::map_writer::MapWriter;
use crate::error::PoolError;
use crate::ids::{LayerId, SegmentNumber};
use crate::location::{BlockNumber, LayerBlock, Location};
use crate::map::tree;
use crate::shard::coordinator::Coordinator;
use crate::shard::state::State;
use block::BlockDevice;
use std::collections::BTreeSet;
use std::ops::Range;

/// So many nodes that somebody could not read are given up by a checkpoint, far fewer than it can
/// stand.
const GIVEN_UP_MAX: usize = 4;

/// Nodes that cannot be read, by the layers whose they are.
pub(crate) type LostNodes = BTreeSet<(LayerId, Location)>;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Some of the nodes on which somebody came who could not read them.
    pub async fn nodes_to_give_up(&self) -> Result<LostNodes, PoolError> {
        let unmapped = std::mem::take(&mut self.shard.state.borrow_mut().unmapped);
        let mut lost = LostNodes::new();
        // In the order of layers and blocks, so that those of one node follow each other.
        let mut last: Option<(LayerId, Range<BlockNumber>)> = None;
        for LayerBlock { layer, block } in unmapped {
            let is_last = |(of, blocks): &(LayerId, Range<BlockNumber>)| {
                *of == layer && blocks.contains(&block)
            };
            if last.as_ref().is_some_and(is_last) || lost.len() == GIVEN_UP_MAX {
                continue;
            }
            let root = {
                let state = self.shard.state.borrow();
                state.tables.layers.get(layer).and_then(|found| found.root)
            };
            let Some(root) = root else {
                continue;
            };
            if let Some((node, blocks)) = tree::unreadable_of(&*self.shard, root, block).await? {
                lost.insert((layer, node.at));
                last = Some((layer, blocks));
            }
        }
        Ok(lost)
    }

    /// A merge is in place: takes off counts of segments what lost nodes had told of.
    pub fn count_off_lost(
        &self,
        state: &mut State,
        writer: &MapWriter<'_, D>,
    ) -> Result<(), PoolError> {
        if writer.has_lost_nodes() {
            self.nodes_lost.set(true);
            // Those that could not be emptied on their account can be now.
            state.attempts.retry_all();
        }
        let freed = state.segments.freed_with_blocks();
        if !freed.is_empty() && !writer.has_lost_nodes() {
            // Maps that point to what others may have written by now are not published: somebody
            // else changed them or the log.
            return Err(PoolError::Damaged("map"));
        }
        let mut nothing_in: Vec<SegmentNumber> = state.emptied.whole().collect();
        nothing_in.retain(|number| {
            let segment = state.segments.get(*number);
            segment.is_some_and(|segment| segment.live_tree > 0)
        });
        if !self.nodes_lost.get() {
            for number in nothing_in {
                tracing::warn!(
                    segment = number.get(),
                    "counts as holding what no map has: scrub the pool"
                );
            }
            return Ok(());
        }
        for number in nothing_in.into_iter().chain(freed) {
            state.segments.count_at_most(number, 0);
        }
        for number in &*writer.cleared.borrow() {
            let nodes = state.segments.count_at_most(*number, 0);
            self.own_map.count_off(nodes);
        }
        Ok(())
    }
}
