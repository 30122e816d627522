//! [`Holes`]: what hosts gave back since the last merge, in runs. A run is kept as it was given,
//! however many slices it crosses, and stands for those of its blocks that are one shard's: the
//! whole of a large volume takes one entry. No I/O.

use crate::location::BlockNumber;
use crate::segments::slices::Share;
use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint runs, start to end.
pub(crate) type Runs = BTreeMap<BlockNumber, BlockNumber>;

/// Blocks that were deallocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holes {
    /// Mostly one share's; several where recovery puts together what several shards wrote.
    shares: Vec<(Share, Runs)>,
}

impl Holes {
    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.shares.iter().map(|(_, runs)| runs.len()).sum()
    }

    pub fn clear(&mut self) {
        self.shares.clear();
    }

    /// Adds those blocks of a run that are in `share`.
    pub fn add(&mut self, share: Share, blocks: Range<BlockNumber>) {
        if share.pieces(blocks.clone()).next().is_none() {
            return;
        }
        let known = self.shares.iter().position(|(other, _)| *other == share);
        let index = known.unwrap_or_else(|| {
            self.shares.push((share, Runs::new()));
            self.shares.len() - 1
        });
        add_run(&mut self.shares[index].1, blocks);
    }

    pub fn contains(&self, block: BlockNumber) -> bool {
        self.shares.iter().any(|(share, runs)| {
            let before = runs.range(..=block).next_back();
            before.is_some_and(|(_, end)| block < *end) && share.owner(block) == share.shard
        })
    }

    /// Those of `blocks` that are holes, in pieces that may touch each other.
    pub fn within(
        &self,
        blocks: Range<BlockNumber>,
    ) -> impl Iterator<Item = Range<BlockNumber>> + '_ {
        self.shares.iter().flat_map(move |(share, runs)| {
            // The last run that begins before these blocks, and those that begin among them.
            let before = runs.range(..blocks.start).next_back();
            let among = runs.range(blocks.start..blocks.end);
            let (low, high) = (blocks.start, blocks.end);
            let inside = before.into_iter().chain(among);
            let inside = inside.map(move |(start, end)| (*start).max(low)..(*end).min(high));
            let inside = inside.filter(|run| !run.is_empty());
            inside.flat_map(|run| share.pieces(run))
        })
    }

    /// Every run and in which share it counts.
    pub fn runs(&self) -> impl Iterator<Item = (Share, Range<BlockNumber>)> + '_ {
        let all = self.shares.iter();
        all.flat_map(|(share, runs)| runs.iter().map(|(start, end)| (*share, *start..*end)))
    }
}

/// Adds blocks to runs, which stay disjoint.
pub(crate) fn add_run(runs: &mut Runs, blocks: Range<BlockNumber>) {
    let (mut start, mut end) = (blocks.start, blocks.end);
    if let Some((&before, &before_end)) = runs.range(..=start).next_back()
        && before_end >= start
    {
        start = before;
        end = end.max(before_end);
    }
    while let Some((&next, &next_end)) = runs.range(start..=end).next() {
        runs.remove(&next);
        end = end.max(next_end);
    }
    runs.insert(start, end);
}

/// The blocks of all these together, as sorted runs with gaps between. What every shard of a pool
/// gave back is one run, whatever the slices.
pub(crate) fn union<'a>(all: impl IntoIterator<Item = &'a Holes>) -> Vec<Range<BlockNumber>> {
    let runs: Vec<(Share, Range<BlockNumber>)> = all.into_iter().flat_map(Holes::runs).collect();
    let mut edges: Vec<BlockNumber> = runs
        .iter()
        .flat_map(|(_, run)| [run.start, run.end])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let mut starts = runs;
    starts.sort_unstable_by_key(|(_, run)| run.start);
    let mut starts = starts.into_iter().peekable();
    let mut active: Vec<(Share, BlockNumber)> = Vec::new();
    let mut found: Vec<Range<BlockNumber>> = Vec::new();
    for pair in edges.windows(2) {
        active.retain(|(_, end)| *end > pair[0]);
        while let Some((share, run)) = starts.next_if(|(_, run)| run.start <= pair[0]) {
            active.push((share, run.end));
        }
        let shares: Vec<Share> = active.iter().map(|(share, _)| *share).collect();
        for piece in covered(&shares, pair[0]..pair[1]) {
            match found.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ => found.push(piece),
            }
        }
    }
    found
}

