//! One member drive in units of pool blocks, and where its superblocks and zones lie.

use crate::health::Health;
use crate::location::BLOCK_BYTES;
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use std::cell::Cell;

/// The first superblock is here: block 0 stays free of anything that looks like a partition table.
pub(crate) const FIRST_SLOT: u64 = 1;

/// How the blocks of a drive are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriveLayout {
    /// Size of the drive.
    pub blocks: u64,
    /// First block of zone 0.
    pub zone_base: u32,
    pub zone_blocks: u32,
    /// Blocks of each of the two superblock slots.
    pub slot_blocks: u32,
}

impl DriveLayout {
    pub fn new(blocks: u64, zone_blocks: u32, slot_blocks: u32) -> DriveLayout {
        let align = zone_blocks.min(256);
        let zone_base = (FIRST_SLOT as u32 + slot_blocks).next_multiple_of(align);
        DriveLayout {
            blocks,
            zone_base,
            zone_blocks,
            slot_blocks,
        }
    }

    pub fn zones(&self) -> u32 {
        let reserved = u64::from(self.zone_base) + u64::from(self.slot_blocks);
        let zones = self.blocks.saturating_sub(reserved) / u64::from(self.zone_blocks.max(1));
        u32::try_from(zones).unwrap_or(u32::MAX)
    }

    /// Where a slot starts, `body_blocks` of tables included: the one for even sequence numbers
    /// near the drive's start, superblock first; the odd one at its very end, superblock last.
    /// Overwriting either end of a drive leaves the other.
    pub fn slot(&self, odd: bool, body_blocks: u64) -> u64 {
        match odd {
            false => FIRST_SLOT,
            true => self.blocks - 1 - body_blocks,
        }
    }
}

/// A drive and what is known of it.
pub(crate) struct Drive<D> {
    device: D,
    pub id: [u8; 16],
    pub layout: DriveLayout,
    failed: Cell<bool>,
    pub health: Health,
}

/// Size of a device in pool blocks.
pub(crate) fn device_blocks<D: BlockDevice>(device: &D) -> u64 {
    device.geometry().capacity_bytes() / BLOCK_BYTES as u64
}

pub(crate) fn read_blocks<D: BlockDevice>(
    device: &D,
    block: u64,
    buffer: Buffer,
) -> impl Future<Output = (Buffer, Result<(), IoError>)> {
    let lbas = BLOCK_BYTES as u64 / u64::from(device.geometry().block_bytes);
    device.read(Lba(block * lbas), buffer)
}

pub(crate) async fn write_blocks<D: BlockDevice>(
    device: &D,
    block: u64,
    buffer: Buffer,
    durability: Durability,
) -> (Buffer, Result<(), IoError>) {
    let lbas = BLOCK_BYTES as u64 / u64::from(device.geometry().block_bytes);
    device.write(Lba(block * lbas), buffer, durability).await
}

impl<D: BlockDevice> Drive<D> {
    pub fn new(device: D, id: [u8; 16], layout: DriveLayout) -> Drive<D> {
        Drive {
            device,
            id,
            layout,
            failed: Cell::new(false),
            health: Health::default(),
        }
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    pub fn is_failed(&self) -> bool {
        self.failed.get()
    }

    /// From now on every request fails here and does not reach the drive. True the first time.
    pub fn fail(&self) -> bool {
        !self.failed.replace(true)
    }

    pub async fn read(&self, block: u64, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        if self.failed.get() {
            return (buffer, Err(IoError::DeviceGone));
        }
        read_blocks(&self.device, block, buffer).await
    }

    /// Writes buffers one behind the other.
    pub async fn write(
        &self,
        block: u64,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        if self.failed.get() {
            return (buffers, Err(IoError::DeviceGone));
        }
        let lbas = BLOCK_BYTES as u64 / u64::from(self.device.geometry().block_bytes);
        let start = Lba(block * lbas);
        self.device.write_vectored(start, buffers, durability).await
    }

    /// Tells the drive that a zone's contents are no longer needed, if it wants to know.
    pub async fn discard(&self, zone: u32) {
        let geometry = self.device.geometry();
        if self.failed.get() || !geometry.deallocates {
            return;
        }
        let lbas = BLOCK_BYTES as u64 / u64::from(geometry.block_bytes);
        let start = Lba(self.zone_start(zone) * lbas);
        let blocks = u64::from(self.layout.zone_blocks) * lbas;
        // It is advice: a drive that does not take it keeps what nobody reads.
        let _ = self.device.deallocate(BlockRange::new(start, blocks)).await;
    }

    pub async fn flush(&self) -> Result<(), IoError> {
        if self.failed.get() {
            return Err(IoError::DeviceGone);
        }
        self.device.flush().await
    }

    /// First block of a zone.
    pub fn zone_start(&self, zone: u32) -> u64 {
        u64::from(self.layout.zone_base) + u64::from(zone) * u64::from(self.layout.zone_blocks)
    }
}
