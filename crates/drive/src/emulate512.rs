//! [`Emulate512`]: 512-byte blocks over a device of larger ones.
//!
//! A transfer that does not start and end on the device's own blocks is done on the blocks around
//! it: a read copies its part out; a write reads the first and last block, puts its part in and
//! writes the whole back in one piece. While it does so no other write touches these blocks;
//! writes of whole blocks run freely among themselves. Where all blocks become others meanwhile,
//! it begins again: what was read beside its part must not come back.

use block::{
    BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, Revised, write_joined,
};

use crate::range_lock::{Access, RangeLock};
use crate::transfer::{check_range, check_transfer};

/// The block size presented.
const SECTOR_BYTES: u32 = 512;

/// Shows `D` as a device of 512-byte blocks. Over a device that has such blocks itself it changes
/// nothing but adds a check.
pub struct Emulate512<D> {
    inner: D,
    locks: RangeLock,
    /// Sectors in a block of the device.
    ratio: u64,
}

/// A run of sectors, and the blocks of the device around it.
struct Around {
    blocks: BlockRange,
    /// Bytes of the blocks before the run.
    before: usize,
    /// Bytes of the run.
    length: usize,
    /// Bytes of the blocks.
    total: usize,
}

impl Around {
    fn is_exact(&self) -> bool {
        self.length == self.total
    }
}

