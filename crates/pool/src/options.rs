//! What an operator may choose: how a pool is opened and how it is tuned. None of it is on disk.

use crate::entropy::Entropy;
use crate::ids::{DriveId, HostId};
use crate::location::BLOCK_BYTES;
use crate::segments::slices::SLICE_BLOCKS;
use std::collections::BTreeSet;

/// What an operator may tune; none of it is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory for map nodes, of all shards together. A map takes about 4.4 GiB on the drives for
    /// each TiB mapped; what does not fit here is read from there again.
    pub map_cache_bytes: usize,
    /// A checkpoint is taken when so many updates wait for the map (about 80 bytes of memory each),
    /// or fewer while hosts write nothing. Large pools wait for more: for each its tables are
    /// written to every drive.
    pub checkpoint_updates: usize,
    /// Blocks of a slice: the unit in which volumes are dealt to cores, within which writes of up
    /// to 64 KiB are atomic. A multiple of 16.
    pub slice_blocks: u32,
    /// Stripes that may be on their way to the drives at once.
    pub stripes_in_flight: usize,
    /// The cleaner looks at so many blocks of a segment while it writes what it found among those
    /// before: memory holds no more than twice as many.
    pub cleaner_piece_blocks: u32,
    /// Leaves of the maps of deleted volumes and snapshots that go at one checkpoint.
    pub leaves_removed_at_once: usize,
    /// Entries of tables that are written or read before others on the core have a turn, one at
    /// least.
    pub entries_in_a_row: usize,
    /// Nodes of the maps that a scrub holds in memory at once, some 16 bytes each. Where there are
    /// more it walks through the maps several times.
    pub scrub_nodes_at_once: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            map_cache_bytes: 64 << 20,
            checkpoint_updates: 100_000,
            slice_blocks: SLICE_BLOCKS as u32,
            stripes_in_flight: 4,
            cleaner_piece_blocks: 1024,
            leaves_removed_at_once: 4096,
            entries_in_a_row: 1024,
            scrub_nodes_at_once: 16 << 20,
        }
    }
}

impl Settings {
    /// Nodes that a merge passes on to other shards: as many as the caches of all of them keep.
    pub(crate) fn nodes_passed_on(&self) -> usize {
        self.map_cache_bytes / BLOCK_BYTES / 2
    }
}

/// Members that a pool may be opened without, as far as its redundancy goes: it goes on without
/// them from then on, and what they hold is rebuilt on the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MayLack {
    /// Whichever are absent.
    #[default]
    Any,
    /// These.
    Only(BTreeSet<DriveId>),
}

/// How a pool is to be opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The host that will hold it.
    pub host: HostId,
    /// Take it even if another host holds it.
    pub force: bool,
    /// Go on from what can be read, although drives that do not read may hold what was written
    /// last.
    pub accept_loss: bool,
    /// Which members may be absent that the pool has not gone on without before.
    pub may_lack: MayLack,
    /// Tuning; not on disk.
    pub settings: Settings,
    /// Where identifiers come from.
    pub entropy: Entropy,
}

impl OpenOptions {
    /// Everything by default.
    pub fn new(host: HostId) -> OpenOptions {
        OpenOptions {
            host,
            force: false,
            accept_loss: false,
            may_lack: MayLack::Any,
            settings: Settings::default(),
            entropy: Entropy::System,
        }
    }
}
