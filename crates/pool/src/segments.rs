//! The segment table: zones, states and live counts.

pub(crate) mod attempts;
pub(crate) mod cleaned;
pub(crate) mod emptied;
pub(crate) mod live_nodes;
pub(crate) mod moving;
pub(crate) mod readers;
pub(crate) mod ready;
pub(crate) mod runs;
pub(crate) mod shown;
pub(crate) mod slices;
pub(crate) mod space;
pub(crate) mod victim;
pub(crate) mod victims;
pub(crate) mod zones;

use crate::chunked::Chunked;
use crate::hashing::Unseeded;
use crate::ids::{Generation, SegmentNumber, Sequence, ShardId};
use crate::location::{Entry, Location};
use crate::segments::shown::Shown;
use crate::segments::zones::{Zone, Zones};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As many columns as the pool is wide; for batches and for what the cleaner moves.
    Wide,
    /// One data column and the redundancy; for lone writes.
    Narrow,
    /// Nodes of the map, without headers.
    Map,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Wide, Kind::Narrow, Kind::Map];

    pub fn code(self) -> u8 {
        self as u8 + 1
    }

    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Where a segment is in its life. A free segment is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// Has zones and may be written from now on: recovery looks into it.
    Ready,
    /// Takes stripes (or nodes) behind its last row.
    Open,
    /// Written for the last time.
    Sealed,
}

impl SegmentState {
    const ALL: [SegmentState; 3] = [
        SegmentState::Ready,
        SegmentState::Open,
        SegmentState::Sealed,
    ];

    pub fn code(self) -> u8 {
        self as u8 + 1
    }

    pub fn from_code(code: u8) -> Option<SegmentState> {
        SegmentState::ALL
            .into_iter()
            .find(|state| state.code() == code)
    }
}

/// One zone on each of several drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub kind: Kind,
    pub state: SegmentState,
    pub generation: Generation,
    /// `None`: the column was never written, for want of a drive, or its drive failed and is no
    /// member any more. Without any column its zones are others' by now: what the maps have there
    /// has been replaced.
    pub columns: Vec<Option<Zone>>,
    /// Rows written, or given out to be written.
    pub rows: u32,
    /// Blocks that the maps as of the last merge point at.
    pub live_tree: u32,
    /// Blocks that updates since then point at.
    pub live_overlay: u32,
    /// Sequence number of the log when the segment was opened: its age.
    pub sequence: Sequence,
    /// The shard that opened it since the pool was opened; all of them may have before.
    pub writer: Option<ShardId>,
    /// It was opened, since the pool was, for what the cleaner moves.
    pub moved: bool,
}

impl Segment {
    pub fn new(kind: Kind, generation: Generation, columns: Vec<Option<Zone>>) -> Segment {
        Segment {
            kind,
            state: SegmentState::Ready,
            generation,
            columns,
            rows: 0,
            live_tree: 0,
            live_overlay: 0,
            sequence: Sequence::NONE,
            writer: None,
            moved: false,
        }
    }

    /// True when a column has no drive of `taking`, the bits of the drives that take data.
    pub fn lacks_drive(&self, taking: u32) -> bool {
        let gone = |zone: Zone| taking >> zone.drive & 1 == 0;
        self.columns.iter().any(|zone| zone.is_none_or(gone))
    }

    /// How many columns have no drive of `taking`, the bits of those that take data.
    pub fn columns_without(&self, taking: u32) -> usize {
        self.columns.len() - self.columns_on(taking)
    }

    /// How many columns are on drives of `taking`, the bits of those that take data.
    pub fn columns_on(&self, taking: u32) -> usize {
        let zones = self.columns.iter().flatten();
        zones.filter(|zone| taking >> zone.drive & 1 == 1).count()
    }

    /// True when a column is on the drive.
    pub fn is_on(&self, drive: usize) -> bool {
        let mut zones = self.columns.iter().flatten();
        zones.any(|zone| usize::from(zone.drive) == drive)
    }

    /// True when headers in it may name layers that there were when it was written.
    pub fn tells_of_layers(&self) -> bool {
        self.kind != Kind::Map && self.rows > 0 && !self.columns.is_empty()
    }

