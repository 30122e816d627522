//! [`LogOrder`]: the stripes of a log that are under way, and how far it has come. No I/O.

use crate::ids::Sequence;
use crate::mutation::Mutation;
use crate::stripes::item::Completed;
use std::collections::BTreeMap;

/// Stripes of moved blocks under way at once, at most: as many as keep the drives busy.
pub(crate) const MOVED_IN_FLIGHT_MAX: usize = 8;

/// Stripes get their numbers in the order in which they begin, land in any order, and are applied
/// in that of their numbers.
pub(crate) struct LogOrder {
    /// The last number given to a stripe.
    given: Sequence,
    /// Stripes up to this one are durable and in the overlay (or the map).
    applied: Sequence,
    /// A stripe that is durable says that every one up to this was: recovery counts them.
    covered: Sequence,
    /// Stripes that are durable but wait for an earlier one.
    completed: BTreeMap<Sequence, Completed>,
    in_flight: usize,
    /// Those of them that hold moved blocks.
    moved_in_flight: usize,
    /// While positive, the writer starts no stripe.
    gate: usize,
}

impl LogOrder {
    /// A log that goes on behind `sequence`.
    pub fn new(sequence: Sequence) -> LogOrder {
        LogOrder {
            given: sequence,
            applied: sequence,
            covered: sequence,
            completed: BTreeMap::new(),
            in_flight: 0,
            moved_in_flight: 0,
            gate: 0,
        }
    }

    /// Stripes up to `sequence` were found and are applied.
    pub fn go_on_behind(&mut self, sequence: Sequence) {
        assert!(self.in_flight == 0, "a log is replayed before it goes on");
        self.given = sequence;
        self.applied = sequence;
    }

    /// The last number given to a stripe.
    pub fn given(&self) -> Sequence {
        self.given
    }

    /// Stripes up to this one are durable and applied.
    pub fn applied(&self) -> Sequence {
        self.applied
    }

    /// Stripes up to this one are certain to count after a crash.
    pub fn covered(&self) -> Sequence {
        self.covered
    }

    /// The next stripe has its number now.
    pub fn give(&mut self, sequence: Sequence) {
        assert_eq!(
            sequence,
            self.given.next(),
            "numbers are given without a gap"
        );
        self.given = sequence;
    }

    /// A stripe that has its number is on its way to the drives.
    pub fn begin(&mut self, moved: bool) {
        self.in_flight += 1;
        self.moved_in_flight += usize::from(moved);
    }

    /// It is there, or never will be.
    pub fn landed(&mut self, sequence: Sequence, moved: bool, completed: Completed) {
        let moved = usize::from(moved);
        assert!(
            self.in_flight > 0 && self.moved_in_flight >= moved,
            "a stripe lands once"
        );
        self.in_flight -= 1;
        self.moved_in_flight -= moved;
        self.completed.insert(sequence, completed);
    }

    /// The next stripe that can be applied, if it has landed.
    pub fn apply_next(&mut self) -> Option<Completed> {
        let next = match Mutation::AppliesOutOfOrder.is_planted() {
            true => self.completed.pop_first().map(|(_, stripe)| stripe),
            false => self.completed.remove(&self.applied.next()),
        }?;
        self.applied = self.applied.next();
        assert!(self.applied <= self.given, "what is applied has a number");
        if next.result.is_ok() {
            self.covered = self.covered.max(next.durable_through);
        }
        Some(next)
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Those under way that hold moved blocks.
    pub fn moved_in_flight(&self) -> usize {
        self.moved_in_flight
    }

    /// Those under way that hold what hosts wrote.
    pub fn hosts_in_flight(&self) -> usize {
        self.in_flight - self.moved_in_flight
    }

    /// The writer starts no stripe until [`open_gate`](LogOrder::open_gate) is called as often.
    pub fn close_gate(&mut self) {
        self.gate += 1;
    }

    pub fn open_gate(&mut self) {
        assert!(self.gate > 0, "a gate that is opened was closed");
        self.gate -= 1;
    }

    /// How often it has been closed and not opened.
    pub fn gate(&self) -> usize {
        self.gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SegmentNumber;
    use block::IoError;

    fn at(number: u64) -> Sequence {
        Sequence::new(number)
    }

    fn stripe(durable_through: u64, result: Result<(), IoError>) -> Completed {
        Completed {
            segment: SegmentNumber::new(1),
            row: 0,
            rows: 1,
            durable_through: at(durable_through),
            records: Vec::new(),
            requests: Vec::new(),
            result,
        }
    }

    #[test]
    fn stripes_that_land_in_any_order_are_applied_in_that_of_their_numbers() {
        let mut log = LogOrder::new(at(7));
        for sequence in 8..11 {
            log.give(at(sequence));
            log.begin(sequence == 9);
        }
        assert_eq!((log.in_flight(), log.hosts_in_flight()), (3, 2));
        log.landed(at(10), false, stripe(7, Ok(())));
        log.landed(at(9), true, stripe(7, Ok(())));
        assert!(log.apply_next().is_none(), "the first is not there yet");
        log.landed(at(8), false, stripe(6, Ok(())));
        for applied in 8..11 {
            assert!(log.apply_next().is_some());
            assert_eq!(log.applied(), at(applied));
        }
        assert!(log.apply_next().is_none());
        assert_eq!((log.in_flight(), log.moved_in_flight()), (0, 0));
    }

    #[test]
    fn a_stripe_that_failed_covers_nothing() {
        let mut log = LogOrder::new(at(7));
        for (sequence, result, covered) in [(8, Err(IoError::Internal), 7), (9, Ok(()), 8)] {
            log.give(at(sequence));
            log.begin(false);
            log.landed(at(sequence), false, stripe(sequence - 1, result));
            assert!(log.apply_next().is_some());
            assert_eq!(log.covered(), at(covered));
        }
    }

    #[test]
    #[should_panic(expected = "a stripe lands once")]
    fn no_stripe_lands_twice() {
        let mut log = LogOrder::new(at(0));
        log.give(at(1));
        log.begin(false);
        log.landed(at(1), false, stripe(0, Ok(())));
        log.landed(at(1), false, stripe(0, Ok(())));
    }
}
