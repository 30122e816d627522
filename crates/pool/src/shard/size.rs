//! How much the pool holds and can hold, and of what shape new segments are.

use crate::ids::SegmentNumber;
use crate::labels::quorum;
use crate::level::{Level, Shape};
use crate::segments::space::{Size, formed_width};
use crate::segments::zones::formable;
use crate::segments::{Kind, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::messages::Order;
use crate::shard::state::State;
use crate::stripes::class::Rules;
use block::BlockDevice;

impl State {
    /// Blocks that live as of the last checkpoint, exactly, or are promised.
    pub fn held_blocks(&self) -> u64 {
        self.segments.live_in_maps() + self.tables.promised()
    }

    /// The same, and what may have come since. What was overwritten since counts twice, unless
    /// somebody looked.
    pub fn committed_blocks(&self) -> u64 {
        self.held_blocks() + self.admitted.blocks()
    }

    /// No more blocks than these can be new since the last merge: what the cleaner moved is not.
    pub fn new_at_most(&self) -> u64 {
        let written = self.admitted.written();
        self.segments.live_overlay().min(written)
    }

    /// No more blocks than these can live, in the maps and since the last merge.
    pub fn live_at_most(&self) -> u64 {
        self.segments.live_in_maps() + self.new_at_most()
    }

    /// What is committed when a change of the tables has been checkpointed.
    pub fn committed_blocks_next(&self) -> u64 {
        let doomed = self.tables.doomed_blocks();
        self.committed_blocks().saturating_sub(doomed)
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Zones of every live drive.
    pub fn zones(&self) -> Vec<usize> {
        let mut zones = vec![0; self.array.slots()];
        let live = self.array.live().into_iter();
        for (index, drive) in live.filter(|(index, _)| self.array.takes_data(*index)) {
            zones[index] = drive.layout.zones() as usize;
        }
        zones
    }

    /// The width at which segments are formed now, be it that they lack drives.
    pub fn formed_width(&self) -> usize {
        let whole = || formed_width(self.array.level, self.width, self.array.taking());
        self.array.cramped.get().unwrap_or_else(whole)
    }

    /// How many columns of such a segment have a drive.
    pub fn formed_columns(&self) -> usize {
        self.formed_width().min(self.array.taking())
    }

    /// The size of the pool on the drives that take data now; every write asks for it.
    pub fn size(&self) -> Size {
        let cramped = self.array.cramped.get();
        let drives = (self.array.taking_mask(), self.array.changes.get(), cramped);
        if let Some((known, size)) = self.known_size.get()
            && known == drives
        {
            return size;
        }
        let zones = self.zones();
        let (level, width, rows) = (self.array.level, self.width, self.zone_rows);
        let size = match cramped {
            Some(width) => Size::short(level, width, rows, &zones),
            None => Size::of(level, width, rows, &zones),
        };
        let size = size.for_shards(self.shards);
        let by_tables = self.table_room_with(&zones);
        let by_tables = by_tables.segments_most(self.formed_width());
        let size = size.at_most(by_tables);
        self.known_size.set(Some((drives, size)));
        size
    }

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

    pub fn rules(&self) -> Rules {
        Rules {
            level: self.array.level,
            width: self.width,
            zone_rows: self.zone_rows,
            taking: self.array.taking_mask(),
            kept: self.size().kept_for_cleaner(),
            columns_without: self.columns_without(),
        }
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Whether a segment lacks more drives than new ones would.
    pub fn lacks_more(&self) -> impl Fn(&Segment) -> bool + use<D> {
        let (taking, most) = (self.shard.array.taking_mask(), self.shard.columns_without());
        move |segment| segment.columns_without(taking) > most
    }

    /// Segments with live blocks that are better off in new ones.
    pub fn degraded<'a>(
        &self,
        state: &'a State,
    ) -> impl Iterator<Item = (SegmentNumber, Kind)> + use<'a, D> {
        let lacks_more = self.lacks_more();
        let lacking = state.segments.lacking(self.shard.array.taking_mask());
        lacking
            .filter(move |(number, segment)| {
                lacks_more(segment) && segment.live() > 0 && !state.attempts.is_stuck(*number)
            })
            .map(|(number, segment)| (number, segment.kind))
    }

    /// Finds out whether what the pool holds has room in segments that do without the drives that
    /// are gone. Narrower ones hold less of the same zones, and the last of the room is kept for
    /// the map by what could be formed before: a pool that is all but full would be out of it at
    /// once. It goes on with segments that lack drives, no more of them than it must, until there
    /// are others in the place of those that are gone, or less to hold.
    pub fn judge_room(&self) {
        let lacks_room = |cramped: Option<usize>| {
            let before = self.shard.array.cramped.replace(cramped);
            let size = self.shard.size();
            let state = self.shard.state.borrow();
            let held = state.held_blocks() + state.new_at_most() + self.overlay_blocks_of_others();
            let updates = self.shard.settings.checkpoint_updates as u64;
            let kept = size.map_reserve_nodes(self.own_map.nodes(), updates);
            let lacks = held > size.usable_blocks() || self.nodes_storable(&state) < kept;
            self.shard.array.cramped.set(before);
            lacks
        };
        let widest = self.width_with_gone().filter(|_| lacks_room(None));
        self.set_cramped(widest.map(|widest| {
            let level = self.shard.array.level;
            let fits =
                |width: &usize| level.allows_width(*width, widest) && !lacks_room(Some(*width));
            let mut narrower = self.shard.array.taking() + 1..widest;
            narrower.find(fits).unwrap_or(widest)
        }));
    }

    /// How wide new segments can be with the drives that are gone and not forgotten, which they
    /// lack: no more than those, or the pool could lose fewer drives than it promises. `None` where
    /// none would be lacking, one is about to leave, or mirrors are as wide as ever in any case.
    pub fn width_with_gone(&self) -> Option<usize> {
        let level = self.shard.array.level;
        if level == Level::Raid1 || !self.shard.array.leaving.borrow().is_empty() {
            return None;
        }
        let members = quorum::members(&self.published.borrow().superblock);
        let width = level.shape(self.shard.width.min(members)).width();
        let missing = width.saturating_sub(self.shard.array.taking());
        let allowed = 1..=level.drives_lost_max(width);
        (width <= members && allowed.contains(&missing)).then_some(width)
    }

    pub fn set_cramped(&self, cramped: Option<usize>) {
        if self.shard.array.cramped.replace(cramped) != cramped {
            tracing::warn!(?cramped, "room without the drives that are gone");
            self.tell_all(|| Order::Cramped(cramped));
            self.shard.work.notify_one();
        }
    }

    /// The shape that a new segment gets, and how many of its columns will lack a zone: it is
    /// narrower than usual if drives are missing or full, but for a cramped pool.
    pub fn shape_of_new(&self, free: &[usize], kind: Kind) -> (Shape, usize) {
        let available = free.iter().filter(|zones| **zones > 0).count();
        let rules = self.shard.rules();
        let cramped = self.shard.array.cramped.get();
        let shape = match kind {
            Kind::Narrow => rules.narrow(),
            // A mirror keeps its copies: narrower would be less redundant.
            Kind::Wide | Kind::Map if self.shard.array.level == Level::Raid1 => rules.wide(),
            Kind::Wide | Kind::Map => {
                let width = cramped.unwrap_or(self.shard.width.min(available));
                self.shard.array.level.shape(width)
            }
        };
        // A column may lack a zone only for want of a drive, never for want of space.
        let missing = shape.width().saturating_sub(self.shard.array.taking());
        (shape, missing.min(shape.redundant))
    }

    /// How many nodes find room in segments of the map that could be formed now.
    pub fn nodes_storable(&self, state: &State) -> u64 {
        let (shape, formable) = self.formable_now(state, Kind::Map);
        formable as u64 * shape.data as u64 * u64::from(self.shard.zone_rows)
    }

    /// The shape of a new segment, and how many the free zones and the tables have room for.
    fn formable_now(&self, state: &State, kind: Kind) -> (Shape, usize) {
        let takes = |drive| self.shard.array.takes_data(drive);
        self.formable_of(state, kind, &state.segments.free_zones(takes))
    }

    /// The same, of so many zones of each drive.
    pub fn formable_of(&self, state: &State, kind: Kind, free: &[usize]) -> (Shape, usize) {
        let (shape, formable) = self.formable_by_zones(free, kind);
        let by_tables = self.segments_by_tables(state, shape.width());
        let by_generations = state.segments.generations_left(kind);
        (shape, formable.min(by_tables).min(by_generations))
    }

    /// The same, by the zones alone.
    fn formable_by_zones(&self, free: &[usize], kind: Kind) -> (Shape, usize) {
        let (shape, missing) = self.shape_of_new(free, kind);
        (shape, formable(free, shape.width() - missing))
    }

    /// Free zones have room for more segments of data than may be made.
    pub fn generations_are_short(&self, state: &State) -> bool {
        let takes = |drive| self.shard.array.takes_data(drive);
        let free = state.segments.free_zones(takes);
        let (_, formable) = self.formable_by_zones(&free, Kind::Wide);
        formable > state.segments.generations_left(Kind::Wide)
    }
}
