//! [`ReadySegments`]: which of the segments that lie ready may be written, and what for. No I/O.

use crate::ids::SegmentNumber;
use std::collections::BTreeSet;

/// Replay looks for stripes in segments that a durable checkpoint names, and in no others. So a
/// segment that was made ready is written only after that, and then by one shard.
#[derive(Debug, Default)]
pub(crate) struct ReadySegments {
    /// No durable checkpoint names them yet: they are not to be written.
    unannounced: BTreeSet<SegmentNumber>,
    /// Other shards were given them to write.
    lent: BTreeSet<SegmentNumber>,
    /// They were lent to this shard for moved blocks.
    for_moves: BTreeSet<SegmentNumber>,
}

impl ReadySegments {
    /// A segment was made ready.
    pub fn made(&mut self, number: SegmentNumber) {
        assert!(!self.is_lent(number), "what is lent is not made anew");
        self.unannounced.insert(number);
    }

    /// A checkpoint that names all of them is durable.
    pub fn announced(&mut self) {
        self.unannounced.clear();
    }

    /// Segments that no durable checkpoint names.
    pub fn unannounced(&self) -> &BTreeSet<SegmentNumber> {
        &self.unannounced
    }

    pub fn is_announced(&self, number: SegmentNumber) -> bool {
        !self.unannounced.contains(&number)
    }

    /// A segment becomes the map's, which needs no announcement: replay looks for nothing there.
    pub fn taken_for_map(&mut self, number: SegmentNumber) {
        assert!(!self.is_lent(number), "what is lent is its shard's");
        self.unannounced.remove(&number);
    }

    /// Another shard is given a segment to write.
    pub fn lend(&mut self, number: SegmentNumber) {
        assert!(self.is_announced(number), "replay would not look there");
        assert!(self.lent.insert(number), "one shard writes a segment");
    }

    /// Another shard has written a segment as far as it will.
    pub fn returned(&mut self, number: SegmentNumber) {
        self.lent.remove(&number);
    }

    pub fn is_lent(&self, number: SegmentNumber) -> bool {
        self.lent.contains(&number)
    }

    /// This shard may write a segment that lies ready.
    pub fn may_be_written(&self, number: SegmentNumber) -> bool {
        self.is_announced(number) && !self.is_lent(number)
    }

    /// This shard was lent a segment for moved blocks.
    pub fn borrowed_for_moves(&mut self, number: SegmentNumber) {
        self.for_moves.insert(number);
    }

    /// A segment lies ready no more.
    pub fn used(&mut self, number: SegmentNumber) {
        self.for_moves.remove(&number);
    }

    pub fn is_for_moves(&self, number: SegmentNumber) -> bool {
        self.for_moves.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SegmentNumber = SegmentNumber::new(1);

    #[test]
    fn a_segment_is_written_once_it_is_announced_and_by_one_shard() {
        let mut ready = ReadySegments::default();
        ready.made(ONE);
        assert!(!ready.may_be_written(ONE));
        ready.announced();
        assert!(ready.may_be_written(ONE));
        ready.lend(ONE);
        assert!(!ready.may_be_written(ONE) && ready.is_lent(ONE));
        ready.returned(ONE);
        assert!(ready.may_be_written(ONE));
    }

    #[test]
    #[should_panic(expected = "replay would not look there")]
    fn what_no_checkpoint_names_is_not_lent() {
        let mut ready = ReadySegments::default();
        ready.made(ONE);
        ready.lend(ONE);
    }

    #[test]
    fn what_was_borrowed_for_moves_is_so_until_it_is_opened() {
        let mut ready = ReadySegments::default();
        ready.borrowed_for_moves(ONE);
        assert!(ready.is_for_moves(ONE));
        ready.used(ONE);
        assert!(!ready.is_for_moves(ONE), "its number may come again");
    }
}
