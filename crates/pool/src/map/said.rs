//! [`Said`]: what layers say of blocks, the uppermost layer first. No I/O.

use crate::location::BlockNumber;
use std::collections::BTreeMap;
use std::ops::Range;

/// What blocks read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Something, or an error.
    Data,
    /// Zeroes.
    Zeroes,
}

/// What is said of blocks so far, as runs that are as long as can be. What is said first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// By the first block: one past the last, and what they read as.
    runs: BTreeMap<BlockNumber, (BlockNumber, Says)>,
}

impl Said {
    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// The runs in order.
    pub fn runs(&self) -> impl Iterator<Item = (Range<BlockNumber>, Says)> + '_ {
        let run =
            |(start, (end, says)): (&BlockNumber, &(BlockNumber, Says))| (*start..*end, *says);
        self.runs.iter().map(run)
    }

    /// Says something of `blocks`, which counts where nothing has been said.
    pub fn add(&mut self, blocks: Range<BlockNumber>, says: Says) {
        let before = self.runs.range(..=blocks.start).next_back();
        let mut at = before.map_or(blocks.start, |(_, (end, _))| blocks.start.max(*end));
        while at < blocks.end {
            let next = self.runs.range(at..).next();
            let next = next.map(|(start, (end, _))| (*start, *end));
            let next = next.filter(|(start, _)| *start < blocks.end);
            let (start, end) = next.unwrap_or((blocks.end, blocks.end));
            self.insert(at..start, says);
            at = end;
        }
    }

    /// Enters a run where nothing has been said, as one with its neighbours that say the same.
    fn insert(&mut self, run: Range<BlockNumber>, says: Says) {
        if run.is_empty() {
            return;
        }
        let (mut start, mut end) = (run.start, run.end);
        let before = self.runs.range(..start).next_back();
        if let Some((begins, (ends, said))) = before
            && (*ends, *said) == (start, says)
        {
            start = *begins;
        }
        if let Some((ends, said)) = self.runs.get(&end)
            && *said == says
        {
            end = *ends;
            self.runs.remove(&run.end);
        }
        self.runs.insert(start, (end, says));
    }

    /// Forgets what is said of blocks from `end` on.
    pub fn cut(&mut self, end: BlockNumber) {
        drop(self.runs.split_off(&end));
        if let Some(mut last) = self.runs.last_entry() {
            let ends = &mut last.get_mut().0;
            *ends = end.min(*ends);
        }
    }

    /// Where the run begins before which there are `most`, if there are more.
    pub fn end_of(&self, most: usize) -> Option<BlockNumber> {
        if self.len() <= most {
            return None;
        }
        self.runs.keys().nth(most).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::numbered;
    use proptest::prelude::*;

    const BLOCKS: usize = 60;

    proptest! {
        /// Beside one entry for each block: what is said first counts, runs are as long as can be,
        /// and what is cut off is forgotten.
        #[test]
        fn it_says_of_each_block_what_was_said_of_it_first(
            said in prop::collection::vec((0..BLOCKS, 1..20_usize, any::<bool>()), 0..40),
            end in 0..BLOCKS,
            most in 0..20_usize,
        ) {
            let mut found = Said::default();
            let mut model = [None; BLOCKS + 20];
            for (start, blocks, data) in said {
                let says = if data { Says::Data } else { Says::Zeroes };
                found.add(numbered(start as u64..(start + blocks) as u64), says);
                for one in &mut model[start..start + blocks] {
                    one.get_or_insert(says);
                }
            }
            let each = |found: &Said| {
                let mut each = [None; BLOCKS + 20];
                for (run, says) in found.runs() {
                    each[run.start.get() as usize..run.end.get() as usize].fill(Some(says));
                }
                each
            };
            prop_assert_eq!(each(&found), model);
            let runs: Vec<_> = found.runs().collect();
            for pair in runs.windows(2) {
                prop_assert!(pair[0].0.end <= pair[1].0.start);
                let joined = pair[0].0.end == pair[1].0.start && pair[0].1 == pair[1].1;
                prop_assert!(!joined, "{:?}", pair);
            }
            let limit = runs.get(most).map(|(run, _)| run.start);
            prop_assert_eq!(found.end_of(most), limit);
            found.cut(BlockNumber::new(end as u64));
            model[end..].fill(None);
            prop_assert_eq!(each(&found), model);
        }
    }
}
