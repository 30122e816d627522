//! Drives that let others have a turn, and how long one waits for a turn at most.

use std::cell::Cell;
use std::rc::Rc;

use bench::processor_seconds;
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use drive::MemoryDrive;

/// A drive in memory on which every operation suspends once, as on all that are none. Clones are
/// one drive.
#[derive(Clone)]
pub struct SuspendingDrive(pub MemoryDrive);

impl BlockDevice for SuspendingDrive {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        reactor::yield_now().await;
        self.0.read(start, buffer).await
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        reactor::yield_now().await;
        self.0.write(start, buffer, durability).await
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        reactor::yield_now().await;
        self.0.write_vectored(start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        reactor::yield_now().await;
        self.0.flush().await
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        reactor::yield_now().await;
        self.0.deallocate(range).await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        reactor::yield_now().await;
        self.0.write_zeroes(range, durability).await
    }
}

/// A task that wants every turn of its core, and notes how long the others had between two: in
/// processor time, as a machine that does something else keeps nobody waiting by itself.
pub struct Turns {
    longest: Rc<Cell<f64>>,
    watches: Rc<Cell<bool>>,
}

impl Turns {
    pub fn watch() -> Turns {
        let turns = Turns {
            longest: Rc::default(),
            watches: Rc::new(Cell::new(true)),
        };
        let (longest, watches) = (turns.longest.clone(), turns.watches.clone());
        drop(reactor::spawn(async move {
            while watches.get() {
                let begun = processor_seconds();
                reactor::yield_now().await;
                let took_ms = (processor_seconds() - begun) * 1e3;
                longest.set(longest.get().max(took_ms));
            }
        }));
        turns
    }

    /// The longest time since this was asked last.
    pub fn take_longest_ms(&self) -> f64 {
        self.longest.take()
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.watches.set(false);
    }
}
