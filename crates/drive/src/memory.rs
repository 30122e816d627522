//! [`MemoryDrive`]: blocks in memory, which is taken as it is written.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use crate::transfer::{check_range, check_transfer, check_vectored};

/// Memory is taken from the allocator in pieces of this size. The system provides each page of a
/// piece when it is first written.
const CHUNK_BYTES: u64 = 2 << 20;
/// So many pieces are kept for the next writes when they are erased, or so many times those in use:
/// the system would have to make every page of a new one zero, one page fault after the other. Who
/// frees much at once, as a pool does whose log goes round the whole drive, soon writes as much.
const SPARE_CHUNKS: usize = 16;
const SPARE_TIMES: usize = 3;

/// A piece of memory. Blocks that are not `written` are zero, whatever the memory holds.
struct Chunk {
    memory: Box<[u8]>,
    /// A bit for each block.
    written: Box<[u64]>,
}

/// A drive in memory. No operation suspends.
pub struct MemoryDrive {
    geometry: Geometry,
    chunks: RefCell<Vec<Option<Chunk>>>,
    /// How many of them hold anything.
    in_use: Cell<usize>,
    /// Memory that was erased.
    spare: RefCell<Vec<Box<[u8]>>>,
    /// All of that is kept.
    keeps: bool,
}

impl Chunk {
    fn new(memory: Option<Box<[u8]>>, block_bytes: usize) -> Chunk {
        let blocks = CHUNK_BYTES as usize / block_bytes;
        Chunk {
            memory: memory.unwrap_or_else(|| vec![0; CHUNK_BYTES as usize].into()),
            written: vec![0; blocks.div_ceil(64)].into(),
        }
    }

    fn mark(&mut self, blocks: Range<usize>, written: bool) {
        for block in blocks {
            let bit = 1 << (block % 64);
            match written {
                true => self.written[block / 64] |= bit,
                false => self.written[block / 64] &= !bit,
            }
        }
    }

    /// Cuts a range of blocks where written ones meet others.
    fn runs(&self, blocks: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> + '_ {
        let is_written = |block: usize| self.written[block / 64] >> (block % 64) & 1 == 1;
        let mut at = blocks.start;
        std::iter::from_fn(move || {
            let first = at;
            let written = (first < blocks.end).then(|| is_written(first))?;
            while at < blocks.end && is_written(at) == written {
                at += 1;
            }
            Some((first..at, written))
        })
    }
}

impl MemoryDrive {
    /// A drive of zeroes of this size and block size, without a volatile cache: it has nothing to
    /// lose that it does not lose as a whole.
    pub fn new(geometry: Geometry) -> MemoryDrive {
        let geometry = Geometry {
            volatile_write_cache: false,
            deallocates: true,
            ..geometry
        };
        MemoryDrive {
            geometry,
            chunks: RefCell::default(),
            in_use: Cell::new(0),
            spare: RefCell::default(),
            keeps: false,
        }
    }

    /// Keeps all memory that was ever written for its next writes: like any drive's, its place
    /// costs nothing to have, and what is measured is not the system's providing it.
    pub fn keeping_memory(self) -> MemoryDrive {
        MemoryDrive {
            keeps: true,
            ..self
        }
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    /// The blocks of a chunk in which `bytes` bytes from `within` on lie.
    fn blocks(&self, within: usize, bytes: usize) -> Range<usize> {
        within / self.block_bytes()..(within + bytes) / self.block_bytes()
    }

    /// Fills `bytes` from the device's byte `at` on.
    fn load(&self, at: u64, bytes: &mut [u8]) {
        let chunks = self.chunks.borrow();
        for (chunk, within, part) in pieces(at, bytes.len()) {
            let to = &mut bytes[part];
            let Some(Some(found)) = chunks.get(chunk) else {
                to.fill(0);
                continue;
            };
            for (run, written) in found.runs(self.blocks(within, to.len())) {
                let from = run.start * self.block_bytes()..run.end * self.block_bytes();
                let to = &mut to[from.start - within..from.end - within];
                match written {
                    true => to.copy_from_slice(&found.memory[from]),
                    false => to.fill(0),
                }
            }
        }
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        let mut chunks = self.chunks.borrow_mut();
        for (chunk, within, part) in pieces(at, bytes.len()) {
            if chunk >= chunks.len() {
                chunks.resize_with(chunk + 1, || None);
            }
            let from = &bytes[part];
            let blocks = self.blocks(within, from.len());
            let chunk = chunks[chunk].get_or_insert_with(|| {
                self.in_use.set(self.in_use.get() + 1);
                Chunk::new(self.spare.borrow_mut().pop(), self.block_bytes())
            });
            chunk.memory[within..within + from.len()].copy_from_slice(from);
            chunk.mark(blocks, true);
        }
    }

    /// Makes a range zero, and gives back the memory that it leaves without anything written.
    fn erase(&self, range: BlockRange) {
        let block = u64::from(self.geometry.block_bytes);
        let mut chunks = self.chunks.borrow_mut();
        let end = (range.start.0 + range.blocks) * block;
        let end = end.min(chunks.len() as u64 * CHUNK_BYTES);
        let mut at = range.start.0 * block;
        while at < end {
            let chunk = &mut chunks[(at / CHUNK_BYTES) as usize];
            let within = (at % CHUNK_BYTES) as usize;
            let length = (CHUNK_BYTES - at % CHUNK_BYTES).min(end - at);
            if let Some(found) = chunk {
                found.mark(self.blocks(within, length as usize), false);
            }
            let empty = |found: &mut Chunk| found.written.iter().all(|word| *word == 0);
            if let Some(emptied) = chunk.take_if(empty) {
                self.in_use.set(self.in_use.get() - 1);
                let mut spare = self.spare.borrow_mut();
                spare.push(emptied.memory);
                if !self.keeps {
                    spare.truncate((SPARE_TIMES * self.in_use.get()).max(SPARE_CHUNKS));
                }
            }
            at += length;
        }
    }

    fn byte_of(&self, start: Lba) -> u64 {
        start.0 * u64::from(self.geometry.block_bytes)
    }
}

/// Cuts a run of bytes at chunk boundaries: chunk, offset within it, and which bytes of the run.
fn pieces(at: u64, count: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == count {
            return None;
        }
        let place = at + done as u64;
        let within = (place % CHUNK_BYTES) as usize;
        let length = (CHUNK_BYTES as usize - within).min(count - done);
        let part = done..done + length;
        done += length;
        Some(((place / CHUNK_BYTES) as usize, within, part))
    })
}

