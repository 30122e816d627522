//! A device in memory whose behaviour tests control.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};

pub(crate) struct Memory {
    geometry: Cell<Geometry>,
    bytes: RefCell<Vec<u8>>,
    /// Every operation takes this long.
    pub(crate) delay: Cell<Duration>,
    /// Reads of odd blocks take this many turns of the event loop.
    pub(crate) odd_turns: Cell<u32>,
    /// The next operations fail with this.
    pub(crate) failing: Cell<Option<IoError>>,
    pub(crate) durable_writes: Cell<u64>,
    pub(crate) flushes: Cell<u64>,
    /// Bytes of reads and writes under way, now and at most.
    pub(crate) held: Cell<usize>,
    pub(crate) held_max: Cell<usize>,
}

impl Memory {
    pub(crate) fn new(geometry: Geometry) -> Memory {
        Memory {
            bytes: RefCell::new(vec![0; geometry.capacity_bytes() as usize]),
            geometry: Cell::new(geometry),
            delay: Cell::new(Duration::ZERO),
            odd_turns: Cell::new(0),
            failing: Cell::new(None),
            durable_writes: Cell::new(0),
            flushes: Cell::new(0),
            held: Cell::new(0),
            held_max: Cell::new(0),
        }
    }

    /// Makes the device larger.
    pub(crate) fn grow(&self, block_count: u64) {
        let mut geometry = self.geometry.get();
        geometry.block_count = block_count;
        self.geometry.set(geometry);
        self.bytes
            .borrow_mut()
            .resize(geometry.capacity_bytes() as usize, 0);
    }

    /// As [`Memory::begin`], of a transfer of so much.
    async fn begin_with(&self, bytes: usize) -> Result<(), IoError> {
        self.held.set(self.held.get() + bytes);
        self.held_max.set(self.held_max.get().max(self.held.get()));
        let begun = self.begin().await;
        self.held.set(self.held.get() - bytes);
        begun
    }

    async fn begin(&self) -> Result<(), IoError> {
        if self.delay.get() > Duration::ZERO {
            reactor::sleep(self.delay.get()).await;
        }
        self.failing.get().map_or(Ok(()), Err)
    }

    fn range(&self, start: Lba, bytes: usize) -> Result<std::ops::Range<usize>, IoError> {
        let block_bytes = self.geometry.get().block_bytes as usize;
        if bytes == 0 || !bytes.is_multiple_of(block_bytes) {
            return Err(IoError::InvalidRequest);
        }
        self.blocks(BlockRange::new(start, (bytes / block_bytes) as u64))
    }

    fn blocks(&self, range: BlockRange) -> Result<std::ops::Range<usize>, IoError> {
        let geometry = self.geometry.get();
        if !geometry.contains(range) {
            return Err(IoError::OutOfRange);
        }
        let block_bytes = geometry.block_bytes as usize;
        let start = range.start.0 as usize * block_bytes;
        Ok(start..start + range.blocks as usize * block_bytes)
    }

    fn zero(&self, range: BlockRange) -> Result<(), IoError> {
        let range = self.blocks(range)?;
        self.bytes.borrow_mut()[range].fill(0);
        Ok(())
    }
}

impl BlockDevice for Memory {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        for _ in 0..self.odd_turns.get() * (start.0 % 2) as u32 {
            reactor::yield_now().await;
        }
        let result = self
            .begin_with(buffer.len())
            .await
            .and_then(|()| self.range(start, buffer.len()));
        let result = result.map(|range| buffer.copy_from_slice(&self.bytes.borrow()[range]));
        (buffer, result)
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        if durability == Durability::Durable {
            self.durable_writes.set(self.durable_writes.get() + 1);
        }
        let result = self
            .begin_with(buffer.len())
            .await
            .and_then(|()| self.range(start, buffer.len()));
        let result = result.map(|range| self.bytes.borrow_mut()[range].copy_from_slice(&buffer));
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
        self.flushes.set(self.flushes.get() + 1);
        self.begin().await
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.begin().await?;
        self.zero(range)
    }

    async fn write_zeroes(&self, range: BlockRange, _: Durability) -> Result<(), IoError> {
        self.begin().await?;
        self.zero(range)
    }
}
