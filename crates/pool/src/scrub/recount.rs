//! What segments are counted to hold, beside what the maps have there.
//!
//! A merge takes off a segment's count what it replaces. What a node of the map told of that is
//! lost nothing takes off: without more, such a segment counts as holding something for ever, so
//! that it is never free, and a pool that loses one of its drives stays degraded. The scrub's walk
//! comes to everything that the maps have, and says what is too much.
//!
//! *The rule.* A count is never made less than what the maps have. In a segment that was settled
//! when the walk began blocks only die, but that folding hands some from one layer to another, and
//! merges say when they do. So what the walk met there and what merges handed on is as much as
//! there can be, in whichever order the two came to it. And of nodes it is known exactly (see
//! `nodes`). Where the walk could not read a node nothing is known of what is below, and nothing is
//! changed.

use crate::coordinator::Coordinator;
use crate::core::State;
use crate::location::Entry;
use crate::scrub::nodes::LiveNodes;
use crate::segments::{Kind, LiveChanges, Segment};
use block::BlockDevice;
use std::collections::BTreeMap;

/// A data segment of which blocks only die.
struct Counted {
    generation: u32,
    /// Blocks that the maps have there, at most, once the walk has ended.
    blocks: u32,
}

/// What the maps have in data segments, as far as the walk has come.
pub(crate) struct Recount {
    segments: BTreeMap<u32, Counted>,
    /// Every node so far could be read.
    whole: bool,
}

impl Recount {
    /// Nothing has been walked through; no merge is under way.
    pub(super) fn new(state: &State) -> Recount {
        let settled = state.settled.iter().filter_map(|number| {
            let segment = state.segments.get(*number)?;
            let generation = segment.generation;
            let blocks = 0;
            Some((*number, Counted { generation, blocks }))
        });
        Recount {
            segments: settled.collect(),
            whole: true,
        }
    }

    /// Whether merges are to say what they hand on in a segment.
    pub fn counts(&self, segment: u32) -> bool {
        self.segments.contains_key(&segment)
    }

    /// The walk has met a block.
    pub(super) fn met(&mut self, entry: Entry) {
        self.add(entry.at.segment, 1);
    }

    /// The walk could not read a node.
    pub(super) fn missed_some(&mut self) {
        self.whole = false;
    }

    /// A merge that is in place has handed blocks on.
    pub(super) fn handed_on(&mut self, blocks: &LiveChanges) {
        for (segment, blocks) in blocks {
            self.add(*segment, u32::try_from(*blocks).unwrap_or(u32::MAX));
        }
    }

    fn add(&mut self, segment: u32, blocks: u32) {
        if let Some(counted) = self.segments.get_mut(&segment) {
            counted.blocks = counted.blocks.saturating_add(blocks);
        }
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Takes off the counts of segments what no map has there, now that all maps have been walked
    /// through; `maps` are the segments of the maps as they were when that began. Returns how many
    /// blocks and nodes that were.
    pub(super) async fn recount(&self, maps: &[(u32, Segment)]) -> u64 {
        // No merge comes in between.
        let _alone = self.upkeep_lock.lock().await;
        let live = self.live_nodes.borrow();
        let Some(live) = live.as_ref().filter(|live| live.recount.whole) else {
            return 0;
        };
        let mut state = self.state.borrow_mut();
        recount_data(&mut state, &live.recount) + recount_maps(&mut state, live, maps)
    }
}

fn recount_data(state: &mut State, recount: &Recount) -> u64 {
    let mut too_many = 0;
    for (number, counted) in &recount.segments {
        let segment = state.segments.get(*number);
        let same = segment.is_some_and(|segment| segment.generation == counted.generation);
        // One that has been emptied meanwhile goes with the next checkpoint.
        if same && state.settled.contains(number) {
            too_many += state.segments.count_at_most(*number, counted.blocks);
        }
    }
    too_many
}

fn recount_maps(state: &mut State, live: &LiveNodes, maps: &[(u32, Segment)]) -> u64 {
    let mut too_many = 0;
    for (number, begun) in maps {
        let segment = state.segments.get(*number);
        let same = |segment: &&Segment| {
            segment.kind == Kind::Map && segment.generation == begun.generation
        };
        if segment.filter(same).is_some() {
            let nodes = u32::try_from(live.nodes_in(*number)).unwrap_or(u32::MAX);
            too_many += state.segments.count_at_most(*number, nodes);
        }
    }
    state.map_nodes = state.map_nodes.saturating_sub(too_many);
    too_many
}
