//! Where a block is: [`Location`] in a segment, and the map's [`Entry`] with its checksum.

use crate::ids::{LayerId, SegmentNumber};

/// Bytes of a pool block, the unit of everything in the pool.
pub const BLOCK_BYTES: usize = 4096;

/// Volumes have at most this many blocks: 4 PiB.
pub const VOLUME_BLOCKS_MAX: u64 = 1 << 40;

const ROW_BITS: u32 = 26;
const COLUMN_BITS: u32 = 5;
/// Rows in a zone are at most this many.
pub(crate) const ROWS_MAX: u32 = 1 << ROW_BITS;
/// Writes up to this many blocks go into one stripe.
pub(crate) const ATOMIC_BLOCKS: u64 = 16;

/// A block's place: which row of which column of which segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Location {
    pub segment: SegmentNumber,
    pub column: u8,
    pub row: u32,
}

impl Location {
    /// 56 bits: segment, column, row from the top; bit 55 is always clear.
    pub fn pack(self) -> u64 {
        u64::from(self.segment.get()) << (ROW_BITS + COLUMN_BITS)
            | u64::from(self.column) << ROW_BITS
            | u64::from(self.row)
    }

    pub fn unpack(packed: u64) -> Location {
        let mask = |bits: u32| (1u64 << bits) - 1;
        Location {
            segment: SegmentNumber::new((packed >> (ROW_BITS + COLUMN_BITS) & mask(24)) as u32),
            column: (packed >> ROW_BITS & mask(COLUMN_BITS)) as u8,
            row: (packed & mask(ROW_BITS)) as u32,
        }
    }
}

/// A block of a volume as one layer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LayerBlock {
    pub layer: LayerId,
    pub block: u64,
}

/// Where a block is and what its bytes must hash to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub at: Location,
    pub crc: u32,
}

/// What a layer says about one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mapping {
    /// The layer holds the block.
    Block(Entry),
    /// The layer says it reads as zeroes, whatever is below.
    Hole,
    /// The node that said something about it could not be read any more: reading it fails.
    Lost,
}

impl Mapping {
    pub fn entry(self) -> Option<Entry> {
        match self {
            Mapping::Block(entry) => Some(entry),
            Mapping::Hole | Mapping::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_round_trip_at_their_limits() {
        for at in [
            Location {
                segment: SegmentNumber::new(0),
                column: 0,
                row: 0,
            },
            Location {
                segment: SegmentNumber::LAST,
                column: 31,
                row: ROWS_MAX - 1,
            },
            Location {
                segment: SegmentNumber::new(77),
                column: 3,
                row: 12345,
            },
        ] {
            assert!(at.pack() < 1 << 55);
            assert_eq!(Location::unpack(at.pack()), at);
        }
    }
}
