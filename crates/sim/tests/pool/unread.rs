//! Drives that do not read for a moment, more of them than redundancy allows for: what cannot be
//! read now must not be taken for never written.

use crate::support::{BLOCK, copies, create, try_open, volume, write};
use block::{BlockDevice, Buffer, Lba};
use pool::{Level, Pool, PoolError};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

fn switched_on(count: usize) -> (Rc<Power>, Vec<SimDrive>) {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = (0..count).map(|_| SimDrive::new(1300, power.clone()));
    let drives = drives.collect();
    (power, drives)
}

fn cut_power(power: &Power, drives: &[SimDrive]) {
    drives.iter().for_each(SimDrive::lose_power);
    power.switch_on(u64::MAX);
}

/// From the `from`th operation on drives are not ready for so many.
async fn hiccup(power: Rc<Power>, drives: Vec<SimDrive>, from: u64, operations: u64) {
    while power.operations() < from {
        reactor::sleep(Duration::from_micros(1)).await;
    }
    for drive in drives {
        drive.not_ready_for(operations);
    }
}

/// What the first blocks of the first volume read as; `None`: some cannot be read.
async fn contents(pool: &Pool<SimDrive>, blocks: u64) -> BTreeSet<Option<u8>> {
    let device = pool.volume(pool.volumes()[0].id).expect("the volume");
    let mut found = BTreeSet::new();
    for block in 0..blocks {
        let (buffer, read) = device.read(Lba(block), Buffer::new(BLOCK)).await;
        found.insert(read.ok().map(|()| buffer[0]));
    }
    found
}

fn names(pool: &Pool<SimDrive>) -> Vec<String> {
    pool.volumes().into_iter().map(|it| it.name).collect()
}

/// Levels, how many drives, and which of them is absent: no redundancy is left.
const BARE: [(Level, usize, Option<usize>); 4] = [
    (Level::Raid0, 1, None),
    (Level::Raid1, 2, Some(0)),
    (Level::Raid1, 2, Some(1)),
    (Level::Raid5, 3, Some(0)),
];

fn without(drives: &[SimDrive], absent: Option<usize>) -> Vec<SimDrive> {
    let drives = drives.iter().enumerate();
    let given = drives.filter(|(at, _)| Some(*at) != absent);
    given.map(|(_, drive)| drive.clone()).collect()
}

#[test]
fn a_label_that_is_not_read_at_once_does_not_take_the_pool_back() {
    for (level, count, absent) in BARE {
        for from in 0..60 {
            let (power, drives) = switched_on(count);
            Reactor::simulated(1).run(async {
                let pool = create(&drives, level).await;
                volume(&pool, "a", 100).await;
                // The last thing that is published.
                let id = volume(&pool, "b", 100).await;
                write(&pool, id, 0, 16, 2).await;
            });
            cut_power(&power, &drives);
            let given = without(&drives, absent);
            let begun = power.operations();
            Reactor::simulated(2).run(async {
                let flaky = given.clone();
                drop(reactor::spawn(hiccup(
                    power.clone(),
                    flaky,
                    begun + from,
                    1,
                )));
                match try_open(&given, 4, false).await {
                    Ok(pool) => assert_eq!(names(&pool), ["a", "b"], "{level} {absent:?} {from}"),
                    // What a drive would not write or flush is known.
                    Err(error) => assert!(
                        matches!(error, PoolError::Offline(_) | PoolError::NoPool),
                        "{error}"
                    ),
                }
            });
            given.iter().for_each(|drive| drive.not_ready_for(0));
            cut_power(&power, &drives);
            Reactor::simulated(3).run(async {
                let pool = try_open(&given, 7, false).await.expect("opens");
                assert_eq!(names(&pool), ["a", "b"], "{level} {absent:?} {from}");
            });
        }
    }
}

#[test]
fn a_label_that_is_never_read_is_not_taken_for_older_unless_that_is_accepted() {
    let mut lost = 0;
    for at_end in [false, true] {
        let (power, drives) = switched_on(2);
        Reactor::simulated(1).run(async {
            let pool = create(&drives, Level::Raid1).await;
            volume(&pool, "a", 100).await;
            volume(&pool, "b", 100).await;
        });
        cut_power(&power, &drives);
        for drive in &drives {
            let last = drive.geometry().block_count - 1;
            let nth = usize::from(at_end);
            drive.make_unreadable([1, last][nth]);
            drive.make_unreadable(copies(drive)[nth]);
        }
        Reactor::simulated(3).run(async {
            let refused = Some(PoolError::LabelUnreadable { index: 0 });
            // Whichever it is: nobody knows that it is not the latest.
            for drive in &drives {
                let alone = try_open(std::slice::from_ref(drive), 4, false).await;
                assert_eq!(alone.err(), refused);
            }
            assert_eq!(try_open(&drives, 5, false).await.err(), refused);
            let pool = try_open(&drives, 6, true)
                .await
                .expect("the loss is accepted");
            lost += usize::from(names(&pool) == ["a"]);
            pool.close().await.expect("closed");
            // It has been written again.
            try_open(&drives, 7, false).await.expect("opens");
        });
    }
    assert_eq!(lost, 1, "one of them was the latest");
}

