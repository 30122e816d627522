//! [`SessionError`]: why a target cannot be used.

use std::path::PathBuf;

use drive::{EmulatedError, OpenError};
use initiator::{AddressError, LossReason};
use pool::PoolError;
use reactor::StartError;

use crate::inplace_raid6::ArrayError;
use crate::load::WorkloadError;

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No event loop.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A file or block device.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An emulated drive.
    #[error(transparent)]
    Emulated(#[from] EmulatedError),
    /// An address that is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A volume that cannot be reached, or used.
    #[error("{address}: {source}")]
    Volume {
        /// Its address.
        address: String,
        /// Why.
        source: initiator::Error,
    },
    /// The connection to a volume was lost under a load.
    #[error("{address}: connection lost: {reason}")]
    ConnectionLost {
        /// The volume's address.
        address: String,
        /// Why.
        reason: LossReason,
    },
    /// Drives that make no array.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Drives that make no pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A load that does not suit the target.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// I/O of a preparation failed.
    #[error("preparing: {0}")]
    Io(block::IoError),
    /// Something that is in use.
    #[error("{}: in use: {by}", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// Something that holds data.
    #[error(
        "{place}: holds {what}, which the plan would overwrite; to let it, add --destroy {place}"
    )]
    HoldsData {
        /// The device, or the volume's address.
        place: String,
        /// A signature that was found.
        what: String,
    },
    /// What the system said of a path.
    #[error("{}: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The target is behind a node that nobody has started.
    #[error("a target of the kind node is served by a process that `flashyard lab run` starts")]
    NeedsNode,
    /// A thread ended without a word, which is a defect.
    #[error("a thread of the target ended without an answer")]
    Lost,
}
