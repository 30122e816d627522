//! [`BlockDevice`]: the one trait between storage layers.

use std::rc::Rc;

use crate::{BlockRange, Buffer, Geometry, IoError, Lba};

/// How far a write has got when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Visible to later reads; survives power loss only after a flush if the device has a
    /// volatile write cache.
    Cached,
    /// On stable media before the acknowledgement (NVMe: Force Unit Access).
    Durable,
}

/// A run of logical blocks that can be read and written.
///
/// The contract, which [`conformance`](crate::conformance) checks on every implementation:
///
/// - Methods take `&self`; any number of operations may be in flight at once. Operations on
///   disjoint blocks are independent. Of overlapping operations in flight together, each block
///   ends as one of them left it, never a mixture within one logical block.
/// - A buffer's length is the transfer length. It is a whole number of blocks, not empty, and the
///   range lies within the device; otherwise the operation returns [`IoError::InvalidRequest`] or
///   [`IoError::OutOfRange`] and touches nothing. The implementation checks; callers need not.
///   Of several buffers each is a whole number of blocks, and there is at least one.
/// - Buffers come back whatever happens, in their order, with the length they had. After a failed
///   read a buffer's contents are unspecified and must not be shown to anyone.
/// - A write that returned `Ok` is seen by every read submitted afterwards. One that failed, or
///   whose future was dropped, may have been applied to any subset of its blocks.
/// - `flush` makes durable every write acknowledged before it was submitted.
/// - Deallocated blocks read as zeroes if [`Geometry::deallocates`], else `deallocate` succeeds
///   and changes nothing.
/// - Dropping a future never frees memory that the kernel or a peer may still write to.
/// - No operation panics on any argument, and none blocks the thread.
///
/// There are no default methods: a wrapper that forgets one would silently change behaviour.
/// `examples/own_device.rs` is a small device, served over NVMe/TCP.
#[allow(
    async_fn_in_trait,
    reason = "one reactor per core: futures are never sent"
)]
pub trait BlockDevice {
    /// What the device is. Only `block_count` may change, and only upwards, while it is open.
    fn geometry(&self) -> Geometry;

    /// Fills `buffer` from the blocks at `start`.
    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>);

    /// Writes `buffer` to the blocks at `start`.
    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>);

    /// Writes `buffers` to the blocks at `start`, one behind the other, as one operation.
    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>);

    /// Makes every acknowledged write durable.
    async fn flush(&self) -> Result<(), IoError>;

    /// Says that the contents of `range` are no longer needed. An empty range succeeds.
    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError>;

    /// Makes `range` read as zeroes. An empty range succeeds.
    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError>;
}

/// [`BlockDevice::write_vectored`] for a device to which memory in pieces is of no use: puts a
/// copy of them together and writes that.
pub async fn write_joined<D: BlockDevice>(
    device: &D,
    start: Lba,
    buffers: Vec<Buffer>,
    durability: Durability,
) -> (Vec<Buffer>, Result<(), IoError>) {
    let block_bytes = device.geometry().block_bytes as usize;
    let is_whole = |buffer: &Buffer| !buffer.is_empty() && buffer.len().is_multiple_of(block_bytes);
    if !buffers.iter().all(is_whole) {
        return (buffers, Err(IoError::InvalidRequest));
    }
    let mut joined = Buffer::new(buffers.iter().map(|buffer| buffer.len()).sum());
    let mut rest = &mut joined[..];
    for buffer in &buffers {
        let (part, behind) = rest.split_at_mut(buffer.len());
        part.copy_from_slice(buffer);
        rest = behind;
    }
    let (_, result) = device.write(start, joined, durability).await;
    (buffers, result)
}

/// A device whose blocks may all become others at once under those who use them, as when a volume
/// goes back to a snapshot. What is here by default holds for every device whose blocks change only
/// where they are written.
#[allow(
    async_fn_in_trait,
    reason = "one reactor per core: futures are never sent"
)]
pub trait Revised: BlockDevice {
    /// Of which revision the blocks are that reads find from now on; no two have the same number.
    fn revision(&self) -> u64 {
        0
    }

    /// As [`write`](BlockDevice::write), while the blocks are of `revision`: what is written was
    /// made of them. [`IoError::Aborted`] if they are of another one by the time that it counts.
    async fn write_to_revision(
        &self,
        _revision: u64,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        self.write(start, buffer, durability).await
    }
}

/// A device that several hold on one core. Its futures are the device's own: nothing moves through
/// another one.
impl<D: BlockDevice> BlockDevice for Rc<D> {
    fn geometry(&self) -> Geometry {
        D::geometry(self)
    }

    fn read(
        &self,
        start: Lba,
        buffer: Buffer,
    ) -> impl Future<Output = (Buffer, Result<(), IoError>)> {
        D::read(self, start, buffer)
    }

    fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> impl Future<Output = (Buffer, Result<(), IoError>)> {
        D::write(self, start, buffer, durability)
    }

    fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> impl Future<Output = (Vec<Buffer>, Result<(), IoError>)> {
        D::write_vectored(self, start, buffers, durability)
    }

    fn flush(&self) -> impl Future<Output = Result<(), IoError>> {
        D::flush(self)
    }

    fn deallocate(&self, range: BlockRange) -> impl Future<Output = Result<(), IoError>> {
        D::deallocate(self, range)
    }

    fn write_zeroes(
        &self,
        range: BlockRange,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>> {
        D::write_zeroes(self, range, durability)
    }
}
