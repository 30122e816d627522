//! Several shards: one cut for all of them, another number of them each time, and what one alone
//! cannot do.

use crate::sharded::{SLICE, create, open, read, try_write, volume, write};
use crate::support::{BLOCK, with_drives};
use block::conformance::{self, Plan};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::{Level, Pool, PoolError};
use reactor::Reactor;
use sim::{Device, Power, SimDrive};
use std::time::Duration;

#[test]
fn a_volume_over_several_shards_behaves_as_a_device() {
    for seed in 1..4 {
        with_drives(6, async |drives| {
            let pool = create(3, &drives, Level::Raid6).await;
            let id = volume(&pool, 300).await;
            let device = pool.volume(id).expect("the volume");
            let checked = conformance::check(&device, Plan::quick(seed)).await;
            checked.unwrap_or_else(|found| panic!("seed {seed}: {found}"));
            pool.close().await.expect("closed");
        });
    }
}

/// A host writes to one shard after the other, each time when the one before is acknowledged: no
/// snapshot may have a later write without an earlier one, nor miss what was acknowledged before.
#[test]
fn a_snapshot_is_one_cut_over_all_shards() {
    for seed in 1..12 {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..3).map(|_| SimDrive::new(1300, power.clone())).collect();
        Reactor::simulated(seed).run(async {
            let pool = create(3, &drives, Level::Raid5).await;
            let id = volume(&pool, 3 * SLICE).await;
            let writer = reactor::spawn({
                let device = pool.volume(id).expect("the volume");
                async move {
                    for turn in 1..=60 {
                        for shard in 0..3 {
                            write(&device, shard * SLICE, 1, turn).await;
                        }
                    }
                }
            });
            let device = pool.volume(id).expect("the volume");
            let mut cuts = 0;
            for number in 0..6 {
                reactor::sleep(Duration::from_micros(300)).await;
                let before = read(&device, 2 * SLICE, 1).await[0];
                let taken = pool.snapshot(&[(id, format!("s{number}"))]).await;
                let taken = taken.expect("a snapshot")[0];
                let image = pool.snapshot_device(taken).expect("the snapshot");
                let mut seen = Vec::new();
                for shard in 0..3 {
                    seen.push(read(&image, shard * SLICE, 1).await[0]);
                }
                let (first, last) = (seen[0], seen[2]);
                let sorted = seen.is_sorted_by(|left, right| left >= right);
                assert!(sorted && first <= last + 1, "seed {seed}: {seen:?}");
                assert!(last >= before, "seed {seed}: {seen:?} misses {before}");
                cuts += u32::from(first > 0 && last < 60);
            }
            writer.await;
            assert!(cuts > 0, "seed {seed}: no snapshot met the writer");
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn another_number_of_shards_finds_what_was_written() {
    let power = Power::new(5);
    let drives: Vec<SimDrive> = (0..6).map(|_| SimDrive::new(1300, power.clone())).collect();
    let mut last = 0;
    for (life, shards) in [1, 3, 2, 3, 1, 2].into_iter().enumerate() {
        power.switch_on(u64::MAX);
        Reactor::simulated(9 + life as u64).run(async {
            let pool = match life {
                0 => create(shards, &drives, Level::Raid6).await,
                _ => open(shards, &drives).await,
            };
            let id = match life {
                0 => volume(&pool, 500).await,
                _ => pool.volumes()[0].id,
            };
            let device = pool.volume(id).expect("the volume");
            if life > 0 {
                let found = read(&device, 0, 500).await;
                assert!(found[..100].iter().all(|byte| *byte == last), "life {life}");
                assert!(found[100..300].iter().all(|byte| *byte == 0), "life {life}");
                assert!(found[300..].iter().all(|byte| *byte == last), "life {life}");
            }
            last = life as u8 + 1;
            for run in 0..5 {
                write(&device, run * 100, 100, last).await;
            }
            let hole = BlockRange::new(Lba(100), 200);
            device.deallocate(hole).await.expect("deallocated");
        });
        // Nothing is closed: each opening replays the logs of those before.
        for drive in &drives {
            drive.lose_power();
        }
    }
}

#[test]
fn shards_write_on_while_a_drive_fails_and_what_it_held_is_rebuilt() {
    with_drives(7, async |drives| {
        let pool = create(3, &drives, Level::Raid6).await;
        let id = volume(&pool, 400).await;
        let device = pool.volume(id).expect("the volume");
        for run in 0..25 {
            if run == 8 {
                drives[2].die_after(5);
            }
            write(&device, run * 16, 16, run as u8 + 1).await;
        }
        crate::support::settle().await;
        assert_eq!(pool.status().drives.len(), 6, "{}", pool.describe());
        assert_eq!(pool.status().drives_to_spare, 2);
        drives[0].die_after(0);
        drives[5].die_after(0);
        for run in 0..25 {
            let found = read(&device, run * 16, 16).await;
            assert_eq!(found, vec![run as u8 + 1; 16]);
        }
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_full_pool_refuses_writes_of_every_shard_and_goes_on_when_space_is_given_back() {
    with_drives(3, async |drives| {
        let pool = create(3, &drives, Level::Raid5).await;
        let id = volume(&pool, 20_000).await;
        let device = pool.volume(id).expect("the volume");
        let mut at = 0;
        while at < 20_000 {
            match try_write(&device, at, SLICE, 7).await {
                Ok(()) => at += SLICE,
                Err(error) => {
                    assert_eq!(error, IoError::CapacityExceeded);
                    break;
                }
            }
        }
        let status = pool.status();
        let filled = at * BLOCK as u64;
        assert!(
            filled * 10 >= status.usable_bytes * 7,
            "{filled} {status:?}"
        );
        for shard in 0..3 {
            let refused = try_write(&device, (900 + shard) * SLICE, SLICE, 8).await;
            assert_eq!(refused, Err(IoError::CapacityExceeded));
        }
        let half = BlockRange::new(Lba(0), at / 2);
        device
            .deallocate(half)
            .await
            .expect("a full pool deallocates");
        for run in 0..at / 4 / SLICE {
            write(&device, run * SLICE, SLICE, 9).await;
        }
        assert!(read(&device, 0, SLICE).await.iter().all(|byte| *byte == 9));
        let kept = read(&device, at - SLICE, SLICE).await;
        assert!(kept.iter().all(|byte| *byte == 7));
        pool.close().await.expect("closed");
    });
}

/// Room that no shard uses is dealt before one asks: without it a shard looks up in the map what is
/// written, and where all of it is overwritten nobody ever has a reason to ask.
#[test]
fn overwriting_does_not_come_to_look_the_map_up() {
    with_drives(4, async |drives| {
        let pool = create(2, &drives, Level::Raid5).await;
        let usable = pool.status().usable_bytes / BLOCK as u64;
        let id = volume(&pool, usable / 4).await;
        let device = pool.volume(id).expect("the volume");
        write(&device, 0, usable / 4, 1).await;
        pool.close().await.expect("closed");
        // No node is in memory.
        let pool = open(2, &drives).await;
        let device = pool.volume(id).expect("the volume");
        crate::support::settle().await;
        let delay = Duration::from_secs(1);
        let slow = |drive: &SimDrive| drive.slow_reads(b"FYMN", delay);
        drives.iter().for_each(slow);
        let begun = reactor::now();
        for slice in 0..4 {
            write(&device, slice * SLICE, 1, 9).await;
        }
        let took = reactor::now() - begun;
        assert!(
            took < delay,
            "a write waited for a node of the map: {took:?}"
        );
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_drive_joins_only_if_every_shard_has_a_handle_of_it() {
    with_drives(5, async |mut drives| {
        let new = drives.pop().expect("a drive");
        let pool = create(2, &drives, Level::Raid5).await;
        let id = volume(&pool, 200).await;
        let alone: &Pool<SimDrive> = &pool;
        let refused = alone.add_drive(new.clone()).await;
        assert!(matches!(refused, Err(PoolError::Invalid(_))), "{refused:?}");
        assert_eq!(pool.status().drives.len(), 4);
        pool.add_drive(new).await.expect("added");
        assert_eq!(pool.status().drives.len(), 5);
        let device = pool.volume(id).expect("the volume");
        write(&device, 0, 200, 3).await;
        drives[0].die_after(0);
        assert_eq!(read(&device, 0, 200).await, vec![3; 200]);
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_shard_refuses_blocks_of_another() {
    with_drives(2, async |drives| {
        let pool = create(2, &drives, Level::Raid1).await;
        let id = volume(&pool, 100).await;
        let device = pool.volume(id).expect("the volume");
        let own = |shard: usize, start| {
            let buffer = Buffer::new(BLOCK);
            device.parts()[shard].write(Lba(start), buffer, Durability::Durable)
        };
        assert_eq!(own(0, 0).await.1, Ok(()));
        assert_eq!(own(1, SLICE).await.1, Ok(()));
        assert_eq!(own(0, SLICE).await.1, Err(IoError::InvalidRequest));
        assert_eq!(own(1, 0).await.1, Err(IoError::InvalidRequest));
        pool.close().await.expect("closed");
    });
}

/// Writes over the whole volume out of order, each block with another byte, and says which.
async fn write_over(device: &Device, held: &mut [u8], turn: u8) {
    let runs = held.len() as u64 / 4;
    for step in 0..runs {
        // A prime number of runs apart: neighbours come at different times, to different segments.
        let start = step * 101 % runs * 4;
        let byte = turn.wrapping_mul(50).wrapping_add(start as u8) | 1;
        write(device, start, 4, byte).await;
        held[start as usize..start as usize + 4].fill(byte);
    }
}

/// Segments are lent to every shard that writes, come back sealed, and are emptied: by the shard
/// that wrote them, or, if it was before the pool was opened, by one shard after the other.
#[test]
fn segments_go_to_shards_and_come_back_emptied_by_all_who_have_blocks_there() {
    let power = Power::new(7);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..4).map(|_| SimDrive::new(1300, power.clone())).collect();
    let mut held = Vec::new();
    for (life, shards) in [3, 2, 4].into_iter().enumerate() {
        Reactor::simulated(20 + life as u64).run(async {
            let pool = match life {
                0 => create(shards, &drives, Level::Raid5).await,
                _ => open(shards, &drives).await,
            };
            if life == 0 {
                let usable = pool.status().usable_bytes / BLOCK as u64;
                held = vec![0; (usable * 9 / 10 / 4 * 4) as usize];
                volume(&pool, held.len() as u64).await;
            }
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let all = read(&device, 0, held.len() as u64).await;
            assert_eq!(all, held, "life {life}");
            for turn in 0..3 {
                write_over(&device, &mut held, life as u8 * 3 + turn).await;
            }
            let moved = pool.counters().relocated_blocks as usize;
            assert!(moved > held.len() / 2, "life {life}: {moved} moved");
            assert_eq!(
                read(&device, 0, held.len() as u64).await,
                held,
                "life {life}"
            );
        });
        drives.iter().for_each(SimDrive::lose_power);
    }
}