    /// As tables tell of it: without what is known of it only while the pool is open.
    pub fn as_written(&self) -> Segment {
        Segment {
            live_overlay: 0,
            writer: None,
            moved: false,
            ..self.clone()
        }
    }

    pub fn live(&self) -> u64 {
        u64::from(self.live_tree) + u64::from(self.live_overlay)
    }
}

/// A column of a segment that is to lie in another zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnMove {
    pub number: SegmentNumber,
    pub generation: Generation,
    pub column: usize,
    pub from: Zone,
    pub to: Zone,
}

/// What a merge adds to the live blocks of segments, by their numbers, or takes from them.
pub(crate) type LiveChanges = HashMap<SegmentNumber, i64, Unseeded>;

/// What is being done to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    Filling,
    Emptying,
}

/// What a pool's segments are, as of now; live blocks of other shards as of the last merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Segments that the free zones make up.
    pub free: u64,
    /// Have zones and hold nothing yet.
    pub ready: u64,
    /// Being filled.
    pub open: u64,
    /// Being emptied, or emptied and free after the next checkpoint.
    pub cleaning: u64,
    /// Hold nodes of the map.
    pub map: u64,
    /// Full, by the share of them that lives: below a tenth, below two tenths, and so on.
    pub closed: [u64; 10],
}

/// Segments have generations up to this one, which are never given twice: recovery tells by them
/// whose a header is. The map's go on for longer than those of data, so that hosts are refused
/// while what they have written can still be read, deleted and moved elsewhere.
fn generations_end(kind: Kind) -> Generation {
    match kind {
        Kind::Map => Generation::new(u32::MAX),
        Kind::Wide | Kind::Narrow => Generation::new(u32::MAX - (1 << 24)),
    }
}

/// Every segment that is not free. Whoever reads, writes, merges or cleans a block asks for its
/// segment, so finding one takes a few steps through memory that stays in the cache.
pub(crate) type Table = Chunked<SegmentNumber, Segment>;

/// Every segment that is not free, and the free zones.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    table: Table,
    zones: Zones,
    next_generation: Generation,
    next_number: SegmentNumber,
    /// Sum of the live counts of data segments.
    live_data: u64,
    /// The same as of the last merge.
    live_in_maps: u64,
    /// On these drives no segment lacks one: upkeep asks at every turn, and mostly nothing changed.
    whole_on: Cell<Option<u32>>,
}

