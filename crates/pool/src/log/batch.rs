//! Which stripe comes next: how wide, in which segment, and with how much of the queue. No I/O.

use super::{Batch, Item, Source};
use crate::core::State;
use crate::format::stripe::{RECORDS, Record};
use crate::level::{Level, Shape};
use crate::segments::{Kind, State as SegmentState, Zone};
use crate::space::KEPT_FOR_CLEANER;
use block::IoError;
use std::rc::Rc;

/// A stripe has at most so many rows; recovery looks so far past a torn one.
pub(crate) const ROWS_MAX: u32 = 32;
/// A stripe has at most so many blocks of hosts: their records fit the header, padding included.
pub(crate) const BLOCKS_MAX: u64 = 200;
/// With so much waiting, a stripe starts although others are in flight.
pub(super) const FULL_BLOCKS: u64 = 64;
/// Writes up to this many blocks go into one stripe.
pub(crate) const ATOMIC_BLOCKS: u64 = 16;

/// Who wants a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    HostWide,
    HostNarrow,
    Moved,
}

/// What the pool is made of, as far as placing stripes goes.
pub(crate) struct Rules<'a> {
    pub level: Level,
    pub width: usize,
    pub zone_rows: u32,
    pub is_live: Box<dyn Fn(usize) -> bool + 'a>,
    /// There are drives enough for every column of the narrowest segment.
    pub drives_enough: bool,
}

impl Rules<'_> {
    pub fn wide(&self) -> Shape {
        self.level.shape(self.width)
    }

    /// True when a segment with these columns may be written: none lacks a drive, unless there
    /// are too few.
    pub fn accepts(&self, columns: &[Option<Zone>]) -> bool {
        columns.iter().all(|zone| match zone {
            Some(zone) => (self.is_live)(usize::from(zone.drive)),
            None => !self.drives_enough,
        })
    }

    pub fn narrow(&self) -> Shape {
        match self.level {
            Level::Raid1 => self.wide(),
            level => level.shape(1),
        }
    }
}

/// What the writer is to do.
pub(crate) enum Next {
    Nothing,
    NoSpace,
    Batch(Box<Batch>),
}

/// The open segment of `class` if a stripe of `least` blocks fits behind its last, else a new one.
fn open_segment(state: &mut State, rules: &Rules<'_>, class: Class, least: u64) -> Option<u32> {
    if let Some(number) = state.open[class as usize] {
        let usable = state.segments.get(number).is_some_and(|segment| {
            // The segment may be narrower than usual: its own shape counts.
            let rows = rows_for(least, rules.level.shape(segment.columns.len()));
            rules.zone_rows - segment.rows >= rows && rules.accepts(&segment.columns)
        });
        if usable {
            return Some(number);
        }
        state.open[class as usize] = None;
        if let Some(segment) = state.segments.get_mut(number) {
            segment.state = SegmentState::Sealed;
        }
    }
    let kind = if class == Class::HostNarrow {
        Kind::Narrow
    } else {
        Kind::Wide
    };
    let ready: Vec<u32> = state
        .segments
        .numbers(kind, SegmentState::Ready)
        .filter(|number| !state.unannounced.contains(number))
        .filter(|number| {
            let found = state.segments.get(*number);
            found.is_some_and(|segment| rules.accepts(&segment.columns))
        })
        .collect();
    let kept = if class == Class::HostWide {
        KEPT_FOR_CLEANER
    } else {
        0
    };
    if ready.len() <= kept {
        return None;
    }
    let number = ready[0];
    let sequence = state.sequence;
    let segment = state.segments.get_mut(number)?;
    segment.state = SegmentState::Open;
    segment.sequence = sequence;
    state.open[class as usize] = Some(number);
    Some(number)
}

fn rows_for(blocks: u64, shape: Shape) -> u32 {
    (blocks + 1)
        .div_ceil(shape.data as u64)
        .min(u64::from(ROWS_MAX)) as u32
}

