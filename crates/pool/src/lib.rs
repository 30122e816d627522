//! The pool: volumes and snapshots over a log of write-once RAID stripes.
//!
//! In this room: the on-disk format ([`docs/formats/pool.md`]), stripes with redundancy, the log
//! with group commit, the map and its checkpoint, layers (snapshots, clones), recovery, the
//! cleaner, and the membership of drives. Not in this room: what a drive is (anything that is a
//! [`block::BlockDevice`]), threads and time (`reactor`), who may use a volume, and configuration.
//!
//! ```text
//! PoolVolume --> log: queue -> stripe -> drives -> applied in order -> overlay
//!     |                                                                  |
//!     +-- read: overlay -> map (tree of nodes) -> block, checked         v
//!                                     ^---- checkpoint: merge, publish, free <-- upkeep, cleaner
//! ```
//!
//! All this is one shard; a pool may have several, on as many cores, under one coordinator
//! (`coordinator`, `peers`, `shard`, `messages`), and [`Sliced`] makes one device of their parts.
//!
//! The pure parts (`segments`, `overlay`, `tree`, `membership`, `space`, `log::batch`) do no I/O.
//!
//! [`docs/formats/pool.md`]: ../../../docs/formats/pool.md

mod checkpoint;
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
pub use ids::{DriveId, HostId, PoolId};
pub use ids::{SnapshotId, VolumeId};
pub use labels::{FIRST_LABEL_AT, Label, probe, wipe};
pub use level::{DRIVES_MAX, Level, UnknownLevel};
pub use location::{BLOCK_BYTES, VOLUME_BLOCKS_MAX};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use mutation::{Mutation, Planted, plant};
pub use offline::OfflineReason;
pub use options::Settings;
pub use options::{MayLack, OpenOptions};
pub use pool::Pool;
pub use pool::accounting::{Accounting, SpaceUse};
pub use pool::create::CreateOptions;
pub use pool::shard::Shard;
pub use pool::sliced::Sliced;
pub use pool::volume::PoolVolume;
pub use pool::volume_operations::{SnapshotInfo, VolumeInfo, VolumeOptions};
pub use reporting::event::{DriveChange, PoolEvent};
pub use reporting::lost::{Lost, LostBlock, LostNode, ScrubReport};
pub use reporting::status::Counters;
pub use reporting::status::{DriveHealth, DriveStatus, PoolState, PoolStatus};
pub use segments::Occupancy;
pub use shard::messages::{Wiring, wire};
pub use volumes::ATTRIBUTES_BYTES_MAX;
pub use volumes::Holder;
