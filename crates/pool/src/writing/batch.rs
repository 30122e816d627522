//! Which stripe comes next: how wide, in which segment, and with how much of the queue. No I/O.

use crate::format::stripe::{RECORDS, ROWS_MAX, Record};
use crate::ids::{LayerId, SegmentNumber, ShardId};
use crate::level::Shape;
use crate::location::{ATOMIC_BLOCKS, BLOCK_BYTES, BlockNumber, each_of};
use crate::segments::{Kind, Segment, SegmentState};
use crate::shard::state::State;
use crate::stripes::class::{Class, Rules};
use crate::stripes::item::{Batch, Item, Move, Owner, Source};
use crate::volumes::Volume;
use block::{Buffer, IoError};
use std::collections::VecDeque;
use std::rc::Rc;

/// With so much waiting, a stripe starts although others are in flight.
pub(crate) const FULL_BLOCKS: u64 = 64;

/// What the writer is to do.
pub(crate) enum Next {
    Nothing,
    NoSpace,
    Batch(Box<Batch>),
}

/// The open segment of `class` if a stripe of `least` blocks fits behind its last, else a new one.
fn open_segment(
    state: &mut State,
    rules: &Rules,
    class: Class,
    least: u64,
) -> Option<SegmentNumber> {
    if let Some(number) = state.open.get(class) {
        let usable = state.segments.get(number).is_some_and(|segment| {
            // The segment may be narrower than usual: its own shape counts.
            let rows = rows_for(least, rules.level.shape(segment.columns.len()));
            rules.zone_rows - segment.rows >= rows && rules.accepts(&segment.columns)
        });
        if usable {
            return Some(number);
        }
        state.open.close(class);
        if let Some(segment) = state.segments.get_mut(number) {
            segment.state = SegmentState::Sealed;
        }
    }
    let kind = if class == Class::HostNarrow {
        Kind::Narrow
    } else {
        Kind::Wide
    };
    let ready: Vec<SegmentNumber> = state
        .segments
        .numbers(kind, SegmentState::Ready)
        .filter(|number| state.ready.may_be_written(*number))
        .filter(|number| class.moves() || !state.ready.is_for_moves(*number))
        .filter(|number| {
            let found = state.segments.get(*number);
            found.is_some_and(|segment| rules.accepts(&segment.columns))
        })
        .collect();
    // What is kept is kept by the coordinator.
    let kept = if class == Class::HostWide && state.share.shard == ShardId::FIRST {
        state.kept_for_cleaner(rules)
    } else {
        0
    };
    if ready.len() <= kept {
        return None;
    }
    let number = ready[0];
    let (sequence, writer) = (state.log.given(), state.share.shard);
    let segment = state.segments.get_mut(number)?;
    segment.state = SegmentState::Open;
    segment.sequence = sequence;
    segment.writer = Some(writer);
    segment.moved = class.moves();
    state.open.open(class, number);
    state.ready.used(number);
    Some(number)
}

fn rows_for(blocks: u64, shape: Shape) -> u32 {
    let most = u64::from(rows_max(shape, 1));
    (blocks + 1).div_ceil(shape.data as u64).min(most) as u32
}

/// Rows of a stripe whose every block takes `records` of them in the header.
fn rows_max(shape: Shape, records: usize) -> u32 {
    let rows = (RECORDS / records + 1) / shape.data;
    (rows as u32).clamp(1, ROWS_MAX)
}

fn blocks_of(buffer: &Buffer) -> u64 {
    (buffer.len() / BLOCK_BYTES) as u64
}

/// Blocks that `rows` rows hold beside the header.
fn blocks_in(rows: u32, shape: Shape) -> u64 {
    (u64::from(rows) * shape.data as u64).saturating_sub(1)
}

/// Turns the head of the queue into a stripe.
pub(crate) fn next_batch(state: &mut State, rules: &Rules) -> Next {
    let (wide, narrow) = (rules.wide(), rules.narrow());
    let waiting: u64 = state
        .queue
        .iter()
        .map(|item| match item {
            Item::Write { buffer, .. } => blocks_of(buffer),
            Item::Hole { .. } => 0,
        })
        .take(RECORDS)
        .sum();
    let head_is_hole = matches!(state.queue.head(), Some(Item::Hole { .. }));
    // What must go in as a whole decides how many rows are the least.
    let least = match state.queue.head() {
        Some(Item::Write { buffer, .. }) => match blocks_of(buffer) {
            blocks if blocks <= ATOMIC_BLOCKS => blocks,
            _ => 1,
        },
        _ => 0,
    };
    let cost = |shape: Shape| u64::from(rows_for(waiting, shape)) * shape.width() as u64;
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
            state.queue.note_room(true);
            let room = Room {
                waiting,
                least,
                holes_only: last_resort,
            };
            return fill(state, rules, segment, room);
        }
    }
    state.queue.note_room(false);
    Next::NoSpace
}

