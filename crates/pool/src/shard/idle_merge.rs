//! [`IdleMerge`]: when hosts have stopped writing and deallocating, the updates that wait for the
//! maps had better be merged. Reads need not look among them then, a crash leaves next to nothing
//! to replay, and deallocated space counts as free. When somebody asks what volumes have in use,
//! the answer is as of the last merge, so the next one comes soon. No I/O.

use crate::shard::coordinator::Coordinator;
use block::BlockDevice;
use std::cell::Cell;

/// A merge is worth its while when hosts have written or deallocated this share of what would be
/// merged anyway: one of fewer updates writes nearly a node for each.
const WORTH_A_MERGE: u64 = 8;
/// In a small pool this share of the usable space decides when a merge is worth its while: what was
/// overwritten or deallocated since the last one still counts as used, which its users see.
const SMALL_POOL: u64 = 8;
/// Merges for the sake of those who ask are so many looks apart, however many ask: hosts that write
/// pay for them.
const LOOKS_BETWEEN_QUESTIONS: u64 = 5;

/// Blocks that hosts had written or deallocated at certain times, since the pool was opened.
#[derive(Default)]
pub(crate) struct IdleMerge {
    at_merge: Cell<u64>,
    at_look: Cell<u64>,
    /// Looks since the last merge.
    looks: Cell<u64>,
    /// Somebody has asked since the last merge what volumes have in use.
    asked: Cell<bool>,
}

impl IdleMerge {
    /// All blocks that hosts have `changed` are merged now.
    pub fn merging(&self, changed: u64) {
        self.at_merge.set(changed);
        self.looks.set(0);
        self.asked.set(false);
    }

    /// Somebody asks what volumes have in use.
    pub fn ask(&self) {
        self.asked.set(true);
    }

    /// One look of many in equal intervals: true where hosts have changed nothing in the last one
    /// and enough since the last merge, of which one is due after so many `updates` at the latest.
    /// True as well where they have changed anything, and somebody has asked.
    pub fn wants_merge(&self, changed: u64, updates: u64) -> bool {
        let quiet = self.at_look.replace(changed) == changed;
        let looks = self.looks.get() + 1;
        self.looks.set(looks);
        // What another shard told before it set its updates aside may be heard afterwards.
        let waiting = changed.saturating_sub(self.at_merge.get());
        let is_worth_it = quiet && waiting >= updates / WORTH_A_MERGE;
        let is_asked_for = self.asked.get() && looks >= LOOKS_BETWEEN_QUESTIONS;
        waiting > 0 && (is_worth_it || is_asked_for)
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// A look at regular intervals: has what waits for the maps merged when hosts are quiet.
    pub fn merge_when_idle(&self) {
        // A cramped pool may have room as soon as the maps know what it holds.
        let updates = match self.shard.array.cramped.get() {
            Some(_) => 0,
            None => {
                let small = self.shard.size().usable_blocks() / SMALL_POOL;
                small.min(self.shard.settings.checkpoint_updates as u64)
            }
        };
        if self
            .idle_merge
            .wants_merge(self.host_blocks_changed(), updates)
        {
            self.merge_due.set(true);
            self.shard.upkeep.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_once_when_hosts_fall_silent_after_enough() {
        let quiet = IdleMerge::default();
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
        quiet.merging(300);
        assert!(!quiet.wants_merge(250, 800), "that is old");
        assert!(!quiet.wants_merge(250, 800));
    }

    #[test]
    fn who_asks_has_little_merged_while_others_write_and_not_too_often() {
        let asked = IdleMerge::default();
        let merges = |changed| asked.wants_merge(changed, 800);
        asked.ask();
        assert!((0..5).all(|_| !merges(0)), "there is nothing to merge");
        assert!(merges(1), "however little it is");
        asked.merging(1);
        asked.ask();
        assert!((2..6).all(|changed| !merges(changed)), "it was just merged");
        assert!(merges(6), "hosts write on");
        asked.merging(6);
        assert!((7..20).all(|changed| !merges(changed)), "nobody asks");
    }

    #[test]
    fn nothing_is_never_worth_a_merge() {
        let quiet = IdleMerge::default();
        assert!(!quiet.wants_merge(0, 1));
        assert!(!quiet.wants_merge(1, 1));
        assert!(quiet.wants_merge(1, 1));
    }
}
