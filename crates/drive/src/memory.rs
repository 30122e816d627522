//! [`MemoryDrive`]: blocks in memory, which is taken as it is written.

use std::cell::RefCell;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use crate::transfer::{check_range, check_transfer};

/// Memory is taken from the allocator in pieces of this size. The system provides each page of a
/// piece when it is first written.
const CHUNK_BYTES: u64 = 2 << 20;

/// A drive in memory. No operation suspends.
pub struct MemoryDrive {
    geometry: Geometry,
    chunks: RefCell<Vec<Option<Box<[u8]>>>>,
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
        }
    }

    /// Fills `bytes` from the device's byte `at` on.
    fn load(&self, at: u64, bytes: &mut [u8]) {
        let chunks = self.chunks.borrow();
        for (chunk, within, part) in pieces(at, bytes.len()) {
            let to = &mut bytes[part];
            match chunks.get(chunk) {
                Some(Some(memory)) => to.copy_from_slice(&memory[within..within + to.len()]),
                _ => to.fill(0),
            }
        }
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        let mut chunks = self.chunks.borrow_mut();
        for (chunk, within, part) in pieces(at, bytes.len()) {
            if chunk >= chunks.len() {
                chunks.resize_with(chunk + 1, || None);
            }
            let memory = chunks[chunk].get_or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
            let from = &bytes[part];
            memory[within..within + from.len()].copy_from_slice(from);
        }
    }

    /// Makes a range zero, and gives back whatever memory it covers wholly.
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
            if length == CHUNK_BYTES {
                *chunk = None;
            } else if let Some(memory) = chunk {
                memory[within..within + length as usize].fill(0);
            }
            at += length;
        }
    }

    fn byte_of(&self, start: Lba) -> u64 {
        start.0 * u64::from(self.geometry.block_bytes)
    }
}

/// Cuts a run of bytes at chunk boundaries: chunk, offset within it, and which bytes of the run.
fn pieces(at: u64, count: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
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
        drive.chunks.borrow().iter().flatten().count()
    }

    #[test]
    fn memory_is_taken_when_written_and_given_back_when_deallocated() {
        reactor::Reactor::simulated(1).run(async {
            let geometry = Geometry::new(4096, 1 << 40).unwrap();
            let drive = MemoryDrive::new(geometry);
            let chunk_blocks = CHUNK_BYTES / 4096;
            let start = Lba(10 * chunk_blocks - 1);
            let data = Buffer::copy_of(&[1; 8192]);
            drive
                .write(start, data, Durability::Cached)
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
            let everything = BlockRange::new(Lba(0), 1 << 40);
            drive
                .write_zeroes(everything, Durability::Durable)
                .await
                .unwrap();
            assert_eq!(taken(&drive), 0);
        });
    }
}
