//! Rebuild: what lies on segments that lack more drives than new ones do moves to such.

use crate::ids::SegmentNumber;
use crate::segments::{Kind, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::retries::STUCK_FOR;
use crate::shard::state::State;
use block::BlockDevice;
use std::time::Duration;

/// What could not be moved is left alone for so long at most.
const STUCK_FOR_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// True when a checkpoint would get rid of a segment that lacks more drives than new ones do,
    /// let it be emptied, or have it let go of a drive that is to be forgotten.
    pub fn lingering(&self, state: &State) -> bool {
        let (going, lacks_more) = (self.going(state), self.lacks_more());
        let lingers = |segment: &Segment| {
            lacks_more(segment) || going.is_some_and(|drive| segment.is_on(drive))
        };
        let mut lacking = state.segments.lacking(self.shard.array.taking_mask());
        // A map that found no room elsewhere waits until there is more of it.
        let waits = |segment: &Segment| {
            let waits = segment.kind == Kind::Map && segment.live() > 0;
            let then = self.own_map.waits.get().filter(|_| waits);
            then.is_some_and(|then| self.nodes_storable(state) <= then)
        };
        lacking.any(|(number, segment)| {
            lingers(segment)
                && !state.attempts.is_stuck(number)
                && !state.quarantined.contains(&number)
                && !state.in_limbo(number)
                && !waits(segment)
        })
    }

    /// A look at regular intervals: has what could not be moved, for a block that could not be
    /// read, tried again. What is so for good is tried ever more seldom, and what drives were not
    /// ready for each time.
    pub fn look_for_stuck(&self) {
        let mut state = self.shard.state.borrow_mut();
        if state.attempts.retry_away() {
            self.shard.upkeep.notify_one();
            self.unbalanced.notify_one();
        }
        if state.attempts.stuck() == 0 {
            self.retries.stuck_until.set(None);
            self.retries.stuck_for.set(STUCK_FOR);
            return;
        }
        let now = reactor::now();
        match self.retries.stuck_until.get() {
            None => self
                .retries
                .stuck_until
                .set(Some(now + self.retries.stuck_for.get())),
            Some(until) if until <= now => {
                self.retries.stuck_until.set(None);
                self.retries
                    .stuck_for
                    .set((self.retries.stuck_for.get() * 2).min(STUCK_FOR_MAX));
                state.attempts.retry_all();
                self.shard.upkeep.notify_one();
            }
            Some(_) => {}
        }
    }

    /// The next segment whose blocks are to be moved for want of a drive.
    pub fn degraded_victim(&self) -> Option<SegmentNumber> {
        let state = self.shard.state.borrow();
        let mut degraded = self.degraded(&state);
        let settled = |number: &SegmentNumber| state.victims.is_settled(*number);
        degraded
            .find(|(number, kind)| *kind != Kind::Map && settled(number))
            .map(|found| found.0)
    }
}
