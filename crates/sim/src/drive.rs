//! [`SimDrive`]: a drive whose power can be cut, and everything that drives do wrong.

mod faults;
mod held;
mod lies;
mod media;
mod power;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use held::Held;
pub use lies::Lie;
use lies::Lies;
use media::{Flight, Media, Unflushed};
pub use power::Power;
use reactor::sync::Notify;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

const BLOCK: usize = 4096;
const SECTOR: usize = 512;

type Content = Box<[u8]>;

/// A drive with a volatile cache. Clones are one drive: it outlives the pool that uses it.
#[derive(Clone)]
pub struct SimDrive {
    blocks: u64,
    media: Rc<RefCell<Media>>,
    power: Rc<Power>,
    dead: Rc<Cell<bool>>,
    /// Operations until the drive dies on its own.
    life: Rc<Cell<Option<u64>>>,
    /// Operations take so many times as long.
    slowness: Rc<Cell<u32>>,
    /// It answers nothing.
    hangs: Rc<Cell<bool>>,
    answers: Rc<Notify>,
    /// Operations that it is not ready for.
    unready: Rc<Cell<u64>>,
    /// It is not ready for reads.
    away: Rc<Cell<bool>>,
    /// Writes that it will fail.
    unwritable: Rc<Cell<u64>>,
    /// Size of what it calls a block.
    block_bytes: u32,
    held: Rc<Held>,
    lies: Rc<Lies>,
}

impl SimDrive {
    /// An empty drive.
    pub fn new(blocks: u64, power: Rc<Power>) -> SimDrive {
        SimDrive {
            blocks,
            media: Rc::default(),
            power,
            dead: Rc::new(Cell::new(false)),
            life: Rc::new(Cell::new(None)),
            slowness: Rc::new(Cell::new(1)),
            hangs: Rc::default(),
            answers: Rc::default(),
            unready: Rc::new(Cell::new(0)),
            away: Rc::default(),
            unwritable: Rc::new(Cell::new(0)),
            block_bytes: BLOCK as u32,
            held: Rc::default(),
            lies: Rc::default(),
        }
    }

    /// The same drive, with blocks of 512 bytes to whoever uses it.
    pub fn with_sectors(mut self) -> SimDrive {
        self.block_bytes = SECTOR as u32;
        self
    }

    /// The first block of 4 KiB at an address, which must be aligned to one.
    fn block(&self, start: Lba) -> u64 {
        let bytes = start.0 * u64::from(self.block_bytes);
        assert!(
            bytes.is_multiple_of(BLOCK as u64),
            "the pool writes whole blocks"
        );
        bytes / BLOCK as u64
    }

    /// How many clones there are of it.
    pub fn handles(&self) -> usize {
        Rc::strong_count(&self.media)
    }

    /// Every block that has been written and not forgotten, as it would be read.
    pub fn blocks_written(&self) -> Vec<(u64, Vec<u8>)> {
        let media = self.media.borrow();
        let mut blocks: BTreeMap<u64, &Content> = media
            .durable
            .iter()
            .map(|(at, content)| (*at, content))
            .collect();
        blocks.extend(media.cached.iter().map(|(at, content)| (*at, content)));
        let kept = blocks
            .into_iter()
            .filter(|(_, content)| content.iter().any(|byte| *byte != 0));
        kept.map(|(at, content)| (at, content.to_vec())).collect()
    }

    /// A block as it would be read.
    pub fn content(&self, block: u64) -> Vec<u8> {
        let media = self.media.borrow();
        let found = media.cached.get(&block);
        let found = found.or_else(|| media.durable.get(&block));
        found.map_or(vec![0; BLOCK], |content| content.to_vec())
    }

    /// Puts a block there as if it had always been.
    pub fn put(&self, block: u64, content: Vec<u8>) {
        let mut media = self.media.borrow_mut();
        media.cached.remove(&block);
        media.unflushed.retain(|write| write.block != block);
        media.latent.remove(&block);
        media.durable.insert(block, content.into());
    }

    async fn begin(&self) -> Result<(), IoError> {
        self.power.spend().await;
        self.may_bring_back();
        match self.life.get() {
            Some(0) => self.dead.set(true),
            Some(left) => self.life.set(Some(left - 1)),
            None => {}
        }
        let unready = self.unready.get();
        self.unready.set(unready.saturating_sub(1));
        if self.dead.get() {
            Err(IoError::DeviceGone)
        } else if unready > 0 {
            Err(IoError::NotReady)
        } else {
            Ok(())
        }
    }

    /// Time passes: operations finish in another order than they began.
    async fn take_time(&self, blocks: usize) -> Result<(), IoError> {
        let turn = self.held.turn(blocks);
        if turn > Duration::ZERO {
            reactor::sleep(turn).await;
        }
        let nanoseconds = self.power.random.below(50_000);
        let time = Duration::from_nanos(nanoseconds) * self.slowness.get();
        reactor::sleep(time + self.power.tail()).await;
        while self.hangs.get() {
            self.answers.notified().await;
        }
        self.power.go_on().await;
        if self.dead.get() {
            Err(IoError::DeviceGone)
        } else {
            Ok(())
        }
    }

