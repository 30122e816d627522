//! Rebuild: what lies on segments that lack more drives than new ones do moves to such.

use crate::coordinator::Coordinator;
use crate::core::{Core, State};
use crate::labels::quorum;
use crate::level::Level;
use crate::messages::Order;
use crate::segments::{Kind, Segment};
use block::BlockDevice;
use std::time::Duration;

/// What could not be moved is left alone for so long at first, and at most.
pub(crate) const STUCK_FOR: Duration = Duration::from_secs(60);
const STUCK_FOR_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl<D: BlockDevice + 'static> Core<D> {
    /// Columns of new segments that have no drive, at most: none where there are drives enough for
    /// the narrowest, and room enough.
    pub fn columns_without(&self) -> usize {
        let narrowest = match self.array.level {
            Level::Raid1 => self.width,
            level => level.shape(1).width(),
        };
        let width = self.array.cramped.get().unwrap_or(narrowest);
        width.saturating_sub(self.array.taking())
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Whether a segment lacks more drives than new ones would.
    pub fn lacks_more(&self) -> impl Fn(&Segment) -> bool + use<D> {
        let (taking, most) = (self.array.taking_mask(), self.columns_without());
        move |segment| segment.columns_without(taking) > most
    }

    /// Segments with live blocks that are better off in new ones.
    pub fn degraded<'a>(&self, state: &'a State) -> impl Iterator<Item = (u32, Kind)> + use<'a, D> {
        let lacks_more = self.lacks_more();
        let lacking = state.segments.lacking(self.array.taking_mask());
        lacking
            .filter(move |(number, segment)| {
                lacks_more(segment) && segment.live() > 0 && !state.stuck.contains(number)
            })
            .map(|(number, segment)| (number, segment.kind))
    }

    /// True when a checkpoint would get rid of a segment that lacks more drives than new ones do,
    /// let it be emptied, or have it let go of a drive that is to be forgotten.
    pub fn lingering(&self, state: &State) -> bool {
        let (going, lacks_more) = (self.going(state), self.lacks_more());
        let lingers = |segment: &Segment| {
            lacks_more(segment) || going.is_some_and(|drive| segment.is_on(drive))
        };
        let mut lacking = state.segments.lacking(self.array.taking_mask());
        // A map that found no room elsewhere waits until there is more of it.
        let waits = |segment: &Segment| {
            let waits = segment.kind == Kind::Map && segment.live() > 0;
            let then = self.map_waits.get().filter(|_| waits);
            then.is_some_and(|then| self.nodes_storable(state) <= then)
        };
        lacking.any(|(number, segment)| {
            lingers(segment)
                && !state.stuck.contains(&number)
                && !state.quarantined.contains(&number)
                && !state.in_limbo(number)
                && !waits(segment)
        })
    }

    /// A look at regular intervals: has what could not be moved, for a block that could not be
    /// read, tried again. What is so for good is tried ever more seldom.
    pub fn look_for_stuck(&self) {
        let mut state = self.state.borrow_mut();
        if state.stuck.is_empty() {
            self.stuck_until.set(None);
            self.stuck_for.set(STUCK_FOR);
            return;
        }
        let now = reactor::now();
        match self.stuck_until.get() {
            None => self.stuck_until.set(Some(now + self.stuck_for.get())),
            Some(until) if until <= now => {
                self.stuck_until.set(None);
                self.stuck_for
                    .set((self.stuck_for.get() * 2).min(STUCK_FOR_MAX));
                state.stuck.clear();
                state.attempts.clear();
                self.upkeep.notify_one();
            }
            Some(_) => {}
        }
    }

    /// Finds out whether what the pool holds has room in segments that do without the drives that
    /// are gone. Narrower ones hold less of the same zones, and the last of the room is kept for
    /// the map by what could be formed before: a pool that is all but full would be out of it at
    /// once. It goes on with segments that lack drives, no more of them than it must, until there
    /// are others in the place of those that are gone, or less to hold.
    pub fn judge_room(&self) {
        let lacks_room = |cramped: Option<usize>| {
            let before = self.array.cramped.replace(cramped);
            let size = self.size();
            let state = self.state.borrow();
            let held = state.held_blocks() + state.new_at_most() + self.overlay_blocks_of_others();
            let updates = self.settings.checkpoint_updates as u64;
            let kept = size.map_reserve_nodes(state.map_nodes, updates);
            let lacks = held > size.usable_blocks() || self.nodes_storable(&state) < kept;
            self.array.cramped.set(before);
            lacks
        };
        let widest = self.width_with_gone().filter(|_| lacks_room(None));
        self.set_cramped(widest.map(|widest| {
            let level = self.array.level;
            let fits =
                |width: &usize| level.allows_width(*width, widest) && !lacks_room(Some(*width));
            let mut narrower = self.array.taking() + 1..widest;
            narrower.find(fits).unwrap_or(widest)
        }));
    }

    /// How wide new segments can be with the drives that are gone and not forgotten, which they
    /// lack: no more than those, or the pool could lose fewer drives than it promises. `None` where
    /// none would be lacking, one is about to leave, or mirrors are as wide as ever in any case.
    pub fn width_with_gone(&self) -> Option<usize> {
        let level = self.array.level;
        if level == Level::Raid1 || !self.array.leaving.borrow().is_empty() {
            return None;
        }
        let members = quorum::members(&self.published.borrow().superblock);
        let width = level.shape(self.width.min(members)).width();
        let missing = width.saturating_sub(self.array.taking());
        let allowed = 1..=level.drives_lost_max(width);
        (width <= members && allowed.contains(&missing)).then_some(width)
    }

    pub fn set_cramped(&self, cramped: Option<usize>) {
        if self.array.cramped.replace(cramped) != cramped {
            tracing::warn!(?cramped, "room without the drives that are gone");
            self.tell_all(|| Order::Cramped(cramped));
            self.work.notify_one();
        }
    }

    /// The next segment whose blocks are to be moved for want of a drive.
    pub fn degraded_victim(&self) -> Option<u32> {
        let state = self.state.borrow();
        let mut degraded = self.degraded(&state);
        let settled = |number: &u32| state.settled.contains(number);
        degraded
            .find(|(number, kind)| *kind != Kind::Map && settled(number))
            .map(|found| found.0)
    }
}
