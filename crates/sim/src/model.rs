//! The reference model: for every block of every volume and snapshot, what it may read as.

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

/// One block: acknowledged values, of which the latest cannot be told, and unacknowledged ones.
#[derive(Clone, Debug, Default)]
struct BlockModel {
    /// Acknowledged, with the time of acknowledgement; empty stands for zeroes at time 0.
    settled: Vec<(Stamp, u64)>,
    /// Submitted and not (or not successfully) acknowledged.
    open: Vec<Open>,
}

/// A value that a write may bring, or may have brought.
#[derive(Clone, Copy, Debug)]
struct Open {
    stamp: Stamp,
    submitted: u64,
    /// When the write failed: its parts may have come through until then.
    failed: Option<u64>,
}

impl BlockModel {
    fn settled(&self) -> impl Iterator<Item = Stamp> + '_ {
        let zero = self.settled.is_empty().then_some(0);
        let settled = self.settled.iter().map(|(stamp, _)| *stamp);
        zero.into_iter().chain(settled)
    }

    fn allowed(&self) -> impl Iterator<Item = Stamp> + '_ {
        self.settled()
            .chain(self.open.iter().map(|open| open.stamp))
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
    /// Reads in flight.
    pub reads: u64,
    /// Writes that were acknowledged while the reads in flight were.
    beside_reads: Vec<Write>,
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
        for (block, stamp) in (write.start..).zip(&write.stamps) {
            let model = self.blocks.entry(block).or_insert_with(zero_block);
            model.open.push(Open {
                stamp: *stamp,
                submitted: write.submitted,
                failed: None,
            });
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
            model
                .settled
                .retain(|(_, settled)| *settled > write.submitted);
            model.settled.push((*stamp, now));
            let own = |open: &Open| open.stamp == *stamp && open.submitted == write.submitted;
            if let Some(found) = model.open.iter().position(own) {
                model.open.remove(found);
            }
            // Writes that failed before this one was submitted are behind it.
            model
                .open
                .retain(|open| open.failed.is_none_or(|failed| failed > write.submitted));
        }
        if self.reads > 0 {
            self.beside_reads.push(write);
        }
    }

    /// A read begins.
    pub fn begin_read(&mut self) {
        self.reads += 1;
    }

    /// A read has ended.
    pub fn end_read(&mut self) {
        self.reads = self.reads.saturating_sub(1);
        if self.reads == 0 {
            self.beside_reads.clear();
        }
    }

    /// A write that is atomic and of which a read, which is still counted, saw a part: some of its
    /// blocks, and others as one of the values that were `settled` when the read began. `start` is
    /// the read's first block, `stamps` is what it brought.
    pub fn half_seen(
        &self,
        start: u64,
        stamps: &[Stamp],
        settled: &[Vec<Stamp>],
    ) -> Option<&Write> {
        let beside = || self.writes.values().chain(&self.beside_reads);
        beside().filter(|write| write.atomic).find(|write| {
            let (mut new, mut old) = (false, false);
            for ((block, read), settled) in (start..).zip(stamps).zip(settled) {
                if write.brings(block, *read) {
                    new = true;
                } else if write.covers(block) && settled.contains(read) {
                    // Zeroes may have come by another that gave the block back.
                    old |= !beside().any(|other| other.brings(block, *read));
                }
            }
            new && old
        })
    }

    /// A write failed: each of its blocks may or may not have it, now or later.
    pub fn fail(&mut self, number: u64, now: u64) {
        let Some(write) = self.writes.remove(&number) else {
            return;
        };
        for (block, stamp) in (write.start..).zip(&write.stamps) {
            let open = self.blocks.get_mut(&block).map(|model| &mut model.open);
            for open in open.into_iter().flatten() {
                if open.stamp == *stamp && open.submitted == write.submitted {
                    open.failed = Some(now);
                }
            }
        }
    }

    /// The stamps that `block` may read as.
    pub fn allowed(&self, block: u64) -> Vec<Stamp> {
        self.blocks
            .get(&block)
            .map_or(vec![0], |model| model.allowed().collect())
    }

    /// The stamps of acknowledged writes among which that of `block` is, beside zero where it may
    /// have been given back.
    pub fn settled(&self, block: u64) -> Vec<Stamp> {
        self.blocks
            .get(&block)
            .map_or(vec![0], |model| model.settled().collect())
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
        let blocks = self.blocks.values();
        blocks
            .filter(|block| block.allowed().any(|stamp| stamp != 0))
            .count() as u64
    }

    /// True when a write to the block is in flight.
    pub fn is_busy(&self, block: u64) -> bool {
        self.writes.values().any(|write| write.covers(block))
    }

    /// A block was read with nothing in flight: it must stay so.
    pub fn pin(&mut self, block: u64, stamp: Stamp) {
        if stamp == 0 {
            self.blocks.remove(&block);
        } else {
            let model = BlockModel {
                settled: vec![(stamp, 0)],
                open: Vec::new(),
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
                    model.settled.push((stamp, 0));
                }
            }
        }
    }

    /// What it is at this instant, without the writes in flight as such.
    pub fn copy(&self) -> Image {
        let mut copy = self.clone();
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

    /// Nothing is in flight any more.
    pub fn crash(&mut self) {
        self.writes.clear();
        self.reads = 0;
        self.beside_reads.clear();
    }
}

