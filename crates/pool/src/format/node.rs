//! A node of a layer's map: up to 254 records sorted by block number.

use crate::ids::LayerId;
use crate::location::{BLOCK_BYTES, BlockNumber, Entry, Location, Mapping};
use block::Buffer;
use std::ops::Range;

pub(crate) const MAGIC: [u8; 4] = *b"FYMN";
/// Records that fit in a node.
pub(crate) const NODE_RECORDS: usize = (BLOCK_BYTES - HEADER_BYTES) / RECORD_BYTES;
const HEADER_BYTES: usize = 32;
const RECORD_BYTES: usize = 16;
const BLOCK_BITS: u32 = 40;
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;
const PLACE_MASK: u64 = (1 << 56) - 1;
const CRC_SHIFT: u32 = 96;
/// Set in what is no location but a run.
const RUN: u64 = 1 << 55;
/// Set beside it where the run is lost, and not a hole.
const RUN_LOST: u64 = 1 << 54;
/// What format version 1 writes of a hole, always of one block.
const HOLE_OF_ONE: u64 = PLACE_MASK;

/// Trees higher than this do not exist: 254^6 is more than a volume's blocks.
pub(crate) const LEVELS_MAX: u8 = 8;

/// In a leaf: a block and where it is, or a run of blocks that are in no place. Above: the first
/// block of a child and where the child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub block: BlockNumber,
    /// How many: one, but for a run.
    pub blocks: u64,
    pub mapping: Mapping,
}

impl NodeRecord {
    pub fn one(block: BlockNumber, entry: Entry) -> NodeRecord {
        NodeRecord {
            block,
            blocks: 1,
            mapping: Mapping::Block(entry),
        }
    }

    /// Blocks that are in no place.
    pub fn run(blocks: Range<BlockNumber>, mapping: Mapping) -> NodeRecord {
        NodeRecord {
            block: blocks.start,
            blocks: blocks.end - blocks.start,
            mapping,
        }
    }

    /// One past its last block.
    pub fn end(&self) -> BlockNumber {
        self.block + self.blocks
    }

    /// True when a leaf's record says something of a block that is not below its first.
    pub fn covers(&self, block: BlockNumber) -> bool {
        block < self.end()
    }

    /// As on disk: 5 bytes of block number, 7 of place or length, 4 of checksum, as one number.
    fn pack(&self) -> [u8; RECORD_BYTES] {
        let length = (self.blocks - 1) & BLOCK_MASK;
        let (place, crc) = match self.mapping {
            Mapping::Block(entry) => (entry.at.pack(), entry.crc),
            Mapping::Hole => (RUN | length, 0),
            Mapping::Lost => (RUN | RUN_LOST | length, 0),
        };
        let low = u128::from(self.block.get() & BLOCK_MASK);
        (low | u128::from(place) << BLOCK_BITS | u128::from(crc) << CRC_SHIFT).to_le_bytes()
    }

    fn unpack(bytes: [u8; RECORD_BYTES]) -> NodeRecord {
        let word = u128::from_le_bytes(bytes);
        let block = BlockNumber::new(word as u64 & BLOCK_MASK);
        let place = (word >> BLOCK_BITS) as u64 & PLACE_MASK;
        if place & RUN == 0 {
            let at = Location::unpack(place);
            let crc = (word >> CRC_SHIFT) as u32;
            return NodeRecord::one(block, Entry { at, crc });
        }
        let (blocks, mapping) = match place {
            HOLE_OF_ONE => (1, Mapping::Hole),
            _ if place & RUN_LOST != 0 => ((place & BLOCK_MASK) + 1, Mapping::Lost),
            _ => ((place & BLOCK_MASK) + 1, Mapping::Hole),
        };
        NodeRecord {
            block,
            blocks,
            mapping,
        }
    }
}

/// A node, kept as the 4 KiB that are on disk.
pub(crate) struct Node {
    bytes: Buffer,
    /// Blocks of the first and the last record. With these here a look-up reads one place of
    /// `bytes` only, and waits for memory once.
    first: BlockNumber,
    last: BlockNumber,
    count: u8,
    level: u8,
}

