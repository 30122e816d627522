//! [`Core`]: what the parts of an open pool share, and the rules by which its state changes.

use crate::coordinator::Coordinator;
use crate::drives::array::Array;
use crate::fence::TAKEN_OVER;
use crate::format::node::Node;
use crate::format::stripe::Record;
use crate::location::{BLOCK_BYTES, Entry, Location};
use crate::map::cache::NodeCache;
use crate::map::overlay::Overlay;
use crate::map::tree::Nodes;
use crate::messages::{Outbox, Report};
use crate::mutation::Mutation;
use crate::options::Settings;
use crate::reporting::event::PoolEvent;
use crate::reporting::status::{Counters, PoolState};
use crate::segments::admitted::Admitted;
use crate::segments::moving::Moving;
use crate::segments::readers::Readers;
use crate::segments::slices::Share;
use crate::segments::space::{Size, SizeOf};
use crate::segments::victim::{Unmapped, Victim};
use crate::segments::zones::Zone;
use crate::segments::{Kind, Segment, SegmentState, Segments};
use crate::stripes::class::Class;
use crate::stripes::item::{Completed, Item};
use crate::together::Together;
use crate::volumes::Tables;
use block::{BlockDevice, Buffer, IoError};
use reactor::mailbox::Sender;
use reactor::sync::Notify;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Weak;
use std::sync::Arc;

/// What is free when nobody reads there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    Segment(u32),
    /// A zone that a segment has left for another.
    Zone(Zone),
}

/// Everything that changes.
pub(crate) struct State {
    pub segments: Segments,
    /// Updates since the last freeze.
    pub overlay: Overlay,
    /// Updates that a checkpoint is merging.
    pub frozen: Arc<Overlay>,
    /// Memory for the updates after the next freeze.
    pub spare: Overlay,
    pub tables: Tables,
    /// Blocks that they promise, as last counted: every write asks.
    pub promised: u64,
    /// There are layers that nobody needs.
    pub unneeded: bool,
    /// How often the tables were changed.
    pub tables_version: u64,
    /// The blocks that this shard serves.
    pub share: Share,
    /// The last sequence number given to a stripe.
    pub sequence: u64,
    /// Stripes up to this one are durable and in the overlay (or the map).
    pub applied: u64,
    /// Open data segments, by class.
    pub open: [Option<u32>; Class::COUNT],
    /// The map's open segment.
    pub map_open: Option<u32>,
    /// Stripes that are durable but wait for an earlier one.
    pub completed: BTreeMap<u64, Completed>,
    pub in_flight: usize,
    /// Those of them that hold moved blocks.
    pub moved_in_flight: usize,
    /// Free segments are few: stripes are not padded if that can be helped.
    pub frugal: bool,
    /// A segment was opened since upkeep last looked.
    pub segment_opened: bool,
    /// Writes and deallocations not yet in a stripe.
    pub queue: VecDeque<Item>,
    pub queued_blocks: u64,
    /// Space that writes under way will take.
    pub admitted: Admitted,
    /// The writer found no room for the queue's head.
    pub starved: bool,
    /// It has waited while much was done about it.
    pub urgent: bool,
    /// Blocks on their way out of a segment that is being cleaned.
    pub moving: Moving,
    /// The segment that the cleaner has left half way.
    pub cleaning: Option<Victim>,
    /// While positive, no stripe starts.
    pub gate: usize,
    /// Ready segments that no durable checkpoint names yet: not to be written.
    pub unannounced: BTreeSet<u32>,
    pub map_nodes: u64,
    /// Counts the merges; readers hold on to the number at which they began.
    pub era: u64,
    pub readers: Readers,
    /// What was freed but a reader may still be in, by the era in which that was.
    pub limbo: VecDeque<(u64, Freed)>,
    /// Zones that segments have left for others; the tables on the drives may still name them.
    pub vacated: Vec<Zone>,
    /// Data segments that were sealed, with nothing in flight, at the last checkpoint.
    pub settled: BTreeSet<u32>,
    /// Segments that hold a live block which cannot be read; cleaning them is of no use.
    pub stuck: BTreeSet<u32>,
    /// Segments out of which everything was moved since the last checkpoint that could be; true if
    /// nothing there can have been overlooked.
    pub emptied: BTreeMap<u32, bool>,
    /// Blocks that the cleaner or a scrub could not look up: the next checkpoint gives up the nodes
    /// of the map that told of them.
    pub unmapped: BTreeSet<Unmapped>,
    /// Those of which it is certain that the logs have replaced every block that the maps still
    /// have there, and of each shard up to which stripe that took.
    pub replaced: BTreeMap<u32, Vec<(u64, u64)>>,
    /// A stripe that is durable says that every one up to this was: recovery counts them.
    pub covered: u64,
    /// Segments to which stripes of a former holder may still come: their zones stay theirs.
    pub quarantined: BTreeSet<u32>,
    /// How often each segment has been cleaned.
    pub attempts: BTreeMap<u32, u32>,
    /// Segments that other shards were given to write, and which shard.
    pub lent: BTreeMap<u32, u64>,
    /// Segments that were lent to this shard for moved blocks.
    pub for_moves: BTreeSet<u32>,
    /// Blocks that this shard may hold by updates, where there are several shards.
    pub room: u64,
    /// What the next checkpoint asks of the shards.
    pub at_freeze: AtFreeze,
    /// Who waits for the readers of an era and of earlier ones to end.
    pub retiring: Vec<(u64, Sender<()>)>,
}

