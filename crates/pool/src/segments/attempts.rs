//! [`Attempts`]: how often each segment was cleaned, and which cannot be emptied. No I/O.

use crate::ids::SegmentNumber;
use block::IoError;
use std::collections::BTreeMap;

/// A segment that is not empty after so many cleanings will not be.
const ATTEMPTS_MAX: u32 = 4;

/// Why a segment cannot be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stuck {
    /// A drive is not ready with what is needed for it: it is tried again soon.
    Away,
    /// It holds a live block which cannot be read.
    Unreadable,
}

impl Stuck {
    /// By what a block, or what tells of it, could not be read.
    pub fn by(error: IoError) -> Stuck {
        match error {
            IoError::NotReady => Stuck::Away,
            _ => Stuck::Unreadable,
        }
    }
}

/// The outcome of cleaning segments: each is cleaned until it is empty or stuck.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// How often each has been cleaned.
    counts: BTreeMap<SegmentNumber, u32>,
    /// Segments that are not cleaned for now, and why.
    stuck: BTreeMap<SegmentNumber, Stuck>,
}

impl Attempts {
    /// A segment is to be cleaned. False if that was done so often that its live count will not
    /// fall: then it is stuck, as better degraded than cleaned for ever.
    pub fn begin(&mut self, number: SegmentNumber) -> bool {
        assert!(!self.is_stuck(number), "what is stuck is not cleaned");
        let count = self.counts.entry(number).or_default();
        assert!(*count <= ATTEMPTS_MAX, "too many attempts end as stuck");
        *count += 1;
        let may = *count <= ATTEMPTS_MAX;
        if !may {
            self.fail(number, Stuck::Unreadable);
        }
        may
    }

    /// A segment that was begun is as if it had not been.
    pub fn withdraw(&mut self, number: SegmentNumber) {
        if let Some(count) = self.counts.get_mut(&number) {
            *count = count.saturating_sub(1);
        }
    }

    /// No attempt at a segment counts: it was given up for want of room.
    pub fn forget_count(&mut self, number: SegmentNumber) {
        self.counts.remove(&number);
    }

    /// A segment could not be emptied. That a drive was not ready counts as no attempt.
    pub fn fail(&mut self, number: SegmentNumber, why: Stuck) {
        let known = self.stuck.entry(number).or_insert(why);
        *known = why.max(*known);
        if *known == Stuck::Away {
            self.counts.remove(&number);
        }
    }

    /// A segment is free: what was tried with it says nothing of what gets its number.
    pub fn forget(&mut self, number: SegmentNumber) {
        self.counts.remove(&number);
        self.stuck.remove(&number);
    }

    /// Drives may be ready by now. True if segments are tried again for that.
    pub fn retry_away(&mut self) -> bool {
        let before = self.stuck.len();
        self.stuck.retain(|_, why| *why != Stuck::Away);
        self.stuck.len() < before
    }

    /// All are tried again.
    pub fn retry_all(&mut self) {
        *self = Attempts::default();
    }

    /// Why a segment is not cleaned for now, if it is not.
    pub fn why_stuck(&self, number: SegmentNumber) -> Option<Stuck> {
        self.stuck.get(&number).copied()
    }

    pub fn is_stuck(&self, number: SegmentNumber) -> bool {
        self.stuck.contains_key(&number)
    }

    /// How many are stuck.
    pub fn stuck(&self) -> usize {
        self.stuck.len()
    }

    /// Some wait for a drive that was not ready.
    pub fn has_away(&self) -> bool {
        self.stuck.values().any(|why| *why == Stuck::Away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: SegmentNumber = SegmentNumber::new(7);

    #[test]
    fn a_segment_is_stuck_when_it_has_been_cleaned_too_often() {
        let mut attempts = Attempts::default();
        for _ in 0..ATTEMPTS_MAX {
            assert!(attempts.begin(NUMBER));
        }
        attempts.withdraw(NUMBER);
        assert!(attempts.begin(NUMBER), "the last one did not count");
        assert!(!attempts.begin(NUMBER));
        assert_eq!(attempts.why_stuck(NUMBER), Some(Stuck::Unreadable));
        attempts.retry_all();
        assert!(attempts.begin(NUMBER));
    }

    #[test]
    fn what_waits_for_a_drive_is_tried_again_from_the_beginning() {
        let mut attempts = Attempts::default();
        for _ in 0..3 * ATTEMPTS_MAX {
            assert!(attempts.begin(NUMBER));
            attempts.fail(NUMBER, Stuck::Away);
            assert!(attempts.has_away() && attempts.is_stuck(NUMBER));
            assert!(attempts.retry_away());
        }
        attempts.fail(NUMBER, Stuck::Unreadable);
        attempts.fail(NUMBER, Stuck::Away);
        assert!(!attempts.retry_away(), "what cannot be read is the worse");
        assert_eq!(attempts.stuck(), 1);
    }

    #[test]
    #[should_panic(expected = "what is stuck is not cleaned")]
    fn no_segment_that_is_stuck_is_cleaned() {
        let mut attempts = Attempts::default();
        attempts.fail(NUMBER, Stuck::Unreadable);
        attempts.begin(NUMBER);
    }
}
