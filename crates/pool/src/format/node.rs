//! A node of a layer's map: up to 254 records sorted by block number.

use crate::location::{BLOCK_BYTES, Mapping};
use block::Buffer;

pub(crate) const MAGIC: [u8; 4] = *b"FYMN";
/// Records that fit in a node.
pub(crate) const NODE_RECORDS: usize = (BLOCK_BYTES - HEADER_BYTES) / RECORD_BYTES;
const HEADER_BYTES: usize = 32;
const RECORD_BYTES: usize = 16;

/// In a leaf: a block and where it is. Above: the first block of a child and where the child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub block: u64,
    pub mapping: Mapping,
}

/// A node, kept as the 4 KiB that are on disk.
pub(crate) struct Node {
    bytes: Buffer,
}

impl Node {
    /// A node of `layer` at `level` (0: leaf). At most [`NODE_RECORDS`] records, sorted.
    pub fn build(layer: u32, level: u8, records: &[NodeRecord]) -> Node {
        let mut bytes = Buffer::zeroed(BLOCK_BYTES);
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = level;
        bytes[6..8].copy_from_slice(&(records.len() as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&layer.to_le_bytes());
        let first = records.first().map_or(0, |record| record.block);
        bytes[16..24].copy_from_slice(&first.to_le_bytes());
        let slots = bytes[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES);
        for (slot, record) in slots.zip(records) {
            let (packed, crc) = record.mapping.pack();
            slot[..5].copy_from_slice(&record.block.to_le_bytes()[..5]);
            slot[5..12].copy_from_slice(&packed.to_le_bytes()[..7]);
            slot[12..].copy_from_slice(&crc.to_le_bytes());
        }
        Node { bytes }
    }

    /// Takes a block that was read; its checksum has been compared with its parent's.
    pub fn parse(bytes: Buffer) -> Option<Node> {
        let node = Node { bytes };
        let whole = node.bytes.len() == BLOCK_BYTES
            && node.bytes[..4] == MAGIC
            && node.len() <= NODE_RECORDS;
        whole.then_some(node)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn crc(&self) -> u32 {
        crc32c::crc32c(&self.bytes)
    }

    pub fn level(&self) -> u8 {
        self.bytes[4]
    }

    pub fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[6], self.bytes[7]]))
    }

    pub fn record(&self, index: usize) -> NodeRecord {
        let start = HEADER_BYTES + index * RECORD_BYTES;
        let word = |range: std::ops::Range<usize>| {
            let bytes = &self.bytes[start + range.start..start + range.end];
            bytes
                .iter()
                .rev()
                .fold(0u64, |word, byte| word << 8 | u64::from(*byte))
        };
        NodeRecord {
            block: word(0..5),
            mapping: Mapping::unpack(word(5..12), word(12..16) as u32),
        }
    }

    pub fn records(&self) -> impl Iterator<Item = NodeRecord> + '_ {
        (0..self.len()).map(|index| self.record(index))
    }

    /// The last record whose block number is below or equal to `block`.
    pub fn find(&self, block: u64) -> Option<NodeRecord> {
        let rank = self.rank(block);
        (rank > 0).then(|| self.record(rank - 1))
    }

    /// How many records have a block number below or equal to `block`.
    pub fn rank(&self, block: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.record(middle).block <= block {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::{Entry, Location};

    #[test]
    fn a_full_node_keeps_its_records_and_finds_them() {
        let records: Vec<NodeRecord> = (0..NODE_RECORDS as u64)
            .map(|number| NodeRecord {
                block: number * 3 + (1 << 39),
                mapping: match number % 5 {
                    0 => Mapping::Hole,
                    _ => Mapping::Block(Entry {
                        at: Location {
                            segment: number as u32,
                            column: 1,
                            row: 2,
                        },
                        crc: number as u32,
                    }),
                },
            })
            .collect();
        assert_eq!(NODE_RECORDS, 254);
        let node = Node::build(6, 1, &records);
        assert_eq!((node.level(), node.len()), (1, 254));
        assert_eq!(node.records().collect::<Vec<_>>(), records);
        assert_eq!(node.rank(records[9].block), 10);
        assert_eq!(node.rank(records[9].block - 1), 9);
        assert_eq!(node.rank(0), 0);
        assert_eq!(node.rank(u64::MAX), 254);
    }
}
