//! [`Victims`]: the segments that can be cleaned. No I/O.

use crate::ids::SegmentNumber;
use crate::segments::victim::Victim;
use std::collections::BTreeSet;

/// A segment can be cleaned while it is settled: nothing is written there any more, and the maps
/// had all of it at the last checkpoint.
#[derive(Default)]
pub(crate) struct Victims {
    /// Data segments that were sealed, with nothing in flight, at the last checkpoint, and that
    /// have not been emptied since.
    settled: BTreeSet<SegmentNumber>,
    /// The segment that the cleaner has left half way.
    half_way: Option<Victim>,
    /// The writer has found no room for the queue's head, and has waited while much was done about
    /// it.
    urgent: bool,
}

impl Victims {
    /// A checkpoint is durable, and these are settled.
    pub fn settle(&mut self, numbers: BTreeSet<SegmentNumber>) {
        self.settled = numbers;
    }

    pub fn settled(&self) -> &BTreeSet<SegmentNumber> {
        &self.settled
    }

    pub fn is_settled(&self, number: SegmentNumber) -> bool {
        self.settled.contains(&number)
    }

    /// What can be moved out of a segment has been, or is about to be.
    pub fn emptied(&mut self, number: SegmentNumber) {
        self.settled.remove(&number);
    }

    /// What was to be moved out of a segment stays there.
    pub fn not_emptied(&mut self, number: SegmentNumber) {
        self.settled.insert(number);
    }

    /// The cleaner ends its window in the middle of a segment.
    pub fn leave_half_way(&mut self, victim: Victim) {
        assert!(self.half_way.is_none(), "one segment is cleaned at a time");
        self.half_way = Some(victim);
    }

    pub fn half_way(&self) -> Option<&Victim> {
        self.half_way.as_ref()
    }

    /// The cleaner goes on with, or gives up, the segment that it has left half way.
    pub fn take_half_way(&mut self) -> Option<Victim> {
        self.half_way.take()
    }

    /// The cleaner gives up what it has left half way, unless that is this segment.
    pub fn give_up_other_than(&mut self, number: SegmentNumber) {
        self.half_way.take_if(|victim| victim.number != number);
    }

    /// Whether the segment that frees most is cleaned first, however soon more of it would die.
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    pub fn set_urgent(&mut self, urgent: bool) {
        self.urgent = urgent;
    }
}
