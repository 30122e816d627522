//! [`Sliced`]: the parts of a volume that different shards serve, as one device.

use crate::ids::ShardId;
use crate::join::join_all;
use crate::location::{BLOCK_BYTES, BlockNumber};
use crate::segments::slices::Share;
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};

/// A range that is no transfer goes to the devices in pieces of no more slices: a checkpoint that
/// comes between their parts of one has each of these slices by itself in memory.
const SLICES_AT_ONCE: u64 = 1 << 16;

/// A volume whose slices are served by several devices in turn: one for each shard of its pool,
/// the first shard's first. A request within one slice goes to its device as it is.
pub struct Sliced<V> {
    parts: Vec<V>,
    /// The part that knows best how large the volume is.
    nearest: usize,
    block_bytes: usize,
    /// A block of the pool has so many of this size: the power of two.
    smaller_by: u32,
    /// In blocks of the pool.
    slice_blocks: u64,
}

impl<V: BlockDevice> Sliced<V> {
    /// The device that `parts` are together; `slice_blocks` as the pool's settings have it. The
    /// parts may show smaller blocks than the pool's.
    ///
    /// # Panics
    /// If there are no parts, or no blocks in a slice.
    pub fn new(parts: Vec<V>, slice_blocks: u32) -> Sliced<V> {
        assert!(!parts.is_empty() && slice_blocks > 0, "there is something");
        let block_bytes = parts[0].geometry().block_bytes as usize;
        Sliced {
            parts,
            nearest: 0,
            block_bytes,
            smaller_by: (BLOCK_BYTES / block_bytes).ilog2(),
            slice_blocks: u64::from(slice_blocks),
        }
    }

    /// The same, asking the part of this index, instead of the first, what the volume is.
    pub fn nearest(self, index: usize) -> Sliced<V> {
        assert!(index < self.parts.len(), "it is one of the parts");
        Sliced {
            nearest: index,
            ..self
        }
    }

    /// The devices that serve the slices.
    pub fn parts(&self) -> &[V] {
        &self.parts
    }

    fn share(&self) -> Share {
        Share {
            slice_blocks: self.slice_blocks,
            shards: self.parts.len() as u64,
            shard: ShardId::FIRST,
        }
    }

    /// The pool's block in which a block of the parts is.
    fn block_of(&self, lba: u64) -> BlockNumber {
        BlockNumber::new(lba >> self.smaller_by)
    }

    fn owner(&self, lba: u64) -> &V {
        &self.parts[self.share().owner(self.block_of(lba)).index()]
    }

    /// One past the last block of the parts from this one on that has the same owner without a gap.
    fn end_of_slice(&self, lba: u64) -> u64 {
        let end = self.share().end_of_slice(self.block_of(lba));
        end.get().saturating_mul(1 << self.smaller_by)
    }

    /// The device for a transfer that one device can answer, if only by refusing it.
    fn only(&self, start: Lba, bytes: usize) -> Option<&V> {
        if let [only] = &self.parts[..] {
            return Some(only);
        }
        let own = self.owner(start.0);
        let blocks = bytes.div_ceil(self.block_bytes) as u64;
        let end = start.0.checked_add(blocks);
        let inside = end.is_none_or(|end| end <= self.end_of_slice(start.0));
        if inside || self.geometry().range_of_bytes(start, bytes).is_none() {
            return Some(own);
        }
        None
    }

    /// The runs of a transfer that go to one device each.
    fn runs(&self, start: u64, blocks: u64) -> Vec<(&V, BlockRange)> {
        let end = start.saturating_add(blocks);
        let mut runs = Vec::new();
        let mut at = start;
        while at < end {
            let next = self.end_of_slice(at).min(end);
            let range = BlockRange::new(Lba(at), next - at);
            runs.push((self.owner(at), range));
            at = next;
        }
        runs
    }

    /// Does something to a range that is no transfer: at each device whole slices at once, of
    /// which it takes its own; what is less than a slice only at the device that has it.
    async fn for_range(
        &self,
        range: BlockRange,
        work: impl AsyncFn(&V, BlockRange) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let slice = self.slice_blocks << self.smaller_by;
        let Some(end) = range
            .end()
            .filter(|end| end.0 <= self.geometry().block_count)
        else {
            return Err(IoError::OutOfRange);
        };
        let (start, end) = (range.start.0, end.0);
        if end <= self.end_of_slice(start) {
            return work(self.owner(start), range).await;
        }
        let first = start.next_multiple_of(slice);
        let last = end - end % slice;
        let ends = [start..first, last..end];
        let ends = ends.into_iter().filter(|piece| !piece.is_empty());
        let ends = ends.map(|piece| {
            let range = BlockRange::new(Lba(piece.start), piece.end - piece.start);
            work(self.owner(piece.start), range)
        });
        first_failure(join_all(ends).await)?;
        let at_once = slice * SLICES_AT_ONCE;
        let mut start = first;
        while start < last {
            let whole = BlockRange::new(Lba(start), at_once.min(last - start));
            let touched = (whole.blocks / slice).min(self.parts.len() as u64);
            let middle = (0..touched).map(|nth| {
                let part = self.owner(start + nth * slice);
                work(part, whole)
            });
            first_failure(join_all(middle).await)?;
            start += whole.blocks;
        }
        Ok(())
    }
}

