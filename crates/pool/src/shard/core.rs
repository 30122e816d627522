//! [`Core`]: what the parts of an open pool share, and the rules by which its state changes.

use crate::drives::array::Array;
use crate::ids::{Era, Incarnation, SegmentNumber};
use crate::location::{BLOCK_BYTES, Location};
use crate::map::cache::NodeCache;
use crate::mutation::Mutation;
use crate::offline::OfflineReason;
use crate::options::Settings;
use crate::reporting::event::PoolEvent;
use crate::reporting::status::{Counters, PoolState};
use crate::segments::space::{Size, SizeOf};
use crate::segments::zones::Zone;
use crate::shard::batched_lookup::BatchedLookup;
use crate::shard::coordinator::Coordinator;
use crate::shard::in_use::InUse;
use crate::shard::messages::{Outbox, Report};
use crate::shard::state::State;
use block::BlockDevice;
use reactor::sync::Notify;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Weak;

/// One shard of an open pool: the log, the latest updates and the cache of one core.
pub(crate) struct Core<D> {
    pub array: Array<D>,
    pub settings: Settings,
    pub secret: [u8; 16],
    pub incarnation: Cell<Incarnation>,
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
    pub batched_lookup: RefCell<BatchedLookup>,
    /// The writer has something to look at.
    pub work: Notify,
    /// The upkeep task has something to look at.
    pub upkeep: Notify,
    /// A stripe landed.
    pub landed: Notify,
    /// No write is under way that was admitted without a look at the map.
    pub looked_up: Notify,
    pub offline: Cell<Option<OfflineReason>>,
    pub stopping: Cell<bool>,
    /// How often other shards were told to look for segments; at another shard, how often it was.
    pub looks: Cell<u64>,
    /// The totals that the coordinator was told last, at another shard.
    pub told: Cell<Counters>,
    /// Requests of hosts so far, of every kind.
    pub requests: Cell<u64>,
    /// Live blocks at which the space in use is worth a look.
    pub look_at_blocks: Cell<u64>,
    /// What volumes have in use that share blocks with others.
    pub in_use: InUse,
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

/// While it lives, no block that was mapped when it was made is overwritten.
pub(crate) struct Reading<'a, D> {
    core: &'a Core<D>,
    era: Era,
}

impl<D> Drop for Reading<'_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a panic found half changed may panic again, which would end the process.
            return;
        }
        self.core.leave(self.era);
    }
}

impl<D> Core<D> {
    /// A reader begins; returns its era.
    pub fn enter(&self) -> Era {
        self.state.borrow_mut().eras.enter()
    }

    /// A reader of `era` has ended.
    pub fn leave(&self, era: Era) {
        let mut state = self.state.borrow_mut();
        if state.eras.leave(era) {
            let waiting = state.eras.limbo().len();
            state.release_limbo();
            if state.eras.limbo().len() < waiting {
                self.upkeep.notify_one();
            }
        }
    }

    /// A shard at its beginning.
    pub fn new(
        array: Array<D>,
        settings: Settings,
        secret: [u8; 16],
        incarnation: Incarnation,
        width: usize,
        zone_rows: u32,
        state: State,
    ) -> Core<D> {
        let cache_bytes = settings.map_cache_bytes / state.share.shards as usize;
        Core {
            array,
            settings,
            secret,
            incarnation: Cell::new(incarnation),
            newest: Cell::new(0),
            width,
            zone_rows,
            shards: state.share.shards,
            known_size: Cell::new(None),
            state: RefCell::new(state),
            cache: RefCell::new(NodeCache::new(cache_bytes / BLOCK_BYTES)),
            batched_lookup: RefCell::default(),
            work: Notify::new(),
            upkeep: Notify::new(),
            landed: Notify::new(),
            looked_up: Notify::new(),
            looks: Cell::new(0),
            told: Cell::default(),
            requests: Cell::new(0),
            look_at_blocks: Cell::new(0),
            in_use: InUse::default(),
            link: OnceCell::new(),
            offline: Cell::new(None),
            stopping: Cell::new(false),
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
    pub fn go_offline(&self, reason: OfflineReason) {
        if self.offline.get().is_none() {
            self.offline.set(Some(reason));
            if reason == OfflineReason::TakenOver {
                self.array.lease.end();
            }
            tracing::error!(reason = reason.as_str(), "pool offline");
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

    pub fn columns(&self, segment: SegmentNumber) -> Option<Vec<Option<Zone>>> {
        Some(self.state.borrow().segments.get(segment)?.columns.clone())
    }

    pub fn zone_of(&self, at: Location) -> Option<Zone> {
        self.state.borrow().segments.zone_of(at)
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Waits until no stripe is in flight, or the pool is offline.
    pub async fn drained(&self) {
        let most = usize::from(Mutation::GateLetsOneThrough.is_planted());
        while self.state.borrow().log.in_flight() > most && self.offline.get().is_none() {
            self.landed.notified().await;
        }
    }
}
