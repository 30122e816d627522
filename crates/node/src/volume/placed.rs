//! [`Placed`]: a device of this core or of another, behind the same contract.

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use crate::volume::remote::RemoteVolume;

/// A handle to a device, wherever it lives.
#[derive(Clone)]
pub enum Placed<D> {
    /// On this core.
    Here(D),
    /// On another core, which answers for it.
    Elsewhere(RemoteVolume),
}

impl<D: BlockDevice> BlockDevice for Placed<D> {
    fn geometry(&self) -> Geometry {
        match self {
            Placed::Here(device) => device.geometry(),
            Placed::Elsewhere(device) => device.geometry(),
        }
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        match self {
            Placed::Here(device) => device.read(start, buffer).await,
            Placed::Elsewhere(device) => device.read(start, buffer).await,
        }
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        match self {
            Placed::Here(device) => device.write(start, buffer, durability).await,
            Placed::Elsewhere(device) => device.write(start, buffer, durability).await,
        }
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        match self {
            Placed::Here(device) => device.write_vectored(start, buffers, durability).await,
            Placed::Elsewhere(device) => device.write_vectored(start, buffers, durability).await,
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        match self {
            Placed::Here(device) => device.flush().await,
            Placed::Elsewhere(device) => device.flush().await,
        }
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        match self {
            Placed::Here(device) => device.deallocate(range).await,
            Placed::Elsewhere(device) => device.deallocate(range).await,
        }
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        match self {
            Placed::Here(device) => device.write_zeroes(range, durability).await,
            Placed::Elsewhere(device) => device.write_zeroes(range, durability).await,
        }
    }
}