impl BlockDevice for MemoryDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        if let Err(error) = check_transfer(&self.geometry, start, buffer.len()) {
            return (buffer, Err(error));
        }
        self.load(self.byte_of(start), &mut buffer);
        (buffer, Ok(()))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        _durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        if let Err(error) = check_transfer(&self.geometry, start, buffer.len()) {
            return (buffer, Err(error));
        }
        self.store(self.byte_of(start), &buffer);
        (buffer, Ok(()))
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        _durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        if let Err(error) = check_vectored(&self.geometry, start, &buffers) {
            return (buffers, Err(error));
        }
        let mut at = self.byte_of(start);
        for buffer in &buffers {
            self.store(at, buffer);
            at += buffer.len() as u64;
        }
        (buffers, Ok(()))
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        check_range(&self.geometry, range)?;
        self.erase(range);
        Ok(())
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        self.deallocate(range).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(drive: &MemoryDrive) -> usize {
        let taken = drive.chunks.borrow().iter().flatten().count();
        assert_eq!(taken, drive.in_use.get());
        assert!(drive.spare.borrow().len() <= SPARE_CHUNKS.max(SPARE_TIMES * taken));
        taken
    }

    #[test]
    fn memory_is_kept_if_that_is_asked_for() {
        reactor::Reactor::simulated(1).run(async {
            let chunks = 2 * SPARE_CHUNKS as u64;
            let blocks = chunks * CHUNK_BYTES / 4096;
            let geometry = Geometry::new(4096, blocks).unwrap();
            let drive = MemoryDrive::new(geometry).keeping_memory();
            for start in (0..blocks).step_by(512) {
                let data = Buffer::copy_of(&[1; 4096]);
                let written = drive.write(Lba(start), data, Durability::Cached).await;
                written.1.unwrap();
            }
            let all = BlockRange::new(Lba(0), blocks);
            drive.deallocate(all).await.unwrap();
            assert_eq!(drive.spare.borrow().len() as u64, chunks);
            let (buffer, result) = drive.read(Lba(0), Buffer::new(4096)).await;
            result.unwrap();
            assert!(buffer.iter().all(|byte| *byte == 0));
        });
    }

    #[test]
    fn memory_is_taken_when_written_and_given_back_when_deallocated() {
        reactor::Reactor::simulated(1).run(async {
            let geometry = Geometry::new(4096, 1 << 40).unwrap();
            let drive = MemoryDrive::new(geometry);
            let chunk_blocks = CHUNK_BYTES / 4096;
            let start = Lba(10 * chunk_blocks - 1);
            let data = Buffer::copy_of(&[1; 12288]);
            drive
                .write(Lba(start.0 - 1), data, Durability::Cached)
                .await
                .1
                .unwrap();
            assert_eq!(taken(&drive), 2);
            let range = BlockRange::new(start, 1 + chunk_blocks);
            drive.deallocate(range).await.unwrap();
            assert_eq!(taken(&drive), 1);
            let (buffer, result) = drive.read(start, Buffer::new(8192)).await;
            result.unwrap();
            assert!(buffer.iter().all(|byte| *byte == 0));
            let (buffer, result) = drive.read(Lba(start.0 - 1), buffer).await;
            result.unwrap();
            assert!(buffer[..4096].iter().all(|byte| *byte == 1));
            assert!(buffer[4096..].iter().all(|byte| *byte == 0));
            // Memory that is used again shows nothing of what it held.
            let one = Buffer::copy_of(&[2; 4096]);
            drive.write(start, one, Durability::Cached).await.1.unwrap();
            let again = Lba(start.0 + 2);
            let one = Buffer::copy_of(&[3; 4096]);
            drive.write(again, one, Durability::Cached).await.1.unwrap();
            let (buffer, result) = drive.read(Lba(start.0 + 1), Buffer::new(8192)).await;
            result.unwrap();
            assert!(buffer[..4096].iter().all(|byte| *byte == 0));
            assert!(buffer[4096..].iter().all(|byte| *byte == 3));
            let everything = BlockRange::new(Lba(0), 1 << 40);
            drive
                .write_zeroes(everything, Durability::Durable)
                .await
                .unwrap();
            assert_eq!(taken(&drive), 0);
        });
    }
}
