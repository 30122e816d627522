//! [`Sliced`]: the parts of a volume that different shards serve, as one device.

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use crate::join::join_all;
use crate::location::BLOCK_BYTES;
use crate::slices::Share;

/// A volume whose slices are served by several devices in turn: one for each shard of its pool,
/// the first shard's first. A request within one slice goes to its device as it is.
pub struct Sliced<V> {
    parts: Vec<V>,
    slice_blocks: u32,
}

impl<V: BlockDevice> Sliced<V> {
    /// The device that `parts` are together; `slice_blocks` as the pool's settings have it.
    ///
    /// # Panics
    /// If there are no parts, or no blocks in a slice.
    pub fn new(parts: Vec<V>, slice_blocks: u32) -> Sliced<V> {
        assert!(!parts.is_empty() && slice_blocks > 0, "there is something");
        Sliced {
            parts,
            slice_blocks,
        }
    }

    /// The devices that serve the slices.
    pub fn parts(&self) -> &[V] {
        &self.parts
    }

    fn share(&self) -> Share {
        Share {
            slice_blocks: u64::from(self.slice_blocks),
            shards: self.parts.len() as u64,
            shard: 0,
        }
    }

    /// The device for a request that one device can answer, if only by refusing it.
    fn only(&self, start: Lba, bytes: usize) -> Option<&V> {
        let share = self.share();
        let own = &self.parts[share.owner(start.0) as usize];
        let Some(range) = self.geometry().range_of_bytes(start, bytes) else {
            return Some(own);
        };
        (start.0 + range.blocks <= share.end_of_slice(start.0)).then_some(own)
    }

    /// The runs of a request that go to one device each.
    fn runs(&self, start: u64, blocks: u64) -> Vec<(&V, BlockRange)> {
        let share = self.share();
        let end = start.saturating_add(blocks);
        let mut runs = Vec::new();
        let mut at = start;
        while at < end {
            let next = share.end_of_slice(at).min(end);
            let range = BlockRange::new(Lba(at), next - at);
            runs.push((&self.parts[share.owner(at) as usize], range));
            at = next;
        }
        runs
    }

    /// Every device that has a slice in a range.
    fn touched(&self, range: BlockRange) -> impl Iterator<Item = &V> {
        let share = self.share();
        let slices = match range.blocks {
            0 => 1,
            blocks => {
                let first = range.start.0 / share.slice_blocks;
                let last = range.start.0.saturating_add(blocks - 1) / share.slice_blocks;
                last - first + 1
            }
        };
        let first = share.owner(range.start.0);
        (0..slices.min(share.shards))
            .map(move |turn| &self.parts[((first + turn) % share.shards) as usize])
    }
}

fn first_failure(results: impl IntoIterator<Item = Result<(), IoError>>) -> Result<(), IoError> {
    results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
}

impl<V: BlockDevice> BlockDevice for Sliced<V> {
    fn geometry(&self) -> Geometry {
        self.parts[0].geometry()
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let blocks = (buffer.len() / BLOCK_BYTES) as u64;
        if let Some(part) = self.only(start, buffer.len()) {
            return part.read(start, buffer).await;
        }
        let reads = self.runs(start.0, blocks).into_iter().map(|(part, range)| {
            let piece = Buffer::new(range.blocks as usize * BLOCK_BYTES);
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
        let blocks = (buffer.len() / BLOCK_BYTES) as u64;
        if let Some(part) = self.only(start, buffer.len()) {
            return part.write(start, buffer, durability).await;
        }
        let writes = self.runs(start.0, blocks).into_iter().map(|(part, range)| {
            let from = (range.start.0 - start.0) as usize * BLOCK_BYTES;
            let piece = Buffer::copy_of(&buffer[from..from + range.blocks as usize * BLOCK_BYTES]);
            part.write(range.start, piece, durability)
        });
        let results = join_all(writes).await;
        let result = first_failure(results.into_iter().map(|(_, result)| result));
        (buffer, result)
    }

    async fn flush(&self) -> Result<(), IoError> {
        first_failure(join_all(self.parts.iter().map(V::flush)).await)
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        first_failure(join_all(self.touched(range).map(|part| part.deallocate(range))).await)
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        let parts = self.touched(range);
        first_failure(join_all(parts.map(|part| part.write_zeroes(range, durability))).await)
    }
}
