//! Members that fail: who hears of it before what is acknowledged, and what becomes of a pool that
//! has lost too many.

use crate::sharded;
use crate::support::{
    BLOCK, assert_runs, create, heads, settle, volume, with_drives, with_pool, write_runs,
};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use pool::{Level, PoolError, PoolState};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::time::Duration;

/// State of a member by the newest superblock that can be read from a drive: 2 stands for failed.
fn state_of_member(drive: &SimDrive, index: usize) -> u8 {
    let found = heads(drive).map(|at| drive.content(at));
    let sequence =
        |block: &&Vec<u8>| u64::from_le_bytes(block[64..72].try_into().expect("eight bytes"));
    let newest = found.iter().max_by_key(sequence).expect("two of them");
    newest[1232 + 40 * index + 16]
}

/// A shard was told of a failed drive before the membership was on the others, and took it for
/// settled: it acknowledged stripes that the drive had missed, which a crash would have made
/// current again.
#[test]
fn no_shard_acknowledges_what_a_drive_missed_before_the_others_know() {
    const DEAD: usize = 2;
    const SLOW: usize = 4;
    for seed in 1..6 {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..5).map(|_| SimDrive::new(1300, power.clone())).collect();
        Reactor::simulated(seed).run(async {
            let pool = sharded::create(2, &drives, Level::Raid5).await;
            let id = sharded::volume(&pool, 400).await;
            let device = pool.volume(id).expect("the volume");
            let write = async |start: u64, blocks: u64| {
                let buffer = Buffer::zeroed(blocks as usize * BLOCK);
                let written = device.write(Lba(start), buffer, Durability::Durable).await;
                written.1.expect("written");
            };
            write(0, 400).await;
            drives[SLOW].slow_down(2000);
            drives[DEAD].die_after(0);
            let writes = (0..8).map(|run| {
                let device = pool.volume(id).expect("the volume");
                let drives = drives.clone();
                reactor::spawn(async move {
                    let buffer = Buffer::zeroed(16 * BLOCK);
                    let start = Lba(run * 16);
                    let written = device.write(start, buffer, Durability::Durable).await;
                    written.1.expect("written");
                    for (index, drive) in drives.iter().enumerate() {
                        let knows = index == DEAD || state_of_member(drive, DEAD) == 2;
                        assert!(
                            knows,
                            "seed {seed}: run {run} is acknowledged before {index}"
                        );
                    }
                })
            });
            for write in writes.collect::<Vec<_>>() {
                write.await;
            }
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn a_drive_that_the_pool_cannot_do_without_is_not_failed() {
    with_pool(Level::Raid1, 2, async |pool, _| {
        let id = volume(&pool, "a", 100).await;
        write_runs(&pool, id, 4).await;
        let drives = pool.status().drives;
        pool.fail_drive(drives[0].id).await.expect("one may fail");
        let refused = PoolError::Indispensable {
            lacking: 1,
            lost_max: 1,
        };
        assert_eq!(pool.fail_drive(drives[1].id).await, Err(refused));
        assert_eq!(pool.status().state, PoolState::Degraded);
        assert_runs(&pool, id, 4).await;
    });
}

#[test]
fn a_pool_that_is_offline_leaves_no_label_on_a_drive_that_was_to_join() {
    with_drives(3, async |drives| {
        let pool = create(&drives[..2], Level::Raid1).await;
        drives[0].die_after(0);
        drives[1].die_after(0);
        reactor::sleep(Duration::from_secs(2)).await;
        let refused = pool.add_drive(drives[2].clone()).await;
        assert!(matches!(refused, Err(PoolError::Offline(_))), "{refused:?}");
        assert_eq!(pool::probe(&drives[2]).await, Ok(None));
    });
}

/// Without a drive there was no room for tables, which was found out before there was no quorum:
/// the pool neither went offline nor did anything else on its core.
#[test]
fn a_pool_whose_last_drives_die_at_once_goes_offline() {
    with_pool(Level::Raid1, 2, async |pool, drives| {
        let id = volume(&pool, "a", 100).await;
        write_runs(&pool, id, 4).await;
        settle().await;
        drives[0].die_after(0);
        drives[1].die_after(0);
        reactor::sleep(Duration::from_secs(2)).await;
        assert_eq!(pool.status().state, PoolState::Offline);
        let device = pool.volume(id).expect("the volume");
        let buffer = Buffer::zeroed(BLOCK);
        let refused = device.write(Lba(0), buffer, Durability::Durable).await.1;
        assert_eq!(refused, Err(IoError::DeviceGone));
    });
}