    async fn store(
        &self,
        start: Lba,
        buffer: &[u8],
        durability: Durability,
    ) -> Result<(), IoError> {
        self.begin().await?;
        if let Some(left) = self.unwritable.get().checked_sub(1) {
            self.unwritable.set(left);
            return Err(IoError::WriteFault);
        }
        let blocks = buffer.len() / BLOCK;
        let Some(block) = self.lands_at(self.block(start), blocks as u64) else {
            return self.take_time(blocks).await;
        };
        let durable = durability == Durability::Durable && !self.ignores_flush();
        let flight = {
            let mut media = self.media.borrow_mut();
            let first_number = media.next_number + 1;
            for (index, content) in buffer.chunks(BLOCK).enumerate() {
                media.next_number += 1;
                let number = media.next_number;
                media.unflushed.push(Unflushed {
                    number,
                    block: block + index as u64,
                    content: content.into(),
                });
            }
            let write = Flight::Write {
                block,
                bytes: buffer.to_vec(),
                first_number,
                durable,
            };
            media.flights.insert(first_number, write);
            first_number
        };
        self.arrive(flight, blocks).await
    }

    /// A change of so many blocks reaches the media when its time has come.
    async fn arrive(&self, flight: u64, blocks: usize) -> Result<(), IoError> {
        let result = self.take_time(blocks).await;
        let mut media = self.media.borrow_mut();
        match result {
            Ok(()) => media.land(flight),
            Err(_) => drop(media.flights.remove(&flight)),
        }
        result
    }

    /// What has been let through to the drive arrives, whoever waits for it or not.
    pub fn land(&self) {
        let mut media = self.media.borrow_mut();
        while let Some((flight, _)) = media.flights.first_key_value() {
            let flight = *flight;
            media.land(flight);
        }
    }
}

impl BlockDevice for SimDrive {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: self.block_bytes,
            block_count: self.blocks * (BLOCK as u64 / u64::from(self.block_bytes)),
            optimal_write_blocks: 1,
            power_fail_atomic_blocks: 1,
            power_fail_atomic_boundary_blocks: 0,
            volatile_write_cache: true,
            deallocates: true,
        }
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        if self
            .geometry()
            .range_of_bytes(start, buffer.len())
            .is_none()
        {
            return (buffer, Err(IoError::OutOfRange));
        }
        if let Err(error) = self.begin().await {
            return (buffer, Err(error));
        }
        if self.away.get() {
            return (buffer, Err(IoError::NotReady));
        }
        if let Err(error) = self.take_time(buffer.len() / BLOCK).await {
            return (buffer, Err(error));
        }
        let first = self.block(start);
        let blocks = first..first + (buffer.len() / BLOCK) as u64;
        self.held.pass(blocks).await;
        let delay = self.held.delay(&self.content(first));
        if delay > Duration::ZERO {
            reactor::sleep(delay).await;
        }
        let media = self.media.borrow();
        for (block, target) in (self.block(start)..).zip(buffer.chunks_mut(BLOCK)) {
            if media.latent.contains(&block) {
                drop(media);
                return (buffer, Err(IoError::UnrecoveredRead));
            }
            match media
                .cached
                .get(&block)
                .or_else(|| media.durable.get(&block))
            {
                Some(content) => target.copy_from_slice(content),
                None => target.fill(0),
            }
        }
        drop(media);
        self.may_read_wrong(&mut buffer);
        (buffer, Ok(()))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        if self
            .geometry()
            .range_of_bytes(start, buffer.len())
            .is_none()
        {
            return (buffer, Err(IoError::OutOfRange));
        }
        let result = self.store(start, &buffer, durability).await;
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
        self.begin().await?;
        if self.ignores_flush() {
            return self.take_time(0).await;
        }
        let before: Vec<u64> = {
            let media = self.media.borrow();
            let arrived = media
                .unflushed
                .iter()
                .filter(|write| !media.is_under_way(write.number));
            arrived.map(|write| write.number).collect()
        };
        self.take_time(0).await?;
        let mut media = self.media.borrow_mut();
        let media = &mut *media;
        let flushed: BTreeSet<u64> = before.into_iter().collect();
        let writes = std::mem::take(&mut media.unflushed);
        let (done, left): (Vec<Unflushed>, Vec<Unflushed>) = writes
            .into_iter()
            .partition(|write| flushed.contains(&write.number));
        media.unflushed = left;
        for write in done {
            media.keep(write.block, write.content);
        }
        Ok(())
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.begin().await?;
        let start = self.block(range.start);
        let blocks = range.blocks * u64::from(self.block_bytes) / BLOCK as u64;
        let Some((inside, forgets)) = self.forgets(start..start + blocks) else {
            return self.take_time(0).await;
        };
        let flight = {
            let mut media = self.media.borrow_mut();
            media.next_number += 1;
            let flight = media.next_number;
            let discard = Flight::Discard(inside, forgets);
            media.flights.insert(flight, discard);
            flight
        };
        let forgetting = self.power.forgetting();
        if forgetting > Duration::ZERO {
            reactor::sleep(forgetting).await;
        }
        self.arrive(flight, 0).await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        let zeroes = vec![0; (range.blocks * u64::from(self.block_bytes)) as usize];
        self.store(range.start, &zeroes, durability).await
    }
}
