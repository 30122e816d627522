//! Addresses and sizes: [`Lba`], [`BlockRange`] and a device's [`Geometry`].

use std::fmt;

/// A logical block address: counts blocks of the device's own [`Geometry::block_bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

impl Lba {
    /// The address `blocks` further on, or `None` past the end of the 64-bit address space.
    pub fn checked_add(self, blocks: u64) -> Option<Lba> {
        self.0.checked_add(blocks).map(Lba)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LBA {}", self.0)
    }
}

/// A run of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// First block of the run.
    pub start: Lba,
    /// How many blocks; zero names an empty run.
    pub blocks: u64,
}

impl BlockRange {
    /// The run of `blocks` blocks from `start`.
    pub fn new(start: Lba, blocks: u64) -> BlockRange {
        BlockRange { start, blocks }
    }

    /// The first address after the run, or `None` past the end of the 64-bit address space.
    pub fn end(&self) -> Option<Lba> {
        self.start.checked_add(self.blocks)
    }

    /// True when two runs have a block in common; an empty one has none.
    pub fn overlaps(&self, other: BlockRange) -> bool {
        let end = |range: &BlockRange| range.start.0.saturating_add(range.blocks);
        self.start.max(other.start).0 < end(self).min(end(&other))
    }
}

/// What a device is: fixed from the moment it is opened, except that it may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in a logical block: a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// Capacity in logical blocks.
    pub block_count: u64,
    /// Blocks that a write should be aligned to and a multiple of to be fast (1: no preference).
    pub optimal_write_blocks: u32,
    /// Writes of at most this many blocks are whole or absent after a power loss (at least 1).
    pub power_fail_atomic_blocks: u32,
    /// An atomic write must not cross a multiple of this many blocks (0: no boundary).
    pub power_fail_atomic_boundary_blocks: u32,
    /// True when an acknowledged [`Durability::Cached`](crate::Durability::Cached) write may be
    /// lost with power until the next flush.
    pub volatile_write_cache: bool,
    /// True when `deallocate` gives space back; blocks then read as zeroes.
    pub deallocates: bool,
}

/// Why a [`Geometry`] is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The block size is no power of two from 512 to 4096.
    BlockBytes(u32),
    /// Capacity in bytes does not fit in 64 bits, or is zero.
    BlockCount(u64),
}

impl fmt::Display for GeometryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeometryError::BlockBytes(found) => {
                write!(
                    formatter,
                    "block size of {found} bytes; allowed: 512, 1024, 2048, 4096"
                )
            }
            GeometryError::BlockCount(found) => {
                write!(
                    formatter,
                    "capacity of {found} blocks; allowed: 1 to 2^64 bytes in all"
                )
            }
        }
    }
}

impl std::error::Error for GeometryError {}

impl Geometry {
    /// A device of `block_count` blocks with no write cache, no preference for larger writes and
    /// power-fail atomicity of one block.
    pub fn new(block_bytes: u32, block_count: u64) -> Result<Geometry, GeometryError> {
        if !block_bytes.is_power_of_two() || !(512..=4096).contains(&block_bytes) {
            return Err(GeometryError::BlockBytes(block_bytes));
        }
        if block_count == 0 || block_count.checked_mul(u64::from(block_bytes)).is_none() {
            return Err(GeometryError::BlockCount(block_count));
        }
        Ok(Geometry {
            block_bytes,
            block_count,
            optimal_write_blocks: 1,
            power_fail_atomic_blocks: 1,
            power_fail_atomic_boundary_blocks: 0,
            volatile_write_cache: false,
            deallocates: false,
        })
    }

    /// Capacity in bytes; never overflows for a geometry made by [`Geometry::new`].
    pub fn capacity_bytes(&self) -> u64 {
        self.block_count * u64::from(self.block_bytes)
    }

    /// True when every block of `range` exists.
    pub fn contains(&self, range: BlockRange) -> bool {
        range.end().is_some_and(|end| end.0 <= self.block_count)
    }

    /// The run of blocks that `bytes` bytes from `start` cover, if it is a whole number of
    /// existing blocks and not empty.
    pub fn range_of_bytes(&self, start: Lba, bytes: usize) -> Option<BlockRange> {
        let bytes = u64::try_from(bytes).ok()?;
        let block_bytes = u64::from(self.block_bytes);
        if bytes == 0 || !bytes.is_multiple_of(block_bytes) {
            return None;
        }
        let range = BlockRange::new(start, bytes / block_bytes);
        self.contains(range).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_overlap_that_have_a_block_in_common() {
        let run = |start: u64, blocks: u64| BlockRange::new(Lba(start), blocks);
        for (one, other, expected) in [
            (run(0, 4), run(4, 4), false),
            (run(0, 5), run(4, 4), true),
            (run(2, 1), run(0, 8), true),
            (run(2, 0), run(0, 8), false),
            (run(0, 0), run(0, 0), false),
            (run(u64::MAX - 1, 9), run(0, u64::MAX), true),
        ] {
            assert_eq!(one.overlaps(other), expected, "{one:?} {other:?}");
            assert_eq!(other.overlaps(one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn a_geometry_refuses_impossible_sizes() {
        assert_eq!(Geometry::new(520, 8), Err(GeometryError::BlockBytes(520)));
        assert_eq!(Geometry::new(8192, 8), Err(GeometryError::BlockBytes(8192)));
        assert_eq!(Geometry::new(512, 0), Err(GeometryError::BlockCount(0)));
        assert_eq!(
            Geometry::new(4096, 1 << 52),
            Err(GeometryError::BlockCount(1 << 52))
        );
    }

    #[test]
    fn ranges_at_the_end_of_the_address_space_do_not_wrap() {
        let geometry = Geometry::new(512, 100).unwrap();
        assert!(geometry.contains(BlockRange::new(Lba(99), 1)));
        assert!(!geometry.contains(BlockRange::new(Lba(99), 2)));
        assert!(!geometry.contains(BlockRange::new(Lba(u64::MAX), 2)));
        assert_eq!(geometry.range_of_bytes(Lba(0), 511), None);
        assert_eq!(geometry.range_of_bytes(Lba(0), 0), None);
        assert_eq!(
            geometry.range_of_bytes(Lba(98), 1024),
            Some(BlockRange::new(Lba(98), 2))
        );
    }
}
