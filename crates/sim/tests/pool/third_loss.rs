//! Pools that may lose two drives, lost them, and have room or drives for some of the redundancy
//! that is missing: they make it, and may lose a third.

use crate::cramped::create_large;
use crate::support::{BLOCK, assert_runs, open, rest, settle, volume, with_drives_of, write_runs};
use pool::{Level, PoolState, VolumeId};
use sim::SimDrive;

type Pool = pool::Pool<SimDrive>;

const DRIVE_BLOCKS: u64 = 2600;

/// A raid6 pool on the first `members` drives, full to so many percent, that lost drives 1 and 3.
async fn with_two_lost(
    drives: &[SimDrive],
    members: usize,
    filled_percent: u64,
) -> (Pool, VolumeId, u64) {
    let pool = create_large(&drives[..members], Level::Raid6, Some(members)).await;
    let usable = pool.status().usable_bytes / BLOCK as u64;
    let runs = usable * filled_percent / 100 / 16;
    let id = volume(&pool, "a", runs * 16).await;
    write_runs(&pool, id, runs).await;
    for lost in [1, 3] {
        drives[lost].die_after(0);
        write_runs(&pool, id, runs).await;
        settle().await;
    }
    (pool, id, runs)
}

/// Nothing is missing that was written, be it after the loss of another drive and another opening.
async fn lose_a_third(pool: Pool, id: VolumeId, runs: u64, drives: &[SimDrive]) {
    assert_eq!(pool.status().state, PoolState::Degraded);
    assert_eq!(pool.status().drives_to_spare, 1, "{}", pool.describe());
    drives[0].die_after(0);
    assert_runs(&pool, id, runs).await;
    write_runs(&pool, id, runs).await;
    let found = pool.scrub().await.expect("a scrub");
    assert!(found.lost.is_empty(), "{found:?}");
    pool.close().await.expect("closed");
    drop(pool);
    let pool = open(drives).await;
    assert_runs(&pool, id, runs).await;
    pool.close().await.expect("closed");
}

/// What lacked two drives stayed where it was as long as there was no room for segments that lack
/// none.
#[test]
fn a_full_raid6_can_lose_a_third_drive_after_another_has_joined() {
    with_drives_of(5, DRIVE_BLOCKS, async |drives| {
        let (pool, id, runs) = with_two_lost(&drives, 4, 97).await;
        assert_eq!(pool.status().drives_to_spare, 0);
        pool.add_drive(drives[4].clone()).await.expect("joins");
        rest().await;
        lose_a_third(pool, id, runs, &drives).await;
    });
}

#[test]
fn so_can_a_mirror_of_three_copies() {
    with_drives_of(5, DRIVE_BLOCKS, async |drives| {
        let pool = create_large(&drives[1..4], Level::Raid1, None).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        for lost in [1, 3] {
            drives[lost].die_after(0);
            write_runs(&pool, id, 25).await;
        }
        pool.add_drive(drives[0].clone()).await.expect("joins");
        rest().await;
        lose_a_third(pool, id, 25, &drives).await;
    });
}

/// So many members of a raid6 make redundancy without further drives.
fn lose_three_of(members: usize, filled_percent: u64) {
    with_drives_of(members, DRIVE_BLOCKS, async |drives| {
        let (pool, id, runs) = with_two_lost(&drives, members, filled_percent).await;
        rest().await;
        lose_a_third(pool, id, runs, &drives).await;
    });
}

/// Segments that lack none would not hold what there is, those that lack two hold more than it:
/// those between are as redundant as there is room for.
#[test]
fn a_raid6_makes_as_much_redundancy_as_it_has_room_for() {
    lose_three_of(8, 72);
}

/// Two drives are too few for segments that lack none, however little there is.
#[test]
fn a_raid6_of_four_that_is_not_full_can_lose_all_but_one() {
    lose_three_of(4, 20);
}

/// A pool that has let go of what was on a drive takes another in its place.
#[test]
fn a_full_raid6_gets_over_four_losses_one_drive_at_a_time() {
    with_drives_of(8, DRIVE_BLOCKS, async |drives| {
        let (pool, id, runs) = with_two_lost(&drives, 4, 97).await;
        for (joins, lost) in [(4, 0), (5, 2)] {
            pool.add_drive(drives[joins].clone()).await.expect("joins");
            rest().await;
            assert_eq!(pool.status().drives_to_spare, 1, "{}", pool.describe());
            drives[lost].die_after(0);
            write_runs(&pool, id, runs).await;
            settle().await;
        }
        for joins in &drives[6..8] {
            pool.add_drive(joins.clone()).await.expect("joins");
        }
        rest().await;
        assert_eq!(
            pool.status().state,
            PoolState::Online,
            "{}",
            pool.describe()
        );
        assert_eq!(pool.status().drives.len(), 4);
        assert_runs(&pool, id, runs).await;
        let found = pool.scrub().await.expect("a scrub");
        assert!(found.lost.is_empty(), "{found:?}");
        pool.close().await.expect("closed");
    });
}
