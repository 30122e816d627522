//! Slices: how the blocks of every volume are dealt to the shards of a pool. No I/O.

use crate::ids::ShardId;
use crate::location::BlockNumber;
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
    pub fn owner(self, block: BlockNumber) -> ShardId {
        match self.shards {
            1 => ShardId::FIRST,
            shards => ShardId::new(self.slice_of(block) % shards),
        }
    }

    /// One past the last block from `block` on that has the same owner without a gap.
    pub fn end_of_slice(self, block: BlockNumber) -> BlockNumber {
        match self.shards {
            1 => BlockNumber::MOST,
            _ => self.first_of_slice(self.slice_of(block) + 1),
        }
    }

    fn slice_of(self, block: BlockNumber) -> u64 {
        block.get() / self.slice_blocks
    }

    fn first_of_slice(self, slice: u64) -> BlockNumber {
        BlockNumber::new(slice * self.slice_blocks)
    }

    /// The runs of `blocks` that belong to this shard.
    pub fn pieces(self, blocks: Range<BlockNumber>) -> impl Iterator<Item = Range<BlockNumber>> {
        let behind =
            (self.shards + self.shard.get() - self.owner(blocks.start).get()) % self.shards;
        let first = match behind {
            0 => blocks.start,
            _ => self.first_of_slice(self.slice_of(blocks.start) + behind),
        };
        let mut at = first;
        std::iter::from_fn(move || {
            if at >= blocks.end {
                return None;
            }
            let start = at;
            let end = self.end_of_slice(start);
            let others = (self.shards - 1) * self.slice_blocks;
            at = BlockNumber::new(end.get().saturating_add(others));
            Some(start..end.min(blocks.end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::{each_of, numbered};
    use proptest::prelude::*;

    #[test]
    fn one_shard_has_everything_in_one_piece() {
        let share = Share {
            slice_blocks: SLICE_BLOCKS,
            shards: 1,
            shard: ShardId::FIRST,
        };
        assert_eq!(share.owner(BlockNumber::MOST), ShardId::FIRST);
        let all = numbered(5..1 << 40);
        assert!(share.pieces(all.clone()).eq(std::iter::once(all)));
    }

    proptest! {
        #[test]
        fn every_block_is_in_the_pieces_of_exactly_its_owner(
            slice_blocks in 1u64..20, shards in 1u64..5, start in 0u64..200, length in 0u64..200
        ) {
            let mut seen = vec![0; 400];
            for shard in (0..shards).map(ShardId::new) {
                let share = Share { slice_blocks, shards, shard };
                for piece in share.pieces(numbered(start..start + length)) {
                    prop_assert!(piece.start < piece.end);
                    for block in each_of(piece) {
                        prop_assert_eq!(share.owner(block), shard);
                        prop_assert!(block < share.end_of_slice(block));
                        seen[block.get() as usize] += 1;
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
