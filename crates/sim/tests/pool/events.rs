//! What an operator hears of a pool.

use crate::support::{
    BLOCK, assert_runs, create, open, settle, told, try_write, volume, with_drives, with_pool,
    write, write_runs,
};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{DriveChange, Level, Pool, PoolEvent, PoolState};
use sim::SimDrive;
use std::time::Duration;

/// What was told of the drives, by member.
fn changes(told: &[PoolEvent]) -> Vec<(usize, DriveChange)> {
    let change = |event: &PoolEvent| match event {
        PoolEvent::Drive { index, change, .. } => Some((*index, *change)),
        _ => None,
    };
    told.iter().filter_map(change).collect()
}

#[test]
fn a_new_pool_has_nothing_to_tell() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        assert_eq!(told(&pool).await, []);
    });
}

#[test]
fn a_failed_drive_its_rebuild_and_its_leaving_are_told() {
    with_pool(Level::Raid6, 6, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        drives[2].die_after(0);
        write(&pool, id, 0, 16, 0).await;
        let first = told(&pool).await;
        let degraded = PoolEvent::State {
            state: PoolState::Degraded,
            reason: None,
        };
        assert!(first.contains(&degraded), "{first:?}");
        settle().await;
        let mut all = first;
        all.extend(told(&pool).await);
        let left = DriveChange::Left { drives_to_spare: 2 };
        assert_eq!(
            changes(&all),
            [(2, DriveChange::Failed), (2, left)],
            "{all:?}"
        );
        let rebuilds = all.iter().filter_map(|event| match event {
            PoolEvent::Rebuild {
                left_blocks,
                total_blocks,
            } => Some((*left_blocks, *total_blocks)),
            _ => None,
        });
        let rebuilds: Vec<(u64, u64)> = rebuilds.collect();
        assert!(
            rebuilds.iter().any(|(_, total)| *total > 300),
            "{rebuilds:?}"
        );
        assert_eq!(rebuilds.last().map(|last| last.0), Some(0), "{rebuilds:?}");
        let state = all.iter().rev().find_map(|event| match event {
            PoolEvent::State { state, .. } => Some(*state),
            _ => None,
        });
        assert_eq!(state, Some(PoolState::Online));
        assert_runs(&pool, id, 25).await;
    });
}

#[test]
fn drives_that_are_missing_or_stale_at_the_opening_are_told() {
    with_drives(6, async |drives| {
        let pool = create(&drives, Level::Raid6).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
        let without = open(&drives[1..]).await;
        assert_eq!(changes(&told(&without).await)[0], (0, DriveChange::Missing));
        without.close().await.expect("closed");
        let again = open(&drives).await;
        assert!(changes(&told(&again).await).contains(&(0, DriveChange::Stale)));
        assert_runs(&again, id, 25).await;
        again.close().await.expect("closed");
    });
}

#[test]
fn space_marks_are_told_on_the_way_up_and_down() {
    with_pool(Level::Raid5, 4, async |pool, _| {
        let usable = pool.status().usable_bytes / BLOCK as u64;
        let id = volume(&pool, "a", usable).await;
        let mut marks = Vec::new();
        let mut at = 0;
        while at + 16 < usable * 97 / 100 {
            write(&pool, id, at, 16, 1).await;
            at += 16;
            marks.extend(told(&pool).await.into_iter().filter_map(mark));
        }
        assert_eq!(marks, [80, 90, 95]);
        let device = pool.volume(id).expect("the volume");
        let range = block::BlockRange::new(Lba(0), usable / 2);
        device.deallocate(range).await.expect("deallocated");
        pool.checkpoint().await.expect("checkpoint");
        let marks: Vec<u8> = told(&pool).await.into_iter().filter_map(mark).collect();
        assert_eq!(marks, [0]);
    });
}

#[test]
fn a_pool_that_stays_full_is_told_of_once_however_often_it_refuses() {
    with_pool(Level::Raid5, 4, async |pool, _| {
        let usable = pool.status().usable_bytes / BLOCK as u64;
        let id = volume(&pool, "a", 2 * usable).await;
        let device = pool.volume(id).expect("the volume");
        let (mut marks, mut refused) = (Vec::new(), 0);
        for at in (0..2 * usable - 16).step_by(16) {
            refused += u64::from(try_write(&device, at, 16).await.is_err());
            marks.extend(told(&pool).await.into_iter().filter_map(mark));
        }
        assert!(refused > 20, "{refused}");
        assert_eq!(marks, [80, 90, 95, 100]);
    });
}

