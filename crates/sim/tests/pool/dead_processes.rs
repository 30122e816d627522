//! A process dies and the power stays on: what it left in the drives' caches can be read, and is
//! lost with the power later.

use crate::support::{BLOCK, OTHER, create, open, read, take, try_open, until_cut, volume, write};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{Level, Mutation, Pool, VolumeId, plant};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::time::Duration;

/// Blocks that are written, durably, before the process dies.
const BLOCKS: u64 = 4;

/// In many small steps, so that the process dies at each of them.
async fn overwrite(pool: &Pool<SimDrive>, id: VolumeId, byte: u8) {
    for block in 0..BLOCKS {
        write(pool, id, block, 1, byte).await;
    }
}

/// Who took the pool read a superblock that was not durable, wrote its claim over the one before,
/// and lost the power: the drive had none.
#[test]
fn a_pool_outlives_a_death_a_takeover_and_a_power_failure() {
    for first in 0..48 {
        for second in 0..24 {
            let power = Power::new(1000 * first + second);
            power.switch_on(u64::MAX);
            let drives = [(); 2].map(|()| SimDrive::new(1300, power.clone()));
            let mut id = None;
            Reactor::simulated(1).run(async {
                let pool = create(&drives, Level::Raid0).await;
                let made = volume(&pool, "a", 100).await;
                overwrite(&pool, made, 1).await;
                pool.close().await.expect("closed");
                id = Some(made);
            });
            let id = id.expect("a volume");
            power.switch_on(first);
            let own = drives.clone();
            until_cut(&power, 2, async move {
                let pool = open(&own).await;
                loop {
                    overwrite(&pool, id, 2).await;
                    pool.checkpoint().await.expect("checkpoint");
                }
            });
            drives.iter().for_each(SimDrive::lose_host);
            power.switch_on(second);
            let own = drives.clone();
            until_cut(&power, 3, async move {
                let _pool = take(&own, OTHER, 9).await.expect("taken");
                std::future::pending().await
            });
            drives.iter().for_each(SimDrive::lose_power);
            power.switch_on(u64::MAX);
            Reactor::simulated(4).run(async {
                let pool = take(&drives, OTHER, 9).await.expect("taken");
                let found = read(&pool, id, 0, BLOCKS).await;
                assert!(found.iter().all(|byte| [1, 2].contains(byte)));
                pool.close().await.expect("closed");
            });
        }
    }
}

/// The number of the last volume.
fn last_volume(pool: &Pool<SimDrive>) -> u64 {
    let volumes = pool.volumes().into_iter();
    let numbers = volumes.filter_map(|volume| volume.name.parse().ok());
    numbers.max().unwrap_or(0)
}

/// Makes one volume after another, so that each label has other tables; `last` is the number of the
/// last that was acknowledged.
async fn make_volumes(drives: &[SimDrive], last: &Cell<u64>) {
    let pool = open(drives).await;
    loop {
        let next = last_volume(&pool) + 1;
        volume(&pool, &next.to_string(), 8).await;
        last.set(next);
    }
}

/// A label of a dead process landed on one slot, and the power failed while the next process wrote
/// to the other one: the drive had none. Here a process is killed, and the power fails under the
/// next one, at each operation of some labels: the pool opens, with all that it was told to have.
#[test]
fn a_label_that_comes_late_and_a_power_failure_leave_one() {
    labels_come_late();
    let _planted = plant(Mutation::WritesEndsAtOnce);
    let found = catch_unwind(labels_come_late);
    assert!(found.is_err(), "a label a slot is not enough");
}

