//! [`EmptiedSegments`]: what was emptied since the last checkpoint, and when it is free. No I/O.

use crate::ids::{SegmentNumber, Sequence, ShardId, StripeId};
use std::collections::BTreeMap;

/// Segments out of which everything was moved since the last checkpoint that could be. The maps do
/// not know it yet.
#[derive(Debug, Default)]
pub(crate) struct EmptiedSegments {
    /// Segments that wait for the next merge; true if nothing there can have been overlooked.
    of_merge: BTreeMap<SegmentNumber, bool>,
    /// Segments of which it is certain that the logs have replaced every block that the maps still
    /// have there, and of each shard up to which stripe that took.
    of_logs: BTreeMap<SegmentNumber, Vec<StripeId>>,
}

impl EmptiedSegments {
    /// Live blocks of a segment were replaced and await the next merge, or they stay.
    /// `whole` if nothing there can have been overlooked.
    pub fn await_merge(&mut self, number: SegmentNumber, whole: bool) {
        assert!(!self.has(number), "a segment is emptied once until a merge");
        self.of_merge.insert(number, whole);
    }

    /// Every block of a segment was replaced by stripes up to those of `through`: it is free once
    /// these are certain to count after a crash.
    pub fn await_logs(&mut self, number: SegmentNumber, through: Vec<StripeId>) {
        assert!(!self.has(number), "a segment is emptied once until a merge");
        assert!(!through.is_empty(), "blocks are replaced by a log");
        self.of_logs.insert(number, through);
    }

    /// Blocks of this shard's were moved out of a segment by stripes up to `through`: whoever has
    /// them all is to hear when these are certain to count.
    pub fn await_own_log(&mut self, number: SegmentNumber, through: StripeId) {
        let before = self.of_logs.insert(number, vec![through]);
        let before = before.into_iter().flatten();
        for earlier in before {
            let follows = earlier.shard == through.shard && earlier.sequence <= through.sequence;
            assert!(follows, "a log does not go back");
        }
    }

    /// Takes out those that are free: all their stripes are certain to count, as `covers` says.
    pub fn take_certain(&mut self, covers: impl Fn(&StripeId) -> bool) -> Vec<SegmentNumber> {
        let certain = |_: &SegmentNumber, through: &mut Vec<StripeId>| through.iter().all(&covers);
        let taken = self.of_logs.extract_if(.., certain);
        taken.map(|(number, _)| number).collect()
    }

    /// Somebody has heard that stripes of this shard up to `covered` are certain to count.
    pub fn forget_covered(&mut self, covered: Sequence) {
        let waits = |through: &[StripeId]| through.iter().any(|at| at.sequence > covered);
        self.of_logs.retain(|_, through| waits(through));
    }

    /// True if a segment waits for a stripe of `shard` behind `before`, up to `covered`.
    pub fn waits_between(&self, shard: ShardId, before: Sequence, covered: Sequence) -> bool {
        let mut stripes = self.of_logs.values().flatten();
        stripes.any(|at| at.shard == shard && before < at.sequence && at.sequence <= covered)
    }

    /// A merge is in place, and published: the maps know all of it.
    pub fn merged(&mut self) {
        *self = EmptiedSegments::default();
    }

    /// Segments that wait for the next merge and of which nothing can have been overlooked.
    pub fn whole(&self) -> impl Iterator<Item = SegmentNumber> {
        let whole = self.of_merge.iter().filter(|(_, whole)| **whole);
        whole.map(|(number, _)| *number)
    }

    pub fn has(&self, number: SegmentNumber) -> bool {
        self.of_merge.contains_key(&number) || self.of_logs.contains_key(&number)
    }

    /// How many wait for the next merge.
    pub fn awaiting_merge(&self) -> usize {
        self.of_merge.len()
    }

    /// How many wait for stripes to be certain.
    pub fn awaiting_logs(&self) -> usize {
        self.of_logs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u32) -> SegmentNumber {
        SegmentNumber::new(number)
    }

    fn stripe(shard: u64, sequence: u64) -> StripeId {
        StripeId {
            shard: ShardId::new(shard),
            sequence: Sequence::new(sequence),
        }
    }

    #[test]
    fn a_segment_is_free_when_the_stripes_of_every_shard_are_certain() {
        let mut emptied = EmptiedSegments::default();
        emptied.await_logs(number(1), vec![stripe(0, 7), stripe(1, 3)]);
        emptied.await_logs(number(2), vec![stripe(0, 9)]);
        emptied.await_merge(number(3), true);
        emptied.await_merge(number(4), false);
        let at = Sequence::new;
        assert!(emptied.waits_between(ShardId::FIRST, at(6), at(7)));
        assert!(!emptied.waits_between(ShardId::FIRST, at(7), at(8)));
        assert!(!emptied.waits_between(ShardId::new(1), at(3), at(9)));
        let up_to = |own: u64, other: u64| {
            move |through: &StripeId| match through.shard {
                ShardId::FIRST => through.sequence <= Sequence::new(own),
                _ => through.sequence <= Sequence::new(other),
            }
        };
        assert_eq!(emptied.take_certain(up_to(8, 2)), []);
        assert_eq!(emptied.take_certain(up_to(8, 3)), [number(1)]);
        assert!(!emptied.has(number(1)) && emptied.has(number(2)) && emptied.has(number(4)));
        assert!(emptied.whole().eq([number(3)]));
        assert_eq!((emptied.awaiting_merge(), emptied.awaiting_logs()), (2, 1));
        emptied.merged();
        assert_eq!((emptied.awaiting_merge(), emptied.awaiting_logs()), (0, 0));
    }

    #[test]
    fn a_shard_remembers_of_a_segment_its_last_stripe_until_that_is_certain() {
        let mut emptied = EmptiedSegments::default();
        emptied.await_own_log(number(1), stripe(2, 5));
        emptied.await_own_log(number(1), stripe(2, 8));
        emptied.forget_covered(Sequence::new(7));
        assert_eq!(emptied.awaiting_logs(), 1);
        emptied.forget_covered(Sequence::new(8));
        assert_eq!(emptied.awaiting_logs(), 0);
    }

    #[test]
    #[should_panic(expected = "emptied once until a merge")]
    fn no_segment_waits_for_a_merge_and_for_a_log() {
        let mut emptied = EmptiedSegments::default();
        emptied.await_merge(number(1), true);
        emptied.await_logs(number(1), vec![stripe(0, 1)]);
    }
}
