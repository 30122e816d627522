//! [`Coordinator`]: what an open pool has once, however many shards serve it.

use crate::entropy::Entropy;
use crate::format::encoded::WrittenTables;
use crate::format::superblock::Superblock;
use crate::ids::{EpochNumber, Generation, LayerId};
use crate::location::BlockNumber;
use crate::map::fold::Towards;
use crate::map::overlay::Change;
use crate::segments::cleaned::Cleaning;
use crate::segments::live_nodes::LiveNodes;
use crate::segments::zones::Zone;
use crate::shard::alerts::Alerts;
use crate::shard::core::Core;
use crate::shard::idle_merge::IdleMerge;
use crate::shard::own_map::OwnMap;
use crate::shard::retries::Retries;
use crate::shard::to_shards::Peer;
use block::BlockDevice;
use reactor::Instant;
use reactor::sync::{Mutex, Notify};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

/// The superblock as it was last published, and its tables.
pub(crate) struct Published {
    pub superblock: Superblock,
    pub tables: Rc<WrittenTables>,
}

/// What the shards are to do besides when they set their updates aside.
#[derive(Default)]
pub(crate) struct AtFreeze {
    /// Blocks of layers that are cut off, and read as zeroes if they ever come back.
    pub cut_off: Vec<(LayerId, Range<BlockNumber>)>,
    /// Segments are written no further.
    pub seal: bool,
}

/// Publishes, checkpoints, keeps up and decides about members; it lives with the first shard, of
/// whose state the parts that concern the whole pool are the true ones.
pub(crate) struct Coordinator<D> {
    /// The first shard.
    pub shard: Rc<Core<D>>,
    pub entropy: Entropy,
    pub published: RefCell<Published>,
    pub publishing: Mutex<()>,
    /// Held by whoever changes what is on disk behind the log: checkpoint, cleaner, rebuild.
    pub upkeep_lock: Mutex<()>,
    /// The host that is to be the holder as of the next checkpoint.
    pub holder: Cell<[u8; 16]>,
    /// What has been told.
    pub alerts: Alerts,
    /// The other shards, once the pool is open.
    pub peers: OnceCell<Vec<Peer>>,
    /// Held by whoever deals room to the shards.
    pub room_lock: Mutex<()>,
    /// Held while a drive joins.
    pub joining_lock: Mutex<()>,
    /// Held while volumes or snapshots change: they do one after the other, as they were asked for.
    pub changes_lock: Mutex<()>,
    /// The maps have changed since room was dealt.
    pub room_due: Cell<bool>,
    /// What a scrub that is under way knows of the maps.
    pub live_nodes: RefCell<Option<LiveNodes>>,
    /// It is to end.
    pub scrub_unwanted: Cell<bool>,
    /// Free zones may have become uneven.
    pub unbalanced: Notify,
    /// Generations of segments that stay where they are: something there cannot be read.
    pub unmovable: RefCell<BTreeSet<Generation>>,
    /// The segment that is being emptied, where there are several shards.
    pub cleaning: Cell<Option<Cleaning>>,
    /// Other shards may have updates that would free segments.
    pub others_dirty: Cell<bool>,
    /// Memory for what a merge changes in a layer.
    pub changes_memory: RefCell<Vec<Change>>,
    /// The maps have all of what was written to snapshots whose numbers are lower.
    pub merged_before: Cell<u32>,
    /// How the fold under way goes on, if it has since the pool was opened.
    pub towards: Cell<Option<Towards>>,
    /// There are layers that nobody needs.
    pub unneeded: Notify,
    /// Nodes of the map have been given up since the pool was opened.
    pub nodes_lost: Cell<bool>,
    /// The maps are to have what waits for them, however little: what recovery found, or what hosts
    /// wrote that are quiet now.
    pub merge_due: Cell<bool>,
    /// The maps' own segments.
    pub own_map: OwnMap,
    /// Zones that segments have left for others; the tables on the drives may still name them.
    pub vacated: RefCell<Vec<Zone>>,
    /// What the next checkpoint asks of the shards.
    pub at_freeze: RefCell<AtFreeze>,
    pub retries: Retries,
    pub idle_merge: IdleMerge,
    /// No superblock had a larger number when the pool was opened.
    pub opened_at: u64,
    /// The same before this host wrote that it opens it.
    pub found_at: u64,
    /// What the last opening wrote that had a claim, unless it was another host's: it is over.
    pub former_claim: Option<u64>,
    /// Members that are there and do not count, since their labels are damaged.
    pub label_damaged: BTreeSet<usize>,
    /// The epoch of a superblock that a former holder has left behind.
    pub intruder: Cell<Option<EpochNumber>>,
    /// Until then no zone is used that was free when the pool was opened, or has become so.
    pub late_until: Instant,
    /// When the zones of [`State::quarantined`](crate::shard::state::State) may be used again.
    pub quarantine_until: Cell<Instant>,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Adds the zones of a drive that joined, or takes away those of one that left.
    pub fn set_drive(&self, drive: usize, zones: u32) {
        let stays = |zone: &Zone| usize::from(zone.drive) != drive;
        self.vacated.borrow_mut().retain(stays);
        self.shard.state.borrow_mut().set_drive(drive, zones);
    }

    /// There is no more work to be done.
    pub fn ends(&self) -> bool {
        self.shard.stopping.get() || self.shard.offline.get().is_some()
    }
}