#[test]
fn drives_that_are_not_ready_do_not_end_the_log() {
    let mut refused = 0;
    for (level, count, absent) in BARE {
        for from in (0..120).step_by(3) {
            for operations in [4, 40, 2000] {
                let (power, drives) = switched_on(count);
                Reactor::simulated(1).run(async {
                    let pool = create(&drives, level).await;
                    let id = volume(&pool, "a", 400).await;
                    write(&pool, id, 0, 64, 1).await;
                    pool.checkpoint().await.expect("checkpoint");
                    for start in (0..64).step_by(16) {
                        write(&pool, id, start, 16, 2).await;
                    }
                });
                cut_power(&power, &drives);
                let given = without(&drives, absent);
                let begun = power.operations();
                Reactor::simulated(2).run(async {
                    let flaky = given.clone();
                    let hiccup = hiccup(power.clone(), flaky, begun + from, operations);
                    drop(reactor::spawn(hiccup));
                    match try_open(&given, 4, false).await {
                        Ok(pool) => {
                            let found = contents(&pool, 64).await;
                            let right = found.iter().flatten().all(|found| *found == 2);
                            assert!(right, "{level} {absent:?} {from} {operations}: {found:?}");
                        }
                        Err(_) => refused += 1,
                    }
                });
                given.iter().for_each(|drive| drive.not_ready_for(0));
                cut_power(&power, &drives);
                Reactor::simulated(3).run(async {
                    let pool = try_open(&given, 7, false)
                        .await
                        .expect("nothing is wrong any more");
                    let found = contents(&pool, 64).await;
                    let right = found == BTreeSet::from([Some(2)]);
                    assert!(right, "{level} {absent:?} {from} {operations}: {found:?}");
                });
            }
        }
    }
    assert!(refused > 0, "some are not ready for long");
}

#[test]
fn a_map_is_not_given_up_for_drives_that_are_not_ready_for_a_moment() {
    for operations in 0..24 {
        let (power, drives) = switched_on(2);
        Reactor::simulated(1).run(async {
            let pool = create(&drives, Level::Raid1).await;
            let id = volume(&pool, "a", 400).await;
            for start in (0..400).step_by(16) {
                write(&pool, id, start, 16, 1).await;
            }
            pool.close().await.expect("closed");
        });
        Reactor::simulated(2).run(async {
            let pool = try_open(&drives, 4, false).await.expect("opens");
            reactor::sleep(Duration::from_secs(2)).await;
            let id = pool.volumes()[0].id;
            write(&pool, id, 0, 1, 1).await;
            drives
                .iter()
                .for_each(|drive| drive.not_ready_for(operations));
            // Whether it comes through or takes the pool out of service is all one.
            let _ = pool.checkpoint().await;
            reactor::sleep(Duration::from_secs(5)).await;
            drives.iter().for_each(|drive| drive.not_ready_for(0));
            let _ = pool.close().await;
        });
        cut_power(&power, &drives);
        Reactor::simulated(3).run(async {
            let pool = try_open(&drives, 6, false).await.expect("opens");
            reactor::sleep(Duration::from_secs(2)).await;
            let found = contents(&pool, 400).await;
            assert_eq!(found, BTreeSet::from([Some(1)]), "{operations}");
        });
    }
}

#[test]
fn a_checkpoint_that_nobody_goes_on_with_loses_nothing() {
    for micros in (0..600).step_by(5) {
        let (power, drives) = switched_on(2);
        Reactor::simulated(1).run(async {
            let pool = create(&drives, Level::Raid1).await;
            let id = volume(&pool, "a", 400).await;
            write(&pool, id, 0, 16, 1).await;
            let _ = reactor::timeout(Duration::from_micros(micros), pool.checkpoint()).await;
            let _ = pool.checkpoint().await;
            let _ = pool.close().await;
        });
        cut_power(&power, &drives);
        Reactor::simulated(2).run(async {
            let pool = try_open(&drives, 4, false).await.expect("opens");
            let found = contents(&pool, 16).await;
            assert_eq!(found, BTreeSet::from([Some(1)]), "{micros}");
        });
    }
}
