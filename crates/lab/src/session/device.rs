//! [`Device`]: whatever a target consists of, as one block device.

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use drive::Drive;
use initiator::{LossReason, Namespace};
use pool::PoolVolume;

use crate::inplace_raid6::InplaceRaid6;

/// What a load runs on.
pub(super) enum Device {
    /// A drive.
    Drive(Drive),
    /// A volume over NVMe/TCP or NVMe/RDMA.
    Remote(Namespace),
    /// RAID 6 in place.
    Array(InplaceRaid6<Drive>),
    /// A volume of a pool.
    Pool(PoolVolume<Drive>),
}

/// Calls a method of whichever device it is.
macro_rules! dispatch {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            Device::Drive($device) => $call,
            Device::Remote($device) => $call,
            Device::Array($device) => $call,
            Device::Pool($device) => $call,
        }
    };
}

impl Device {
    /// Why the connection to a volume is lost, if it is.
    pub(super) fn loss(&self) -> Option<LossReason> {
        match self {
            Device::Remote(volume) => volume.controller().loss(),
            Device::Drive(_) | Device::Array(_) | Device::Pool(_) => None,
        }
    }
}

impl BlockDevice for Device {
    fn geometry(&self) -> Geometry {
        dispatch!(self, device => device.geometry())
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        dispatch!(self, device => device.read(start, buffer).await)
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        dispatch!(self, device => device.write(start, buffer, durability).await)
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        dispatch!(self, device => device.write_vectored(start, buffers, durability).await)
    }

    async fn flush(&self) -> Result<(), IoError> {
        dispatch!(self, device => device.flush().await)
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        dispatch!(self, device => device.deallocate(range).await)
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        dispatch!(self, device => device.write_zeroes(range, durability).await)
    }
}
