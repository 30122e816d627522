//! A drive that joins takes its share of what the others hold, and nothing else moves.

use crate::support::{
    BLOCK, assert_runs, create, open, read, settle, volume, with_drives, write, write_runs,
};
use pool::{Level, Pool, PoolEvent, VolumeId};
use sim::SimDrive;

/// Bytes of a zone.
const ZONE: u64 = 32 * BLOCK as u64;

/// Blocks that the pool can still take.
fn room(pool: &Pool<SimDrive>) -> u64 {
    let status = pool.status();
    (status.usable_bytes - status.used_bytes) / BLOCK as u64
}

/// Returns when nothing has moved for a while.
async fn balanced(pool: &Pool<SimDrive>) {
    let mut before = u64::MAX;
    while pool.counters().rebalanced_blocks != before {
        before = pool.counters().rebalanced_blocks;
        settle().await;
    }
}

/// Free zones of the member that has fewest, and of the one that has most.
fn free_zones(pool: &Pool<SimDrive>) -> (u64, u64) {
    let members = pool.status().drives;
    let free = members.iter().map(|member| member.free_bytes / ZONE);
    let least = free.clone().min().expect("a member");
    (least, free.max().expect("a member"))
}

/// A volume of which `runs` runs of 16 blocks are written, with as many as fill the pool by that
/// percentage.
async fn fill(pool: &Pool<SimDrive>, percent: u64) -> (VolumeId, u64) {
    let runs = room(pool) * percent / 100 / 16;
    let id = volume(pool, "a", 16 * runs).await;
    write_runs(pool, id, runs).await;
    (id, runs)
}

