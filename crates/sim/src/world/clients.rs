//! Clients: tasks that read, write and give back blocks, several at once.

use super::refusals::{Asked, Purpose};
use super::{BLOCK, Device, Served, World};
use crate::model::{self, Image, Write};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::{SnapshotId, VolumeId};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Writes of up to so many blocks are atomic within a slice.
const ATOMIC_BLOCKS: u64 = 16;

impl World {
    pub(super) async fn let_clients_work(self: &Rc<Self>, pool: &Served) -> Result<(), String> {
        let clients = 1 + self.random.below(5);
        let steps = 5 + self.random.below(if self.crowded { 200 } else { 60 });
        let mut tasks = Vec::new();
        for client in 0..clients {
            let (world, pool) = (self.clone(), pool.clone());
            tasks.push(reactor::spawn(async move {
                let worked = world.work_as_client(&pool, client == 0, steps).await;
                if let Err(found) = &worked
                    && world.still_holds().is_ok()
                {
                    world.fault.borrow_mut().get_or_insert(found.clone());
                }
                worked
            }));
        }
        for task in tasks {
            task.await?;
        }
        Ok(())
    }

    async fn work_as_client(&self, pool: &Served, changes: bool, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            if changes && self.random.once_in(3) {
                self.change_something(pool).await?;
            } else {
                self.step(pool).await?;
            }
        }
        Ok(())
    }

    async fn step(&self, pool: &Served) -> Result<(), String> {
        self.still_holds()?;
        if self.options.latecomers && self.reads.once_in(10) {
            return self.read_snapshot(pool).await;
        }
        let Some((id, size)) = self.pick_volume() else {
            reactor::sleep(Duration::from_micros(10)).await;
            return Ok(());
        };
        let longest = match self.random.below(if self.crowded { 3 } else { 8 }) {
            0 => 250,
            1 => ATOMIC_BLOCKS,
            2..4 => 4,
            _ => 1,
        };
        // Hot and cold: most requests go to the first quarter.
        let span = if self.random.once_in(3) {
            size
        } else {
            size / 4 + 1
        };
        let start = self.random.below(span);
        let blocks = 1 + self.random.below(longest.min(size - start));
        let device = pool
            .volume(VolumeId(id))
            .map_err(|error| error.to_string())?;
        match self.random.below(10) {
            0..=1 => self.read(&device, id, start, blocks).await,
            2 => self.erase(pool, &device, id, start..start + blocks).await,
            _ => self.write(pool, &device, id, start..start + blocks).await,
        }
    }

    fn with_image(&self, id: u32, change: impl FnOnce(&mut Image)) {
        if self.deposed.get().is_some() {
            return;
        }
        if let Some(image) = self.model.borrow_mut().volumes.get_mut(&id) {
            change(image);
        }
    }

    fn pick_volume(&self) -> Option<(u32, u64)> {
        let model = self.model.borrow();
        let free: Vec<(u32, u64)> = model
            .volumes
            .iter()
            .filter(|(id, _)| !model.reserved.contains(id))
            .map(|(id, image)| (*id, image.size))
            .collect();
        let index = self.random.below(free.len() as u64) as usize;
        free.get(index).copied()
    }

    /// Enters a write into the model; `None` when it would overlap another, most of the time.
    pub(super) fn submit(
        &self,
        id: u32,
        start: u64,
        stamps: Vec<u64>,
        atomic: bool,
    ) -> Option<u64> {
        let number = self.tick();
        let mut model = self.model.borrow_mut();
        let model = &mut *model;
        let image = model.volumes.get_mut(&id)?;
        let busy = (start..start + stamps.len() as u64).any(|block| image.is_busy(block));
        if busy && !self.random.once_in(5) {
            return None;
        }
        let write = Write {
            submitted: number,
            start,
            stamps,
            atomic,
        };
        for pending in &mut model.pending {
            pending.saw_write(id, number, &write);
        }
        image.submit(number, write);
        Some(number)
    }

    pub(super) fn settle(
        &self,
        pool: &Served,
        asked: Asked,
        (id, number): (u32, u64),
        result: Result<(), IoError>,
    ) -> Result<(), String> {
        // What was acknowledged before this host stood still may be heard only now.
        self.still_holds()?;
        let now = self.tick();
        self.count(|report| report.requests += 1);
        if result == Err(IoError::CapacityExceeded) {
            self.check_refusal(pool, asked)?;
        }
        let mut model = self.model.borrow_mut();
        let reserving = model.reserving.clone();
        let Some(image) = model.volumes.get_mut(&id) else {
            return Ok(());
        };
        match result {
            Ok(()) => image.acknowledge(number, now),
            Err(IoError::CapacityExceeded) if self.may_be_refused(&reserving, id) => {
                image.fail(number, now);
                self.count(|report| report.refused += 1);
            }
            Err(error) if self.may_be_told_to_wait(error, number) => image.fail(number, now),
            Err(error) => return Err(format!("{id}: a write failed: {error}")),
        }
        Ok(())
    }

    /// Nobody waits for a write any more.
    fn leave(&self, id: u32, number: u64) -> Result<(), String> {
        self.still_holds()?;
        let now = self.tick();
        self.with_image(id, |image| image.leave(number, now));
        Ok(())
    }

    async fn write(
        &self,
        pool: &Served,
        device: &Device,
        id: u32,
        range: Range<u64>,
    ) -> Result<(), String> {
        let (start, blocks) = (range.start, range.end - range.start);
        let asked = self.asked(pool, blocks, Purpose::Write);
        let first = self.tick() << 8;
        let stamps: Vec<u64> = (0..blocks).map(|index| first + index + 1).collect();
        let mut buffer = Buffer::new(blocks as usize * BLOCK);
        for (block, stamp) in buffer.chunks_mut(BLOCK).zip(&stamps) {
            model::fill(*stamp, block);
        }
        let geometry = device.geometry();
        let slice = u64::from(geometry.power_fail_atomic_boundary_blocks);
        let atomic = blocks <= ATOMIC_BLOCKS && start / slice == (start + blocks - 1) / slice;
        let Some(number) = self.submit(id, start, stamps, atomic) else {
            return Ok(());
        };
        let write = device.write(Lba(start), buffer, Durability::Cached);
        match self.or_leave(write).await {
            Some((_, result)) => self.settle(pool, asked, (id, number), result),
            None => self.leave(id, number),
        }
    }

    async fn erase(
        &self,
        pool: &Served,
        device: &Device,
        id: u32,
        range: Range<u64>,
    ) -> Result<(), String> {
        let (start, blocks) = (range.start, range.end - range.start);
        // What is given back takes no space.
        let asked = self.asked(pool, 0, Purpose::Write);
        let Some(number) = self.submit(id, start, vec![0; blocks as usize], false) else {
            return Ok(());
        };
        let range = BlockRange::new(Lba(start), blocks);
        let zeroes = self.random.below(2) > 0;
        let erase = async {
            match zeroes {
                false => device.deallocate(range).await,
                true => device.write_zeroes(range, Durability::Cached).await,
            }
        };
        let result = self.or_leave(erase).await;
        self.was_fuller(pool);
        match result {
            Some(result) => self.settle(pool, asked, (id, number), result),
            None => self.leave(id, number),
        }
    }

    async fn read(&self, device: &Device, id: u32, start: u64, blocks: u64) -> Result<(), String> {
        let number = self.tick();
        self.with_image(id, |image| image.begin_read(number, start, blocks));
        let buffer = Buffer::new(blocks as usize * BLOCK);
        let read = self.or_give_up(device.read(Lba(start), buffer)).await;
        self.still_holds()?;
        let Some((buffer, result)) = read else {
            self.with_image(id, |image| image.give_up_read(number));
            return Ok(());
        };
        let now = self.tick();
        self.count(|report| report.requests += 1);
        let mut model = self.model.borrow_mut();
        let Some(image) = model.volumes.get_mut(&id) else {
            return Ok(());
        };
        match result {
            Ok(()) => {}
            Err(error) if self.may_be_told_to_wait(error, number) => {
                image.give_up_read(number);
                return Ok(());
            }
            Err(error) => {
                return Err(format!("{id}: {start}+{blocks} does not read: {error}"));
            }
        }
        let ended = image.end_read(number, now, &stamps_of(start, &buffer)?);
        ended.map_err(|found| format!("{id}: {found}"))
    }

    /// Reads some of a snapshot, which may be deleted meanwhile.
    async fn read_snapshot(&self, pool: &Served) -> Result<(), String> {
        let found = {
            let model = self.model.borrow();
            let place = self.reads.below(model.snapshots.len() as u64) as usize;
            let mut snapshots = model.snapshots.iter().map(|(id, image)| (*id, image.size));
            snapshots.nth(place)
        };
        let Some((id, size)) = found else {
            return Ok(());
        };
        let device = pool.snapshot_device(SnapshotId(id));
        let device = match device {
            Ok(device) => device,
            Err(_) if self.is_going(id) => return Ok(()),
            Err(error) => return Err(format!("snapshot {id}: {error}")),
        };
        let (start, begun) = (self.reads.below(size), self.now.get());
        let blocks = 1 + self.reads.below((size - start).min(250));
        let buffer = Buffer::new(blocks as usize * BLOCK);
        let read = self.or_leave(device.read(Lba(start), buffer)).await;
        self.still_holds()?;
        let Some((buffer, result)) = read else {
            return Ok(());
        };
        self.count(|report| report.requests += 1);
        if result == Err(IoError::DeviceGone) && self.is_going(id) {
            return Ok(());
        }
        match result {
            Ok(()) => {}
            Err(error) if self.may_be_told_to_wait(error, begun) => return Ok(()),
            Err(error) => return Err(format!("snapshot {id}: {start}+{blocks}: {error}")),
        }
        let stamps = stamps_of(start, &buffer)?;
        let mut model = self.model.borrow_mut();
        let Some(image) = model.snapshots.get_mut(&id) else {
            return Ok(());
        };
        let ended = image.end_read_of_frozen(start, &stamps);
        ended.map_err(|found| format!("snapshot {id}: {found}"))
    }
}

/// What was read from `start` on.
fn stamps_of(start: u64, buffer: &[u8]) -> Result<Vec<u64>, String> {
    let blocks = (start..).zip(buffer.chunks(BLOCK));
    let stamps = blocks.map(|(block, content)| {
        let stamp = model::stamp_of(content);
        stamp.ok_or_else(|| format!("block {block} reads as a mixture"))
    });
    stamps.collect()
}
