//! [`SharedDrive`]: one drive, several cores.

use std::io;

use crate::{Drive, MemoryDrive, SharedFileDrive};

/// What other cores make their own handles of a drive from.
pub enum SharedDrive {
    /// A file or block device.
    File(SharedFileDrive),
    /// Memory.
    Memory(MemoryDrive),
}

impl SharedDrive {
    /// A handle for the current core.
    ///
    /// # Errors
    /// The system's, for a file.
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn open(&self) -> io::Result<Drive> {
        Ok(match self {
            SharedDrive::File(drive) => drive.open().await?.into(),
            SharedDrive::Memory(drive) => drive.clone().into(),
        })
    }
}

impl Drive {
    /// For other cores; `None` for drives that only the core that has them can use: a model, for
    /// one, goes by one clock.
    pub fn share(&self) -> Option<SharedDrive> {
        match self {
            Drive::File(drive) => drive.share().map(SharedDrive::File),
            Drive::Memory(drive) => Some(SharedDrive::Memory(drive.clone())),
            Drive::Null(_) | Drive::Faulty(_) | Drive::Emulated(_) => None,
        }
    }
}