/// Turns the head of the queue into a stripe.
pub(crate) fn next_batch(state: &mut State, rules: &Rules<'_>) -> Next {
    let (wide, narrow) = (rules.wide(), rules.narrow());
    let waiting: u64 = state
        .queue
        .iter()
        .map(|item| {
            if let Item::Write { blocks, .. } = item {
                *blocks
            } else {
                0
            }
        })
        .take(BLOCKS_MAX as usize)
        .sum();
    let head_is_hole = matches!(state.queue.front(), Some(Item::Hole { .. }));
    // What must go in as a whole decides how many rows are the least.
    let least = match state.queue.front() {
        Some(Item::Write { blocks, .. }) if *blocks <= ATOMIC_BLOCKS => *blocks,
        Some(Item::Write { .. }) => 1,
        _ => 0,
    };
    let cost =
        |shape: Shape| u64::from(rows_for(waiting.min(BLOCKS_MAX), shape)) * shape.width() as u64;
    let lone = narrow != wide && cost(narrow) <= cost(wide) && waiting < u64::from(ROWS_MAX);
    let mut choices = [Class::HostWide, Class::HostNarrow, Class::Moved];
    if lone {
        choices.swap(0, 1);
    }
    for class in choices {
        // Deallocations free space, so they may use the last of it.
        let last_resort = class == Class::Moved;
        if last_resort && !head_is_hole || class == Class::HostNarrow && narrow == wide {
            continue;
        }
        if let Some(segment) = open_segment(state, rules, class, least) {
            state.starved = false;
            return fill(state, rules, segment, last_resort);
        }
    }
    state.starved = true;
    Next::NoSpace
}

fn fill(state: &mut State, rules: &Rules<'_>, number: u32, holes_only: bool) -> Next {
    let Some(segment) = state.segments.get(number) else {
        return Next::Nothing;
    };
    let shape = rules.level.shape(segment.columns.len());
    let rows_left = (rules.zone_rows - segment.rows).min(ROWS_MAX);
    let room = (u64::from(rows_left) * shape.data as u64 - 1).min(BLOCKS_MAX);
    let (generation, columns, row) = (segment.generation, segment.columns.clone(), segment.rows);
    let mut batch = Batch {
        segment: number,
        generation,
        columns,
        shape,
        row,
        rows: 0,
        shard: state.share.shard as u32,
        sequence: state.sequence + 1,
        durable_through: state.applied,
        records: Vec::new(),
        sources: Vec::new(),
        requests: Vec::new(),
    };
    let mut blocks = 0;
    let mut refused = 0;
    let limit = RECORDS - shape.data;
    while let Some(item) = state.queue.pop_front() {
        let unwanted = holes_only && matches!(item, Item::Write { .. });
        if unwanted || batch.records.len() >= limit {
            state.queue.push_front(item);
            break;
        }
        let space = (room - blocks).min((limit - batch.records.len()) as u64);
        match take(state, &mut batch, item, space) {
            Taken::Whole(taken) => blocks += taken,
            Taken::Refused => refused += 1,
            Taken::Part(taken, rest) => {
                blocks += taken;
                state.queue.push_front(rest);
                break;
            }
        }
    }
    if batch.records.is_empty() {
        // Everything taken was refused; there may be more behind it.
        return if refused > 0 {
            next_batch(state, rules)
        } else {
            Next::Nothing
        };
    }
    finish(state, &mut batch, blocks);
    Next::Batch(Box::new(batch))
}

/// Gives the stripe its rows and number and pads it to whole rows.
fn finish(state: &mut State, batch: &mut Batch, blocks: u64) {
    batch.rows = rows_for(blocks, batch.shape);
    let pads = u64::from(batch.rows) * batch.shape.data as u64 - 1 - blocks;
    batch
        .records
        .extend((0..pads).map(|_| Record::Pad { crc: 0 }));
    state.sequence = batch.sequence;
    if let Some(segment) = state.segments.get_mut(batch.segment) {
        segment.rows += batch.rows;
    }
}

