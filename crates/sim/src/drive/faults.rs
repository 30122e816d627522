//! What goes wrong with a drive, and comes right again.

use super::{BLOCK, Flight, Power, SECTOR, SimDrive};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

impl SimDrive {
    /// Answers that it is not ready so many times.
    pub fn not_ready_for(&self, operations: u64) {
        self.unready.set(operations);
    }

    /// Is not ready for any read from now on, or again.
    pub fn refuse_reads(&self, refuses: bool) {
        self.away.set(refuses);
    }

    /// Fails so many writes, and does nothing else wrong.
    pub fn fail_writes(&self, count: u64) {
        self.unwritable.set(count);
    }

    /// From now on everything takes `times` as long as usual.
    pub fn slow_down(&self, times: u32) {
        self.slowness.set(times);
    }

    /// Dies after so many more operations.
    pub fn die_after(&self, operations: u64) {
        self.life.set(Some(operations));
    }

    /// Will not die of itself after all, reads every block, and does what it says.
    pub fn live_on(&self) {
        self.life.set(None);
        self.tell_truth();
        self.media.borrow_mut().latent.clear();
    }

    /// Answers again, with what it had.
    pub fn revive(&self) {
        self.life.set(None);
        self.dead.set(false);
    }

    /// Whether it answers nothing any more.
    pub fn is_dead(&self) -> bool {
        self.dead.get()
    }

    /// What power loss does: each write that was not flushed is kept, lost or torn by sectors, in
    /// any order.
    pub fn lose_power(&self) {
        let random = &self.power.random;
        let mut media = self.media.borrow_mut();
        let mut writes = std::mem::take(&mut media.unflushed);
        media.cached.clear();
        media.flights.clear();
        media.late.clear();
        media.undo_discards();
        while !writes.is_empty() {
            let write = writes.swap_remove(random.below(writes.len() as u64) as usize);
            let fate = random.below(3);
            if fate == 0 {
                continue;
            }
            let old = media
                .durable
                .entry(write.block)
                .or_insert_with(|| vec![0; BLOCK].into());
            for sector in 0..BLOCK / SECTOR {
                if fate == 1 || random.once_in(2) {
                    let range = sector * SECTOR..(sector + 1) * SECTOR;
                    old[range.clone()].copy_from_slice(&write.content[range]);
                }
            }
        }
    }

    /// Another drive with what this one has, which does nothing wrong, after its power has failed.
    pub fn copy_without_power(&self, power: &Rc<Power>) -> SimDrive {
        let media = self.media.borrow().clone();
        let copy = SimDrive {
            block_bytes: self.block_bytes,
            media: Rc::new(RefCell::new(media)),
            ..SimDrive::new(self.blocks, power.clone())
        };
        copy.lose_power();
        copy
    }

    /// What the death of the process that used it does: a write on its way arrives, or was never
    /// begun. What was not flushed can be read, and be lost with the power later.
    pub fn lose_host(&self) {
        self.lose_host_but(|| false);
    }

    /// The same, but that requests stay on their way for which `late` is true.
    pub fn lose_host_but(&self, late: impl Fn() -> bool) {
        let random = &self.power.random;
        let mut media = self.media.borrow_mut();
        let flights = std::mem::take(&mut media.flights);
        let mut stay = BTreeMap::new();
        for (flight, change) in flights {
            if late() {
                stay.insert(flight, change);
            } else if random.once_in(2) {
                media.flights.insert(flight, change);
                media.land(flight);
            } else if let Flight::Write {
                bytes,
                first_number,
                ..
            } = change
            {
                let blocks = (bytes.len() / BLOCK) as u64;
                let gone = first_number..first_number + blocks;
                media
                    .unflushed
                    .retain(|write| !gone.contains(&write.number));
            }
        }
        media.late = stay.keys().copied().collect();
        media.flights = stay;
    }

    /// Requests of a host that has died which are still on their way.
    pub fn late(&self) -> Vec<u64> {
        self.media.borrow().late.clone()
    }

    /// Requests that have begun.
    pub fn under_way(&self) -> Vec<u64> {
        self.media.borrow().flights.keys().copied().collect()
    }

    /// Whether one of them is a label, or a part of one with a superblock.
    pub fn is_label(&self, flight: u64) -> bool {
        self.media.borrow().is_label(flight)
    }

    /// One of them arrives.
    pub fn land_late(&self, flight: u64) {
        self.media.borrow_mut().land(flight);
    }

    /// Flips bits in, or makes unreadable, some blocks that were written.
    pub fn decay(&self, count: u64) {
        let random = &self.power.random;
        let mut media = self.media.borrow_mut();
        let written: Vec<u64> = media.durable.keys().copied().collect();
        for _ in 0..count.min(written.len() as u64) {
            let block = written[random.below(written.len() as u64) as usize];
            if random.once_in(2) {
                media.latent.insert(block);
            } else if let Some(content) = media.durable.get_mut(&block) {
                content[random.below(BLOCK as u64) as usize] ^= 1 << random.below(8);
            }
        }
    }

    /// Blocks that were written last, the latest at the end.
    pub fn recently_written(&self) -> Vec<u64> {
        self.media.borrow().recent.iter().copied().collect()
    }

    /// Refuses to read a block until it is written again.
    pub fn make_unreadable(&self, block: u64) {
        self.media.borrow_mut().latent.insert(block);
    }
}
