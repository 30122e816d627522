//! The reference model: for every block of every volume and snapshot, what it may read as.

mod reads;

use reads::Read;
use std::collections::{BTreeMap, BTreeSet};

/// Stands for the contents of a block: zero for zeroes, else filled from this word.
pub type Stamp = u64;

const BLOCK: usize = 4096;

/// Fills a block so that any mixture of two stamps shows.
pub fn fill(stamp: Stamp, block: &mut [u8]) {
    if stamp == 0 {
        block.fill(0);
        return;
    }
    for (index, word) in block.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&stamp.wrapping_add((index as u64) << 48).to_le_bytes());
    }
}

/// The stamp of a block, or `None` if it is a mixture.
pub fn stamp_of(block: &[u8]) -> Option<Stamp> {
    let mut first = [0; 8];
    first.copy_from_slice(block.get(..8)?);
    let stamp = Stamp::from_le_bytes(first);
    let mut expected = [0; BLOCK];
    fill(stamp, &mut expected);
    (block == expected).then_some(stamp)
}

/// A write from its submission on.
#[derive(Clone, Debug)]
pub struct Write {
    /// When it was submitted.
    pub submitted: u64,
    /// First block, and the stamp of each block.
    pub start: u64,
    /// A stamp a block.
    pub stamps: Vec<Stamp>,
    /// It is whole or absent after a crash, unless it meets another write in flight.
    pub atomic: bool,
}

impl Write {
    fn end(&self) -> u64 {
        self.start + self.stamps.len() as u64
    }

    fn covers(&self, block: u64) -> bool {
        (self.start..self.end()).contains(&block)
    }

    fn brings(&self, block: u64, stamp: Stamp) -> bool {
        self.covers(block) && self.stamps[(block - self.start) as usize] == stamp
    }

    fn overlaps(&self, other: &Write) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// One block: values that were there, of which the latest cannot be told, and others that may have
/// come or may come yet.
#[derive(Clone, Debug)]
struct BlockModel {
    /// Acknowledged, or read.
    settled: Vec<Settled>,
    /// Submitted and not (or not successfully) acknowledged, and not seen.
    open: Vec<Open>,
}

/// A value that a write has brought.
#[derive(Clone, Copy, Debug)]
struct Settled {
    stamp: Stamp,
    submitted: u64,
    /// When that was acknowledged, or read: it had come by then.
    by: u64,
}

impl Settled {
    /// What was always there.
    fn always(stamp: Stamp) -> Settled {
        Settled {
            stamp,
            submitted: 0,
            by: 0,
        }
    }
}

/// A value that a write may bring, or may have brought.
#[derive(Clone, Copy, Debug)]
struct Open {
    stamp: Stamp,
    submitted: u64,
    fate: Fate,
}

/// How a write ended that was not acknowledged, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It has not ended.
    UnderWay,
    /// Its parts may have come through until then.
    Failed(u64),
    /// Nobody waits for it any more: its parts may come through then, or at any time later. They
    /// come before those of a write that is begun then.
    Left(u64),
}

impl Fate {
    /// It ended before `now`, so that a write which is begun now comes behind it.
    fn is_before(self, now: u64) -> bool {
        match self {
            Fate::UnderWay => false,
            Fate::Failed(ended) | Fate::Left(ended) => ended <= now,
        }
    }
}

/// A value that a block may have, and when the write of it was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    stamp: Stamp,
    submitted: u64,
}

impl BlockModel {
    fn settled(&self) -> impl Iterator<Item = Stamp> + '_ {
        self.settled.iter().map(|settled| settled.stamp)
    }

    fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        let settled = self.settled.iter().map(|it| (it.stamp, it.submitted));
        let open = self.open.iter().map(|it| (it.stamp, it.submitted));
        let candidate = |(stamp, submitted)| Candidate { stamp, submitted };
        settled.chain(open).map(candidate)
    }

    fn allowed(&self) -> impl Iterator<Item = Stamp> + '_ {
        self.candidates().map(|candidate| candidate.stamp)
    }
}

