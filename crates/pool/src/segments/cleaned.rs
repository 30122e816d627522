//! What comes of cleaning: at one shard in one window, and of all shards together. No I/O.

use crate::ids::{SegmentNumber, Sequence, ShardId, StripeId};
use crate::segments::attempts::Stuck;
use crate::segments::victim::Emptied;
use std::collections::VecDeque;

/// A segment that several shards empty, one after the other.
pub(crate) struct Cleaning {
    pub number: SegmentNumber,
    /// Shards that still have blocks there.
    pub shards: VecDeque<ShardId>,
    /// What those before them have found out.
    pub emptied: Emptied,
    pub tables_version: u64,
    /// Up to which stripe each has.
    pub through: Vec<StripeId>,
}

impl Cleaning {
    /// A shard is through with it.
    pub fn note(&mut self, shard: ShardId, emptied: Emptied, through: Sequence) {
        let all = &mut self.emptied;
        let both = all.accounted.zip(emptied.accounted);
        all.accounted = both.map(|(before, own)| before + own);
        all.whole &= emptied.whole;
        all.unmapped.extend(emptied.unmapped);
        self.through.push(StripeId {
            shard,
            sequence: through,
        });
    }

    /// All shards are through with it: what they have found out counts if the tables are still
    /// those with which they began.
    pub fn end(mut self, tables_version: u64) -> Emptied {
        let same = self.tables_version == tables_version;
        self.emptied.accounted.take_if(|_| !same);
        self.emptied
    }
}

/// What came of a window at one shard.
pub(crate) struct Cleaned {
    pub window: Window,
    /// There is more to move.
    pub half_way: bool,
    /// Why something could not be moved, if so.
    pub stuck: Option<Stuck>,
    /// What it knows of the segment, once there is no more.
    pub emptied: Emptied,
    /// The shard's stripes up to this one are durable.
    pub through: Sequence,
}

/// What came of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Moved,
    /// There was no segment to move blocks to.
    NoRoom,
}
