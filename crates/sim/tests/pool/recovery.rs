//! Recovery: a pool serves before its maps have what was found, and decides once.

use crate::sharded::{self, SLICE, create, open, read, volume};
use crate::support::BLOCK;
use block::{BlockDevice, BlockRange, Lba};
use pool::Level;
use reactor::Reactor;
use sim::{Device, Power, SimDrive};
use std::rc::Rc;
use std::time::Duration;

/// Blocks of the volume.
const BLOCKS: u64 = 400;

/// Drives with room for segments that every opening makes ready, though none before is freed.
fn new_drives(count: usize) -> (Rc<Power>, Vec<SimDrive>) {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = (0..count).map(|_| SimDrive::new(4000, power.clone()));
    let drives = drives.collect();
    (power, drives)
}

/// Writes blocks in runs of a slice, each full of `byte`.
async fn write(device: &Device, start: u64, blocks: u64, byte: u8) {
    for at in (start..start + blocks).step_by(SLICE as usize) {
        sharded::write(device, at, SLICE, byte).await;
    }
}

/// Each life ends without a close, so that the next finds a log; every second one ends before the
/// maps have what it found, so that the next finds that again and a log behind it. Writes, holes
/// and other numbers of shards come in between.
#[test]
fn a_pool_serves_before_its_maps_have_what_was_found_and_finds_it_again() {
    let (_, drives) = new_drives(6);
    let mut expected = vec![0; BLOCKS as usize];
    let mut change = |blocks: std::ops::Range<u64>, byte: u8| {
        expected[blocks.start as usize..blocks.end as usize].fill(byte);
        expected.clone()
    };
    let lives: [(usize, bool); 7] = [
        (1, true),
        (3, false),
        (2, true),
        (2, false),
        (1, true),
        (3, false),
        (1, true),
    ];
    let mut now = change(0..0, 0);
    for (life, (shards, merged)) in (1..).zip(lives) {
        Reactor::simulated(u64::from(life)).run(async {
            let pool = match life {
                1 => {
                    let pool = create(1, &drives, Level::Raid6).await;
                    volume(&pool, BLOCKS).await;
                    pool
                }
                _ => open(shards, &drives).await,
            };
            // Only what a recovery found twice is merged before the pool serves.
            let checkpoints = pool.counters().checkpoints;
            assert_eq!(checkpoints > 0, merged, "life {life}: {checkpoints}");
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let start = u64::from(life) * 32;
            if !merged {
                write(&device, start, SLICE, life).await;
                now = change(start..start + SLICE, life);
                return;
            }
            assert_eq!(read(&device, 0, BLOCKS).await, now, "life {life}");
            write(&device, start, 160, life).await;
            change(start..start + 160, life);
            let hole = BlockRange::new(Lba(start + 10), 80);
            device.deallocate(hole).await.expect("deallocated");
            now = change(start + 10..start + 90, 0);
        });
        drives.iter().for_each(SimDrive::lose_power);
    }
}

/// What recovery left to be merged later is merged while the pool serves, and is not lost then.
#[test]
fn what_was_found_reaches_the_maps_while_the_pool_serves() {
    for shards in [1, 3] {
        let (_, drives) = new_drives(6);
        Reactor::simulated(1).run(async {
            let pool = create(1, &drives, Level::Raid6).await;
            let id = volume(&pool, BLOCKS).await;
            write(&pool.volume(id).expect("the volume"), 0, 208, 7).await;
        });
        Reactor::simulated(2).run(async {
            let pool = open(shards, &drives).await;
            assert_eq!(pool.counters().checkpoints, 0);
            // Zones rest for four seconds, and then there is room for the merge.
            reactor::sleep(Duration::from_secs(5)).await;
            assert_eq!(pool.counters().checkpoints, 1);
            let accounts = pool.accounting().await.expect("accounts");
            assert_eq!(accounts.total_bytes, 208 * BLOCK as u64);
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let found = read(&device, 0, BLOCKS).await;
            assert!(found[..208].iter().all(|byte| *byte == 7));
            pool.close().await.expect("closed");
        });
    }
}
