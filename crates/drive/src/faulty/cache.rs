//! [`CachedMemory`]: what a drive holds durably, and what only its volatile cache holds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use block::{BlockRange, Geometry, Lba};

use super::control::SplitMix;

/// Versions of one block kept in the cache. An older one is taken as overwritten for good: that
/// is one of the outcomes a power cut may have anyway.
const VERSIONS_MAX: usize = 8;

type Content = Box<[u8]>;

/// One write of one block that is not durable.
struct Version {
    sequence: u64,
    /// Versions of one write with one unit survive together or not at all.
    unit: u64,
    /// Absent for zeroes.
    content: Option<Content>,
}

#[derive(Default)]
struct Blocks {
    stable: BTreeMap<u64, Content>,
    cached: BTreeMap<u64, Vec<Version>>,
}

impl Blocks {
    fn set_stable(&mut self, block: u64, content: Option<Content>) {
        match content {
            Some(content) => self.stable.insert(block, content),
            None => self.stable.remove(&block),
        };
    }

    /// Makes durable the newest version of `block` that is not newer than `upto`.
    fn persist(&mut self, block: u64, upto: u64) {
        let Some(versions) = self.cached.get_mut(&block) else {
            return;
        };
        let count = versions.partition_point(|version| version.sequence <= upto);
        let newest = versions.drain(..count).next_back();
        if versions.is_empty() {
            self.cached.remove(&block);
        }
        if let Some(version) = newest {
            self.set_stable(block, version.content);
        }
    }
}

pub(super) struct CachedMemory {
    geometry: Geometry,
    blocks: RefCell<Blocks>,
    sequence: Cell<u64>,
}

impl CachedMemory {
    pub(super) fn new(geometry: Geometry) -> CachedMemory {
        CachedMemory {
            geometry,
            blocks: RefCell::default(),
            sequence: Cell::new(0),
        }
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The number of the latest write.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence.get()
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    pub(super) fn blocks_of(&self, start: Lba, bytes: usize) -> BlockRange {
        BlockRange::new(start, (bytes / self.block_bytes()) as u64)
    }

    pub(super) fn read(&self, start: Lba, bytes: &mut [u8]) {
        let blocks = self.blocks.borrow();
        for (block, to) in (start.0..).zip(bytes.chunks_mut(self.block_bytes())) {
            let cached = blocks
                .cached
                .get(&block)
                .and_then(|versions| versions.last());
            let content = match cached {
                Some(version) => version.content.as_ref(),
                None => blocks.stable.get(&block),
            };
            match content {
                Some(content) => to.copy_from_slice(content),
                None => to.fill(0),
            }
        }
    }

    /// Puts a write in the cache; its number.
    pub(super) fn write(&self, start: Lba, bytes: &[u8]) -> u64 {
        let contents = bytes
            .chunks(self.block_bytes())
            .map(|content| Some(content.into()));
        self.cache(start, contents)
    }

    /// Puts zeroes in the cache; the number of that write.
    pub(super) fn zero(&self, range: BlockRange) -> u64 {
        let mut touched: Vec<u64> = Vec::new();
        {
            let blocks = self.blocks.borrow();
            let all = range.start.0..range.start.0 + range.blocks;
            touched.extend(blocks.stable.range(all.clone()).map(|(block, _)| *block));
            touched.extend(blocks.cached.range(all).map(|(block, _)| *block));
        }
        touched.sort_unstable();
        touched.dedup();
        // Blocks that hold nothing are zero already, whatever becomes of this write.
        let sequence = self.next_sequence();
        for block in touched {
            self.cache_block(block, sequence, block, None);
        }
        sequence
    }

    fn next_sequence(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        self.sequence.get()
    }

    fn cache(&self, start: Lba, contents: impl Iterator<Item = Option<Content>>) -> u64 {
        let sequence = self.next_sequence();
        let atomic = u64::from(self.geometry.power_fail_atomic_blocks.max(1));
        let boundary = u64::from(self.geometry.power_fail_atomic_boundary_blocks);
        for (block, content) in (start.0..).zip(contents) {
            let offset = block - start.0;
            // A write that is too long, or crosses a boundary, comes apart there.
            let part = block.checked_div(boundary).unwrap_or(0);
            let unit = (offset / atomic) << 32 | part & 0xffff_ffff;
            self.cache_block(block, sequence, unit, content);
        }
        sequence
    }

    fn cache_block(&self, block: u64, sequence: u64, unit: u64, content: Option<Content>) {
        let mut blocks = self.blocks.borrow_mut();
        let versions = blocks.cached.entry(block).or_default();
        if versions.len() == VERSIONS_MAX {
            versions.remove(0);
        }
        versions.push(Version {
            sequence,
            unit,
            content,
        });
    }

    /// Makes durable the write `sequence`, and what it overwrote, in `range`.
    pub(super) fn persist(&self, range: BlockRange, sequence: u64) {
        let mut blocks = self.blocks.borrow_mut();
        let all = range.start.0..range.start.0 + range.blocks;
        let cached: Vec<u64> = blocks.cached.range(all).map(|(block, _)| *block).collect();
        for block in cached {
            blocks.persist(block, sequence);
        }
    }

    /// Makes durable every write up to the number `upto`.
    pub(super) fn persist_all(&self, upto: u64) {
        let everything = BlockRange::new(Lba(0), self.geometry.block_count);
        self.persist(everything, upto);
    }

    /// The cache loses its contents, except for what it had happened to write back.
    pub(super) fn cut_power(&self, mut random: SplitMix) {
        let mut blocks = self.blocks.borrow_mut();
        let salt = random.next();
        // From "everything cached is lost" to "nothing is".
        let kept_of_4 = random.below(5);
        for (block, versions) in std::mem::take(&mut blocks.cached) {
            let survives = |version: &Version| {
                let key = salt ^ version.sequence.rotate_left(20) ^ version.unit.rotate_left(40);
                SplitMix::new(key).below(4) < kept_of_4
            };
            if let Some(version) = versions.into_iter().rev().find(survives) {
                blocks.set_stable(block, version.content);
            }
        }
    }
}