/// One volume or snapshot.
#[derive(Clone, Debug, Default)]
pub struct Image {
    blocks: BTreeMap<u64, BlockModel>,
    /// Size in blocks.
    pub size: u64,
    /// Writes in flight, by number.
    pub writes: BTreeMap<u64, Write>,
    /// Writes that nobody waits for any more, and that may be in flight as long as the pool is
    /// open.
    left: BTreeMap<u64, Write>,
    /// Reads in flight, by number.
    reads: BTreeMap<u64, Read>,
    /// Writes that ended while reads in flight were, and when.
    beside_reads: Vec<(u64, Write)>,
}

impl Image {
    /// An image that reads as zeroes.
    pub fn zeroes(size: u64) -> Image {
        Image {
            size,
            ..Image::default()
        }
    }

    /// A write is about to be submitted.
    pub fn submit(&mut self, number: u64, mut write: Write) {
        // Of two writes that were in flight together either may have come second, so neither is
        // whole for certain, even when one of them was acknowledged before the crash.
        for other in self.writes.values_mut() {
            if write.overlaps(other) {
                write.atomic = false;
                other.atomic = false;
            }
        }
        // This one comes second for certain.
        for other in self.left.values_mut() {
            other.atomic &= !write.overlaps(other);
        }
        for (block, stamp) in (write.start..).zip(&write.stamps) {
            let model = self.blocks.entry(block).or_insert_with(zero_block);
            model.open.push(Open {
                stamp: *stamp,
                submitted: write.submitted,
                fate: Fate::UnderWay,
            });
        }
        for read in self.reads.values_mut() {
            read.beside(&write);
        }
        self.writes.insert(number, write);
    }

    /// A write was acknowledged at `now`: nothing acknowledged before its submission is left.
    pub fn acknowledge(&mut self, number: u64, now: u64) {
        let Some(write) = self.writes.remove(&number) else {
            return;
        };
        for (block, stamp) in (write.start..).zip(&write.stamps) {
            let model = self.blocks.entry(block).or_insert_with(zero_block);
            model.settled.retain(|settled| settled.by > write.submitted);
            let own = |open: &Open| open.stamp == *stamp && open.submitted == write.submitted;
            // What was read of it before had come by then.
            if let Some(found) = model.open.iter().position(own) {
                model.open.remove(found);
                model.settled.push(Settled {
                    stamp: *stamp,
                    submitted: write.submitted,
                    by: now,
                });
            }
            // Writes that ended before this one was submitted are behind it.
            model
                .open
                .retain(|open| !open.fate.is_before(write.submitted));
        }
        self.remember_beside_reads(now, write);
    }

    /// A write failed: each of its blocks may or may not have it, now or later, whatever the others
    /// have.
    pub fn fail(&mut self, number: u64, now: u64) {
        let Some(mut write) = self.writes.remove(&number) else {
            return;
        };
        write.atomic = false;
        self.end(&write, Fate::Failed(now));
        self.remember_beside_reads(now, write);
    }

    /// Nobody waits for a write any more: each of its blocks may or may not have it, now or later.
    pub fn leave(&mut self, number: u64, now: u64) {
        if let Some(write) = self.writes.remove(&number) {
            self.end(&write, Fate::Left(now));
            self.left.insert(number, write);
        }
    }

    /// A write ends without having been acknowledged.
    fn end(&mut self, write: &Write, fate: Fate) {
        for (block, stamp) in (write.start..).zip(&write.stamps) {
            let open = self.blocks.get_mut(&block).map(|model| &mut model.open);
            for open in open.into_iter().flatten() {
                if open.stamp == *stamp && open.submitted == write.submitted {
                    open.fate = fate;
                }
            }
        }
    }

    /// Blocks of writes that may be in flight, whether anybody waits for them or not.
    pub fn blocks_under_way(&self) -> u64 {
        let writes = self.writes.values().chain(self.left.values());
        writes.map(|write| write.stamps.len() as u64).sum()
    }

    /// The pool was closed, or has died: what was left came before that, or never comes. Like what
    /// was in flight, it is whole or absent where it is atomic.
    pub fn end_left(&mut self) {
        self.writes.append(&mut self.left);
        for open in self.blocks.values_mut().flat_map(|model| &mut model.open) {
            if let Fate::Left(ended) = open.fate {
                open.fate = Fate::Failed(ended);
            }
        }
    }

    /// It has so many blocks from now on.
    pub fn resize(&mut self, blocks: u64) {
        for block in blocks..self.size {
            self.pin(block, 0);
        }
        self.size = blocks;
        // They may have come before, and have lost what is cut off.
        for write in self.left.values_mut() {
            write.atomic = false;
        }
    }