fn labels_come_late() {
    let mut late = 0;
    for first in 100..135 {
        for second in (100..160).filter(|second| (first + 2 * second) % 5 == 0) {
            let power = Power::new(1000 * first + second);
            power.switch_on(u64::MAX);
            let drives = [(); 2].map(|()| SimDrive::new(1300, power.clone()));
            Reactor::simulated(1).run(async {
                let pool = create(&drives, Level::Raid0).await;
                pool.close().await.expect("closed");
            });
            let last = Rc::new(Cell::new(0));
            for (seed, fuse) in [(2, first), (3, second)] {
                power.switch_on(fuse);
                let (own, last) = (drives.clone(), last.clone());
                until_cut(&power, seed, async move {
                    make_volumes(&own, &last).await;
                });
                if seed == 2 {
                    for drive in &drives {
                        drive.lose_host_but(|| true);
                        late += drive.late().len();
                    }
                }
            }
            for drive in &drives {
                drive.late().into_iter().for_each(|it| drive.land_late(it));
                drive.lose_power();
            }
            power.switch_on(u64::MAX);
            Reactor::simulated(4).run(async {
                let pool = try_open(&drives, 5, false).await;
                let pool = pool.unwrap_or_else(|error| panic!("{first} {second}: {error}"));
                assert!(last_volume(&pool) >= last.get(), "{first} {second}");
                pool.close().await.expect("closed");
            });
        }
    }
    assert!(late > 100, "{late} requests");
}

/// Writes every block of a volume, in runs.
async fn write_all(pool: &Pool<SimDrive>, id: VolumeId, blocks: u64, byte: u8) {
    for start in (0..blocks).step_by(16) {
        write(pool, id, start, 16, byte).await;
    }
}

/// Requests of a killed process were still on their way when the pool was opened: drives forgot, or
/// wrote over, what lay by then in zones that the tables had called free.
#[test]
fn requests_that_outlast_their_process_harm_nothing() {
    /// Most of what the pool can hold.
    const FILL: u64 = 1200;
    let mut late = 0;
    for (level, drives) in [(Level::Raid0, 1), (Level::Raid5, 3)] {
        for fuse in (200..1400).step_by(40) {
            let power = Power::new(fuse);
            power.switch_on(u64::MAX);
            let drives: Vec<SimDrive> = (0..drives)
                .map(|_| SimDrive::new(2600, power.clone()))
                .collect();
            let mut id = None;
            Reactor::simulated(1).run(async {
                let pool = create(&drives, level).await;
                let made = volume(&pool, "a", FILL).await;
                write_all(&pool, made, FILL, 1).await;
                pool.close().await.expect("closed");
                id = Some(made);
            });
            let id = id.expect("a volume");
            power.switch_on(fuse);
            let own = drives.clone();
            until_cut(&power, 2, async move {
                let pool = open(&own).await;
                for byte in 2.. {
                    write_all(&pool, id, FILL, byte).await;
                    pool.checkpoint().await.expect("checkpoint");
                }
            });
            for drive in &drives {
                drive.lose_host_but(|| true);
                late += drive.late().len();
            }
            power.switch_on(u64::MAX);
            Reactor::simulated(4).run(async {
                let own = drives.clone();
                let landing = reactor::spawn(async move {
                    reactor::sleep(Duration::from_millis(3900)).await;
                    for drive in own {
                        drive.late().into_iter().for_each(|it| drive.land_late(it));
                    }
                });
                let pool = open(&drives).await;
                write_all(&pool, id, FILL, 200).await;
                landing.await;
                let found = read(&pool, id, 0, FILL).await;
                assert!(found.iter().all(|byte| *byte == 200), "{level} {fuse}");
                pool.close().await.expect("closed");
            });
        }
    }
    assert!(late > 20, "{late} requests");
}

/// Two drives of a mirror with a volume of which so many blocks are written; then the pool is
/// closed, or its process dies.
fn used(size: u64, blocks: u64, closes: bool) -> ([SimDrive; 2], VolumeId) {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives = [(); 2].map(|()| SimDrive::new(size, power.clone()));
    let mut id = None;
    Reactor::simulated(1).run(async {
        let pool = create(&drives, Level::Raid1).await;
        let made = volume(&pool, "a", blocks).await;
        write_all(&pool, made, blocks, 1).await;
        if closes {
            pool.close().await.expect("closed");
        }
        id = Some(made);
    });
    drives.iter().for_each(SimDrive::lose_host);
    (drives, id.expect("a volume"))
}