#[test]
fn that_nothing_can_be_rebuilt_for_want_of_drives_is_told_and_not_called_rebuilt() {
    with_pool(Level::Raid6, 4, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        settle().await;
        drives[0].die_after(0);
        drives[1].die_after(0);
        write_runs(&pool, id, 25).await;
        settle().await;
        let all = told(&pool).await;
        let waits = |event: &PoolEvent| matches!(event, PoolEvent::RebuildWaits { .. });
        assert_eq!(all.iter().filter(|event| waits(event)).count(), 1);
        let rebuilt =
            |event: &&PoolEvent| matches!(event, PoolEvent::Rebuild { left_blocks: 0, .. });
        assert_eq!(all.iter().find(rebuilt), None);
        assert_runs(&pool, id, 25).await;
    });
}

fn mark(event: PoolEvent) -> Option<u8> {
    match event {
        PoolEvent::Space { mark_percent, .. } => Some(mark_percent),
        _ => None,
    }
}

#[test]
fn a_slow_drive_is_told_and_shown_and_forgiven() {
    with_pool(Level::Raid6, 6, async |pool, drives| {
        let id = volume(&pool, "a", 600).await;
        let slow = |pool: &Pool<SimDrive>| {
            let drives = pool.status().drives;
            drives.iter().filter(|drive| drive.health.slow).count()
        };
        for drive in &drives {
            drive.slow_down(20);
        }
        drives[4].slow_down(200);
        for round in 0..60 {
            write_runs(&pool, id, 36).await;
            reactor::sleep(Duration::from_millis(200)).await;
            if round == 0 {
                assert_eq!(changes(&told(&pool).await), []);
            }
        }
        let told_slow = changes(&told(&pool).await);
        let [
            (
                4,
                DriveChange::Slow {
                    median_us,
                    others_us,
                },
            ),
        ] = told_slow[..]
        else {
            panic!("{told_slow:?}");
        };
        assert!(median_us > 5 * others_us, "{told_slow:?}");
        assert_eq!(slow(&pool), 1);
        drives[4].slow_down(20);
        for _ in 0..30 {
            write_runs(&pool, id, 36).await;
            reactor::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(changes(&told(&pool).await), [(4, DriveChange::Steady)]);
        assert_eq!(slow(&pool), 0);
    });
}

#[test]
fn a_drive_that_errs_and_blocks_that_are_lost_are_told() {
    with_pool(Level::Raid5, 4, async |pool, drives| {
        let id = volume(&pool, "precious", 400).await;
        write_runs(&pool, id, 25).await;
        pool.checkpoint().await.expect("checkpoint");
        drives[1].decay(200);
        let report = pool.scrub().await.expect("a scrub");
        assert!(report.repaired > 20 && report.lost.is_empty(), "{report:?}");
        let events = told(&pool).await;
        let errors = changes(&events);
        let [
            (
                1,
                DriveChange::Errors {
                    read_errors,
                    corrupt_blocks,
                },
            ),
        ] = errors[..]
        else {
            panic!("{events:?}");
        };
        assert!(read_errors + corrupt_blocks >= 8);
        let ended = PoolEvent::ScrubEnded {
            repaired_blocks: report.repaired,
            lost_blocks: 0,
            lost_nodes: 0,
        };
        assert!(events.contains(&ended), "{events:?}");
        // Two drives of a raid5 decay at once.
        for drive in &drives {
            drive.decay(400);
        }
        let device = pool.volume(id).expect("the volume");
        for block in 0..400 {
            let _ = device.read(Lba(block), Buffer::new(BLOCK)).await;
        }
        let lost = told(&pool).await;
        let named = lost.iter().any(|event| {
            matches!(event, PoolEvent::BlockLost { holders, .. } if holders == &["precious"])
        });
        assert!(named, "{lost:?}");
    });
}

#[test]
fn the_end_of_a_pool_is_the_last_event() {
    with_pool(Level::Raid5, 4, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        drives[0].die_after(0);
        drives[1].die_after(0);
        let device = pool.volume(id).expect("the volume");
        let buffer = Buffer::zeroed(BLOCK);
        let written = device.write(Lba(0), buffer, Durability::Durable).await;
        assert!(written.1.is_err());
        let mut last = None;
        while let Some(event) = pool.next_event().await {
            last = Some(event);
        }
        assert!(matches!(
            last,
            Some(PoolEvent::State {
                state: PoolState::Offline,
                reason: Some(_)
            })
        ));
    });
}
