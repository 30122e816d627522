//! Drives that leave: no label is wiped before the drive holds nothing and every member knows that
//! it is none any more, and nothing is left in the tables of what it held.

use crate::support::{
    BLOCK, Machine, assert_runs, create, heads, open, read, settle, volume, with_drives, with_pool,
    write, write_runs,
};
use pool::{DriveId, Level, Pool, PoolError, PoolState};
use sim::{Power, SimDrive};
use std::time::Duration;

fn member(pool: &Pool<SimDrive>, index: usize) -> DriveId {
    pool.status().drives[index].id
}

/// One write to the drive that was leaving failed; that took the pool offline, the drive counted as
/// gone, and its labels were wiped although it held what nobody else had.
#[test]
fn a_drive_that_fails_while_it_leaves_keeps_its_labels() {
    with_drives(4, async |drives| {
        let pool = create(&drives, Level::Raid0).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        let leaving = member(&pool, 3);
        drives[3].fail_writes(1);
        let removed = pool.remove_drive(leaving).await;
        assert!(removed.is_err(), "{removed:?}");
        settle().await;
        assert_eq!(pool.status().state, PoolState::Offline);
        let pool = open(&drives).await;
        assert_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
    });
}

/// It was said that nothing is missing without it, although nothing had been moved.
#[test]
fn a_drive_that_fails_while_it_leaves_has_not_left() {
    with_pool(Level::Raid5, 5, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        let leaving = member(&pool, 3);
        drives[3].fail_writes(1);
        let removed = pool.remove_drive(leaving).await;
        assert_eq!(removed, Err(PoolError::DriveFailed));
        assert!(matches!(pool::probe(&drives[3]).await, Ok(Some(_))));
        settle().await;
        assert_eq!(pool.status().drives.len(), 4, "{}", pool.describe());
        assert_runs(&pool, id, 25).await;
    });
}

/// The membership that forgets a drive was still on its way to the others when the drive was wiped
/// and the power failed: by what the others knew, a member had nothing any more.
#[test]
fn no_label_is_wiped_before_every_member_knows_that_the_drive_has_left() {
    for seed in 0..60 {
        let machine = Machine::new(seed, 4);
        let drives = &machine.drives;
        let labels = |drive: &SimDrive| heads(drive).map(|at| drive.content(at));
        let lived = machine.live(0, u64::MAX, async {
            let pool = create(drives, Level::Raid0).await;
            let id = volume(&pool, "a", 100).await;
            write_runs(&pool, id, 6).await;
            pool.checkpoint().await.expect("a checkpoint");
            for drive in &drives[..3] {
                drive.slow_down(2000);
            }
            let leaving = member(&pool, 3);
            let removing = reactor::spawn(async move { pool.remove_drive(leaving).await });
            let blank = vec![0; BLOCK];
            while labels(&drives[3]).iter().any(|label| *label != blank) && !removing.is_finished()
            {
                reactor::sleep(Duration::from_micros(100)).await;
            }
            id
        });
        let id = lived.expect("the drive is wiped in the end");
        for drive in drives {
            drive.slow_down(1);
        }
        let lived = machine.live(1, u64::MAX, async {
            let opened = machine.open(drives, 1).await;
            let pool = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_runs(&pool, id, 6).await;
        });
        lived.expect("the power stays on");
    }
}

/// What a drive that left had held was still in the tables. After a crash zones of it were given to
/// the drive that had its place by then and had fewer: a write behind its end failed a good drive.
#[test]
fn a_smaller_drive_gets_no_zones_of_the_one_that_had_its_place() {
    const RUNS: u64 = 60;
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let sizes = [2600, 2600, 2600, 1900, 1100];
    let drives = sizes.map(|blocks| SimDrive::new(blocks, power.clone()));
    let (members, smaller) = (&drives[..4], &drives[4]);
    let mut made = None;
    reactor::Reactor::simulated(1).run(async {
        let pool = create(members, Level::Raid5).await;
        let id = volume(&pool, "a", 16 * RUNS).await;
        // Until the drive that is to leave is used far behind the end of the other.
        for _ in 0..4 {
            write_runs(&pool, id, RUNS).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        pool.remove_drive(member(&pool, 3)).await.expect("removed");
        pool.add_drive(smaller.clone()).await.expect("added");
        made = Some(id);
    });
    drives.iter().for_each(SimDrive::lose_power);
    let id = made.expect("a volume");
    let present = [&drives[..3], &drives[4..]].concat();
    reactor::Reactor::simulated(2).run(async {
        let pool = open(&present).await;
        for turn in 0..8 {
            for run in 0..RUNS {
                write(&pool, id, run * 16, 16, (turn * 16 + run) as u8).await;
            }
        }
        assert_eq!(pool.status().drives.len(), 4, "none has failed");
        for run in 0..RUNS {
            let found = read(&pool, id, run * 16, 1).await;
            assert_eq!(found, vec![(7 * 16 + run) as u8; BLOCK]);
        }
        pool.close().await.expect("closed");
    });
}
