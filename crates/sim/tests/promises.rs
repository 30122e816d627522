//! What the table of `docs/pool.md` promises where one drive does one thing wrong: no trial finds
//! less, and some trial finds no more.

use sim::promises::{Promise, TABLE, run_cell};

/// Trials of each fault at least, and at most where none has found no more than is promised.
const TRIALS: (u64, u64) = (40, 1000);

/// Tries every fault with one level.
fn keeps(column: usize) {
    for (row, (fault, promises)) in TABLE.iter().enumerate() {
        let promised = promises[column];
        let mut least = Promise::Right;
        for seed in 1..=TRIALS.1 {
            if seed > TRIALS.0 && least == promised {
                break;
            }
            let tried = run_cell(row, column, seed);
            let (kept, _) = tried.unwrap_or_else(|found| panic!("{found}"));
            least = least.max(kept);
        }
        assert_eq!(least, promised, "{fault:?}: no trial finds so little");
    }
}

#[test]
fn raid1_keeps_what_it_promises() {
    keeps(0);
}

#[test]
fn raid5_keeps_what_it_promises() {
    keeps(1);
}

#[test]
fn raid6_keeps_what_it_promises() {
    keeps(2);
}

#[test]
fn raid0_keeps_what_it_promises() {
    keeps(3);
}

#[test]
fn raid1_without_redundancy_keeps_what_it_promises() {
    keeps(4);
}

#[test]
fn raid5_without_redundancy_keeps_what_it_promises() {
    keeps(5);
}

#[test]
fn raid6_without_redundancy_keeps_what_it_promises() {
    keeps(6);
}
