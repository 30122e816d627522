//! What the coordinator of a pool and its other shards tell each other, and the ends of the wires.
//!
//! Everything that goes one way goes in one mailbox, so it arrives in the order in which it was
//! sent. Nobody waits while an order or a report is carried out that may itself have to wait, but
//! for turns that it gives others.

use crate::error::PoolError;
use crate::format::drive_layout::DriveLayout;
use crate::format::node::Node;
use crate::ids::{Incarnation, LayerId, SegmentNumber, Sequence, ShardId};
use crate::level::Level;
use crate::location::{BlockNumber, Entry};
use crate::map::overlay::Overlay;
use crate::offline::OfflineReason;
use crate::options::Settings;
use crate::reporting::event::PoolEvent;
use crate::reporting::status::Counters;
use crate::segments::cleaned::Cleaned;
use crate::segments::runs::Live;
use crate::segments::slices::{SHARDS_MAX, Share};
use crate::segments::{Segment, SegmentState, Table};
use crate::stripes::class::Class;
use crate::volumes::{Holder, Tables};
use block::IoError;
use reactor::Instant;
use reactor::mailbox::{self, Receiver, Sender};
use reactor::sync::Queue;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Orders and reports that fit into a mailbox before they wait at their sender.
const MAILBOX_MESSAGES: usize = 64;

/// A drive that one core waits for: its place, its identifier and for how long.
pub(crate) type Silent = (usize, [u8; 16], Duration);

#[derive(Clone, Copy)]
/// A drive as another shard finds it among the handles that it was given.
pub(crate) struct MemberDrive {
    /// Its place in the member list.
    pub index: usize,
    /// Its place among the drives that the pool was opened with.
    pub position: usize,
    pub id: [u8; 16],
    pub layout: DriveLayout,
}

/// What a shard starts from.
pub(crate) struct Begin {
    pub settings: Settings,
    pub level: Level,
    pub secret: [u8; 16],
    pub incarnation: Incarnation,
    pub newest: u64,
    pub width: usize,
    pub zone_rows: u32,
    pub members: Vec<MemberDrive>,
    /// How wide segments are made that lack drives, if they are.
    pub cramped: Option<usize>,
    pub share: Share,
    pub sequence: Sequence,
    pub view: View,
    /// Updates of its blocks that recovery found and the maps do not have.
    pub recovered: Overlay,
}

/// The maps after a merge, and where everything in them lies. One serves all shards: each makes
/// its own of it on its own core.
#[derive(Clone)]
pub(crate) struct View {
    pub tables: Arc<Tables>,
    pub segments: Table,
}

/// Which nodes of the map a merge has replaced by which.
#[derive(Default)]
pub(crate) struct Turnover {
    /// For shards on other cores, which would have to read them from the drives: as many as their
    /// caches take in. None where there is one shard.
    pub made: Vec<(Entry, Arc<Node>)>,
    /// In no tree any more, as far as the first shard's cache knows them.
    pub gone: Vec<Entry>,
}

/// What a shard set aside for a checkpoint.
pub(crate) struct Frozen {
    pub sequence: Sequence,
    pub overlay: Arc<Overlay>,
    /// The shard's own segments.
    pub segments: Vec<Written>,
    pub counters: Counters,
}

/// How far a shard has written a segment.
pub(crate) struct Written {
    pub number: SegmentNumber,
    pub state: SegmentState,
    pub rows: u32,
    pub sequence: Sequence,
}

/// What a shard uses of the room that it was dealt.
pub(crate) struct Usage {
    pub blocks: u64,
    /// A merge may show that some of it was used twice.
    pub dirty: bool,
}

/// How a shard is doing; the coordinator keeps the last that it heard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Standing {
    /// Its writer waits for a segment.
    pub starved: bool,
    /// It has been told to look so often before it asked for segments.
    pub looks: u64,
    pub overlay_full: bool,
    /// Updates wait for a checkpoint.
    pub dirty: bool,
    /// Blocks that are live by those updates.
    pub overlay_blocks: u64,
    /// No more of them can be new.
    pub new_blocks_most: u64,
    /// A durable stripe says that every one up to this was.
    pub covered: Sequence,
    /// Nodes of the map that it has in memory.
    pub cached_nodes: usize,
    pub counters: Counters,
}

