//! [`FaultyDrive`]: a drive that fails in every way that the layers above must survive.
//!
//! # The fault model
//! - *Errors*: any operation returns a chosen error, for the next so many or one in so many; what
//!   it was to write is then not written.
//! - *Delays*: an operation takes a random time, half of it before it takes effect and half after;
//!   a stalled drive holds operations until it is released.
//! - *Death*: every operation, those in flight included, returns `DeviceGone`; a revived drive has
//!   kept its data, stale as it may be.
//! - *Power cut* (over memory): as death, and every write that was not made durable, by a flush
//!   or by being durable itself, is kept, lost or torn. It is torn between the units that the
//!   geometry says are atomic, never within one. Later writes may survive earlier ones.
//! - *Silent damage*: blocks that read as something else; acknowledged writes that were never done
//!   (lost) or done elsewhere (misdirected).
//! - *Unreadable blocks*: reads fail with `UnrecoveredRead` until the block is written again.
//!
//! Not in the model: a flush that lies (is acknowledged but not done), and damage that heals.
//! Everything random is drawn from the drive's seed.

mod cache;
mod control;

use std::rc::Rc;

use block::{
    BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, Revised, write_joined,
};

use crate::Drive;
use crate::transfer::{check_range, check_transfer};
use cache::CachedMemory;
use control::{Admitted, Fate, State};
pub use control::{FaultControl, Operation};

enum Storage {
    Memory(CachedMemory),
    // Boxed, since a drive may contain a faulty one.
    Drive(Box<Drive>),
}

/// A drive with faults, which a [`FaultControl`] chooses. Until it does, it has none.
pub struct FaultyDrive {
    storage: Storage,
    state: Rc<State>,
}

impl FaultyDrive {
    /// A drive of zeroes in memory, with a volatile cache if the geometry says so: the one that
    /// knows power cuts.
    pub fn over_memory(geometry: Geometry, seed: u64) -> FaultyDrive {
        FaultyDrive {
            storage: Storage::Memory(CachedMemory::new(geometry)),
            state: Rc::new(State::new(seed)),
        }
    }

    /// Adds faults to `drive`. A power cut here is the death of the drive, no more: what it had
    /// cached is its own affair.
    pub fn over(drive: impl Into<Drive>, seed: u64) -> FaultyDrive {
        FaultyDrive {
            storage: Storage::Drive(Box::new(drive.into())),
            state: Rc::new(State::new(seed)),
        }
    }

    /// What makes the drive fail.
    pub fn control(&self) -> FaultControl {
        FaultControl::new(Rc::clone(&self.state))
    }

    /// Applies a power cut that happened since the last look.
    fn settle(&self) {
        if let Some(random) = self.state.take_power_cut()
            && let Storage::Memory(memory) = &self.storage
        {
            memory.cut_power(random);
        }
    }

    async fn admit(&self, operation: Operation) -> Result<Admitted, IoError> {
        self.settle();
        let admitted = self.state.admit(operation).await;
        self.settle();
        admitted
    }

    async fn store(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<Stored, IoError>) {
        match &self.storage {
            Storage::Memory(memory) => {
                let blocks = memory.blocks_of(start, buffer.len());
                let sequence = memory.write(start, &buffer);
                (buffer, Ok(Stored { sequence, blocks }))
            }
            Storage::Drive(drive) => {
                let blocks = BlockRange::new(start, 0);
                let (buffer, result) = Box::pin(drive.write(start, buffer, durability)).await;
                (
                    buffer,
                    result.map(|()| Stored {
                        sequence: 0,
                        blocks,
                    }),
                )
            }
        }
    }

    /// Ends a write: if it is durable it leaves the cache, unless the power went first.
    async fn complete(
        &self,
        admitted: Admitted,
        stored: Stored,
        durability: Durability,
    ) -> Result<(), IoError> {
        let result = self.state.finish(admitted).await;
        self.settle();
        result?;
        if let Storage::Memory(memory) = &self.storage
            && (durability == Durability::Durable || !memory.geometry().volatile_write_cache)
        {
            memory.persist(stored.blocks, stored.sequence);
        }
        Ok(())
    }
}

/// A write in the cache, which may have to be made durable.
struct Stored {
    sequence: u64,
    blocks: BlockRange,
}

impl Revised for FaultyDrive {}

impl BlockDevice for FaultyDrive {
    fn geometry(&self) -> Geometry {
        match &self.storage {
            Storage::Memory(memory) => memory.geometry(),
            Storage::Drive(drive) => drive.geometry(),
        }
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let geometry = self.geometry();
        if let Err(error) = check_transfer(&geometry, start, buffer.len()) {
            return (buffer, Err(error));
        }
        let admitted = match self.admit(Operation::Read).await {
            Ok(admitted) => admitted,
            Err(error) => return (buffer, Err(error)),
        };
        let mut result = Ok(());
        match &self.storage {
            Storage::Memory(memory) => memory.read(start, &mut buffer),
            Storage::Drive(drive) => {
                (buffer, result) = Box::pin(drive.read(start, buffer)).await;
            }
        }
        result = result.and_then(|()| {
            self.state
                .damage(start, geometry.block_bytes as usize, &mut buffer)
        });
        let finished = self.state.finish(admitted).await;
        (buffer, finished.and(result))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let geometry = self.geometry();
        let range = match check_transfer(&geometry, start, buffer.len()) {
            Ok(range) => range,
            Err(error) => return (buffer, Err(error)),
        };
        let admitted = match self.admit(Operation::Write).await {
            Ok(admitted) => admitted,
            Err(error) => return (buffer, Err(error)),
        };
        let target = match self.state.fate_of_write(range, &geometry) {
            Fate::Done => start,
            Fate::Misdirected(elsewhere) => elsewhere,
            Fate::Lost => return (buffer, self.state.finish(admitted).await),
        };
        self.state.heal(BlockRange::new(target, range.blocks));
        let (buffer, stored) = self.store(target, buffer, durability).await;
        let result = match stored {
            Ok(stored) => self.complete(admitted, stored, durability).await,
            Err(error) => Err(error),
        };
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
        let admitted = self.admit(Operation::Flush).await?;
        match &self.storage {
            Storage::Memory(memory) => {
                let upto = memory.sequence();
                let result = self.state.finish(admitted).await;
                self.settle();
                result?;
                memory.persist_all(upto);
                Ok(())
            }
            Storage::Drive(drive) => {
                let result = Box::pin(drive.flush()).await;
                self.state.finish(admitted).await.and(result)
            }
        }
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        check_range(&self.geometry(), range)?;
        let admitted = self.admit(Operation::Deallocate).await?;
        let result = match &self.storage {
            Storage::Memory(memory) if memory.geometry().deallocates => {
                self.state.heal(range);
                memory.zero(range);
                Ok(())
            }
            Storage::Memory(_) => Ok(()),
            Storage::Drive(drive) => Box::pin(drive.deallocate(range)).await,
        };
        self.state.finish(admitted).await.and(result)
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        check_range(&self.geometry(), range)?;
        let admitted = self.admit(Operation::WriteZeroes).await?;
        self.state.heal(range);
        let sequence = match &self.storage {
            Storage::Memory(memory) => memory.zero(range),
            Storage::Drive(drive) => {
                Box::pin(drive.write_zeroes(range, durability)).await?;
                0
            }
        };
        let stored = Stored {
            sequence,
            blocks: range,
        };
        self.complete(admitted, stored, durability).await
    }
}