impl Node {
    /// A node of `layer` at `level` (0: leaf). At most [`NODE_RECORDS`] records, sorted.
    pub fn build(layer: LayerId, level: u8, records: &[NodeRecord]) -> Node {
        let mut bytes = Buffer::zeroed(BLOCK_BYTES);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = level;
        bytes[6..8].copy_from_slice(&(records.len() as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&layer.get().to_le_bytes());
        let first = records
            .first()
            .map_or(BlockNumber::FIRST, |record| record.block);
        bytes[16..24].copy_from_slice(&first.get().to_le_bytes());
        let (slots, _) = bytes[HEADER_BYTES..].as_chunks_mut();
        for (slot, record) in slots.iter_mut().zip(records) {
            *slot = record.pack();
        }
        Node::of(bytes)
    }

    /// Takes a block that was read; its checksum has been compared with its parent's.
    pub fn parse(bytes: Buffer) -> Option<Node> {
        let whole = bytes.len() == BLOCK_BYTES && bytes[..4] == MAGIC;
        let node = (whole && count(&bytes) <= NODE_RECORDS).then(|| Node::of(bytes))?;
        is_in_order(node.records(), node.level).then_some(node)
    }

    fn of(bytes: Buffer) -> Node {
        let end = HEADER_BYTES + count(&bytes) * RECORD_BYTES;
        let (records, _) = bytes[HEADER_BYTES..end].as_chunks();
        Node {
            first: records.first().map_or(BlockNumber::FIRST, key),
            last: records.last().map_or(BlockNumber::FIRST, key),
            count: records.len() as u8,
            level: bytes[4],
            bytes,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn crc(&self) -> u32 {
        crc_fast::crc32_iscsi(&self.bytes)
    }

    /// From its first record's block to its last one's.
    pub fn blocks(&self) -> Range<BlockNumber> {
        let last = self.len().checked_sub(1).map(|last| self.record(last));
        self.first..last.map_or(self.first, |last| last.end())
    }

    pub fn level(&self) -> u8 {
        self.level
    }

    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn record(&self, index: usize) -> NodeRecord {
        let start = HEADER_BYTES + index * RECORD_BYTES;
        let mut bytes = [0; RECORD_BYTES];
        bytes.copy_from_slice(&self.bytes[start..start + RECORD_BYTES]);
        NodeRecord::unpack(bytes)
    }

    pub fn records(&self) -> impl Iterator<Item = NodeRecord> + '_ {
        let end = HEADER_BYTES + self.len() * RECORD_BYTES;
        let (records, _) = self.bytes[HEADER_BYTES..end].as_chunks();
        records.iter().map(|bytes| NodeRecord::unpack(*bytes))
    }

    /// The last record whose block number is below or equal to `block`.
    pub fn find(&self, block: BlockNumber) -> Option<NodeRecord> {
        let rank = self.rank(block);
        (rank > 0).then(|| self.record(rank - 1))
    }

    /// Says that `block` will be looked for soon: of many that are said so first, the memory comes
    /// at the same time.
    pub fn prefetch(&self, block: BlockNumber) {
        self.bytes
            .prefetch(HEADER_BYTES + self.guess(block) * RECORD_BYTES);
    }

    /// Which record has `block` if blocks are evenly spaced. They are mostly written in runs:
    /// looking there first saves the memory accesses of a search.
    fn guess(&self, block: BlockNumber) -> usize {
        let span = self.last - self.first;
        let offset = block.get().saturating_sub(self.first.get()).min(span);
        (offset * u64::from(self.count.saturating_sub(1)) / span.max(1)) as usize
    }

    /// How many records have a block number below or equal to `block`.
    pub fn rank(&self, block: BlockNumber) -> usize {
        if block < self.first || self.count == 0 {
            return 0;
        }
        if block >= self.last {
            return self.len();
        }
        let end = HEADER_BYTES + self.len() * RECORD_BYTES;
        let (records, _) = self.bytes[HEADER_BYTES..end].as_chunks::<RECORD_BYTES>();
        let (before, after) = records.split_at(self.guess(block) + 1);
        let below = |record: &[u8; RECORD_BYTES]| key(record) <= block;
        match (before.last(), after.first()) {
            (Some(record), _) if !below(record) => before.partition_point(below),
            (_, Some(next)) if below(next) => before.len() + after.partition_point(below),
            _ => before.len(),
        }
    }
}

/// Says whether records follow each other, none of them beyond what a volume can have; above leaves
/// there are children only.
fn is_in_order(mut records: impl Iterator<Item = NodeRecord>, level: u8) -> bool {
    let mut end = BlockNumber::FIRST;
    records.all(|record| {
        let follows = record.block >= end;
        end = record.end();
        let kind = level == 0 || record.mapping.entry().is_some();
        follows && end <= BlockNumber::END && kind
    })
}

/// How many records a block says it has.
fn count(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[6], bytes[7]]))
}