/// One shard of an open pool: the log, the latest updates and the cache of one core.
pub(crate) struct Core<D> {
    pub array: Array<D>,
    pub settings: Settings,
    pub secret: [u8; 16],
    pub incarnation: Cell<u64>,
    /// What was new in the superblocks last, of those that every drive has: stripes tell of it.
    pub newest: Cell<u64>,
    pub width: usize,
    /// Rows of every zone.
    pub zone_rows: u32,
    /// How many shards the pool has.
    pub shards: u64,
    /// The pool's size on certain drives: the bits of their indices, and how often they changed.
    pub known_size: Cell<Option<(SizeOf, Size)>>,
    pub state: RefCell<State>,
    pub cache: RefCell<NodeCache>,
    pub together: RefCell<Together>,
    /// The writer has something to look at.
    pub work: Notify,
    /// The upkeep task has something to look at.
    pub upkeep: Notify,
    /// A stripe landed.
    pub landed: Notify,
    /// No write is under way that was admitted without a look at the map.
    pub looked_up: Notify,
    pub offline: Cell<Option<&'static str>>,
    pub stopping: Cell<bool>,
    /// How often other shards were told to look for segments; at another shard, how often it was.
    pub looks: Cell<u64>,
    /// The totals that the coordinator was told last, at another shard.
    pub told: Cell<Counters>,
    /// Requests of hosts so far, of every kind.
    pub requests: Cell<u64>,
    /// Live blocks at which the space in use is worth a look.
    pub look_at_blocks: Cell<u64>,
    /// Who decides for the whole pool.
    pub link: OnceCell<Link<D>>,
}

/// How a shard reaches who decides for the whole pool.
pub(crate) enum Link<D> {
    /// It is the first shard: the coordinator is here.
    Home(Weak<Coordinator<D>>),
    /// It is another: reports go out.
    Away(Outbox<Report>),
}

/// What the shards are to do besides when they set their updates aside.
#[derive(Default)]
pub(crate) struct AtFreeze {
    /// Blocks of layers that are cut off, and read as zeroes if they ever come back.
    pub cut_off: Vec<(u32, Range<u64>)>,
    /// Segments are written no further.
    pub seal: bool,
}

impl State {
    /// Maps a block that a stripe brought.
    pub fn map_block(&mut self, layer: u32, block: u64, entry: Entry) {
        if let Some(old) = self.overlay.put(layer, block, entry) {
            self.segments.overlay_lost(old);
        }
        self.segments.overlay_gained(entry);
    }

    /// Applies a durable stripe of the shard that has `share`. `moved` decides whether a moved
    /// block still counts.
    pub fn apply(
        &mut self,
        stripe: &Completed,
        share: Share,
        mut moved: impl FnMut(&mut State, u32, u64, Location, u32) -> bool,
    ) {
        let mut index = 0;
        // Mostly all blocks of a stripe are of one layer.
        let mut known = None;
        for record in &stripe.records {
            let at = stripe.place(index + 1);
            index += usize::from(record.crc().is_some());
            match *record {
                Record::Data { layer, block, crc } => {
                    if let Some(layer) = self.resolve_again(layer, &mut known) {
                        self.moving.end(layer, block);
                        self.map_block(layer, block, Entry { at, crc });
                        self.admitted.wrote();
                    }
                }
                Record::Moved {
                    layer,
                    block,
                    crc,
                    from,
                    generation,
                } => {
                    if let Some(layer) = self.resolve_again(layer, &mut known)
                        && moved(self, layer, block, from, generation)
                    {
                        self.map_block(layer, block, Entry { at, crc });
                    }
                }
                Record::Hole {
                    layer,
                    block,
                    blocks,
                } => {
                    if let Some(layer) = self.tables.resolve(layer) {
                        self.unmap(share, layer, block..block + u64::from(blocks));
                    }
                }
                Record::Pad { .. } => {}
            }
        }
    }

    /// As [`Tables::resolve`]; `known` is the layer that was last asked for, and the answer.
    fn resolve_again(&self, layer: u32, known: &mut Option<(u32, Option<u32>)>) -> Option<u32> {
        match *known {
            Some((asked, answer)) if asked == layer => answer,
            _ => known.insert((layer, self.tables.resolve(layer))).1,
        }
    }

