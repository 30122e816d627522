//! Reads of volumes: which blocks of a transfer lie together, each such run read to its place.

use crate::format::node::Node;
use crate::ids::LayerId;
use crate::join::join_all;
use crate::location::{BLOCK_BYTES, BlockNumber, Entry, LayerBlock, Mapping};
use crate::map::tree::Nodes;
use crate::mutation::Mutation;
use crate::segments::zones::Zone;
use crate::shard::batched_lookup::Found;
use crate::shard::core::Core;
use crate::stripes::buffers::put_together;
use crate::volumes::Holder;
use block::{BlockDevice, Buffer, IoError};
use std::ops::Range;
use std::sync::Arc;

/// True when one read of a drive brings both, or neither needs one.
fn follows(last: Option<Entry>, next: Option<Entry>) -> bool {
    match (last, next) {
        (None, None) => true,
        (Some(last), Some(next)) => {
            let (here, there) = (last.at, next.at);
            (here.segment, here.column, here.row + 1) == (there.segment, there.column, there.row)
        }
        _ => false,
    }
}

fn entry(found: &Option<Mapping>) -> Option<Entry> {
    found.and_then(Mapping::entry)
}

/// The blocks of a transfer in pieces that one read of a drive brings each, or that read as zeroes.
fn pieces(found: &[Option<Mapping>]) -> Vec<Range<usize>> {
    let mut at = 0;
    let runs = found.chunk_by(|last, next| follows(entry(last), entry(next)));
    let piece = |run: &[Option<Mapping>]| {
        let start = at;
        at += run.len();
        start..at
    };
    runs.map(piece).collect()
}

/// Cuts a buffer into one part for each piece.
fn cut(mut buffer: Buffer, pieces: &[Range<usize>]) -> Vec<Buffer> {
    let mut parts = Vec::with_capacity(pieces.len());
    for piece in pieces.iter().skip(1).rev() {
        parts.push(buffer.split_off(piece.start * BLOCK_BYTES));
    }
    parts.push(buffer);
    parts.reverse();
    parts
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Reads blocks of a volume or snapshot, of which `layer` is the top layer at this moment.
    pub async fn read_blocks(
        &self,
        of: Holder,
        layer: LayerId,
        blocks: Range<BlockNumber>,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let _reading = self.reading();
        let start = blocks.start;
        if blocks.end == start + 1 {
            return match self.find_one(of, layer, start).await {
                Ok(found) => {
                    let mapping = [found.mapping];
                    let piece = self.read_piece(of, start, &mapping, found.zone, buffer);
                    piece.await
                }
                Err(error) => (buffer, Err(error)),
            };
        }
        let mut found = vec![None; (blocks.end - start) as usize];
        if let Err(error) = self.find(layer, start, &mut found).await {
            return (buffer, Err(error));
        }
        let pieces = pieces(&found);
        if pieces.len() == 1 {
            let zone = self.zone_of_run(&found);
            return self.read_piece(of, start, &found, zone, buffer).await;
        }
        let parts = cut(buffer, &pieces);
        let reads = pieces.iter().zip(parts).map(|(piece, part)| {
            let start = start + piece.start as u64;
            let run = &found[piece.clone()];
            self.read_piece(of, start, run, self.zone_of_run(run), part)
        });
        let (parts, results): (Vec<_>, Vec<_>) = join_all(reads).await.into_iter().unzip();
        (put_together(parts), results.into_iter().collect())
    }

    fn layer_of(&self, of: Holder) -> Result<LayerId, IoError> {
        let layer = self.state.borrow().tables.layer_of(of);
        layer.ok_or(IoError::DeviceGone)
    }

    /// Where a block is, with the help of those who ask at the same time.
    async fn find_one(
        &self,
        of: Holder,
        layer: LayerId,
        block: BlockNumber,
    ) -> Result<Found, IoError> {
        if let Some(found) = self.find_batched(layer, block).await {
            return Ok(found);
        }
        let mut found = [None];
        self.find(self.layer_of(of)?, block, &mut found).await?;
        Ok(Found::of(&self.state.borrow(), found[0]))
    }

    /// Reads blocks from `start` on that lie in one piece, in `zone` if anywhere.
    async fn read_piece(
        &self,
        of: Holder,
        start: BlockNumber,
        found: &[Option<Mapping>],
        zone: Option<Zone>,
        mut buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        if found.first().and_then(entry).is_none() {
            buffer.fill(0);
            let lost = found.contains(&Some(Mapping::Lost));
            return (
                buffer,
                if lost {
                    Err(IoError::UnrecoveredRead)
                } else {
                    Ok(())
                },
            );
        }
        let (buffer, result) = self
            .read_run_in(zone, found.iter().filter_map(entry), buffer)
            .await;
        if result == Err(IoError::UnrecoveredRead) {
            Box::pin(self.tell_lost(of, start, found)).await;
        }
        (buffer, result)
    }

    /// Finds out which blocks of a run are lost.
    async fn tell_lost(&self, of: Holder, start: BlockNumber, run: &[Option<Mapping>]) {
        for (block, one) in start.onwards().zip(run) {
            let entry = entry(one).into_iter();
            let read = self.read_run(entry, Buffer::new(BLOCK_BYTES));
            if read.await.1.is_err()
                && let Ok(layer) = self.layer_of(of)
            {
                self.lose_block(LayerBlock { layer, block });
            }
        }
    }
}

