//! Where a block is: its [`BlockNumber`] in a volume, its [`Location`] in a segment, and the map's
//! [`Entry`] with its checksum.

use crate::ids::{LayerId, SegmentNumber};
use block::Lba;
use std::fmt;
use std::ops::{Add, AddAssign, Range, Sub};

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

/// A block of a volume or snapshot, and of each of its layers: they are numbered from 0 on. How
/// many blocks something has is a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct BlockNumber(u64);

impl BlockNumber {
    pub const FIRST: BlockNumber = BlockNumber(0);
    /// Numbers of volumes' blocks are below this.
    pub const END: BlockNumber = BlockNumber(VOLUME_BLOCKS_MAX);
    /// None is higher.
    pub const MOST: BlockNumber = BlockNumber(u64::MAX);

    pub const fn new(number: u64) -> BlockNumber {
        BlockNumber(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one in which a byte of a volume is.
    pub const fn of_byte(byte: u64) -> BlockNumber {
        BlockNumber(byte / BLOCK_BYTES as u64)
    }

    /// Its first byte.
    pub const fn first_byte(self) -> u64 {
        self.0 * BLOCK_BYTES as u64
    }

    /// Hosts address the blocks of a volume by the same numbers.
    pub const fn lba(self) -> Lba {
        Lba(self.0)
    }

    /// It and all behind it.
    pub fn onwards(self) -> impl Iterator<Item = BlockNumber> {
        (self.0..).map(BlockNumber)
    }
}

impl From<Lba> for BlockNumber {
    fn from(lba: Lba) -> BlockNumber {
        BlockNumber(lba.0)
    }
}

/// The block so many blocks behind it.
impl Add<u64> for BlockNumber {
    type Output = BlockNumber;

    fn add(self, blocks: u64) -> BlockNumber {
        BlockNumber(self.0 + blocks)
    }
}

impl AddAssign<u64> for BlockNumber {
    fn add_assign(&mut self, blocks: u64) {
        self.0 += blocks;
    }
}

/// How many blocks it is behind an earlier one.
impl Sub for BlockNumber {
    type Output = u64;

    fn sub(self, earlier: BlockNumber) -> u64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The blocks of a run, one by one.
pub(crate) fn each_of(run: Range<BlockNumber>) -> impl Iterator<Item = BlockNumber> {
    (run.start.0..run.end.0).map(BlockNumber)
}

/// The blocks of these numbers.
#[cfg(test)]
pub(crate) fn numbered(run: Range<u64>) -> Range<BlockNumber> {
    BlockNumber(run.start)..BlockNumber(run.end)
}

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
    pub block: BlockNumber,
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
    fn every_byte_is_in_the_block_whose_first_byte_is_the_last_before_it() {
        for number in [0, 1, 77, VOLUME_BLOCKS_MAX - 1] {
            let block = BlockNumber::new(number);
            let next = block + 1;
            for byte in [block.first_byte(), next.first_byte() - 1] {
                assert_eq!(BlockNumber::of_byte(byte), block);
            }
            assert_eq!(BlockNumber::from(block.lba()), block);
            assert!(block < BlockNumber::END && each_of(block..next).eq([block]));
        }
    }

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
