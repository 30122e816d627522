//! [`NodeError`]: what a caller of a control operation can act on.

use block::GeometryError;
use reactor::cores::CoreStopped;
use thiserror::Error;

/// Why a control operation did not happen.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The reactors cannot run on this machine.
    #[error("the data path cannot start: {0}")]
    Start(#[from] reactor::StartError),
    /// A core should run on a CPU that this process may not use, or that does not exist.
    #[error("CPU {cpu} is not there for this process; allowed: {allowed}")]
    NoSuchCpu {
        /// What was asked for.
        cpu: usize,
        /// What there is.
        allowed: String,
    },
    /// A drive cannot be opened.
    #[error("{0}")]
    Open(#[from] drive::OpenError),
    /// A drive cannot be emulated, or its namespaces cannot be what was asked.
    #[error("{0}")]
    Emulated(#[from] drive::EmulatedError),
    /// A drive whose namespaces this program cannot manage.
    #[error(
        "drive {0} is not one whose namespaces can be managed here; those of kind emulated are"
    )]
    Unmanaged(String),
    /// The size of a drive in memory is no size for a drive.
    #[error("drive of {bytes} bytes: {reason}")]
    Size {
        /// What was asked for.
        bytes: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A drive of that name is open.
    #[error("drive {0} is open already")]
    DriveExists(String),
    /// No drive of that name is open.
    #[error("drive {0} is not open")]
    UnknownDrive(String),
    /// A volume stands on the drive.
    #[error("drive {drive} is used by volume {volume}")]
    DriveInUse {
        /// The drive.
        drive: String,
        /// The volume on it.
        volume: String,
    },
    /// A volume of that name is served.
    #[error("volume {0} is served already")]
    VolumeExists(String),
    /// No volume of that name is served.
    #[error("volume {0} is not served")]
    UnknownVolume(String),
    /// The drive's blocks cannot make the volume's blocks.
    #[error(
        "blocks of {wanted} bytes on drive blocks of {drive} bytes; \
         allowed: the same, or 512 on 4096"
    )]
    BlockSize {
        /// What hosts should see.
        wanted: u32,
        /// What the drive has.
        drive: u32,
    },
    /// The target refused.
    #[error("{0}")]
    Target(#[from] target::TargetError),
    /// Data that was acknowledged could not be made durable while stopping.
    #[error("drive {drive} could not be flushed: {error}")]
    Flush {
        /// The drive.
        drive: String,
        /// How it failed.
        error: block::IoError,
    },
    /// The node has stopped, or is stopping.
    #[error("the node has stopped")]
    Stopped,
}

impl From<CoreStopped> for NodeError {
    fn from(_: CoreStopped) -> NodeError {
        NodeError::Stopped
    }
}

impl NodeError {
    /// True when a drive is used by somebody else, which may pass.
    pub fn is_in_use(&self) -> bool {
        use drive::{EmulatedError, OpenError};
        matches!(
            self,
            NodeError::Open(OpenError::InUse(_))
                | NodeError::Emulated(EmulatedError::Payload(OpenError::InUse(_)))
        )
    }

    pub(crate) fn size(bytes: u64, error: GeometryError) -> NodeError {
        NodeError::Size {
            bytes,
            reason: error.to_string(),
        }
    }
}