    /// It is what another is from now on. Writes that are left may still be on their way to it.
    pub fn become_like(&mut self, other: Image) {
        let former = std::mem::replace(self, other);
        for (number, mut write) in former.left {
            write.atomic = false;
            for (block, stamp) in (write.start..).zip(&write.stamps) {
                let own = |open: &&Open| open.stamp == *stamp && open.submitted == write.submitted;
                let open = former.blocks.get(&block).map(|model| &model.open);
                let open = open.into_iter().flatten().find(own);
                let model = self.blocks.entry(block).or_insert_with(zero_block);
                model.open.extend(open);
            }
            self.left.insert(number, write);
        }
    }

    /// A write has ended while reads may be under way.
    fn remember_beside_reads(&mut self, now: u64, write: Write) {
        if !self.reads.is_empty() {
            self.beside_reads.push((now, write));
        }
    }

    /// The stamps that `block` may read as.
    pub fn allowed(&self, block: u64) -> Vec<Stamp> {
        self.blocks
            .get(&block)
            .map_or(vec![0], |model| model.allowed().collect())
    }

    /// Blocks that do not read as zeroes, with nothing in flight.
    pub fn blocks_written(&self) -> u64 {
        let blocks = self.blocks.values();
        blocks
            .filter(|block| block.allowed().all(|stamp| stamp != 0))
            .count() as u64
    }

    /// Blocks that may take space, with whatever in flight.
    pub fn blocks_written_at_most(&self) -> u64 {
        self.blocks_written_at_most_from(0)
    }

    /// The same, of the blocks from `first` on.
    pub fn blocks_written_at_most_from(&self, first: u64) -> u64 {
        let blocks = self.blocks.range(first..);
        blocks
            .filter(|(_, block)| block.allowed().any(|stamp| stamp != 0))
            .count() as u64
    }

    /// True when a write to the block is in flight.
    pub fn is_busy(&self, block: u64) -> bool {
        self.writes.values().any(|write| write.covers(block))
    }

    /// A block was read with nothing in flight that anybody waits for: it must stay so, unless one
    /// that is left comes.
    pub fn pin(&mut self, block: u64, stamp: Stamp) {
        let open = self.blocks.remove(&block).map(|model| model.open);
        let mut open = open.unwrap_or_default();
        open.retain(|open| {
            let has_come = stamp != 0 && open.stamp == stamp;
            matches!(open.fate, Fate::Left(_)) && !has_come
        });
        if stamp != 0 || !open.is_empty() {
            let model = BlockModel {
                settled: vec![Settled::always(stamp)],
                open,
            };
            self.blocks.insert(block, model);
        }
    }

    /// Adds everything that `other` may read as.
    pub fn widen(&mut self, other: &Image) {
        let both: BTreeSet<u64> = self
            .blocks
            .keys()
            .chain(other.blocks.keys())
            .copied()
            .collect();
        for block in both {
            let stamps = other.allowed(block);
            let model = self.blocks.entry(block).or_insert_with(zero_block);
            for stamp in stamps {
                if !model.allowed().any(|known| known == stamp) {
                    model.settled.push(Settled::always(stamp));
                }
            }
        }
    }

    /// What it is at this instant, without the writes in flight as such: none of them comes later.
    pub fn copy(&self) -> Image {
        let mut copy = self.clone();
        copy.end_left();
        copy.crash();
        copy
    }

    /// After a crash: writes that had to be whole or absent and were not. `now` gives what each
    /// block reads as.
    pub fn torn(&self, now: &BTreeMap<u64, Stamp>) -> Option<u64> {
        self.writes.iter().find_map(|(number, write)| {
            if !write.atomic {
                return None;
            }
            let range = write.start..write.end();
            let mut have = range
                .zip(&write.stamps)
                .map(|(block, stamp)| now.get(&block).copied().unwrap_or(0) == *stamp);
            let first = have.next()?;
            (!have.all(|other| other == first)).then_some(*number)
        })
    }

    /// Nothing is in flight any more that anybody waits for.
    pub fn crash(&mut self) {
        self.writes.clear();
        self.reads.clear();
        self.beside_reads.clear();
    }
}

fn zero_block() -> BlockModel {
    BlockModel {
        settled: vec![Settled::always(0)],
        open: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