/// How long it takes to open the pool, and until a volume of it has been overwritten.
fn reopen(drives: &[SimDrive], id: VolumeId, closes: bool) -> (Duration, Duration) {
    let mut times = None;
    Reactor::simulated(2).run(async {
        let begun = reactor::now();
        let pool = open(drives).await;
        let opened = reactor::now() - begun;
        overwrite(&pool, id, 2).await;
        times = Some((opened, reactor::now() - begun));
        if closes {
            pool.close().await.expect("closed");
        }
    });
    drives.iter().for_each(SimDrive::lose_host);
    times.expect("opened")
}

/// Blocks of a drive on which there is always plenty of room, and of one that 640 blocks all but
/// fill.
const ROOMY: u64 = 3000;
const TIGHT: u64 = 1300;

/// Who closes a pool has nothing under way: the next opening uses all that is free at once. After
/// the death of a process hosts wait only where the pool is all but full.
#[test]
fn only_a_pool_that_is_short_of_space_lets_hosts_wait_after_a_crash() {
    let second = Duration::from_secs(1);
    for (size, closes, waits) in [
        (ROOMY, true, false),
        (ROOMY, false, false),
        (TIGHT, true, false),
        (TIGHT, false, true),
    ] {
        let (drives, id) = used(size, 640, closes);
        let (opened, written) = reopen(&drives, id, true);
        assert!(opened < second, "{size} {closes}: {opened:?}");
        assert_eq!(written > 2 * second, waits, "{size} {closes}: {written:?}");
    }
}

/// A process that used what was set apart, and died before anything else might be used, leaves a
/// pool that serves; so do many, one after the other.
#[test]
fn a_pool_outlives_one_death_soon_after_another() {
    let (drives, id) = used(ROOMY, 640, false);
    for death in 0..6 {
        let (_, written) = reopen(&drives, id, false);
        assert!(written < Duration::from_secs(5), "{death}: {written:?}");
    }
    let (_, written) = reopen(&drives, id, true);
    assert!(written < Duration::from_secs(5), "{written:?}");
}

/// The former holder may go on until it knows that the pool was taken, so whoever takes it relies
/// on nothing that was set apart: an opening after the death of one who was about to waits.
#[test]
fn a_claim_by_force_leaves_nothing_set_apart() {
    let (drives, id) = used(ROOMY, 640, false);
    let own = drives.clone();
    Reactor::simulated(2).run(async {
        let taking = reactor::spawn(async move { take(&own, OTHER, 9).await.is_ok() });
        reactor::sleep(Duration::from_secs(1)).await;
        assert!(!taking.is_finished(), "it waits for the former holder");
    });
    drives.iter().for_each(SimDrive::lose_host);
    Reactor::simulated(3).run(async {
        let begun = reactor::now();
        let pool = take(&drives, OTHER, 10).await.expect("its own by now");
        overwrite(&pool, id, 2).await;
        let written = reactor::now() - begun;
        assert!(written > Duration::from_secs(2), "{written:?}");
        pool.close().await.expect("closed");
    });
}

/// What a dead process has left on its way arrives after others have flushed: a flush that comes
/// after it makes it durable, over what had been written to the place, and the earlier one does
/// not.
#[test]
fn a_write_that_arrives_late_waits_for_a_flush_of_its_own() {
    for flushes_again in [false, true] {
        let power = Power::new(1);
        power.switch_on(u64::MAX);
        let drive = SimDrive::new(1300, power);
        let filled = |byte| {
            let mut buffer = Buffer::new(BLOCK);
            buffer.fill(byte);
            buffer
        };
        let dead = drive.clone();
        Reactor::simulated(1).run(async {
            let write = dead.write(Lba(9), filled(1), Durability::Cached);
            let begun = reactor::timeout(Duration::from_nanos(1), write).await;
            assert!(begun.is_err(), "it is on its way");
        });
        drive.lose_host_but(|| true);
        let late = drive.late();
        assert_eq!(late.len(), 1);
        Reactor::simulated(2).run(async {
            let written = drive.write(Lba(9), filled(2), Durability::Cached).await;
            written.1.expect("written");
            drive.flush().await.expect("flushed");
            drive.land_late(late[0]);
            if flushes_again {
                drive.flush().await.expect("flushed");
                drive.lose_power();
            }
            let byte = drive.content(9)[0];
            assert_eq!(byte, 1, "flushed again: {flushes_again}");
        });
    }
}
