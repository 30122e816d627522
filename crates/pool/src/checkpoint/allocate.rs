//! Taking free zones for new segments, and how many may be taken.

use crate::segments::space::LAST_RESORT;
use crate::segments::{Kind, SegmentState};
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
    pub fn allocate(&self, state: &mut State, kind: Kind) -> Option<u32> {
        let usable = |drive: usize| self.array.takes_data(drive);
        let free = state.segments.free_zones(usable);
        let (shape, missing) = self.shape_of_new(&free, kind);
        state
            .segments
            .allocate(kind, shape.width(), missing, usable)
    }

    /// Makes segments ready for the time after this checkpoint.
    pub fn make_ready(&self, state: &mut State) {
        let size = self.size();
        let rules = self.rules();
        let others = state.share.shards as usize - 1;
        let narrow = match rules.narrow() == rules.wide() {
            true => 0,
            false => 2 + others,
        };
        // After a crash there are few until what is held back may be used.
        let held = state.segments.zones().are_held();
        let wide = others + if held { 2 } else { size.ready_target() };
        // One that lacks a drive is not written any more.
        let ready = |state: &State, kind| {
            let made = state.ready_or_unannounced(kind);
            made.filter(|(_, segment)| rules.accepts(&segment.columns))
                .count()
        };
        let none_ready = ready(state, Kind::Wide) == 0;
        for (kind, target) in [(Kind::Wide, wide), (Kind::Narrow, narrow)] {
            while ready(state, kind) < target {
                let last = none_ready && kind == Kind::Wide && ready(state, kind) < LAST_RESORT;
                let free = self.free_segments(state);
                if free.spare == 0 && !(last && free.last_resort > 0) {
                    break;
                }
                let Some(number) = self.allocate(state, kind) else {
                    break;
                };
                state.unannounced.insert(number);
            }
        }
        if !held {
            self.set_zones_apart(state);
        }
    }

    /// A segment that lay ready for stripes becomes the map's: recovery finds no header in it.
    pub fn take_ready_for_map(&self, state: &mut State) -> Option<u32> {
        let rules = self.rules();
        let ready: Vec<u32> = state
            .segments
            .numbers(Kind::Wide, SegmentState::Ready)
            .filter(|number| !state.lent.contains_key(number))
            .collect();
        let number = ready.into_iter().find(|number| {
            let found = state.segments.get(*number);
            found.is_some_and(|segment| rules.accepts(&segment.columns))
        })?;
        state.unannounced.remove(&number);
        state.segments.get_mut(number)?.kind = Kind::Map;
        Some(number)
    }

    /// Wide segments that could be cut from the free zones without touching the map's reserve.
    pub fn free_segments(&self, state: &State) -> Free {
        let takes = |drive| self.array.takes_data(drive);
        let free = state.segments.free_zones(takes);
        if !state.segments.zones().are_held() {
            return self.free_among(state, &free);
        }
        // What is kept back may be kept back of what is held.
        let all = self.free_among(state, &state.segments.vacant_zones(takes));
        let (_, formable) = self.formable_of(state, Kind::Wide, &free);
        Free {
            spare: all.spare.min(formable),
            last_resort: 0,
        }
    }

    /// The same, if so many zones of each drive were free.
    pub fn free_among(&self, state: &State, free: &[usize]) -> Free {
        let (shape, formable) = self.formable_of(state, Kind::Wide, free);
        let holds = shape.data as u64 * u64::from(self.zone_rows);
        let updates = self.settings.checkpoint_updates as u64;
        let size = self.size();
        let reserve = size.map_reserve(state.map_nodes, updates, holds);
        // What the map takes beyond its least comes out of its own share.
        let map = state.segments.table().values();
        let map = map.filter(|segment| segment.kind == Kind::Map).count();
        let share = size.map_share(state.map_nodes).saturating_sub(map);
        Free {
            spare: formable.saturating_sub(reserve + share + LAST_RESORT),
            last_resort: formable.saturating_sub(reserve),
        }
    }
}