#[test]
fn a_drive_that_joins_takes_its_share_and_everything_is_where_it_was() {
    for (level, drives) in [
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
        (Level::Raid10, 4),
    ] {
        with_drives(drives + 1, async |mut drives| {
            let new = drives.pop().expect("a drive");
            let pool = create(&drives, level).await;
            let (id, runs) = fill(&pool, 70).await;
            pool.checkpoint().await.expect("a checkpoint");
            balanced(&pool).await;
            assert_eq!(pool.counters().rebalanced_blocks, 0, "{level}: all alike");
            let relocated = pool.counters().relocated_blocks;
            pool.add_drive(new.clone()).await.expect("it joins");
            let (least, most) = free_zones(&pool);
            balanced(&pool).await;
            let (least_then, most_then) = free_zones(&pool);
            // What is open, lies ready or is the map's stays where it is.
            let even = (most_then - least_then) * 4 < most - least;
            assert!(
                even,
                "{level}: {least} to {most}, then {least_then} to {most_then}"
            );
            let share = (most - least) * 32;
            let moved = pool.counters().rebalanced_blocks;
            assert!(
                moved > share / 3 && moved < share,
                "{level}: {moved} of {share}"
            );
            assert_eq!(
                pool.counters().relocated_blocks,
                relocated,
                "no block by itself"
            );
            assert_runs(&pool, id, runs).await;
            let report = pool.scrub().await.expect("a scrub");
            assert!(report.repaired == 0 && report.lost.is_empty(), "{report:?}");
            pool.close().await.expect("closed");
            drives.push(new);
            let pool = open(&drives).await;
            assert_runs(&pool, id, runs).await;
            if level != Level::Raid0 {
                drives[0].die_after(0);
                assert_runs(&pool, id, runs).await;
            }
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn a_pool_that_was_all_but_full_holds_what_it_says_once_a_drive_joined() {
    with_drives(5, async |mut drives| {
        let new = drives.pop().expect("a drive");
        let pool = create(&drives, Level::Raid5).await;
        let (id, runs) = fill(&pool, 97).await;
        let before = room(&pool);
        pool.add_drive(new).await.expect("it joins");
        let more = room(&pool);
        assert!(more > 5 * before, "{before}, then {more}");
        let second = volume(&pool, "b", more).await;
        // Single blocks, at once: what is not yet even is waited for.
        for block in 0..more {
            write(&pool, second, block, 1, block as u8).await;
        }
        assert_runs(&pool, id, runs).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn what_was_written_while_a_drive_was_away_does_not_keep_its_space() {
    with_drives(3, async |mut drives| {
        let new = drives.pop().expect("a drive");
        let pool = create(&drives, Level::Raid0).await;
        let leaves = pool.status().drives[1].id;
        pool.remove_drive(leaves).await.expect("nothing is on it");
        let (id, runs) = fill(&pool, 90).await;
        pool.add_drive(new).await.expect("it joins");
        let more = room(&pool);
        let second = volume(&pool, "b", more).await;
        for block in 0..more {
            write(&pool, second, block, 1, block as u8).await;
        }
        assert_runs(&pool, id, runs).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_block_that_went_bad_is_put_right_on_its_way() {
    for level in [Level::Raid5, Level::Raid6, Level::Raid10] {
        with_drives(5, async |mut drives| {
            let new = drives.pop().expect("a drive");
            let pool = create(&drives, level).await;
            let (id, runs) = fill(&pool, 90).await;
            pool.checkpoint().await.expect("a checkpoint");
            // One drive has flipped a bit in everything that it has but its labels.
            for (block, mut content) in drives[0].blocks_written() {
                if (40..1260).contains(&block) {
                    content[7] ^= 1;
                    drives[0].put(block, content);
                }
            }
            pool.add_drive(new.clone()).await.expect("it joins");
            balanced(&pool).await;
            let counters = pool.counters();
            assert!(counters.repaired_blocks > 0, "{level}: {counters:?}");
            let members = pool.status().drives;
            let mut wrong = members.iter().filter(|it| it.health.corrupt_blocks > 0);
            assert_eq!(wrong.next().map(|drive| drive.index), Some(0));
            assert_runs(&pool, id, runs).await;
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn how_far_it_is_can_be_heard() {
    with_drives(5, async |mut drives| {
        let new = drives.pop().expect("a drive");
        let pool = create(&drives, Level::Raid6).await;
        fill(&pool, 70).await;
        pool.add_drive(new).await.expect("it joins");
        let mut told = Vec::new();
        while told.last().is_none_or(|(left, _)| *left > 0) {
            if let Some(PoolEvent::Balance {
                left_zones,
                total_zones,
            }) = pool.next_event().await
            {
                told.push((left_zones, total_zones));
            }
        }
        let falls = told.windows(2).all(|two| two[1].0 < two[0].0);
        assert!(told.len() > 1 && falls, "{told:?}");
        assert!(told.iter().all(|(left, total)| left < total), "{told:?}");
        pool.close().await.expect("closed");
    });
}

/// Without redundancy there is only one place where a block is.
#[test]
fn who_reads_where_a_column_was_gets_what_was_there() {
    with_drives(3, async |mut drives| {
        let new = drives.pop().expect("a drive");
        let pool = create(&drives, Level::Raid0).await;
        let (id, runs) = fill(&pool, 70).await;
        pool.close().await.expect("closed");
        // This one remembers where everything is.
        let pool = open(&drives).await;
        assert_runs(&pool, id, runs).await;
        drives.iter().for_each(|drive| drive.slow_down(400_000));
        let readers = (0..runs).map(|run| {
            let pool = pool.clone();
            reactor::spawn(async move { (run, read(&pool, id, run * 16, 16).await) })
        });
        let readers: Vec<_> = readers.collect();
        for _ in 0..100 {
            reactor::yield_now().await;
        }
        drives.iter().for_each(|drive| drive.slow_down(1));
        pool.add_drive(new).await.expect("it joins");
        balanced(&pool).await;
        assert!(pool.counters().rebalanced_blocks > 0);
        let waiting = readers.iter().filter(|reader| !reader.is_finished());
        assert!(waiting.count() as u64 > runs / 2);
        // Zones that are still read are waited for.
        let second = volume(&pool, "b", room(&pool)).await;
        for block in 0..room(&pool) {
            write(&pool, second, block, 1, 0xff).await;
        }
        for reader in readers {
            let (run, found) = reader.await;
            assert!(found.iter().all(|byte| *byte == run as u8), "{run}");
        }
        pool.close().await.expect("closed");
    });
}
