//! One member drive in units of pool blocks, and where its superblocks and zones lie.

use crate::drives::health::Health;
use crate::drives::owed::Owed;
use crate::format::drive_layout::DriveLayout;
use crate::location::BLOCK_BYTES;
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use reactor::sync::Notify;
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

/// A drive and what is known of it.
pub(crate) struct Drive<D> {
    device: D,
    pub id: [u8; 16],
    pub layout: DriveLayout,
    /// How many its layout makes up: every request asks.
    zones: u32,
    failed: Cell<bool>,
    /// Told when it is.
    out_of_use: Notify,
    pub health: Health,
    pub owed: Owed,
}

/// Size of a device in pool blocks.
pub(crate) fn device_blocks<D: BlockDevice>(device: &D) -> u64 {
    device.geometry().capacity_bytes() / BLOCK_BYTES as u64
}

/// Tells a drive that what lies in some blocks is no longer needed, if it wants to know: else it
/// would copy for years, whenever it collects garbage, what nobody will read.
pub(crate) async fn forget<D: BlockDevice>(device: &D, blocks: Range<u64>) {
    let geometry = device.geometry();
    if !geometry.deallocates {
        return;
    }
    let lbas = BLOCK_BYTES as u64 / u64::from(geometry.block_bytes);
    let count = (blocks.end - blocks.start) * lbas;
    // It is advice: a drive that does not take it keeps what nobody reads.
    let _ = device
        .deallocate(BlockRange::new(Lba(blocks.start * lbas), count))
        .await;
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
            zones: layout.zones(),
            failed: Cell::new(false),
            out_of_use: Notify::new(),
            health: Health::default(),
            owed: Owed::default(),
        }
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    pub fn is_failed(&self) -> bool {
        self.failed.get()
    }

    /// From now on every request fails here, those under way too, and does not reach the drive.
    /// True the first time.
    pub fn fail(&self) -> bool {
        let first = !self.failed.replace(true);
        self.out_of_use.notify_all();
        first
    }

    /// Waits for an answer while the drive is in use. One that does not answer keeps what it was
    /// lent until it does.
    async fn answer<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        let _owing = self.owed.begin();
        let mut request = pin!(request);
        let mut out_of_use = pin!(self.out_of_use.notified());
        poll_fn(|context| {
            if let Poll::Ready(answer) = request.as_mut().poll(context) {
                self.owed.answered();
                return Poll::Ready(Some(answer));
            }
            match self.failed.get() || out_of_use.as_mut().poll(context).is_ready() {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// The answer to a request to the [`device`](Drive::device) itself.
    pub async fn ask<T>(
        &self,
        request: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        let answer = self.answer(request).await;
        answer.unwrap_or(Err(IoError::DeviceGone))
    }

    pub async fn read(&self, block: u64, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        if self.failed.get() {
            return (buffer, Err(IoError::DeviceGone));
        }
        let bytes = buffer.len();
        let answer = self.answer(read_blocks(&self.device, block, buffer));
        let answer = answer.await;
        answer.unwrap_or_else(|| (Buffer::new(bytes), Err(IoError::DeviceGone)))
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
        let lengths: Vec<usize> = buffers.iter().map(|buffer| buffer.len()).collect();
        let request = self.device.write_vectored(start, buffers, durability);
        let answer = self.answer(request).await;
        answer.unwrap_or_else(|| {
            let others = lengths.into_iter().map(Buffer::new);
            (others.collect(), Err(IoError::DeviceGone))
        })
    }

    /// Tells the drive that a zone's contents are no longer needed, if it wants to know.
    pub async fn discard(&self, zone: u32) {
        if self.failed.get() {
            return;
        }
        let start = self.zone_start(zone);
        let zone = start..start + u64::from(self.layout.zone_blocks);
        let _ = self.answer(forget(&self.device, zone)).await;
    }

    pub async fn flush(&self) -> Result<(), IoError> {
        if self.failed.get() {
            return Err(IoError::DeviceGone);
        }
        self.ask(self.device.flush()).await
    }

    /// Says whether rows of a zone are where the drive has zones.
    pub fn has_rows(&self, zone: u32, row: u32, bytes: usize) -> bool {
        let end = u64::from(row) + (bytes / BLOCK_BYTES) as u64;
        zone < self.zones && end <= u64::from(self.layout.zone_blocks)
    }

    /// First block of a zone.
    pub fn zone_start(&self, zone: u32) -> u64 {
        u64::from(self.layout.zone_base) + u64::from(zone) * u64::from(self.layout.zone_blocks)
    }
}
