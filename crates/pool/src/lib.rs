//! The pool: volumes and snapshots over a log of write-once RAID stripes.
//!
//! In this crate: the on-disk format ([`docs/formats/pool.md`]), stripes with redundancy, the log
//! with group commit, the map and its checkpoint, layers (snapshots, clones), recovery, the
//! cleaner, and the membership of drives. Not in this crate: what a drive is (anything that is a
//! [`block::BlockDevice`]), threads and time (`reactor`), who may use a volume, and configuration.
//! [`docs/pool.md`] is the design, with the journey of a write and what a crash does to it.
//!
//! # The rooms
//!
//! A room is a file, or a folder with a file of its name that says what is in it. A room imports
//! only rooms below it in this picture; a test holds the table (`tests/tidy/tests/floors.rs`).
//!
//! ```text
//! pool         Pool, Shard, PoolVolume, Sliced: opened, closed, changed, read and written
//! scrub        every stripe and every node of the maps, checked and repaired
//! cleaning     upkeep decides what is next; segments are emptied, columns moved to other drives
//! recovery     the log after a crash: which stripes count
//! writing      space for a write, the batch that it goes into, the log
//! checkpoint   updates merged into the maps, tables published, segments made ready and freed
//! membership   the host that holds the pool; drives that leave, are missing or do not answer
//! reading      where blocks are; what is there, checked and rebuilt
//! shard        Core and State of one core, the Coordinator of all, the messages between them
//! ------------ below: rules and plain types; I/O only in drives and labels
//! stripes      a stripe in memory                 labels     superblocks, and which one counts
//! drives       one drive, several, redundancy     map        overlay, cache, trees of nodes
//! reporting    events, status, losses             options    settings          error
//! format       the bytes on the drives
//! segments     the segment table, zones, space, what is known of a segment that is cleaned
//! volumes      the tables of volumes, snapshots and layers
//! chunked  join  location
//! ids  level  offline  entropy  hashing  mutation
//! ```
//!
//! Imports do not show everything: `Core`, `Coordinator` and `Pool` have methods in many rooms. A
//! method is written in the lowest room from which it can be understood, and is called from above.
//! The same test lists the four that rooms below call: a shard asks for room and tells of a drive
//! that does not answer, and publishing looks whether the pool is still this host's.
//!
//! # The three hand-overs of a write
//!
//! A write is not one chain of calls. It changes hands where this picture has a name in brackets.
//!
//! ```text
//! PoolVolume::write              write_log, a task a shard         launch, a task a stripe
//!   admit: is there space?         next_batch: which segment,        lay_out: header, parity
//!   enqueue --[work: Notify]-->    how many of the queue             write_columns --> drives
//!   wait                           launch ----[spawn]------------>   settle_membership
//!    ^                                ^                              land: in log order
//!    |                                +-----[work: Notify]---------    apply --> overlay
//!    +--------------[Request::done: Signal]------------------------    finish
//! ```
//!
//! `land` also wakes upkeep when a checkpoint is due. Another shard is told by
//! messages: orders of the coordinator, and reports to it (`shard::messages`).
//!
//! [`docs/formats/pool.md`]: ../../../docs/formats/pool.md
//! [`docs/pool.md`]: ../../../docs/pool.md

mod checkpoint;
mod chunked;
mod cleaning;
mod drives;
mod entropy;
mod error;
mod format;
mod hashing;
mod ids;
mod join;
mod labels;
mod level;
mod location;
mod map;
mod membership;
mod mutation;
mod offline;
mod options;
mod pool;
mod reading;
mod recovery;
mod reporting;
mod scrub;
mod segments;
mod shard;
mod stripes;
mod volumes;
mod writing;

pub use entropy::Entropy;
pub use error::label::{DamagedLabel, NewerFormat};
pub use error::{AbsentMember, PoolError};
pub use format::plausible::Implausible;
pub use ids::{DriveId, HostId, PoolId, SnapshotId, VolumeId};
pub use labels::{FIRST_LABEL_AT, Label, probe, wipe};
pub use level::{DRIVES_MAX, Level, UnknownLevel};
pub use location::{BLOCK_BYTES, VOLUME_BLOCKS_MAX};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use mutation::{Mutation, Planted, plant};
pub use offline::OfflineReason;
pub use options::{MayLack, OpenOptions, Settings};
pub use pool::Pool;
pub use pool::accounting::{Accounting, SpaceUse};
pub use pool::create::CreateOptions;
pub use pool::extents::{Extent, Extents};
pub use pool::shard::Shard;
pub use pool::sliced::Sliced;
pub use pool::volume::PoolVolume;
pub use pool::volume_operations::{SnapshotInfo, VolumeInfo, VolumeOptions};
pub use reporting::event::{DriveChange, PoolEvent};
pub use reporting::lost::{Lost, LostBlock, LostNode, ScrubReport};
pub use reporting::status::{Counters, DriveHealth, DriveStatus, PoolState, PoolStatus};
pub use segments::Occupancy;
pub use shard::messages::{Wiring, wire};
pub use volumes::{ATTRIBUTES_BYTES_MAX, Holder};