enum Taken {
    Whole(u64),
    Refused,
    Part(u64, Item),
}

/// The layer that an item goes to. The volume may have been deleted or cut short since the request
/// was checked.
fn layer_of(state: &State, item: &Item) -> Result<u32, IoError> {
    let (volume, start, blocks) = match item {
        Item::Write {
            volume,
            start,
            blocks,
            ..
        } => (volume, *start, *blocks),
        Item::Hole {
            volume,
            start,
            blocks,
            ..
        } => (volume, *start, u64::from(*blocks)),
    };
    match state.tables.volumes.get(volume) {
        Some(found) if start + blocks <= found.blocks => Ok(found.layer),
        Some(_) => Err(IoError::OutOfRange),
        None => Err(IoError::DeviceGone),
    }
}

/// Puts as much of an item into the batch as fits.
fn take(state: &mut State, batch: &mut Batch, item: Item, space: u64) -> Taken {
    let layer = match layer_of(state, &item) {
        Ok(layer) => layer,
        Err(error) => {
            state.queued_blocks = state.queued_blocks.saturating_sub(item.parts());
            item.request().finish(item.parts(), Err(error));
            return Taken::Refused;
        }
    };
    let (request, volume, start, blocks, source) = match item {
        Item::Hole {
            request,
            start,
            blocks,
            ..
        } => {
            batch.records.push(Record::Hole {
                layer,
                block: start,
                blocks,
            });
            batch.requests.push((request, 1));
            state.queued_blocks = state.queued_blocks.saturating_sub(1);
            return Taken::Whole(0);
        }
        Item::Write {
            request,
            volume,
            start,
            blocks,
            source,
        } => (request, volume, start, blocks, source),
    };
    let taken = match blocks <= space {
        true => blocks,
        false if blocks <= ATOMIC_BLOCKS => 0,
        false => space,
    };
    for offset in 0..taken {
        batch.records.push(Record::Data {
            layer,
            block: start + offset,
            crc: 0,
        });
        let block = source.block + offset as usize;
        batch.sources.push(Source {
            buffer: source.buffer.clone(),
            block,
        });
    }
    if taken > 0 {
        batch.requests.push((Rc::clone(&request), taken));
        state.queued_blocks = state.queued_blocks.saturating_sub(taken);
    }
    if taken == blocks {
        return Taken::Whole(taken);
    }
    let rest = Item::Write {
        request,
        volume,
        start: start + taken,
        blocks: blocks - taken,
        source: Source {
            block: source.block + taken as usize,
            ..source
        },
    };
    Taken::Part(taken, rest)
}

/// A stripe of moved blocks in the cleaner's segment: as many of `moves` as fit, from the front.
pub(crate) fn moved_batch(
    state: &mut State,
    rules: &Rules<'_>,
    moves: &mut Vec<(Record, Source)>,
) -> Option<Batch> {
    let number = open_segment(state, rules, Class::Moved, 1)?;
    let segment = state.segments.get(number)?;
    let shape = rules.level.shape(segment.columns.len());
    let rows_left = (rules.zone_rows - segment.rows).min(ROWS_MAX);
    let room = u64::from(rows_left) * shape.data as u64 - 1;
    let taken = moves
        .len()
        .min(room as usize)
        .min((RECORDS - shape.data) / 2);
    let mut batch = Batch {
        segment: number,
        generation: segment.generation,
        columns: segment.columns.clone(),
        shape,
        row: segment.rows,
        rows: 0,
        shard: state.share.shard as u32,
        sequence: state.sequence + 1,
        durable_through: state.applied,
        records: Vec::new(),
        sources: Vec::new(),
        requests: Vec::new(),
    };
    for (record, source) in moves.drain(..taken) {
        batch.records.push(record);
        batch.sources.push(source);
    }
    finish(state, &mut batch, taken as u64);
    Some(batch)
}
