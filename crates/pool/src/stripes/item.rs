//! What is to be written, on its way into a stripe, and the stripe that it becomes.

use crate::format::stripe::Record;
use crate::ids::{Generation, SegmentNumber, Sequence, ShardId, VolumeId};
use crate::level::Shape;
use crate::location::{BLOCK_BYTES, BlockNumber, LayerBlock, Location};
use crate::segments::zones::Zone;
use crate::stripes::buffers::put_together;
use crate::volumes::Volume;
use crate::volumes::backing::Backing;
use block::{Buffer, IoError};
use reactor::sync::Signal;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A host's write or deallocation, until all of it is durable.
pub(crate) struct Request {
    /// Blocks (of a write) or pieces (of a deallocation) that are not yet durable.
    remaining: Cell<u64>,
    error: Cell<Option<IoError>>,
    /// From this block on it was not done: the space for that is to be asked for again.
    overtaken: Cell<Option<BlockNumber>>,
    /// What has been given back of the buffer that is written, with its first block's number:
    /// mostly all of it at once.
    given_back: Cell<Option<(BlockNumber, Buffer)>>,
    /// Further parts of it.
    parts: RefCell<Vec<(BlockNumber, Buffer)>>,
    done: Signal<()>,
}

impl Request {
    pub fn new(parts: u64) -> Rc<Request> {
        Rc::new(Request {
            remaining: Cell::new(parts),
            error: Cell::new(None),
            overtaken: Cell::new(None),
            given_back: Cell::default(),
            parts: RefCell::default(),
            done: Signal::new(),
        })
    }

    /// A part of the buffer, from block `start` on, is not needed any more.
    pub fn give_back(&self, start: BlockNumber, part: Buffer) {
        if let Some(earlier) = self.given_back.replace(Some((start, part))) {
            self.parts.borrow_mut().push(earlier);
        }
    }

    /// The buffer that was written, when nothing remains to be done.
    pub fn take_buffer(&self) -> Buffer {
        let last = self.given_back.take();
        let mut parts = self.parts.take();
        match last {
            Some((_, whole)) if parts.is_empty() => return whole,
            last => parts.extend(last),
        }
        parts.sort_unstable_by_key(|(start, _)| *start);
        put_together(parts.into_iter().map(|(_, part)| part).collect())
    }

    /// `parts` of it are through, or have failed.
    pub fn finish(&self, parts: u64, result: Result<(), IoError>) {
        if let Err(error) = result {
            self.error.set(Some(error));
        }
        let remaining = self.remaining.get().saturating_sub(parts);
        self.remaining.set(remaining);
        if remaining == 0 {
            self.done.set(());
        }
    }

    /// Nothing remains to be done.
    pub fn is_done(&self) -> bool {
        self.remaining.get() == 0
    }

    pub async fn wait(&self) -> Result<(), IoError> {
        self.done.wait().await;
        self.error.get().map_or(Ok(()), Err)
    }

    /// Nothing is wrong with it, but what it was admitted for is so no more: it begins anew from
    /// this block on. What is before that is written.
    pub fn overtaken_from(&self) -> Option<BlockNumber> {
        let first = self.overtaken.get();
        first.filter(|_| self.error.get().is_none())
    }
}

/// A write that nobody waits for any more and that is under way: it counts until it has ended.
pub(crate) struct Left {
    pub request: Rc<Request>,
    pub blocks: u64,
    pub guessed: u64,
}

/// A block on its way out of a segment that is being cleaned.
pub(crate) struct Move {
    pub record: Record,
    pub buffer: Buffer,
    /// It was moved to where it is.
    pub again: bool,
}

impl Move {
    /// Whose the block is.
    pub fn owner(&self) -> Option<LayerBlock> {
        self.record.owner().map(|(owner, _)| owner)
    }
}

/// What waits to be put into a stripe.
pub(crate) enum Item {
    Write {
        request: Rc<Request>,
        volume: VolumeId,
        /// Written only while the volume's blocks are of this revision, if it is said.
        revision: Option<u64>,
        start: BlockNumber,
        buffer: Buffer,
        backing: Backing,
    },
    Hole {
        request: Rc<Request>,
        volume: VolumeId,
        start: BlockNumber,
        blocks: u32,
    },
}

impl Item {
    pub fn request(&self) -> &Rc<Request> {
        match self {
            Item::Write { request, .. } | Item::Hole { request, .. } => request,
        }
    }

    /// True for a deallocation.
    pub fn is_hole(&self) -> bool {
        matches!(self, Item::Hole { .. })
    }

    pub fn parts(&self) -> u64 {
        match self {
            Item::Write { buffer, .. } => (buffer.len() / BLOCK_BYTES) as u64,
            Item::Hole { .. } => 1,
        }
    }

    /// True while what is to be written has the space that it was admitted for.
    pub fn is_backed(&self, volume: &Volume) -> bool {
        match self {
            Item::Write { backing, .. } => backing.stands(volume),
            Item::Hole { .. } => true,
        }
    }

    /// It will not be done.
    pub fn fail(self, error: IoError) {
        self.end(Err(error));
    }

    /// It will not be done before its space was asked for again.
    pub fn overtake(self) {
        if let Item::Write { request, start, .. } = &self {
            request.overtaken.set(Some(*start));
        }
        self.end(Ok(()));
    }

    fn end(self, result: Result<(), IoError>) {
        let parts = self.parts();
        let request = self.request().clone();
        if let Item::Write { start, buffer, .. } = self {
            request.give_back(start, buffer);
        }
        request.finish(parts, result);
    }
}

/// A stripe that is to be written.
pub(crate) struct Batch {
    pub segment: SegmentNumber,
    pub generation: Generation,
    pub columns: Vec<Option<Zone>>,
    pub shape: Shape,
    pub row: u32,
    pub rows: u32,
    pub shard: ShardId,
    pub sequence: Sequence,
    pub durable_through: Sequence,
    /// Checksums are filled in when the stripe is laid out.
    pub records: Vec<Record>,
    pub sources: Vec<Source>,
    pub requests: Vec<(Rc<Request>, u64)>,
    /// It holds what the cleaner moves.
    pub moved: bool,
}

/// A stripe that is on the drives, or that never will be.
pub(crate) struct Completed {
    pub segment: SegmentNumber,
    pub row: u32,
    pub rows: u32,
    /// Every stripe up to this one was durable before.
    pub durable_through: Sequence,
    pub records: Vec<Record>,
    pub requests: Vec<(Rc<Request>, u64)>,
    pub result: Result<(), IoError>,
}

impl Completed {
    /// Where block `index` of the stripe lies; block 0 is the header.
    pub fn place(&self, index: usize) -> Location {
        place(self.segment, self.row, self.rows, index)
    }
}

/// Blocks go down one column after the other.
pub(crate) fn place(segment: SegmentNumber, row: u32, rows: u32, index: usize) -> Location {
    Location {
        segment,
        column: (index / rows as usize) as u8,
        row: row + (index % rows as usize) as u32,
    }
}

/// Blocks of a stripe that lie together in memory.
pub(crate) struct Source {
    pub buffer: Buffer,
    /// Who waits for the buffer; nobody for what the cleaner moves.
    pub owner: Option<Owner>,
}

/// Where a buffer goes back to.
#[derive(Clone)]
pub(crate) struct Owner {
    pub request: Rc<Request>,
    /// Block number of what is first in it.
    pub start: BlockNumber,
}