fn key(record: &[u8; RECORD_BYTES]) -> BlockNumber {
    BlockNumber::new(u128::from_le_bytes(*record) as u64 & BLOCK_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SegmentNumber;
    use crate::location::{VOLUME_BLOCKS_MAX, numbered};
    use proptest::prelude::*;

    fn gap() -> impl Strategy<Value = u64> {
        prop_oneof![8 => Just(1), 1 => 1u64..9, 1 => 1u64..1 << 30]
    }

    proptest! {
        /// Dense, even and wildly uneven nodes alike.
        #[test]
        fn a_rank_is_how_many_records_are_not_above(
            gaps in prop::collection::vec(gap(), 0..254),
            asked in prop::collection::vec((any::<prop::sample::Index>(), 0u64..3), 1..50),
        ) {
            let mut at = 0;
            let blocks = gaps.iter().map(|gap| {
                at += gap;
                at
            });
            let blocks: Vec<u64> = blocks.collect();
            let hole = |&block: &u64| NodeRecord::run(numbered(block..block + 1), Mapping::Hole);
            let records: Vec<NodeRecord> = blocks.iter().map(hole).collect();
            let node = Node::build(LayerId::new(1), 0, &records);
            for (index, offset) in asked {
                let near = blocks.get(index.index(blocks.len().max(1))).copied().unwrap_or(1);
                let number = (near + offset).saturating_sub(1);
                let block = BlockNumber::new(number);
                let expected = blocks.iter().filter(|at| **at <= number).count();
                node.prefetch(block);
                prop_assert_eq!(node.rank(block), expected);
            }
        }
    }

    #[test]
    fn a_full_node_keeps_its_records_and_finds_them() {
        let records: Vec<NodeRecord> = (0..NODE_RECORDS as u64)
            .map(|number| {
                let block = BlockNumber::new(number * 3 + (1 << 39));
                let at = Location {
                    segment: SegmentNumber::new(number as u32),
                    column: 1,
                    row: 2,
                };
                let crc = number as u32;
                match number % 5 {
                    0 => NodeRecord::run(block..block + 3, Mapping::Hole),
                    1 => NodeRecord::run(block..block + 1, Mapping::Lost),
                    _ => NodeRecord::one(block, Entry { at, crc }),
                }
            })
            .collect();
        assert_eq!(NODE_RECORDS, 254);
        let node = Node::build(LayerId::new(6), 1, &records);
        assert_eq!((node.level(), node.len()), (1, 254));
        assert_eq!(node.records().collect::<Vec<_>>(), records);
        assert_eq!(node.rank(records[9].block), 10);
        assert_eq!(node.rank(BlockNumber::new(records[9].block.get() - 1)), 9);
        assert_eq!(node.rank(BlockNumber::FIRST), 0);
        assert_eq!(node.rank(BlockNumber::MOST), 254);
    }

    #[test]
    fn runs_are_as_long_as_a_volume_can_be_and_those_of_version_1_are_one_block() {
        for mapping in [Mapping::Hole, Mapping::Lost] {
            for run in [0..1, 5..6, 7..VOLUME_BLOCKS_MAX, 0..VOLUME_BLOCKS_MAX] {
                let record = NodeRecord::run(numbered(run), mapping);
                assert_eq!(NodeRecord::unpack(record.pack()), record);
            }
        }
        let mut first = [0; RECORD_BYTES];
        first[0] = 77;
        first[5..12].fill(0xff);
        let hole = NodeRecord::run(numbered(77..78), Mapping::Hole);
        assert_eq!(NodeRecord::unpack(first), hole);
    }

    #[test]
    fn a_node_says_something_up_to_the_end_of_its_last_run() {
        let run = NodeRecord::run(numbered(10..500), Mapping::Hole);
        let node = Node::build(LayerId::new(1), 0, &[run]);
        assert_eq!(node.blocks(), numbered(10..500));
    }
}
