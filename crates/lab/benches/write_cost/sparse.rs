//! A drive in virtual time that keeps only what is not zero, packed, and counts.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use lz4_flex::block::{compress, decompress_into};

pub const BLOCK_BYTES: usize = 4096;

/// Rough latencies of a fast drive; they decide how many writes meet in one stripe.
const READ: Duration = Duration::from_micros(70);
const WRITE: Duration = Duration::from_micros(15);

/// Blocks that went to and came from drives, and the requests that asked for some.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub read: u64,
    pub written: u64,
    pub read_requests: u64,
}

/// Clones are one drive.
#[derive(Clone)]
pub struct SparseDrive {
    blocks: u64,
    /// Blocks compressed: a map of a TiB and its parity would not fit into memory.
    content: Rc<RefCell<HashMap<u64, Box<[u8]>>>>,
    traffic: Rc<Cell<Traffic>>,
    unpacking_seconds: Rc<Cell<f64>>,
}

impl SparseDrive {
    pub fn new(blocks: u64) -> SparseDrive {
        SparseDrive {
            blocks,
            content: Rc::default(),
            traffic: Rc::default(),
            unpacking_seconds: Rc::default(),
        }
    }

    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// Processor time that reads took to unpack what was kept, which no drive takes.
    pub fn unpacking_seconds(&self) -> f64 {
        self.unpacking_seconds.get()
    }

    fn unpack(&self, start: Lba, buffer: &mut Buffer) {
        let begun = bench::processor_seconds();
        let content = self.content.borrow();
        let blocks = self.blocks_of(start, buffer.len());
        for (block, bytes) in blocks.zip(buffer.chunks_mut(BLOCK_BYTES)) {
            match content.get(&block) {
                Some(packed) => {
                    let length = decompress_into(packed, bytes);
                    assert_eq!(length.ok(), Some(BLOCK_BYTES), "what was packed");
                }
                None => bytes.fill(0),
            }
        }
        let seconds = bench::processor_seconds() - begun;
        self.unpacking_seconds
            .set(self.unpacking_seconds.get() + seconds);
    }

    fn blocks_of(&self, start: Lba, bytes: usize) -> std::ops::Range<u64> {
        start.0..start.0 + (bytes / BLOCK_BYTES) as u64
    }
}

impl BlockDevice for SparseDrive {
    fn geometry(&self) -> Geometry {
        let geometry = Geometry::new(BLOCK_BYTES as u32, self.blocks);
        let mut geometry = geometry.expect("a block size that there is");
        geometry.deallocates = true;
        geometry
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        reactor::sleep(READ).await;
        let mut traffic = self.traffic.get();
        traffic.read += (buffer.len() / BLOCK_BYTES) as u64;
        traffic.read_requests += 1;
        self.traffic.set(traffic);
        self.unpack(start, &mut buffer);
        (buffer, Ok(()))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        _: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        reactor::sleep(WRITE).await;
        let mut traffic = self.traffic.get();
        traffic.written += (buffer.len() / BLOCK_BYTES) as u64;
        self.traffic.set(traffic);
        let mut content = self.content.borrow_mut();
        let blocks = self.blocks_of(start, buffer.len());
        for (block, bytes) in blocks.zip(buffer.chunks(BLOCK_BYTES)) {
            if bytes.iter().all(|byte| *byte == 0) {
                content.remove(&block);
            } else {
                content.insert(block, compress(bytes).into());
            }
        }
        (buffer, Ok(()))
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
        reactor::sleep(WRITE).await;
        Ok(())
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        let mut content = self.content.borrow_mut();
        for block in range.start.0..range.start.0 + range.blocks {
            content.remove(&block);
        }
        Ok(())
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        self.deallocate(range).await
    }
}