fn first_failure(results: impl IntoIterator<Item = Result<(), IoError>>) -> Result<(), IoError> {
    results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
}

impl<V: BlockDevice> BlockDevice for Sliced<V> {
    fn geometry(&self) -> Geometry {
        self.parts[self.nearest].geometry()
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        if let Some(part) = self.only(start, buffer.len()) {
            return part.read(start, buffer).await;
        }
        let blocks = (buffer.len() / self.block_bytes) as u64;
        let reads = self.runs(start.0, blocks).into_iter().map(|(part, range)| {
            let piece = Buffer::new(range.blocks as usize * self.block_bytes);
            part.read(range.start, piece)
        });
        let pieces = join_all(reads).await;
        let mut at = 0;
        for (piece, _) in &pieces {
            buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        (
            buffer,
            first_failure(pieces.into_iter().map(|(_, result)| result)),
        )
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        if let Some(part) = self.only(start, buffer.len()) {
            return part.write(start, buffer, durability).await;
        }
        let blocks = (buffer.len() / self.block_bytes) as u64;
        let writes = self.runs(start.0, blocks).into_iter().map(|(part, range)| {
            let from = (range.start.0 - start.0) as usize * self.block_bytes;
            let bytes = range.blocks as usize * self.block_bytes;
            let piece = Buffer::copy_of(&buffer[from..from + bytes]);
            part.write(range.start, piece, durability)
        });
        let results = join_all(writes).await;
        let result = first_failure(results.into_iter().map(|(_, result)| result));
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
        first_failure(join_all(self.parts.iter().map(V::flush)).await)
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.for_range(range, V::deallocate).await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        self.for_range(range, async |part: &V, range| {
            part.write_zeroes(range, durability).await
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Notes what is deallocated on it.
    struct Noting {
        block_bytes: usize,
        noted: RefCell<Vec<BlockRange>>,
    }

    fn noting(block_bytes: usize) -> Noting {
        let noted = RefCell::default();
        Noting { block_bytes, noted }
    }

    impl BlockDevice for Noting {
        fn geometry(&self) -> Geometry {
            Geometry::new(self.block_bytes as u32, 1 << 40).expect("a device")
        }

        async fn read(&self, _: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
            (buffer, Ok(()))
        }

        async fn write(
            &self,
            _: Lba,
            buffer: Buffer,
            _: Durability,
        ) -> (Buffer, Result<(), IoError>) {
            (buffer, Ok(()))
        }

        async fn write_vectored(
            &self,
            _: Lba,
            buffers: Vec<Buffer>,
            _: Durability,
        ) -> (Vec<Buffer>, Result<(), IoError>) {
            (buffers, Ok(()))
        }

        async fn flush(&self) -> Result<(), IoError> {
            Ok(())
        }

        async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
            self.noted.borrow_mut().push(range);
            Ok(())
        }

        async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
            self.deallocate(range).await
        }
    }

    #[test]
    fn slices_are_as_large_however_small_the_blocks_of_the_parts_are() {
        for block_bytes in [512, 1024, BLOCK_BYTES] {
            let parts = (0..3).map(|_| noting(block_bytes)).collect();
            let sliced = Sliced::new(parts, 4);
            let slice = (4 * BLOCK_BYTES / block_bytes) as u64;
            for lba in 0..7 * slice {
                let owner: *const Noting = sliced.owner(lba);
                let expected = &sliced.parts()[(lba / slice % 3) as usize];
                assert!(
                    std::ptr::eq(owner, expected),
                    "{lba} of {block_bytes} bytes"
                );
                assert_eq!(sliced.end_of_slice(lba), (lba / slice + 1) * slice);
            }
            let one = Sliced::new(vec![noting(block_bytes)], 4);
            assert_eq!(one.end_of_slice(5), u64::MAX);
        }
    }

    /// A checkpoint that came between the parts of one of 16 TiB took half a GiB and 1.5 s.
    #[test]
    fn a_large_range_goes_to_the_parts_in_pieces() {
        const SLICE_BLOCKS: u64 = 16;
        let parts = (0..2).map(|_| noting(BLOCK_BYTES)).collect();
        let sliced = Sliced::new(parts, SLICE_BLOCKS as u32);
        let (start, end) = (5, SLICE_BLOCKS * SLICES_AT_ONCE * 3 + 100);
        let given = sliced.deallocate(BlockRange::new(Lba(start), end - start));
        assert_eq!(reactor::Reactor::simulated(1).run(given), Ok(()));
        for (part, noted) in (0..).zip(sliced.parts()) {
            let noted = noted.noted.borrow();
            let most = noted.iter().map(|range| range.blocks).max();
            assert_eq!(most, Some(SLICE_BLOCKS * SLICES_AT_ONCE));
            // Every block of each of its slices, and no other is whole.
            let own = |block: u64| block / SLICE_BLOCKS % 2 == part;
            let covers = |block: u64| {
                let mut noted = noted.iter();
                noted.any(|range| (range.start.0..range.start.0 + range.blocks).contains(&block))
            };
            let looked_at = (start..end).step_by(7).chain([start, end - 1]);
            assert!(looked_at.filter(|block| own(*block)).all(covers));
        }
    }
}