/// True when each block has the checksum that the map has of it.
fn are_right(entries: impl Iterator<Item = Entry>, buffer: &[u8]) -> bool {
    let mut pairs = entries.zip(buffer.chunks(BLOCK_BYTES));
    pairs.all(|(entry, block)| crc_fast::crc32_iscsi(block) == entry.crc)
        || Mutation::ReadsUnchecked.is_planted()
}

impl<D: BlockDevice> Core<D> {
    /// Where the blocks of one piece are.
    fn zone_of_run(&self, run: &[Option<Mapping>]) -> Option<Zone> {
        self.zone_of(run.first().and_then(entry)?.at)
    }

    /// Reads blocks that lie one behind the other in one column, and checks each.
    pub async fn read_run(
        &self,
        entries: impl Iterator<Item = Entry> + Clone,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let zone = entries.clone().next();
        let zone = zone.and_then(|first| self.zone_of(first.at));
        self.read_run_in(zone, entries, buffer).await
    }

    /// The same for blocks in `zone`.
    async fn read_run_in(
        &self,
        zone: Option<Zone>,
        entries: impl Iterator<Item = Entry> + Clone,
        buffer: Buffer,
    ) -> (Buffer, Result<(), IoError>) {
        let Some(first) = entries.clone().next() else {
            return (buffer, Ok(()));
        };
        let (buffer, result) = self.array.read_zone(zone, first.at.row, buffer).await;
        if !self.array.newly_failed.borrow().is_empty() {
            self.upkeep.notify_one();
        }
        if result.is_ok() && are_right(entries.clone(), &buffer) {
            return (buffer, Ok(()));
        }
        // On the heap: it is seldom needed, and room for it would be in the future of every read.
        Box::pin(self.mend_run(entries.collect(), buffer, result)).await
    }

    /// Gets those blocks of a run that could not be read, or are not what they should be, in
    /// another way.
    async fn mend_run(
        &self,
        entries: Vec<Entry>,
        mut buffer: Buffer,
        read: Result<(), IoError>,
    ) -> (Buffer, Result<(), IoError>) {
        for (index, entry) in entries.into_iter().enumerate() {
            let range = index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES;
            if read.is_ok() && crc_fast::crc32_iscsi(&buffer[range.clone()]) == entry.crc {
                continue;
            }
            let Some(columns) = self.columns(entry.at.segment) else {
                return (buffer, Err(IoError::UnrecoveredRead));
            };
            let scratch = Buffer::new(BLOCK_BYTES);
            // A run that failed as a whole may be readable block by block.
            let (mut block, mut own) = (scratch, Err(IoError::UnrecoveredRead));
            match read {
                Ok(()) => self.array.corrupt_in(self.zone_of(entry.at)),
                Err(_) => (block, own) = self.array.read_own(&columns, entry, block).await,
            }
            if let Err(own) = own {
                let rescue = self.array.rescue_block(&columns, entry, block, own);
                let (rebuilt, found) = rescue.await;
                if found.is_err() {
                    return (buffer, found);
                }
                self.array
                    .count(|counters| counters.reconstructed_reads += 1);
                block = rebuilt;
            }
            buffer[range].copy_from_slice(&block);
        }
        (buffer, Ok(()))
    }
}

impl<D: BlockDevice> Nodes for Core<D> {
    async fn load(&self, entry: Entry) -> Result<Arc<Node>, IoError> {
        if let Some(node) = self.cache.borrow().get(entry) {
            return Ok(node.clone());
        }
        let (buffer, result) = self
            .read_run([entry].into_iter(), Buffer::new(BLOCK_BYTES))
            .await;
        result?;
        let node = Arc::new(Node::parse(buffer).ok_or(IoError::Internal)?);
        self.cache.borrow_mut().insert(entry, node.clone());
        Ok(node)
    }
}
