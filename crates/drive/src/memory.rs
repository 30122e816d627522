//! [`MemoryDrive`]: blocks in memory, which is taken as it is written.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use block::{
    BUFFER_ALIGNMENT, BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, Revised,
};

use crate::transfer::{check_range, check_transfer, check_vectored};

/// Memory is taken from the allocator in pieces of this size. The system provides each page of a
/// piece when it is first written.
const CHUNK_BYTES: u64 = 2 << 20;
/// So many pieces are kept for the next writes when they are erased, or so many times those in use:
/// the system would have to make every page of a new one zero, one page fault after the other. Who
/// frees much at once, as a pool does whose log goes round the whole drive, soon writes as much.
const SPARE_CHUNKS: usize = 16;
const SPARE_TIMES: usize = 3;
/// Pieces in a group. Groups are made when something in them is first written, so that a large
/// drive with little in it takes little memory.
const GROUP_CHUNKS: usize = 2048;

/// Memory for a piece, zero at first. It begins at a multiple of a page, as buffers do: copies
/// between places that differ in that take twice the time.
struct ChunkMemory {
    bytes: Box<[u8]>,
    /// Where in `bytes` the first page begins.
    start: usize,
}

/// A piece of memory. Blocks that are not `written` are zero, whatever the memory holds.
struct Chunk {
    memory: ChunkMemory,
    /// A bit for each block.
    written: Box<[u64]>,
}

/// Where a piece of memory is, if anything is written there.
type Place = RwLock<Option<Chunk>>;

type Group = Box<[Place]>;

/// A drive in memory. No operation suspends. As other drives do, it serves several cores at once:
/// its clones are handles of one drive. So this is the one place below the pool with locks, one for
/// each piece, held while bytes are copied.
#[derive(Clone)]
pub struct MemoryDrive {
    geometry: Geometry,
    /// All memory that is erased is kept.
    keeps: bool,
    memory: Arc<Memory>,
}

struct Memory {
    groups: Box<[OnceLock<Group>]>,
    /// How many pieces hold anything.
    in_use: AtomicUsize,
    /// Memory that was erased.
    spare: Mutex<Vec<ChunkMemory>>,
}

impl ChunkMemory {
    fn new() -> ChunkMemory {
        // Zeroes that the system provides: a layout with an alignment would have them written.
        let bytes = vec![0; CHUNK_BYTES as usize + BUFFER_ALIGNMENT].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(BUFFER_ALIGNMENT);
        ChunkMemory { bytes, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl Chunk {
    fn new(memory: Option<ChunkMemory>, block_bytes: usize) -> Chunk {
        let blocks = CHUNK_BYTES as usize / block_bytes;
        Chunk {
            memory: memory.unwrap_or_else(ChunkMemory::new),
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
        let chunks = geometry.capacity_bytes().div_ceil(CHUNK_BYTES) as usize;
        let groups = chunks.div_ceil(GROUP_CHUNKS);
        MemoryDrive {
            geometry,
            keeps: false,
            memory: Arc::new(Memory {
                groups: (0..groups).map(|_| OnceLock::new()).collect(),
                in_use: AtomicUsize::new(0),
                spare: Mutex::default(),
            }),
        }
    }

    /// Keeps all memory that was ever written for its next writes: like any drive's, its place
    /// costs nothing to have, and what is measured is not the system's providing it. For a handle
    /// and those made from it.
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
        for (chunk, within, part) in pieces(at, bytes.len()) {
            let to = &mut bytes[part];
            let place = self.memory.place(chunk).map(read);
            let Some(found) = place.as_ref().and_then(|place| place.as_ref()) else {
                to.fill(0);
                continue;
            };
            for (run, written) in found.runs(self.blocks(within, to.len())) {
                let from = run.start * self.block_bytes()..run.end * self.block_bytes();
                let to = &mut to[from.start - within..from.end - within];
                match written {
                    true => to.copy_from_slice(&found.memory.bytes()[from]),
                    false => to.fill(0),
                }
            }
        }
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        for (chunk, within, part) in pieces(at, bytes.len()) {
            let from = &bytes[part];
            let blocks = self.blocks(within, from.len());
            let mut place = write(self.memory.place_to_fill(chunk));
            let chunk =
                place.get_or_insert_with(|| Chunk::new(self.memory.take(), self.block_bytes()));
            chunk.memory.bytes_mut()[within..within + from.len()].copy_from_slice(from);
            chunk.mark(blocks, true);
        }
    }

    /// Makes a range zero, and gives back the memory that it leaves without anything written.
    fn erase(&self, range: BlockRange) {
        let block = u64::from(self.geometry.block_bytes);
        let end = (range.start.0 + range.blocks) * block;
        let mut at = range.start.0 * block;
        while at < end {
            let chunk = (at / CHUNK_BYTES) as usize;
            let Some(place) = self.memory.place(chunk) else {
                // Nothing in the group was ever written.
                let next = (chunk / GROUP_CHUNKS + 1) * GROUP_CHUNKS;
                at = next as u64 * CHUNK_BYTES;
                continue;
            };
            let within = (at % CHUNK_BYTES) as usize;
            let length = (CHUNK_BYTES - at % CHUNK_BYTES).min(end - at);
            let mut place = write(place);
            if let Some(found) = place.as_mut() {
                found.mark(self.blocks(within, length as usize), false);
            }
            let empty = |found: &mut Chunk| found.written.iter().all(|word| *word == 0);
            if let Some(emptied) = place.take_if(empty) {
                self.memory.give_back(emptied.memory, self.keeps);
            }
            at += length;
        }
    }

    fn byte_of(&self, start: Lba) -> u64 {
        start.0 * u64::from(self.geometry.block_bytes)
    }
}

impl Memory {
    /// The place of a piece; `None` if nothing in its group was ever written.
    fn place(&self, chunk: usize) -> Option<&Place> {
        let group = self.groups.get(chunk / GROUP_CHUNKS)?.get()?;
        Some(&group[chunk % GROUP_CHUNKS])
    }

    fn place_to_fill(&self, chunk: usize) -> &Place {
        let group = self.groups[chunk / GROUP_CHUNKS]
            .get_or_init(|| (0..GROUP_CHUNKS).map(|_| Place::default()).collect());
        &group[chunk % GROUP_CHUNKS]
    }

    /// Memory for another piece, if there is any that was erased.
    fn take(&self) -> Option<ChunkMemory> {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        self.spare().pop()
    }

    fn give_back(&self, memory: ChunkMemory, keeps: bool) {
        let in_use = self.in_use.fetch_sub(1, Ordering::Relaxed) - 1;
        let mut spare = self.spare();
        spare.push(memory);
        if !keeps {
            spare.truncate((SPARE_TIMES * in_use).max(SPARE_CHUNKS));
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<ChunkMemory>> {
        // Whoever panicked with the lock held left the list whole.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(place: &Place) -> RwLockReadGuard<'_, Option<Chunk>> {
    place.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(place: &Place) -> RwLockWriteGuard<'_, Option<Chunk>> {
    place.write().unwrap_or_else(PoisonError::into_inner)
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

impl Revised for MemoryDrive {}

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
        let groups = drive.memory.groups.iter().filter_map(OnceLock::get);
        let places = groups.flat_map(|group| group.iter());
        let taken = places.filter(|place| read(place).is_some()).count();
        assert_eq!(taken, drive.memory.in_use.load(Ordering::Relaxed));
        assert!(drive.memory.spare().len() <= SPARE_CHUNKS.max(SPARE_TIMES * taken));
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
            assert_eq!(drive.memory.spare().len() as u64, chunks);
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