impl<D: Revised> Emulate512<D> {
    /// Presents `inner` in sectors of 512 bytes.
    pub fn new(inner: D) -> Emulate512<D> {
        let ratio = u64::from(inner.geometry().block_bytes / SECTOR_BYTES);
        Emulate512 {
            inner,
            locks: RangeLock::default(),
            ratio,
        }
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn around(&self, sectors: BlockRange) -> Around {
        let first = sectors.start.0 / self.ratio;
        let end = (sectors.start.0 + sectors.blocks).div_ceil(self.ratio);
        let sector = SECTOR_BYTES as usize;
        Around {
            blocks: BlockRange::new(Lba(first), end - first),
            before: (sectors.start.0 % self.ratio) as usize * sector,
            length: sectors.blocks as usize * sector,
            total: ((end - first) * self.ratio) as usize * sector,
        }
    }

    /// Writes `data` into part of the blocks around it; they must be locked.
    async fn write_part(
        &self,
        around: &Around,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), IoError> {
        loop {
            let revision = self.inner.revision();
            let mut whole = self.read_edges(around).await?;
            whole[around.before..around.before + around.length].copy_from_slice(data);
            let start = around.blocks.start;
            let written = self
                .inner
                .write_to_revision(revision, start, whole, durability);
            match written.await.1 {
                Err(IoError::Aborted) if self.inner.revision() != revision => {}
                result => return result,
            }
        }
    }

    /// Room for the blocks around a run, with what is in the first and the last beside it.
    async fn read_edges(&self, around: &Around) -> Result<Buffer, IoError> {
        let mut whole = Buffer::new(around.total);
        let block = (self.ratio * u64::from(SECTOR_BYTES)) as usize;
        let last = Lba(around.blocks.start.0 + around.blocks.blocks - 1);
        let starts_inside = around.before > 0;
        let ends_inside = around.before + around.length < around.total;
        if starts_inside || (ends_inside && around.blocks.blocks == 1) {
            let (edge, result) = self
                .inner
                .read(around.blocks.start, Buffer::new(block))
                .await;
            result?;
            whole[..block].copy_from_slice(&edge);
        }
        if ends_inside && around.blocks.blocks > 1 {
            let (edge, result) = self.inner.read(last, Buffer::new(block)).await;
            result?;
            whole[around.total - block..].copy_from_slice(&edge);
        }
        Ok(whole)
    }

    /// Splits sectors into a part of the first block, whole blocks, and a part of the last.
    fn split(&self, sectors: BlockRange) -> (BlockRange, BlockRange, BlockRange) {
        let start = sectors.start.0;
        let end = start + sectors.blocks;
        let first_whole = start.next_multiple_of(self.ratio).min(end);
        let last_whole = (end - end % self.ratio).max(first_whole);
        let head = BlockRange::new(Lba(start), first_whole - start);
        let whole = (last_whole - first_whole) / self.ratio;
        let middle = BlockRange::new(Lba(first_whole / self.ratio), whole);
        let tail = BlockRange::new(Lba(last_whole), end - last_whole);
        (head, middle, tail)
    }

    /// Writes zeroes to sectors that are no whole block; nothing to do for none.
    async fn zero_part(&self, sectors: BlockRange, durability: Durability) -> Result<(), IoError> {
        if sectors.blocks == 0 {
            return Ok(());
        }
        let around = self.around(sectors);
        let _guard = self.locks.lock(around.blocks, Access::Exclusive).await;
        let zeroes = Buffer::zeroed(around.length);
        self.write_part(&around, &zeroes, durability).await
    }
}

impl<D: Revised> BlockDevice for Emulate512<D> {
    fn geometry(&self) -> Geometry {
        let inner = self.inner.geometry();
        if self.ratio == 1 {
            return inner;
        }
        let ratio = self.ratio as u32;
        // A write of n blocks that is not aligned touches n + 1 of them, so only what stays
        // within the device's own promise, however it lies, is promised here.
        let (atomic, boundary) = match inner.power_fail_atomic_blocks {
            0 | 1 => (ratio, ratio),
            blocks => (
                (blocks - 1) * ratio,
                inner.power_fail_atomic_boundary_blocks * ratio,
            ),
        };
        Geometry {
            block_bytes: SECTOR_BYTES,
            block_count: inner.block_count * self.ratio,
            optimal_write_blocks: inner.optimal_write_blocks * ratio,
            power_fail_atomic_blocks: atomic,
            power_fail_atomic_boundary_blocks: boundary,
            ..inner
        }
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let sectors = match check_transfer(&self.geometry(), start, buffer.len()) {
            Ok(sectors) => sectors,
            Err(error) => return (buffer, Err(error)),
        };
        let around = self.around(sectors);
        if around.is_exact() {
            return self.inner.read(around.blocks.start, buffer).await;
        }
        let whole = Buffer::new(around.total);
        let (whole, result) = self.inner.read(around.blocks.start, whole).await;
        if result.is_ok() {
            buffer.copy_from_slice(&whole[around.before..around.before + around.length]);
        }
        (buffer, result)
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let sectors = match check_transfer(&self.geometry(), start, buffer.len()) {
            Ok(sectors) => sectors,
            Err(error) => return (buffer, Err(error)),
        };
        let around = self.around(sectors);
        if around.is_exact() {
            let _guard = self.locks.lock(around.blocks, Access::Shared).await;
            return self
                .inner
                .write(around.blocks.start, buffer, durability)
                .await;
        }
        let _guard = self.locks.lock(around.blocks, Access::Exclusive).await;
        let result = self.write_part(&around, &buffer, durability).await;
        (buffer, result)
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        write_joined(self, start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.inner.flush().await
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        check_range(&self.geometry(), range)?;
        if range.blocks == 0 || !self.inner.geometry().deallocates {
            return Ok(());
        }
        let (head, middle, tail) = self.split(range);
        self.zero_part(head, Durability::Cached).await?;
        self.zero_part(tail, Durability::Cached).await?;
        if middle.blocks == 0 {
            return Ok(());
        }
        let _guard = self.locks.lock(middle, Access::Shared).await;
        self.inner.deallocate(middle).await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        check_range(&self.geometry(), range)?;
        let (head, middle, tail) = self.split(range);
        self.zero_part(head, durability).await?;
        self.zero_part(tail, durability).await?;
        if middle.blocks == 0 {
            return Ok(());
        }
        let _guard = self.locks.lock(middle, Access::Shared).await;
        self.inner.write_zeroes(middle, durability).await
    }
}
