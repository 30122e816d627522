//! What the table of `docs/pool.md` promises where one drive does one thing wrong: no trial finds
//! less, and some trial finds no more.

use pool::Level;
use sim::promises::{self, COLUMNS, Fault, Promise, Redundancy, TABLE, run_cell};

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

/// Where the first column is gone, headers were looked for in one read: the pool was refused, or
/// the last stripe missing, when that was wrong.
#[test]
fn one_wrong_read_hides_no_header_that_is_rebuilt() {
    let kept = promises::run(1_000_885);
    kept.unwrap_or_else(|found| panic!("{found}"));
}

/// A block of a lost drive was lost, too, when what it was rebuilt from was read wrong.
#[test]
fn one_wrong_read_loses_no_block_that_is_rebuilt() {
    let is_it = |(fault, _): &(Fault, _)| fault.name() == "wrong data on one read";
    let row = TABLE.iter().position(is_it).expect("a row of the table");
    for (column, seed) in [(4, 1_000_808), (4, 1_000_829), (5, 1_000_880)] {
        let kept = run_cell(row, column, seed);
        kept.unwrap_or_else(|found| panic!("{found}"));
    }
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<String> {
    let cells = line.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn the_page_has_the_promises_as_they_are() {
    let page = include_str!("../../../docs/pool.md");
    let (_, section) = page
        .split_once("\n## One drive that does wrong\n")
        .expect("the section");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let lines = section.lines().filter(|line| line.starts_with('|'));
    let mut lines = lines.map(cells);
    let column = |(level, redundancy): (Level, Redundancy)| match redundancy {
        Redundancy::Whole => level.to_string(),
        Redundancy::None => format!("{level}, none left"),
    };
    let head = lines.next().expect("a head");
    assert_eq!(head[1..], COLUMNS.map(column));
    let expected = TABLE.map(|(fault, promises)| {
        let promises = promises.map(|promise| promise.name().to_owned());
        [vec![fault.name().to_owned()], promises.to_vec()].concat()
    });
    // Between the two is a line.
    assert_eq!(lines.skip(1).collect::<Vec<_>>(), expected);
}