/// The blocks of a run that are in any of these shares, sorted.
fn covered(shares: &[Share], blocks: Range<BlockNumber>) -> Vec<Range<BlockNumber>> {
    let complete = |share: &Share| {
        let alike = |other: &&Share| {
            (other.slice_blocks, other.shards) == (share.slice_blocks, share.shards)
        };
        let mut present: Vec<u64> = shares
            .iter()
            .filter(alike)
            .map(|like| like.shard.get())
            .collect();
        present.sort_unstable();
        present.dedup();
        present.len() as u64 == share.shards
    };
    if shares.iter().any(complete) {
        return vec![blocks];
    }
    let pieces = shares.iter().flat_map(|share| share.pieces(blocks.clone()));
    let mut pieces: Vec<Range<BlockNumber>> = pieces.collect();
    pieces.sort_unstable_by_key(|piece| piece.start);
    pieces.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ShardId;
    use crate::location::{each_of, numbered};
    use proptest::prelude::*;

    fn share(slice_blocks: u64, shards: u64, shard: u64) -> Share {
        let shard = ShardId::new(shard);
        Share {
            slice_blocks,
            shards,
            shard,
        }
    }

    #[test]
    fn what_all_shards_gave_back_is_one_run_however_large() {
        let whole = numbered(0..1 << 38);
        let dealt = (0..4).map(|shard| {
            let mut holes = Holes::default();
            holes.add(share(256, 4, shard), whole.clone());
            assert_eq!(holes.len(), 1);
            holes
        });
        let dealt: Vec<Holes> = dealt.collect();
        assert_eq!(union(&dealt), [whole]);
        let second = BlockNumber::new(256);
        assert!(dealt[1].contains(second) && !dealt[1].contains(BlockNumber::FIRST));
    }

    proptest! {
        #[test]
        fn holes_are_the_blocks_that_were_given_back(
            steps in prop::collection::vec((0usize..5, 0u64..200, 0u64..90), 0..30),
            asked in 0u64..200,
        ) {
            let shares = [
                share(8, 3, 0), share(8, 3, 1), share(8, 3, 2), share(16, 2, 1), share(8, 1, 0),
            ];
            let mut holes = [const { Holes { shares: Vec::new() } }; 2];
            let mut model = [[false; 300]; 2];
            for (step, (which, start, blocks)) in steps.into_iter().enumerate() {
                let share = shares[which];
                let run = numbered(start..start + blocks);
                holes[step % 2].add(share, run.clone());
                for block in each_of(run) {
                    model[step % 2][block.get() as usize] |= share.owner(block) == share.shard;
                }
            }
            for (holes, model) in holes.iter().zip(&model) {
                for block in each_of(numbered(0..300)) {
                    prop_assert_eq!(holes.contains(block), model[block.get() as usize]);
                }
                let mut within = [false; 300];
                for piece in holes.within(numbered(asked..asked + 50)) {
                    within[piece.start.get() as usize..piece.end.get() as usize].fill(true);
                }
                for block in 0..300u64 {
                    let expected = model[block as usize] && (asked..asked + 50).contains(&block);
                    prop_assert_eq!(within[block as usize], expected);
                }
                prop_assert_eq!(holes.len() == 0, !model.contains(&true));
            }
            let mut joined = [false; 300];
            let mut last = None;
            for run in union(&holes) {
                prop_assert!(run.start < run.end && last.is_none_or(|last| last < run.start));
                last = Some(run.end);
                joined[run.start.get() as usize..run.end.get() as usize].fill(true);
            }
            for block in 0..300 {
                prop_assert_eq!(joined[block], model[0][block] || model[1][block]);
            }
        }
    }
}
