//! [`Drive`]: the closed choice of what a drive can be.

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use reactor::file::FileIdentity;

use crate::contents::{Contents, contents, wipe};
use crate::{EmulatedNamespace, FaultyDrive, FileDrive, MemoryDrive, NullDrive};

/// Any drive. A closed enum, so that a read costs a branch and no allocation.
pub enum Drive {
    /// A file or block device.
    File(FileDrive),
    /// Memory, which lasts as long as the process.
    Memory(MemoryDrive),
    /// Reads zeroes, keeps nothing.
    Null(NullDrive),
    /// Fails on command; for tests.
    Faulty(FaultyDrive),
    /// A namespace of a modelled drive, with real data, paced in real time.
    Emulated(EmulatedNamespace),
}

impl Drive {
    /// What kind of drive this is, as the API names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Drive::File(_) => "file",
            Drive::Memory(_) => "memory",
            Drive::Null(_) => "null",
            Drive::Faulty(_) => "faulty",
            Drive::Emulated(_) => "emulated",
        }
    }

    /// Its contents that something else wrote; `None` if there are none.
    ///
    /// # Errors
    /// The drive's, where it cannot be read.
    pub async fn contents(&self) -> Result<Option<Contents>, IoError> {
        let rest = match self {
            Drive::File(drive) => drive.rest().await.map_err(|_| IoError::UnrecoveredRead)?,
            _ => Vec::new(),
        };
        contents(self, &rest).await
    }

    /// Makes it hold nothing that anybody would recognise, durably.
    ///
    /// # Errors
    /// The drive's; what it held is then partly gone.
    pub async fn wipe(&self) -> Result<(), IoError> {
        wipe(self).await?;
        match self {
            Drive::File(drive) => drive.wipe_rest().await.map_err(|_| IoError::WriteFault),
            _ => Ok(()),
        }
    }

    /// Has flushes succeed again once one has failed: for a new user, who relies on nothing that
    /// was written before.
    pub fn forget_failed_flush(&self) {
        if let Drive::File(drive) = self {
            drive.forget_failed_flush();
        }
    }

    /// Which file or block device it is. Others do nothing that nobody waits for.
    pub fn identity(&self) -> Option<FileIdentity> {
        match self {
            Drive::File(drive) => drive.identity(),
            _ => None,
        }
    }
}

impl From<FileDrive> for Drive {
    fn from(drive: FileDrive) -> Drive {
        Drive::File(drive)
    }
}

impl From<MemoryDrive> for Drive {
    fn from(drive: MemoryDrive) -> Drive {
        Drive::Memory(drive)
    }
}

impl From<NullDrive> for Drive {
    fn from(drive: NullDrive) -> Drive {
        Drive::Null(drive)
    }
}

impl From<FaultyDrive> for Drive {
    fn from(drive: FaultyDrive) -> Drive {
        Drive::Faulty(drive)
    }
}

impl From<EmulatedNamespace> for Drive {
    fn from(namespace: EmulatedNamespace) -> Drive {
        Drive::Emulated(namespace)
    }
}

/// Calls a method of whichever drive it is.
macro_rules! dispatch {
    ($self:ident, $drive:ident => $call:expr) => {
        match $self {
            Drive::File($drive) => $call,
            Drive::Memory($drive) => $call,
            Drive::Null($drive) => $call,
            Drive::Faulty($drive) => $call,
            Drive::Emulated($drive) => $call,
        }
    };
}

impl BlockDevice for Drive {
    fn geometry(&self) -> Geometry {
        dispatch!(self, drive => drive.geometry())
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        dispatch!(self, drive => drive.read(start, buffer).await)
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        dispatch!(self, drive => drive.write(start, buffer, durability).await)
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        dispatch!(self, drive => drive.write_vectored(start, buffers, durability).await)
    }

    async fn flush(&self) -> Result<(), IoError> {
        dispatch!(self, drive => drive.flush().await)
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        dispatch!(self, drive => drive.deallocate(range).await)
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        dispatch!(self, drive => drive.write_zeroes(range, durability).await)
    }
}