    /// Unmaps blocks that were given back, those in `share`.
    pub fn unmap(&mut self, share: Share, layer: u32, blocks: Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        self.moving.end_all(layer, blocks.clone(), share);
        for entry in self.overlay.clear(layer, blocks, share) {
            self.segments.overlay_lost(entry);
        }
    }

    /// Frees what was freed in an era that no reader is in any more.
    pub fn release_limbo(&mut self) {
        let oldest = match Mutation::FreesUnderReaders.is_planted() {
            true => u64::MAX,
            false => self.readers.oldest().unwrap_or(u64::MAX),
        };
        self.retiring.retain(|(era, reply)| {
            let ended = *era < oldest;
            // Who asked may have gone.
            let _ = ended.then(|| reply.try_send(()));
            !ended
        });
        while let Some((_, freed)) = self.limbo.pop_front_if(|(era, _)| *era < oldest) {
            match freed {
                Freed::Segment(number) => {
                    self.segments.release(number);
                    self.stuck.remove(&number);
                    self.attempts.remove(&number);
                }
                Freed::Zone(zone) => self.segments.zones_mut().vacate([zone]),
            }
        }
    }

    /// Adds the zones of a drive that joined, or takes away those of one that left.
    pub fn set_drive(&mut self, drive: usize, zones: u32) {
        let stays = |zone: Zone| usize::from(zone.drive) != drive;
        self.vacated.retain(|zone| stays(*zone));
        self.limbo.retain(|(_, freed)| match freed {
            Freed::Zone(zone) => stays(*zone),
            Freed::Segment(_) => true,
        });
        self.segments.zones_mut().set_drive(drive, zones);
    }

    /// A segment is never written again, and what was to be written there has been.
    pub fn is_final(&self, number: u32, segment: &Segment) -> bool {
        let settled = segment.kind == Kind::Map || self.settled.contains(&number);
        segment.state == SegmentState::Sealed && settled
    }

    /// Zones that no segment has any more, and that wait for their readers.
    pub fn zones_in_limbo(&self) -> impl Iterator<Item = Zone> {
        self.limbo.iter().filter_map(|(_, freed)| match freed {
            Freed::Zone(zone) => Some(*zone),
            Freed::Segment(_) => None,
        })
    }

    /// A freed segment waits for its readers.
    pub fn in_limbo(&self, number: u32) -> bool {
        let mut freed = self.limbo.iter().map(|(_, freed)| *freed);
        freed.any(|freed| freed == Freed::Segment(number))
    }
}

/// While it lives, no block that was mapped when it was made is overwritten.
pub(crate) struct Reading<'a, D> {
    core: &'a Core<D>,
    era: u64,
}

impl<D> Drop for Reading<'_, D> {
    fn drop(&mut self) {
        self.core.leave(self.era);
    }
}

impl<D> Core<D> {
    /// A reader begins; returns its era.
    pub fn enter(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        let era = state.era;
        state.readers.enter(era);
        era
    }

    /// A reader of `era` has ended.
    pub fn leave(&self, era: u64) {
        let mut state = self.state.borrow_mut();
        if state.readers.leave(era) {
            let waiting = state.limbo.len();
            state.release_limbo();
            if state.limbo.len() < waiting {
                self.upkeep.notify_one();
            }
        }
    }
}

impl<D: BlockDevice> Core<D> {
    pub fn reading(&self) -> Reading<'_, D> {
        Reading {
            core: self,
            era: self.enter(),
        }
    }

    /// Takes the pool out of service: everything waiting fails.
    pub fn go_offline(&self, reason: &'static str) {
        if self.offline.get().is_none() {
            self.offline.set(Some(reason));
            if reason == TAKEN_OVER {
                self.array.lease.end();
            }
            tracing::error!(reason, "pool offline");
            let state = PoolState::Offline;
            self.array.events.push(PoolEvent::State {
                state,
                reason: Some(reason),
            });
            self.array.events.close();
            self.pass_on_offline(reason);
        }
        self.work.notify_one();
        self.upkeep.notify_one();
        self.landed.notify_all();
    }

    pub fn columns(&self, segment: u32) -> Option<Vec<Option<Zone>>> {
        Some(self.state.borrow().segments.get(segment)?.columns.clone())
    }

    pub fn zone_of(&self, at: Location) -> Option<Zone> {
        self.state.borrow().segments.zone_of(at)
    }
}

impl<D: BlockDevice> Nodes for Core<D> {
    async fn load(&self, entry: Entry) -> Result<Arc<Node>, IoError> {
        if let Some(node) = self.cache.borrow().get(entry) {
            return Ok(node.clone());
        }
        let (buffer, result) = self
            .read_run([entry].into_iter(), Buffer::new(BLOCK_BYTES))
            .await;
        result?;
        let node = Arc::new(Node::parse(buffer).ok_or(IoError::Internal)?);
        self.cache.borrow_mut().insert(entry, node.clone());
        Ok(node)
    }
}