impl Segments {
    /// The table of a pool whose drives have this many zones.
    pub fn new(zones: &[u32], table: Table, next_generation: Generation) -> Segments {
        let used = table
            .values()
            .flat_map(|segment| segment.columns.iter().flatten());
        let zones = Zones::new(zones, used);
        let data = table.values().filter(|segment| segment.kind != Kind::Map);
        Segments {
            live_data: data.clone().map(Segment::live).sum(),
            live_in_maps: data.map(|segment| u64::from(segment.live_tree)).sum(),
            zones,
            next_number: table
                .last_key()
                .map_or(SegmentNumber::FIRST, SegmentNumber::next),
            table,
            next_generation,
            whole_on: Cell::new(None),
        }
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn get(&self, number: SegmentNumber) -> Option<&Segment> {
        self.table.get(number)
    }

    /// The zone in which a block is; `None` where its drive is missing.
    pub fn zone_of(&self, at: Location) -> Option<Zone> {
        let columns = &self.table.get(at.segment)?.columns;
        *columns.get(usize::from(at.column))?
    }

    /// Segments with a column that has no drive of `taking`, the bits of those that take data.
    pub fn lacking(&self, taking: u32) -> impl Iterator<Item = (SegmentNumber, &Segment)> {
        let lacks = move |segment: &Segment| segment.lacks_drive(taking);
        if self.whole_on.get() != Some(taking) && !self.table.values().any(lacks) {
            self.whole_on.set(Some(taking));
        }
        let table = (self.whole_on.get() != Some(taking)).then_some(&self.table);
        let all = table.into_iter().flat_map(Table::iter);
        all.filter(move |(_, segment)| lacks(segment))
            .map(|(number, segment)| (*number, segment))
    }

    /// Its columns stay as they are: [`move_column`](Segments::move_column) changes them.
    pub fn get_mut(&mut self, number: SegmentNumber) -> Option<&mut Segment> {
        self.table.get_mut(number)
    }

    pub fn next_generation(&self) -> Generation {
        self.next_generation
    }

    /// So many more segments may be made of a kind, whatever zones are free.
    pub fn generations_left(&self, kind: Kind) -> usize {
        let end = generations_end(kind).get();
        let left = end.saturating_sub(self.next_generation.get());
        left as usize
    }

    /// Free zones of each drive for which `usable` holds.
    pub fn free_zones(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        self.zones.free(usable)
    }

    /// The same, with what is held back or set apart.
    pub fn vacant_zones(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        self.zones.vacant(usable)
    }

    /// A new segment on the drives with the most free zones; columns beyond the usable drives
    /// stay without a zone, at most `missing_max` of them. `None` when there are too few zones.
    pub fn allocate(
        &mut self,
        kind: Kind,
        width: usize,
        missing_max: usize,
        usable: impl Fn(usize) -> bool,
    ) -> Option<SegmentNumber> {
        let generation = self.next_generation;
        if generation >= generations_end(kind) {
            return None;
        }
        let number = self.free_number()?;
        let columns = self.zones.take(generation, width, missing_max, usable)?;
        self.next_generation = self.next_generation.next();
        let segment = Segment::new(kind, self.next_generation, columns);
        let whole_on = self.whole_on.get();
        self.whole_on
            .set(whole_on.filter(|taking| !segment.lacks_drive(*taking)));
        self.table.insert(number, segment);
        Some(number)
    }

    fn free_number(&mut self) -> Option<SegmentNumber> {
        for _ in 0..=self.table.len() {
            let number = self.next_number;
            self.next_number = number.next();
            if !self.table.contains_key(number) {
                return Some(number);
            }
        }
        None
    }

    /// Takes the zones of segments away, which are free once they are
    /// [`discarded`](Zones::discarded), and forgets these segments. While the maps have blocks in
    /// one, all of which the log has replaced, it stays, without columns: the next merge takes them
    /// off.
    pub fn release(&mut self, numbers: &BTreeSet<SegmentNumber>) {
        let mut forgotten = BTreeSet::new();
        for number in numbers {
            let Some(segment) = self.table.get_mut(*number) else {
                continue;
            };
            let columns = std::mem::take(&mut segment.columns);
            self.zones.vacate(columns.into_iter().flatten());
            if segment.live() == 0 {
                forgotten.insert(*number);
            }
        }
        self.table.remove_all(&forgotten);
    }

    /// Segments that were freed before the maps knew, and in which they still have something.
    pub fn freed_with_blocks(&self) -> Vec<SegmentNumber> {
        let freed = self
            .table
            .iter()
            .filter(|(_, found)| found.columns.is_empty());
        let with_blocks = freed.filter(|(_, segment)| segment.live_tree > 0);
        with_blocks.map(|(number, _)| *number).collect()
    }

    /// A column lies in another zone from now on, which holds a copy and was
    /// [being filled](Zones::begin_filling). Returns whether it does: the segment must still be the
    /// one of this generation with its column in the zone `from`, and the other drive still a
    /// member.
    pub fn move_column(&mut self, moved: &ColumnMove) -> bool {
        if !self.has(moved) || !self.zones.end_filling(moved.to) {
            return false;
        }
        if let Some(segment) = self.table.get_mut(moved.number) {
            segment.columns[moved.column] = Some(moved.to);
        }
        self.whole_on.set(None);
        true
    }

    /// True while a column that is to be moved is where it was.
    pub fn has(&self, moved: &ColumnMove) -> bool {
        self.table.get(moved.number).is_some_and(|segment| {
            let zone = segment.columns.get(moved.column).copied().flatten();
            segment.generation == moved.generation && zone == Some(moved.from)
        })
    }

    /// The column that a segment has on a drive is nowhere from now on. Returns the zone.
    pub fn let_go(&mut self, number: SegmentNumber, drive: usize) -> Option<Zone> {
        let columns = &mut self.table.get_mut(number)?.columns;
        let on_it = |zone: &mut Zone| usize::from(zone.drive) == drive;
        columns.iter_mut().find_map(|column| column.take_if(on_it))
    }

    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    pub fn zones_mut(&mut self) -> &mut Zones {
        &mut self.zones
    }

    pub fn overlay_gained(&mut self, entry: Entry) {
        if let Some(segment) = self.table.get_mut(entry.at.segment) {
            segment.live_overlay += 1;
            self.live_data += 1;
        }
    }

    pub fn overlay_lost(&mut self, entry: Entry) {
        self.overlay_lost_blocks(entry.at.segment, 1);
    }

    /// The same for some blocks of one segment.
    pub fn overlay_lost_blocks(&mut self, number: SegmentNumber, blocks: u32) {
        if let Some(segment) = self.table.get_mut(number) {
            debug_assert!(
                segment.live_overlay >= blocks,
                "segment {number} live count"
            );
            segment.live_overlay = segment.live_overlay.saturating_sub(blocks);
            self.live_data = self.live_data.saturating_sub(blocks.into());
        }
    }

    /// Applies what a merge changed in the maps. Returns of how many segments less had been counted
    /// than the maps gave up: tables say so that somebody forged, or memory that is wrong.
    pub fn apply_tree_changes(&mut self, changes: &LiveChanges) -> u64 {
        let applied = changes.iter();
        let applied = applied.map(|(number, change)| self.change_tree(*number, *change));
        applied.map(u64::from).sum()
    }

    /// True if less had been counted than is given up. Nobody knows then what else the maps have in
    /// that segment: it counts as holding a block, so that it is not freed before a scrub has
    /// [counted](Segments::count_at_most).
    fn change_tree(&mut self, number: SegmentNumber, change: i64) -> bool {
        let Some(segment) = self.table.get_mut(number) else {
            return false;
        };
        let before = i64::from(segment.live_tree);
        let miscounted = before + change < 0;
        if miscounted {
            tracing::error!(
                segment = number.get(),
                before,
                change,
                "miscounted: scrub the pool"
            );
        }
        let live = if miscounted { 1 } else { before + change };
        segment.live_tree = u32::try_from(live).unwrap_or(u32::MAX);
        if segment.kind != Kind::Map {
            self.live_data = self.live_data.saturating_add_signed(live - before);
            self.live_in_maps = self.live_in_maps.saturating_add_signed(live - before);
        }
        miscounted
    }

    /// The maps have at most so many blocks in a segment. Returns by how much its count was higher.
    pub fn count_at_most(&mut self, number: SegmentNumber, blocks: u32) -> u64 {
        let counted = self.table.get(number).map_or(0, |found| found.live_tree);
        let too_many = counted.saturating_sub(blocks);
        self.change_tree(number, -i64::from(too_many));
        too_many.into()
    }

    /// Live data blocks, as far as is known: updates that await a merge count twice.
    pub fn live_data(&self) -> u64 {
        self.live_data
    }

    /// Live data blocks as of the last merge, exactly.
    pub fn live_in_maps(&self) -> u64 {
        self.live_in_maps
    }

    /// Blocks that are live by updates since the last merge.
    pub fn live_overlay(&self) -> u64 {
        self.live_data.saturating_sub(self.live_in_maps)
    }

    /// Takes a segment that another table has given away.
    pub fn adopt(&mut self, number: SegmentNumber, segment: Segment) {
        self.whole_on.set(None);
        self.table.insert(number, segment);
    }

    /// Takes over the coordinator's table: of the segments that `shard` writes it keeps what it
    /// knows better, and the others it only reads.
    pub fn replace(&mut self, shard: ShardId, shown: Shown) {
        self.whole_on.set(None);
        let Shown {
            table,
            mut live_data,
            mut live_in_maps,
            ..
        } = shown;
        let before = std::mem::replace(&mut self.table, table);
        let own = before.iter();
        for (number, segment) in own.filter(|(_, found)| found.writer == Some(shard)) {
            let mut segment = segment.clone();
            let shown = self.table.get(number);
            segment.live_tree = shown.map_or(0, |found| found.live_tree);
            if let Some(shown) = shown.filter(|found| found.kind != Kind::Map) {
                live_data -= shown.live();
                live_in_maps -= u64::from(shown.live_tree);
            }
            if segment.kind != Kind::Map {
                live_data += segment.live();
                live_in_maps += u64::from(segment.live_tree);
            }
            self.table.insert(*number, segment);
        }
        (self.live_data, self.live_in_maps) = (live_data, live_in_maps);
    }

    /// Counts segments by what they are. `busy` says which are being filled or emptied whatever
    /// their state here, `blocks` what one of so many columns can hold.
    pub fn occupancy(
        &self,
        busy: impl Fn(SegmentNumber) -> Option<Busy>,
        blocks: impl Fn(usize) -> u64,
    ) -> Occupancy {
        let mut all = Occupancy::default();
        let placed = self.table.iter();
        for (number, segment) in placed.filter(|(_, found)| !found.columns.is_empty()) {
            let counter = match (busy(*number), segment.kind, segment.state) {
                (_, Kind::Map, _) => &mut all.map,
                (Some(Busy::Filling), ..) | (None, _, SegmentState::Open) => &mut all.open,
                (Some(Busy::Emptying), ..) => &mut all.cleaning,
                (None, _, SegmentState::Ready) => &mut all.ready,
                (None, _, SegmentState::Sealed) => {
                    let tenth = segment.live() * 10 / blocks(segment.columns.len()).max(1);
                    &mut all.closed[tenth.min(9) as usize]
                }
            };
            *counter += 1;
        }
        all
    }

    pub fn numbers(
        &self,
        kind: Kind,
        state: SegmentState,
    ) -> impl Iterator<Item = SegmentNumber> + '_ {
        self.table
            .iter()
            .filter(move |(_, segment)| segment.kind == kind && segment.state == state)
            .map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::zones::formable;
    use proptest::prelude::*;
    use std::time::Duration;

    fn discard(segments: &mut Segments) {
        for zone in segments.zones().discarding().to_vec() {
            segments.zones_mut().discarded(zone);
        }
    }

    /// Moves a column of a segment to a drive that it is not on, or lets that be half way.
    fn try_move(segments: &mut Segments, number: SegmentNumber, choice: usize) {
        let segment = segments.get(number).unwrap().clone();
        let free = segments.free_zones(|drive| !segment.is_on(drive));
        let Some(drive) = (0..4).find(|drive| free[*drive] > 0) else {
            return;
        };
        let column = choice % segment.columns.len();
        let moved = ColumnMove {
            number,
            generation: segment.generation,
            column,
            from: segment.columns[column].unwrap(),
            to: segments.zones_mut().begin_filling(drive).unwrap(),
        };
        assert!(segments.zones().is_filling(moved.to));
        if choice.is_multiple_of(2) {
            assert!(segments.move_column(&moved) && !segments.has(&moved));
            segments.zones_mut().vacate([moved.from]);
        } else {
            segments.zones_mut().give_back(moved.to);
        }
        assert!(!segments.zones().are_filling() && !segments.move_column(&moved));
        discard(segments);
    }

    /// Maps of a forged pool may have more in a segment than its tables say.
    #[test]
    fn a_segment_of_which_less_was_counted_is_kept_until_a_scrub_counts() {
        let mut segments = Segments::new(&[9, 9], Table::default(), Generation::NONE);
        let number = segments.allocate(Kind::Wide, 2, 0, |_| true);
        let number = number.expect("a segment");
        let change = |by| LiveChanges::from_iter([(number, by)]);
        assert_eq!(segments.apply_tree_changes(&change(2)), 0);
        for _ in 0..2 {
            assert_eq!(segments.apply_tree_changes(&change(-3)), 1);
            assert_eq!(segments.get(number).unwrap().live_tree, 1);
            assert_eq!((segments.live_data(), segments.live_in_maps()), (1, 1));
        }
        assert_eq!(segments.count_at_most(number, 0), 1);
        assert_eq!(segments.get(number).unwrap().live_tree, 0);
        assert_eq!((segments.live_data(), segments.live_in_maps()), (0, 0));
    }

    /// The last generation is not followed by the first, and hosts are refused before the map is.
    #[test]
    fn generations_end_and_those_of_data_before_those_of_the_map() {
        let mut counts = [Kind::Wide, Kind::Narrow, Kind::Map].map(|kind| {
            let last = generations_end(kind);
            let before = Generation::new(last.get() - 1);
            let mut segments = Segments::new(&[9, 9], Table::default(), before);
            let mut take = |kind| segments.allocate(kind, 2, 0, |_| true);
            let number = take(kind).expect("the last");
            assert_eq!(take(kind), None);
            let maps = take(Kind::Map).is_some();
            assert_eq!(segments.get(number).unwrap().generation, last);
            assert_eq!(segments.free_zones(|_| true), [8 - usize::from(maps); 2]);
            maps
        });
        counts.sort_unstable();
        assert_eq!(counts, [false, true, true]);
    }

    proptest! {
        #[test]
        fn zones_are_never_in_two_places(steps in proptest::collection::vec(0u32..100, 1..200)) {
            let zones = [7, 5, 9, 3];
            let mut segments = Segments::new(&zones, Table::default(), Generation::NONE);
            let mut held: Vec<SegmentNumber> = Vec::new();
            for step in steps {
                if step % 5 == 1 && !held.is_empty() {
                    let number = held[step as usize % held.len()];
                    try_move(&mut segments, number, step as usize);
                } else if step % 3 == 0 && !held.is_empty() {
                    let number = held.swap_remove(step as usize % held.len());
                    segments.release(&BTreeSet::from([number]));
                    discard(&mut segments);
                } else {
                    let width = 1 + step as usize % 4;
                    let free = segments.free_zones(|_| true);
                    let found = segments.allocate(Kind::Wide, width, 0, |_| true);
                    prop_assert_eq!(found.is_some(), formable(&free, width) > 0);
                    held.extend(found);
                }
                let mut seen = BTreeSet::new();
                let mut count = 0;
                for segment in segments.table().values() {
                    for zone in segment.columns.iter().flatten() {
                        prop_assert!(seen.insert(*zone));
                        count += 1;
                    }
                    let drives: BTreeSet<u8> =
                        segment.columns.iter().flatten().map(|zone| zone.drive).collect();
                    prop_assert_eq!(drives.len(), segment.columns.len());
                }
                for taking in [0b1111, 0b0111, 0b1111, 0b1010] {
                    let lacking = segments.lacking(taking).map(|found| found.0);
                    let lacking: Vec<SegmentNumber> = lacking.collect();
                    let all = segments.table().iter();
                    let expected = all.filter(|(_, segment)| segment.lacks_drive(taking));
                    prop_assert_eq!(lacking, expected.map(|found| *found.0).collect::<Vec<_>>());
                }
                let free: usize = segments.free_zones(|_| true).iter().sum();
                prop_assert_eq!(free + count, 24);
                let table = segments.table().iter();
                let table = table.map(|(number, found)| (*number, found.clone()));
                let again = Segments::new(&zones, table.collect(), Generation::NONE);
                prop_assert_eq!(again.free_zones(|_| true), segments.free_zones(|_| true));
            }
        }
    }

    /// A pool has room for more drives than it has, and some of those it has may be missing: reads
    /// are shared out evenly only if every drive that is there has its share of data columns.
    #[test]
    fn parity_goes_round_the_drives_that_are_there() {
        const SEGMENTS: usize = 120;
        for (drives, width) in [
            (3, 3),
            (6, 6),
            (8, 8),
            (9, 8),
            (24, 24),
            (6, 3),
            (8, 3),
            (24, 22),
        ] {
            let zones = [200; 32];
            let mut segments = Segments::new(&zones, Table::default(), Generation::NONE);
            let mut first_columns = [0; 32];
            for _ in 0..SEGMENTS {
                let there = |drive| drive >= 2 && drive < 2 + drives;
                let number = segments.allocate(Kind::Wide, width, 0, there).unwrap();
                let zone = segments.get(number).unwrap().columns[0].unwrap();
                first_columns[usize::from(zone.drive)] += 1;
            }
            let shares = &first_columns[2..2 + drives];
            let spread = shares.iter().max().unwrap() - shares.iter().min().unwrap();
            assert!(
                spread <= 1 + SEGMENTS / drives / 4,
                "{width} of {drives}: {shares:?}"
            );
        }
    }

    #[test]
    fn segments_are_counted_by_what_they_are() {
        let zones = [20; 3];
        let mut segments = Segments::new(&zones, Table::default(), Generation::NONE);
        let numbers: Vec<SegmentNumber> = (0..8)
            .map(|_| segments.allocate(Kind::Wide, 3, 0, |_| true).unwrap())
            .collect();
        for (number, live) in numbers.iter().zip([0, 9, 10, 99, 100]) {
            let segment = segments.get_mut(*number).unwrap();
            segment.state = SegmentState::Sealed;
            segment.live_tree = live;
        }
        segments.get_mut(numbers[5]).unwrap().state = SegmentState::Open;
        segments.allocate(Kind::Map, 3, 0, |_| true).unwrap();
        let busy = |number: SegmentNumber| match number {
            SegmentNumber::FIRST => Some(Busy::Emptying),
            number if number == numbers[6] => Some(Busy::Filling),
            _ => None,
        };
        let expected = Occupancy {
            free: 0,
            ready: 1,
            open: 2,
            cleaning: 1,
            map: 1,
            closed: [1, 1, 0, 0, 0, 0, 0, 0, 0, 2],
        };
        assert_eq!(segments.occupancy(busy, |_| 100), expected);
    }

    /// A location has room for no larger number: one more would stand for the first segment.
    #[test]
    fn numbers_begin_anew_behind_the_last_that_there_can_be() {
        let last = Segment::new(Kind::Wide, Generation::new(1), Vec::new());
        let table = Table::from_iter([(SegmentNumber::LAST, last)]);
        let mut segments = Segments::new(&[2, 2], table, Generation::new(1));
        assert_eq!(
            segments.allocate(Kind::Wide, 2, 0, |_| true),
            Some(SegmentNumber::FIRST)
        );
    }

    /// A host gave all of a large volume back: its segments are free in one walk through the table,
    /// and so are their zones.
    #[test]
    fn many_segments_are_released_in_one_walk() {
        const SEGMENTS: u32 = 60_000;
        let mut segments = Segments::new(&[SEGMENTS, SEGMENTS], Table::default(), Generation::NONE);
        let all = (0..SEGMENTS).map(|_| segments.allocate(Kind::Wide, 2, 0, |_| true));
        let all: BTreeSet<SegmentNumber> = all.map(Option::unwrap).collect();
        let spent = crate::volumes::tests::processor_time(|| {
            segments.release(&all);
            segments.zones_mut().all_discarded();
        });
        assert_eq!(segments.table().len(), 0);
        assert_eq!(segments.free_zones(|_| true), [SEGMENTS as usize; 2]);
        // In steps for each pair it is minutes.
        assert!(spent < Duration::from_secs(5), "{spent:?}");
    }

    #[test]
    fn a_generation_is_given_once() {
        let mut segments = Segments::new(&[2, 2], Table::default(), Generation::NONE);
        let first = segments.allocate(Kind::Wide, 2, 0, |_| true).unwrap();
        let generation = segments.get(first).unwrap().generation;
        segments.release(&BTreeSet::from([first]));
        assert!(segments.allocate(Kind::Wide, 2, 0, |_| true).is_some());
        assert!(segments.allocate(Kind::Wide, 2, 0, |_| true).is_none());
        discard(&mut segments);
        let second = segments.allocate(Kind::Wide, 2, 0, |_| true).unwrap();
        assert!(segments.get(second).unwrap().generation > generation);
    }
}
