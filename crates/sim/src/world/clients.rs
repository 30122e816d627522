//! Clients: tasks that read, write and give back blocks, several at once.

use super::refusals::{Asked, Purpose};
use super::{BLOCK, Device, Served, World};
use crate::model::{self, Image, Write};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::VolumeId;
use std::collections::BTreeSet;
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
            0..=1 => {
                self.with_image(id, Image::begin_read);
                let result = self.read(&device, id, start, blocks).await;
                self.with_image(id, Image::end_read);
                result
            }
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
    fn submit(&self, id: u32, start: u64, stamps: Vec<u64>, atomic: bool) -> Option<u64> {
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

    fn settle(
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
            Err(error) => return Err(format!("{id}: a write failed: {error}")),
        }
        Ok(())
    }

    /// Space that is kept is there as long as no drive is lost.
    fn may_be_refused(&self, reserving: &BTreeSet<u32>, id: u32) -> bool {
        !reserving.contains(&id) || self.options.bad_drives
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
        let (_, result) = device.write(Lba(start), buffer, Durability::Cached).await;
        self.settle(pool, asked, (id, number), result)
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
        let result = match self.random.below(2) {
            0 => device.deallocate(range).await,
            _ => device.write_zeroes(range, Durability::Cached).await,
        };
        self.was_fuller(pool);
        self.settle(pool, asked, (id, number), result)
    }

    async fn read(&self, device: &Device, id: u32, start: u64, blocks: u64) -> Result<(), String> {
        let allowed = |block: u64| {
            let model = self.model.borrow();
            model.volumes.get(&id).map(|image| image.allowed(block))
        };
        let before: Vec<_> = (start..start + blocks).map(allowed).collect();
        let settled = |image: &Image| {
            (start..start + blocks)
                .map(|at| image.settled(at))
                .collect()
        };
        let settled = self.model.borrow().volumes.get(&id).map(settled);
        let began = self.now.get();
        let buffer = Buffer::new(blocks as usize * BLOCK);
        let (buffer, result) = device.read(Lba(start), buffer).await;
        self.still_holds()?;
        let changed = self.now.get() - began;
        self.count(|report| report.requests += 1);
        if !self.model.borrow().volumes.contains_key(&id) {
            return Ok(());
        }
        result.map_err(|error| format!("{id}: {start}+{blocks} does not read: {error}"))?;
        let mut stamps = Vec::new();
        for (index, content) in buffer.chunks(BLOCK).enumerate() {
            let block = start + index as u64;
            let stamp = model::stamp_of(content)
                .ok_or_else(|| format!("{id}: block {block} reads as a mixture"))?;
            stamps.push(stamp);
            let known =
                |allowed: Option<Vec<u64>>| allowed.is_none_or(|allowed| allowed.contains(&stamp));
            // While much went on, a value may have come and gone again.
            if changed < 4 && !known(before[index].clone()) && !known(allowed(block)) {
                return Err(format!(
                    "{id}: block {block} reads {stamp}, not {:?} or {:?}",
                    before[index],
                    allowed(block)
                ));
            }
        }
        self.check_atomic(id, start, &stamps, settled)
    }

    /// A read sees all of an atomic write or nothing (NAWUN), until another comes over it.
    fn check_atomic(
        &self,
        id: u32,
        start: u64,
        stamps: &[u64],
        settled: Option<Vec<Vec<u64>>>,
    ) -> Result<(), String> {
        let model = self.model.borrow();
        let (Some(image), Some(settled)) = (model.volumes.get(&id), settled) else {
            return Ok(());
        };
        if self.deposed.get().is_some() {
            return Ok(());
        }
        match image.half_seen(start, stamps, &settled) {
            None => Ok(()),
            Some(write) => Err(format!(
                "{id}: a read of {start}+{} saw half of the write of {}+{}",
                stamps.len(),
                write.start,
                write.stamps.len()
            )),
        }
    }
}
