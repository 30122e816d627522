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

use crate::ids::SegmentNumber;
use crate::segments::live_nodes::{LiveNodes, Recount};
use crate::segments::{Kind, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::state::State;
use block::BlockDevice;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Takes off the counts of segments what no map has there, now that all maps have been walked
    /// through; `maps` are the segments of the maps as they were when that began. Returns how many
    /// blocks and nodes that were.
    pub(super) async fn recount(&self, maps: &[(SegmentNumber, Segment)]) -> u64 {
        // No merge comes in between.
        let _alone = self.upkeep_lock.lock().await;
        let live = self.live_nodes.borrow();
        let Some(live) = live.as_ref().filter(|live| live.recount.whole) else {
            return 0;
        };
        let mut state = self.shard.state.borrow_mut();
        let nodes = recount_maps(&mut state, live, maps);
        self.own_map.count_off(nodes);
        recount_data(&mut state, &live.recount) + nodes
    }
}

fn recount_data(state: &mut State, recount: &Recount) -> u64 {
    let mut too_many = 0;
    for (number, counted) in &recount.segments {
        let segment = state.segments.get(*number);
        let same = segment.is_some_and(|segment| segment.generation == counted.generation);
        // One that has been emptied meanwhile goes with the next checkpoint.
        if same && state.victims.is_settled(*number) {
            too_many += state.segments.count_at_most(*number, counted.blocks);
        }
    }
    too_many
}

fn recount_maps(state: &mut State, live: &LiveNodes, maps: &[(SegmentNumber, Segment)]) -> u64 {
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
    too_many
}