/// From the coordinator to another shard.
pub(crate) enum Order {
    Begin(Box<Begin>, Sender<Result<(), PoolError>>),
    /// No stripe starts from now on; answered when none is in flight.
    Gate(Sender<()>),
    /// Stripes may start again.
    Open,
    /// The gate is closed: set the updates aside.
    Freeze {
        cut_off: Vec<(LayerId, Range<BlockNumber>)>,
        /// Write no segment any further.
        seal: bool,
        reply: Sender<Frozen>,
    },
    /// What was set aside is in the maps now.
    View {
        view: View,
        nodes: Arc<Turnover>,
        reply: Sender<()>,
    },
    /// Volumes and layers are these now; the maps are as they were.
    Tables(Arc<Tables>, Sender<()>),
    /// Answered when no reader is left that may have seen an earlier view.
    Retire(Sender<()>),
    /// There may be segments again.
    Look,
    /// Nobody else has the pool before this time.
    Lease(Instant),
    /// Every drive has a superblock in which this was new.
    Newest(u64),
    /// The writes that wait for a segment do so in vain.
    Refuse(IoError),
    /// Move a window of your blocks out of a segment.
    Clean(SegmentNumber, Sender<Cleaned>),
    /// Whether stripes are padded only if that cannot be helped.
    Frugal(bool),
    /// Take back the room that you do not use, and say how much you use: `exactly`, when every
    /// write under way that was admitted without a look at the map has been answered.
    Use {
        exactly: bool,
        reply: Sender<Usage>,
    },
    /// So many blocks more may be written. Answered, since the shard hears on another way that it
    /// may look again.
    Room(u64, Sender<()>),
    /// Who reads a block of a layer; nothing if it is not where it was.
    Readers(Live, Sender<Option<Vec<Holder>>>),
    /// Move these blocks of yours out of a segment that does not tell of them. Answered with how
    /// many were.
    Move {
        number: SegmentNumber,
        blocks: Vec<Live>,
        reply: Sender<u64>,
    },
    /// A drive is out of use.
    Fail(usize),
    /// New segments are of this width, and lack the drives that are gone; or they lack none.
    Cramped(Option<usize>),
    /// These drives take no new segments.
    Leaving(BTreeSet<usize>),
    /// A drive has joined: take the handle that was offered. Answered with whether there is one, or
    /// with why a drive that was offered does not tell.
    Place {
        drive: MemberDrive,
        reply: Sender<Result<bool, IoError>>,
    },
    /// There is no drive at this index any more.
    Remove(usize),
    Offline(OfflineReason),
    /// Accept no writes any more.
    Stop,
    /// The pool is closed.
    Quit,
}

/// From another shard to the coordinator.
pub(crate) enum Report {
    /// Members have failed, each with its place; answered when the membership knows.
    Failed {
        drives: Vec<(usize, [u8; 16])>,
        reply: Sender<Result<(), IoError>>,
    },
    /// A segment is wanted, or will be soon.
    Segment {
        shard: ShardId,
        class: Class,
        /// It is not needed yet.
        ahead: bool,
        reply: Sender<Option<(SegmentNumber, Segment)>>,
    },
    /// Room for so many blocks is wanted.
    Room {
        shard: ShardId,
        blocks: u64,
        reply: Sender<Result<(), IoError>>,
    },
    Standing(ShardId, Box<Standing>),
    /// A drive does not answer.
    Silent(Silent),
    /// Somebody asks what volumes have in use.
    Asked,
    Event(PoolEvent),
    Offline(OfflineReason),
}

/// Messages on their way out: telling never waits, and nothing overtakes.
pub(crate) struct Outbox<T>(Rc<Queue<T>>);

impl<T: Send + 'static> Outbox<T> {
    /// Sends what it is told to `mailbox`, in a task that ends with the outbox or the other end.
    pub fn new(mailbox: Sender<T>) -> Outbox<T> {
        let queue = Rc::new(Queue::unbounded());
        let from = queue.clone();
        drop(reactor::spawn(async move {
            while let Some(message) = from.pop().await {
                if mailbox.send(message).await.is_err() {
                    // Whoever waits for an answer is not to wait for ever.
                    from.close();
                }
            }
        }));
        Outbox(queue)
    }
}

impl<T> Outbox<T> {
    pub fn tell(&self, message: T) {
        // Nobody hears it when the other end is gone.
        let _ = self.0.try_push(message);
    }

    /// Tells something that is answered; `None` if the other end is gone.
    pub fn ask<A: Send>(&self, message: impl FnOnce(Sender<A>) -> T) -> Receiver<A> {
        let (reply, answer) = mailbox::channel(1);
        self.tell(message(reply));
        answer
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A core's end of the wires between the shards of one pool; it may be sent to that core.
pub struct Wiring {
    pub(crate) end: End,
}

pub(crate) enum End {
    Coordinator {
        /// To every other shard, the second first.
        orders: Vec<Sender<Order>>,
        reports: Receiver<Report>,
    },
    Shard {
        orders: Receiver<Order>,
        reports: Sender<Report>,
    },
}

/// The wires of a pool of `shards` shards. The first end opens the pool
/// ([`Pool::open_on`](crate::Pool::open_on)); each other one joins it
/// ([`Shard::join`](crate::Shard::join)).
///
/// # Panics
/// If there are to be no shards, or more than 256.
pub fn wire(shards: usize) -> Vec<Wiring> {
    assert!((1..=SHARDS_MAX).contains(&shards), "1 to 256 shards");
    let (to_coordinator, reports) = mailbox::channel(MAILBOX_MESSAGES);
    let (orders, others): (Vec<_>, Vec<_>) = (1..shards)
        .map(|_| {
            let (sender, orders) = mailbox::channel(MAILBOX_MESSAGES);
            let reports = to_coordinator.clone();
            let end = End::Shard { orders, reports };
            (sender, Wiring { end })
        })
        .unzip();
    let first = End::Coordinator { orders, reports };
    std::iter::once(Wiring { end: first })
        .chain(others)
        .collect()
}
