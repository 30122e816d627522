//! Taking free zones for new segments, and how many may be taken.

use crate::ids::SegmentNumber;
use crate::segments::space::LAST_RESORT;
use crate::segments::{Kind, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::state::State;
use block::BlockDevice;

/// Wide segments that are not in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    /// Anybody may have these.
    pub spare: usize,
    /// The cleaner may have so many if it has nothing else to begin with.
    pub last_resort: usize,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Takes zones for a segment.
    pub fn allocate(&self, state: &mut State, kind: Kind) -> Option<SegmentNumber> {
        let usable = |drive: usize| self.shard.array.takes_data(drive);
        let free = state.segments.free_zones(usable);
        let (shape, missing) = self.shape_of_new(&free, kind);
        state
            .segments
            .allocate(kind, shape.width(), missing, usable)
    }

    /// Makes segments ready for the time after this checkpoint.
    pub fn make_ready(&self, state: &mut State) {
        let size = self.shard.size();
        let rules = self.shard.rules();
        let others = state.share.shards as usize - 1;
        let narrow = match rules.narrow() == rules.wide() {
            true => 0,
            false => 2 + others,
        };
        // After a crash there are few until what is held back may be used.
        let held = state.segments.zones().are_held();
        let wide = others + if held { 2 } else { size.ready_target() };
        // One that lacks a drive is not written any more.
        let accepted = |segment: &Segment| rules.accepts(&segment.columns);
        // There may be a hundred thousand segments: each look at all of them is one for all that
        // are made.
        let maps = map_segments(state);
        for (kind, target) in [(Kind::Wide, wide), (Kind::Narrow, narrow)] {
            let made = state.made_ready(kind);
            let mut ready = made.filter(|(_, segment)| accepted(segment)).count();
            let none_ready = ready == 0;
            while ready < target {
                let last = none_ready && kind == Kind::Wide && ready < LAST_RESORT;
                let free = self.free_beside(state, maps);
                if free.spare == 0 && !(last && free.last_resort > 0) {
                    break;
                }
                let Some(number) = self.allocate(state, kind) else {
                    break;
                };
                ready += usize::from(state.segments.get(number).is_some_and(accepted));
                state.ready.made(number);
            }
        }
        if !held {
            self.set_zones_apart(state);
        }
    }

    /// A segment that lay ready for stripes becomes the map's: recovery finds no header in it.
    pub fn take_ready_for_map(&self, state: &mut State) -> Option<SegmentNumber> {
        let rules = self.shard.rules();
        let (number, _) = state
            .made_ready(Kind::Wide)
            .find(|(_, segment)| rules.accepts(&segment.columns))?;
        state.ready.taken_for_map(number);
        state.segments.get_mut(number)?.kind = Kind::Map;
        Some(number)
    }

    /// Wide segments that could be cut from the free zones without touching the map's reserve.
    pub fn free_segments(&self, state: &State) -> Free {
        self.free_beside(state, map_segments(state))
    }

    /// The same, where so many segments are the map's.
    fn free_beside(&self, state: &State, maps: usize) -> Free {
        let takes = |drive| self.shard.array.takes_data(drive);
        let free = state.segments.free_zones(takes);
        if !state.segments.zones().are_held() {
            return self.free_among(state, &free, maps);
        }
        // What is kept back may be kept back of what is held.
        let all = self.free_among(state, &state.segments.vacant_zones(takes), maps);
        let (_, formable) = self.formable_of(state, Kind::Wide, &free);
        Free {
            spare: all.spare.min(formable),
            last_resort: 0,
        }
    }

    /// The same, if so many zones of each drive were free.
    pub fn free_among(&self, state: &State, free: &[usize], maps: usize) -> Free {
        let (shape, formable) = self.formable_of(state, Kind::Wide, free);
        let holds = shape.data as u64 * u64::from(self.shard.zone_rows);
        let updates = self.shard.settings.checkpoint_updates as u64;
        let size = self.shard.size();
        let reserve = size.map_reserve(self.own_map.nodes(), updates, holds);
        // What the map takes beyond its least comes out of its own share.
        let share = size.map_share(self.own_map.nodes()).saturating_sub(maps);
        Free {
            spare: formable.saturating_sub(reserve + share + LAST_RESORT),
            last_resort: formable.saturating_sub(reserve),
        }
    }
}

/// Segments that the map has.
pub(crate) fn map_segments(state: &State) -> usize {
    let all = state.segments.table().values();
    all.filter(|segment| segment.kind == Kind::Map).count()
}