fn zero_block() -> BlockModel {
    BlockModel {
        settled: vec![(0, 0)],
        open: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(submitted: u64, stamp: Stamp) -> Write {
        Write {
            submitted,
            start: 3,
            stamps: vec![stamp],
            atomic: true,
        }
    }

    #[test]
    fn an_acknowledged_write_leaves_only_what_overlapped_it() {
        let mut image = Image::zeroes(10);
        image.submit(1, write(1, 11));
        assert_eq!(image.allowed(3), [0, 11]);
        image.submit(2, write(2, 22));
        image.acknowledge(1, 3);
        assert_eq!(image.allowed(3), [11, 22]);
        image.acknowledge(2, 4);
        assert_eq!(image.allowed(3), [11, 22], "both were in flight together");
        image.submit(3, write(5, 33));
        image.acknowledge(3, 6);
        assert_eq!(image.allowed(3), [33]);
        image.submit(4, write(7, 44));
        image.fail(4, 8);
        assert_eq!(image.allowed(3), [33, 44]);
        image.submit(5, write(9, 55));
        image.acknowledge(5, 10);
        assert_eq!(image.allowed(3), [55]);
    }

    #[test]
    fn a_write_that_failed_beside_another_may_have_come_after_it() {
        let mut image = Image::zeroes(10);
        image.submit(1, write(1, 11));
        image.submit(2, write(2, 22));
        image.fail(1, 3);
        image.acknowledge(2, 4);
        assert_eq!(image.allowed(3), [22, 11]);
        image.submit(3, write(5, 33));
        image.acknowledge(3, 6);
        assert_eq!(image.allowed(3), [33]);
    }

    #[test]
    fn half_of_an_atomic_write_is_noticed() {
        let mut image = Image::zeroes(10);
        let both = Write {
            submitted: 1,
            start: 3,
            stamps: vec![7, 8],
            atomic: true,
        };
        image.submit(1, both);
        assert_eq!(image.torn(&BTreeMap::from([(3, 7), (4, 8)])), None);
        assert_eq!(image.torn(&BTreeMap::new()), None);
        assert_eq!(image.torn(&BTreeMap::from([(3, 7)])), Some(1));
    }

    #[test]
    fn a_write_that_met_another_in_flight_may_be_half_there() {
        let mut image = Image::zeroes(10);
        let both = Write {
            stamps: vec![7, 8],
            ..write(1, 0)
        };
        image.submit(1, both);
        image.submit(2, write(2, 22));
        image.acknowledge(2, 3);
        assert_eq!(image.torn(&BTreeMap::from([(3, 22), (4, 8)])), None);
    }

    #[test]
    fn a_read_that_saw_half_of_an_atomic_write_is_noticed() {
        let mut image = Image::zeroes(10);
        let both = Write {
            stamps: vec![7, 8],
            ..write(1, 0)
        };
        image.begin_read();
        let settled: Vec<_> = (2..6).map(|block| image.settled(block)).collect();
        image.submit(1, both);
        let half = |image: &Image, stamps: &[Stamp]| image.half_seen(2, stamps, &settled).is_some();
        for acknowledged in [false, true] {
            if acknowledged {
                image.acknowledge(1, 2);
            }
            assert!(!half(&image, &[0, 7, 8, 0]));
            assert!(!half(&image, &[0, 0, 0, 0]));
            assert!(half(&image, &[0, 7, 0, 0]));
            assert!(!half(&image, &[0, 7, 9, 0]), "a later write came over it");
        }
        image.end_read();
        assert!(!half(&image, &[0, 7, 0, 0]));
    }

    #[test]
    fn mixtures_have_no_stamp() {
        let mut block = [0; BLOCK];
        fill(77, &mut block);
        assert_eq!(stamp_of(&block), Some(77));
        block[512..1024].fill(0);
        assert_eq!(stamp_of(&block), None);
    }
}
