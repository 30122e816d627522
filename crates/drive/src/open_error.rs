//! [`OpenError`]: why a drive could not be opened.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why a drive could not be opened; each text names the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing is there, and no size was given to make it with.
    #[error("{}: no such file or device", .0.display())]
    Missing(PathBuf),
    /// Another process, or this one, has it open as a drive, or it is mounted.
    #[error("{}: in use by another drive, node or mounted file system", .0.display())]
    InUse(PathBuf),
    /// A loop device is over the file: what is written to one would be under the other.
    #[error(
        "{}: {}, a loop device, is over it; use that, or detach it",
        path.display(),
        device.display()
    )]
    UnderLoop {
        /// The file.
        path: PathBuf,
        /// The loop device.
        device: PathBuf,
    },
    /// The permissions do not allow reading and writing.
    #[error("{}: not allowed to read and write", .0.display())]
    NotAllowed(PathBuf),
    /// Smaller than one block.
    #[error("{}: {bytes} bytes are less than one block of {block_bytes}", path.display())]
    TooSmall {
        /// The file or device.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The block size that was asked for.
        block_bytes: u32,
    },
    /// The block size is none that a drive can have, or smaller than the device's own.
    #[error(
        "{}: blocks of {block_bytes} bytes are not possible here; the smallest possible are \
         {smallest}",
        path.display()
    )]
    BlockBytes {
        /// The file or device.
        path: PathBuf,
        /// The block size that was asked for.
        block_bytes: u32,
        /// The smallest that would work.
        smallest: u32,
    },
    /// Anything else the system said.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or device.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl OpenError {
    pub(crate) fn from_io(path: &Path, error: io::Error) -> OpenError {
        let path = path.to_owned();
        match error.kind() {
            ErrorKind::NotFound => OpenError::Missing(path),
            ErrorKind::PermissionDenied => OpenError::NotAllowed(path),
            ErrorKind::ResourceBusy => OpenError::InUse(path),
            _ => OpenError::Io { path, error },
        }
    }
}
