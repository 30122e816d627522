//! [`Member`]: a drive as a pool sees it, on the pool's core or on another.

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use crate::remote::{RemoteVolume, VolumeId};
use crate::watched::WatchedDrive;

/// A handle to a drive of a pool.
#[derive(Clone)]
pub enum Member {
    /// On the pool's core.
    Here(WatchedDrive),
    /// On another core, which answers for it.
    Elsewhere(RemoteVolume),
}

/// Where a pool's core finds a drive.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The drive's name.
    pub drive: String,
    /// The other core that answers for it: which, under what number, and what the drive is.
    pub elsewhere: Option<(usize, VolumeId, Geometry)>,
}

impl BlockDevice for Member {
    fn geometry(&self) -> Geometry {
        match self {
            Member::Here(drive) => drive.geometry(),
            Member::Elsewhere(drive) => drive.geometry(),
        }
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        match self {
            Member::Here(drive) => drive.read(start, buffer).await,
            Member::Elsewhere(drive) => drive.read(start, buffer).await,
        }
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        match self {
            Member::Here(drive) => drive.write(start, buffer, durability).await,
            Member::Elsewhere(drive) => drive.write(start, buffer, durability).await,
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match self {
            Member::Here(drive) => drive.flush().await,
            Member::Elsewhere(drive) => drive.flush().await,
        }
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        match self {
            Member::Here(drive) => drive.deallocate(range).await,
            Member::Elsewhere(drive) => drive.deallocate(range).await,
        }
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        match self {
            Member::Here(drive) => drive.write_zeroes(range, durability).await,
            Member::Elsewhere(drive) => drive.write_zeroes(range, durability).await,
        }
    }
}
