//! Zones that are set apart for the time after a crash.
//!
//! A process that is killed may leave requests on their way to zones that are free, so the next
//! opening holds these back for a while. Of some zones superblocks say that nothing is begun in
//! them: the first segments after a crash are cut from these, and hosts do not wait. Before they
//! are used for anything else, a superblock that does not name them is durable.

use crate::checkpoint::allocate::map_segments;
use crate::error::PoolError;
use crate::format::superblock::{APART_MAX, Superblock};
use crate::shard::coordinator::Coordinator;
use crate::shard::state::State;
use block::BlockDevice;

/// Of the segments that space is not short without, one in so many is set apart at most.
const SHARE: usize = 3;

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Segments without which the pool would begin to clean, or to save space.
    fn segments_needed(&self) -> usize {
        2 * self.shard.size().ready_target() + 4
    }

    /// Zones of each drive that are to be set apart: enough for segments of both kinds for every
    /// shard, where there is plenty of space.
    fn apart_wanted(&self, state: &State) -> usize {
        let takes = |drive| self.shard.array.takes_data(drive);
        let vacant = state.segments.vacant_zones(takes);
        let spare = self.free_among(state, &vacant, map_segments(state)).spare;
        let segments = spare.saturating_sub(self.segments_needed()) / SHARE;
        let drives = self.shard.array.taking().max(1);
        let zones = segments * self.shard.formed_columns() / drives;
        let shards = state.share.shards as usize;
        zones.min(2 * (shards + 1)).min(APART_MAX / drives)
    }

    /// Sets zones apart if there is plenty of space: the next superblock names them.
    pub fn set_zones_apart(&self, state: &mut State) {
        let wanted = self.apart_wanted(state);
        let zones = state.segments.zones_mut();
        zones.set_apart(wanted, |drive| self.shard.array.takes_data(drive));
    }

    /// Has zones used that were set apart, if space has become short.
    pub async fn use_what_is_apart(&self) -> Result<(), PoolError> {
        let given_up = {
            let mut state = self.shard.state.borrow_mut();
            let held = state.segments.zones().are_held();
            if held || 2 * self.free_segments(&state).spare >= self.segments_needed() {
                return Ok(());
            }
            state.segments.zones_mut().give_up_apart()
        };
        if given_up.is_empty() {
            return Ok(());
        }
        let says_so = |_: &mut Superblock| ();
        self.publish(Some(says_so), None).await?;
        let mut state = self.shard.state.borrow_mut();
        state.segments.zones_mut().returned(&given_up);
        Ok(())
    }
}
