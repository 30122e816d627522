//! [`Quiet`]: when hosts have stopped writing, what waits for the maps had better be merged. Reads
//! need not look among the updates then, and a crash leaves next to nothing to replay. No I/O.

use std::cell::Cell;

/// A merge is worth its while when hosts have written this share of what would be merged anyway:
/// one of fewer updates writes nearly a node for each.
const WORTH_A_MERGE: u64 = 8;

/// What hosts had written at certain times, in blocks since the pool was opened.
#[derive(Default)]
pub(crate) struct Quiet {
    at_merge: Cell<u64>,
    at_look: Cell<u64>,
}

impl Quiet {
    /// All that hosts have `written` is merged now.
    pub fn merging(&self, written: u64) {
        self.at_merge.set(written);
    }

    /// One look of many in equal intervals: true where hosts have written nothing in the last one
    /// and enough since the last merge, of which one is due after so many `updates` at the latest.
    pub fn wants_merge(&self, written: u64, updates: u64) -> bool {
        let quiet = self.at_look.replace(written) == written;
        let waiting = written - self.at_merge.get();
        quiet && waiting > 0 && waiting >= updates / WORTH_A_MERGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_once_when_hosts_fall_silent_after_enough() {
        let quiet = Quiet::default();
        assert!(!quiet.wants_merge(0, 800), "nothing was ever written");
        assert!(!quiet.wants_merge(99, 800), "they write");
        assert!(!quiet.wants_merge(99, 800), "too little");
        assert!(!quiet.wants_merge(100, 800), "they write again");
        assert!(quiet.wants_merge(100, 800));
        quiet.merging(100);
        assert!(!quiet.wants_merge(100, 800), "it has been merged");
        assert!(!quiet.wants_merge(200, 800));
        quiet.merging(150);
        assert!(!quiet.wants_merge(200, 800), "a merge went before it");
        assert!(!quiet.wants_merge(250, 800));
        assert!(quiet.wants_merge(250, 800));
    }

    #[test]
    fn nothing_is_never_worth_a_merge() {
        let quiet = Quiet::default();
        assert!(!quiet.wants_merge(0, 1));
        assert!(!quiet.wants_merge(1, 1));
        assert!(quiet.wants_merge(1, 1));
    }
}
