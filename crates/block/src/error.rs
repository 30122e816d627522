//! [`IoError`]: every way a device can refuse or fail, one value per NVMe status.

use std::fmt;

/// Why an operation on a device failed. Each value maps to exactly one NVMe status; the mapping
/// itself lives with the wire formats, this crate knows only the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// As large as what it travels with: a byte beside a buffer makes compilers move the two in pieces
// that overlap at odd addresses, which processors wait for, in every layer that passes them on.
#[repr(u64)]
pub enum IoError {
    /// The range is not within the device (NVMe: LBA Out of Range).
    OutOfRange,
    /// The request itself is malformed: a length that is no multiple of the block size, say
    /// (NVMe: Invalid Field in Command).
    InvalidRequest,
    /// No space is left for new data; existing data is intact (NVMe: Capacity Exceeded).
    CapacityExceeded,
    /// The data could not be read and could not be reconstructed (NVMe: Unrecovered Read Error).
    UnrecoveredRead,
    /// The medium refused the write (NVMe: Write Fault).
    WriteFault,
    /// Compare found other data (NVMe: Compare Failure).
    CompareFailure,
    /// The device takes no writes (NVMe: Namespace is Write Protected).
    WriteProtected,
    /// Starting, stopping, or waiting for members; trying again later may work
    /// (NVMe: Namespace Not Ready).
    NotReady,
    /// The device is gone and will not answer on this path (NVMe: Internal Path Error).
    DeviceGone,
    /// The operation was cancelled before it took effect (NVMe: Command Abort Requested).
    Aborted,
    /// A failure of the layer itself, already logged where it happened (NVMe: Internal Error).
    Internal,
}

impl fmt::Display for IoError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            IoError::OutOfRange => "address out of range",
            IoError::InvalidRequest => "malformed request",
            IoError::CapacityExceeded => "out of space",
            IoError::UnrecoveredRead => "unrecovered read error",
            IoError::WriteFault => "write fault",
            IoError::CompareFailure => "compare failure",
            IoError::WriteProtected => "write protected",
            IoError::NotReady => "not ready",
            IoError::DeviceGone => "device gone",
            IoError::Aborted => "aborted",
            IoError::Internal => "internal error",
        })
    }
}

impl std::error::Error for IoError {}