/// Rows for what waits: in a pool that is short of space rather whole ones, even if some wait for
/// the next stripe, than padded ones.
fn rows_wanted(waiting: u64, shape: Shape, rows_left: u32, frugal: bool) -> u32 {
    let all = rows_for(waiting, shape).min(rows_left);
    let whole = ((waiting + 1) / shape.data as u64) as u32;
    if frugal && whole > 0 {
        all.min(whole)
    } else {
        all
    }
}

/// What a stripe is to take in.
struct Room {
    waiting: u64,
    /// The queue's head must fit as a whole.
    least: u64,
    holes_only: bool,
}

fn fill(state: &mut State, rules: &Rules, number: SegmentNumber, wanted: Room) -> Next {
    let Some(segment) = state.segments.get(number) else {
        return Next::Nothing;
    };
    let shape = rules.level.shape(segment.columns.len());
    let rows_left = rules.zone_rows - segment.rows;
    let rows = rows_wanted(wanted.waiting, shape, rows_left, state.frugal);
    let room = blocks_in(rows.max(rows_for(wanted.least, shape)), shape);
    let mut batch = empty_batch(state, segment, number, shape, false);
    batch.records.reserve(room as usize);
    let mut blocks = 0;
    let mut holes = 0;
    let mut refused = 0;
    while let Some(item) = state.queue.pop() {
        let unwanted = wanted.holes_only && matches!(item, Item::Write { .. });
        // Padded to whole rows, all records must fit the header.
        let rows = (RECORDS + 1 - holes) / shape.data;
        let space = room
            .min(blocks_in(rows as u32, shape))
            .saturating_sub(blocks);
        let full = match item {
            Item::Write { .. } => space == 0,
            Item::Hole { .. } => {
                blocks_in(rows_for(blocks, shape), shape) + holes as u64 >= RECORDS as u64
            }
        };
        if unwanted || full {
            state.queue.put_back(item);
            break;
        }
        holes += usize::from(matches!(item, Item::Hole { .. }));
        match take(state, &mut batch, item, space) {
            Taken::Whole(taken) => blocks += taken,
            Taken::Refused => refused += 1,
            Taken::Part(taken, rest) => {
                blocks += taken;
                state.queue.put_back(rest);
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

/// The next stripe of `segment`, with nothing in it yet.
fn empty_batch(
    state: &State,
    segment: &Segment,
    number: SegmentNumber,
    shape: Shape,
    moved: bool,
) -> Batch {
    Batch {
        segment: number,
        generation: segment.generation,
        columns: segment.columns.clone(),
        shape,
        row: segment.rows,
        rows: 0,
        shard: state.share.shard,
        sequence: state.log.given().next(),
        durable_through: state.log.applied(),
        records: Vec::new(),
        sources: Vec::new(),
        requests: Vec::new(),
        moved,
    }
}

/// Gives the stripe its rows and number and pads it to whole rows.
fn finish(state: &mut State, batch: &mut Batch, blocks: u64) {
    batch.rows = rows_for(blocks, batch.shape);
    let pads = u64::from(batch.rows) * batch.shape.data as u64 - 1 - blocks;
    batch
        .records
        .extend((0..pads).map(|_| Record::Pad { crc: 0 }));
    state.log.give(batch.sequence);
    if let Some(segment) = state.segments.get_mut(batch.segment) {
        segment.rows += batch.rows;
    }
}

enum Taken {
    Whole(u64),
    Refused,
    Part(u64, Item),
}

/// The volume that an item goes to. It may have been deleted, cut short or rolled back since the
/// request was checked.
fn volume_of<'a>(state: &'a State, item: &Item) -> Result<&'a Volume, IoError> {
    let (volume, wanted, start, blocks) = match item {
        Item::Write {
            volume,
            revision,
            start,
            buffer,
            ..
        } => (volume, *revision, *start, blocks_of(buffer)),
        Item::Hole {
            volume,
            start,
            blocks,
            ..
        } => (volume, None, *start, u64::from(*blocks)),
    };
    match state.tables.volumes.get(volume) {
        Some(found) if wanted.is_some_and(|wanted| wanted != found.revision()) => {
            Err(IoError::Aborted)
        }
        Some(found) if start + blocks <= BlockNumber::FIRST + found.blocks => Ok(found),
        Some(_) => Err(IoError::OutOfRange),
        None => Err(IoError::DeviceGone),
    }
}

/// An item is not put into a stripe: it fails, or is judged anew where nothing is wrong with it.
fn refuse(error: Option<IoError>, item: Item) -> Taken {
    match error {
        Some(error) => item.fail(error),
        None => item.overtake(),
    }
    Taken::Refused
}

/// Puts as much of an item into the batch as fits.
fn take(state: &State, batch: &mut Batch, item: Item, space: u64) -> Taken {
    let layer = match volume_of(state, &item) {
        Ok(volume) if item.is_backed(volume) => volume.layer,
        otherwise => return refuse(otherwise.err(), item),
    };
    let (request, volume, revision, start, backing, mut buffer) = match item {
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
            return Taken::Whole(0);
        }
        Item::Write {
            request,
            volume,
            revision,
            start,
            backing,
            buffer,
        } => (request, volume, revision, start, backing, buffer),
    };
    let blocks = blocks_of(&buffer);
    let taken = match blocks <= space {
        true => blocks,
        false if blocks <= ATOMIC_BLOCKS => 0,
        false => space,
    };
    let rest = match taken {
        0 => Some(buffer),
        _ => {
            let rest = (taken < blocks).then(|| buffer.split_off(taken as usize * BLOCK_BYTES));
            let request = request.clone();
            put(batch, layer, Owner { request, start }, buffer);
            rest
        }
    };
    let Some(buffer) = rest else {
        return Taken::Whole(taken);
    };
    let rest = Item::Write {
        request,
        volume,
        revision,
        start: start + taken,
        buffer,
        backing,
    };
    Taken::Part(taken, rest)
}

/// Puts all of a buffer into the batch.
fn put(batch: &mut Batch, layer: LayerId, owner: Owner, buffer: Buffer) {
    let blocks = blocks_of(&buffer);
    let range = each_of(owner.start..owner.start + blocks);
    batch.records.extend(range.map(|block| {
        let crc = 0;
        Record::Data { layer, block, crc }
    }));
    batch.requests.push((Rc::clone(&owner.request), blocks));
    batch.sources.push(Source {
        buffer,
        owner: Some(owner),
    });
}

/// Blocks that can be moved whatever hosts write meanwhile.
pub(crate) fn moved_room(state: &State, rules: &Rules) -> u64 {
    let ready = state
        .segments
        .numbers(Kind::Wide, SegmentState::Ready)
        .filter(|number| state.ready.may_be_written(*number))
        .filter(|number| state.share.shard == ShardId::FIRST || state.ready.is_for_moves(*number))
        .take(rules.kept);
    let open = [Class::Moved, Class::MovedAgain].map(|class| state.open.get(class));
    let segments = ready
        .chain(open.into_iter().flatten())
        .filter_map(|number| state.segments.get(number));
    let rooms = segments.map(|segment| {
        let shape = rules.level.shape(segment.columns.len());
        let rows = rules.zone_rows - segment.rows;
        let stripes = rows.div_ceil(rows_max(shape, 2));
        u64::from(rows) * shape.data as u64 - u64::from(stripes)
    });
    // Each of the two kinds of moved blocks may end with a row that is not full.
    rooms.sum::<u64>().saturating_sub(rules.wide().data as u64)
}

/// Blocks that fill a stripe of hosts' in a segment of the usual width.
pub(crate) fn host_stripe_blocks(rules: &Rules) -> u64 {
    stripe_blocks(rules, 1)
}

/// Blocks that fill a stripe of moved ones in a segment of the usual width.
pub(crate) fn moved_stripe_blocks(rules: &Rules) -> usize {
    stripe_blocks(rules, 2).max(1) as usize
}

/// As many fill a stripe in a segment of the usual width if each takes `records` of the header.
fn stripe_blocks(rules: &Rules, records: usize) -> u64 {
    let shape = rules.wide();
    blocks_in(rows_max(shape, records).min(rules.zone_rows), shape)
}

/// The cleaner's segment of `class`. Where no further one lies ready, what is left in the other
/// class's: all room that there is serves both.
fn moved_segment(state: &mut State, rules: &Rules, class: Class) -> Option<SegmentNumber> {
    let other = match class {
        Class::MovedAgain => Class::Moved,
        _ => Class::MovedAgain,
    };
    let found = open_segment(state, rules, class, 1);
    found.or_else(|| {
        state.open.get(other)?;
        open_segment(state, rules, other, 1)
    })
}

/// A stripe of moved blocks in the cleaner's segment of `class`: as many of `moves` as fit, from
/// the front.
pub(crate) fn moved_batch(
    state: &mut State,
    rules: &Rules,
    class: Class,
    moves: &mut VecDeque<Move>,
) -> Option<Batch> {
    let number = moved_segment(state, rules, class)?;
    let segment = state.segments.get(number)?;
    let shape = rules.level.shape(segment.columns.len());
    let rows = rows_max(shape, 2).min(rules.zone_rows - segment.rows);
    let taken = moves.len().min(blocks_in(rows, shape) as usize);
    let mut batch = empty_batch(state, segment, number, shape, true);
    batch.records.reserve(taken);
    for Move { record, buffer, .. } in moves.drain(..taken) {
        batch.records.push(record);
        let owner = None;
        batch.sources.push(Source { buffer, owner });
    }
    finish(state, &mut batch, taken as u64);
    Some(batch)
}
