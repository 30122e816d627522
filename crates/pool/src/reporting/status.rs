//! [`PoolStatus`]: how a pool and its drives are.

use crate::ids::{DriveId, PoolId};
use crate::level::Level;
use crate::offline::OfflineReason;
use crate::segments::Occupancy;

/// How well a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Every member works.
    Online,
    /// Members are missing; everything can be read and written.
    Degraded,
    /// Nothing can be written.
    Offline,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    /// Which drive.
    pub id: DriveId,
    /// Its position among the members.
    pub index: usize,
    /// Its size.
    pub bytes: u64,
    /// In zones that are no segment's.
    pub free_bytes: u64,
    /// False: it failed or is absent.
    pub active: bool,
    /// How it behaved since the pool was opened.
    pub health: DriveHealth,
}

/// How a drive behaved since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveHealth {
    /// Half its latest reads took longer; `None` before the first few hundred.
    pub read_median_us: Option<u64>,
    /// Half its latest writes took longer.
    pub write_median_us: Option<u64>,
    /// It takes three times as long as the others.
    pub slow: bool,
    /// Reads that failed.
    pub read_errors: u64,
    /// Blocks that came back other than they were written.
    pub corrupt_blocks: u64,
}

/// A pool as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// Its identifier.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Its redundancy.
    pub level: Level,
    /// Columns of a wide segment.
    pub width: usize,
    /// How well it is.
    pub state: PoolState,
    /// Why it is offline, if it is.
    pub reason: Option<OfflineReason>,
    /// Drives that it can lose from now on, whichever they are, and go on.
    pub drives_to_spare: usize,
    /// What it can hold, redundancy and reserves taken off.
    pub usable_bytes: u64,
    /// What a pool of this size could hold if all but its reserves were live: what fill is a share
    /// of when the cost of cleaning is reckoned.
    pub unreserved_bytes: u64,
    /// What it holds; blocks overwritten since the last checkpoint may count twice, up to what is
    /// usable.
    pub used_bytes: u64,
    /// Of that, what only deleted volumes and snapshots have: it is being freed.
    pub deleted_bytes: u64,
    /// Maps of deleted volumes and snapshots are being taken apart, or joined with others.
    pub removing: bool,
    /// What is kept for volumes that reserve space, beyond what they hold.
    pub reserved_bytes: u64,
    /// Space that is nobody's for some minutes after the pool was taken by force, since its last
    /// holder may still write there; parts of it may hold blocks.
    pub quarantined_bytes: u64,
    /// What the maps take on the drives, redundancy not counted.
    pub map_bytes: u64,
    /// Memory that map nodes take, on all cores; of other shards as they last told.
    pub map_cache_bytes: usize,
    /// Memory that they may take.
    pub map_cache_bytes_max: usize,
    /// What its segments are.
    pub segments: Occupancy,
    /// Every member.
    pub drives: Vec<DriveStatus>,
}

/// Running totals; plain numbers, read at leisure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks of 4 KiB that hosts wrote and had acknowledged.
    pub host_blocks_written: u64,
    /// Blocks that hosts deallocated, mapped or not.
    pub host_blocks_deallocated: u64,
    /// Blocks that went to the drives for stripes: data, headers, padding, redundancy.
    pub stripe_blocks_written: u64,
    /// Blocks that went to the drives for the map, redundancy included.
    pub map_blocks_written: u64,
    /// Live blocks that the cleaner moved.
    pub relocated_blocks: u64,
    /// Blocks that were copied to another drive, redundancy included, for each to have its share.
    pub rebalanced_blocks: u64,
    /// Stripes written.
    pub stripes: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Blocks of hosts and of the map that had to be rebuilt from the rest of their row to be read;
    /// what the cleaner, a rebuild or a scrub of data reads does not count.
    pub reconstructed_reads: u64,
    /// Blocks found bad, rebuilt and written back to their place.
    pub repaired_blocks: u64,
    /// Reads that failed with all the redundancy there is.
    pub unrecovered_reads: u64,
    /// Times that the maps gave up more blocks of a segment than were counted there: never, but for
    /// tables that somebody forged. Such a segment is kept until a scrub has counted.
    pub miscounted_segments: u64,
}

impl Counters {
    /// Adds the totals of another shard.
    pub(crate) fn add(&mut self, other: Counters) {
        self.host_blocks_written += other.host_blocks_written;
        self.host_blocks_deallocated += other.host_blocks_deallocated;
        self.stripe_blocks_written += other.stripe_blocks_written;
        self.map_blocks_written += other.map_blocks_written;
        self.relocated_blocks += other.relocated_blocks;
        self.rebalanced_blocks += other.rebalanced_blocks;
        self.stripes += other.stripes;
        self.checkpoints += other.checkpoints;
        self.reconstructed_reads += other.reconstructed_reads;
        self.repaired_blocks += other.repaired_blocks;
        self.unrecovered_reads += other.unrecovered_reads;
        self.miscounted_segments += other.miscounted_segments;
    }
}
