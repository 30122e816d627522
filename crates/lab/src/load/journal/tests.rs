//! The journal accepts exactly what an honest device may return, and names what it may not.

use super::*;
use proptest::prelude::*;

const BLOCK: usize = 512;

fn journal() -> Journal {
    Journal::new(42, 100, 16, BLOCK as u32)
}

fn judge(journal: &Journal, block: u64, data: &[u8]) -> Result<(), Mismatch> {
    let mut floors = Vec::new();
    journal.floors(block, (data.len() / BLOCK) as u64, &mut floors);
    journal.check(block, data, &floors)
}

#[test]
fn an_acknowledged_write_must_be_found() {
    let mut journal = journal();
    let mut first = vec![0; 2 * BLOCK];
    assert!(journal.begin(104, &mut first));
    journal.acknowledge(104, 2);
    assert_eq!(judge(&journal, 104, &first), Ok(()));
    let found = judge(&journal, 104, &vec![0; 2 * BLOCK]);
    assert!(
        matches!(
            found,
            Err(Mismatch::Lost {
                block: 104,
                acknowledged: 1,
                ..
            })
        ),
        "{found:?}"
    );
    let mut second = vec![0; BLOCK];
    assert!(journal.begin(105, &mut second));
    journal.acknowledge(105, 1);
    let found = judge(&journal, 104, &first);
    assert_eq!(
        found,
        Err(Mismatch::Stale {
            block: 105,
            found: 1,
            acknowledged: 2
        })
    );
}

#[test]
fn a_write_without_acknowledgement_may_be_found_or_not() {
    let mut journal = journal();
    let mut old = vec![0; BLOCK];
    let mut new = vec![0; BLOCK];
    assert!(journal.begin(100, &mut old));
    journal.acknowledge(100, 1);
    assert!(journal.begin(100, &mut new));
    assert_eq!(judge(&journal, 100, &old), Ok(()), "while in flight");
    assert_eq!(judge(&journal, 100, &new), Ok(()), "while in flight");
    journal.abandon(100, 1);
    assert_eq!(
        judge(&journal, 100, &old),
        Ok(()),
        "after its end is unknown"
    );
    assert_eq!(
        judge(&journal, 100, &new),
        Ok(()),
        "after its end is unknown"
    );
    let torn = [&new[..256], &old[256..]].concat();
    assert!(matches!(
        judge(&journal, 100, &torn),
        Err(Mismatch::Torn { block: 100, .. })
    ));
}

#[test]
fn a_read_that_started_before_an_acknowledgement_may_find_the_older_write() {
    let mut journal = journal();
    let mut old = vec![0; BLOCK];
    let mut new = vec![0; BLOCK];
    assert!(journal.begin(100, &mut old));
    journal.acknowledge(100, 1);
    let mut floors = Vec::new();
    journal.floors(100, 1, &mut floors);
    assert!(journal.begin(100, &mut new));
    journal.acknowledge(100, 1);
    assert_eq!(journal.check(100, &old, &floors), Ok(()));
    assert_eq!(journal.check(100, &new, &floors), Ok(()));
}

#[test]
fn content_of_another_block_or_of_the_future_is_refused() {
    let mut journal = journal();
    let mut data = vec![0; BLOCK];
    assert!(journal.begin(100, &mut data));
    journal.acknowledge(100, 1);
    let found = judge(&journal, 101, &data);
    assert_eq!(
        found,
        Err(Mismatch::Misplaced {
            block: 101,
            found: 100
        })
    );
    let mut future = vec![0; BLOCK];
    Stamp {
        seed: 42,
        block: 100,
        generation: 2,
    }
    .write(&mut future);
    let found = judge(&journal, 100, &future);
    assert_eq!(
        found,
        Err(Mismatch::FromNowhere {
            block: 100,
            found: 2,
            newest: 1
        })
    );
}

#[test]
fn another_runs_stamp_counts_as_none() {
    let mut journal = journal();
    let mut foreign = vec![0; BLOCK];
    Stamp {
        seed: 7,
        block: 100,
        generation: 9,
    }
    .write(&mut foreign);
    assert_eq!(
        judge(&journal, 100, &foreign),
        Ok(()),
        "before the first write"
    );
    assert!(journal.begin(100, &mut vec![0; BLOCK]));
    journal.acknowledge(100, 1);
    assert!(matches!(
        judge(&journal, 100, &foreign),
        Err(Mismatch::Lost { .. })
    ));
}

#[test]
fn writes_of_one_block_do_not_overlap_and_stay_inside() {
    let mut journal = journal();
    let mut data = vec![0; 2 * BLOCK];
    assert!(journal.begin(100, &mut data));
    assert!(!journal.begin(101, &mut data), "overlaps the one in flight");
    assert!(!journal.begin(99, &mut data), "starts before the region");
    assert!(!journal.begin(115, &mut data), "ends after the region");
    assert!(!journal.begin(u64::MAX, &mut data), "wraps");
    journal.acknowledge(100, 2);
    assert!(journal.begin(101, &mut data));
}

proptest! {
    /// A device that applies unacknowledged writes or not, at random, and loses no acknowledged
    /// one is never accused; one that loses an acknowledged write always is.
    #[test]
    fn honest_devices_pass_and_forgetful_ones_do_not(
        steps in proptest::collection::vec((0u64..8, 0u8..3), 1..60), lose: bool,
    ) {
        let mut journal = Journal::new(3, 0, 8, BLOCK as u32);
        let mut device = vec![vec![0u8; BLOCK]; 8];
        let mut previous: Option<(usize, Vec<u8>)> = None;
        for (block, outcome) in steps {
            let mut data = vec![0; BLOCK];
            prop_assert!(journal.begin(block, &mut data));
            let before = device[block as usize].clone();
            match outcome {
                0 => {
                    device[block as usize] = data;
                    journal.acknowledge(block, 1);
                    previous = Some((block as usize, before));
                }
                1 => {
                    device[block as usize] = data;
                    journal.abandon(block, 1);
                    previous = None;
                }
                _ => journal.abandon(block, 1),
            }
        }
        match (lose, previous) {
            (true, Some((block, before))) => {
                prop_assert!(judge(&journal, block as u64, &before).is_err());
            }
            _ => prop_assert_eq!(judge(&journal, 0, &device.concat()), Ok(())),
        }
    }
}

#[test]
fn a_saved_journal_loads_and_a_damaged_one_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut journal = journal();
    let mut data = vec![0; 3 * BLOCK];
    assert!(journal.begin(102, &mut data));
    journal.acknowledge(102, 3);
    assert!(journal.begin(103, &mut data[..BLOCK]));
    journal.save(&path).unwrap();
    journal.abandon(103, 1);
    assert_eq!(Journal::load(&path).unwrap(), journal);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(Journal::load(&path), Err(JournalError::Format(_))));
    std::fs::write(&path, b"x").unwrap();
    assert!(matches!(Journal::load(&path), Err(JournalError::Format(_))));
}
