//! Slices: how the blocks of every volume are dealt to the shards of a pool. No I/O.

use crate::ids::ShardId;
use std::ops::Range;

/// Slices have this many blocks unless a setting says otherwise: 1 MiB.
pub(crate) const SLICE_BLOCKS: u64 = 256;

/// Most shards that a pool is opened with.
pub(crate) const SHARDS_MAX: usize = 256;

/// The blocks that belong to one of several shards: every so many-th slice, by block number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub slice_blocks: u64,
    pub shards: u64,
    /// Whose share this is.
    pub shard: ShardId,
}

impl Share {
    /// There is one shard.
    pub fn has_all(self) -> bool {
        self.shards == 1
    }

    /// The shard that `block` belongs to.
    pub fn owner(self, block: u64) -> ShardId {
        match self.shards {
            1 => ShardId::FIRST,
            shards => ShardId::new(block / self.slice_blocks % shards),
        }
    }

    /// One past the last block from `block` on that has the same owner without a gap.
    pub fn end_of_slice(self, block: u64) -> u64 {
        match self.shards {
            1 => u64::MAX,
            _ => (block / self.slice_blocks + 1) * self.slice_blocks,
        }
    }

    /// The runs of `blocks` that belong to this shard.
    pub fn pieces(self, blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let behind =
            (self.shards + self.shard.get() - self.owner(blocks.start).get()) % self.shards;
        let first = match behind {
            0 => blocks.start,
            _ => (blocks.start / self.slice_blocks + behind) * self.slice_blocks,
        };
        let mut at = first;
        std::iter::from_fn(move || {
            if at >= blocks.end {
                return None;
            }
            let start = at;
            let end = self.end_of_slice(start);
            at = end.saturating_add((self.shards - 1) * self.slice_blocks);
            Some(start..end.min(blocks.end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_shard_has_everything_in_one_piece() {
        let share = Share {
            slice_blocks: SLICE_BLOCKS,
            shards: 1,
            shard: ShardId::FIRST,
        };
        assert_eq!(share.owner(u64::MAX), ShardId::FIRST);
        assert!(share.pieces(5..1 << 40).eq(std::iter::once(5..1 << 40)));
    }

    proptest! {
        #[test]
        fn every_block_is_in_the_pieces_of_exactly_its_owner(
            slice_blocks in 1u64..20, shards in 1u64..5, start in 0u64..200, length in 0u64..200
        ) {
            let mut seen = vec![0; 400];
            for shard in (0..shards).map(ShardId::new) {
                let share = Share { slice_blocks, shards, shard };
                for piece in share.pieces(start..start + length) {
                    prop_assert!(piece.start < piece.end);
                    for block in piece {
                        prop_assert_eq!(share.owner(block), shard);
                        prop_assert!(block < share.end_of_slice(block));
                        seen[block as usize] += 1;
                    }
                }
            }
            for (block, seen) in (0..).zip(seen) {
                let inside = (start..start + length).contains(&block);
                prop_assert_eq!(seen, u64::from(inside));
            }
        }
    }
}
