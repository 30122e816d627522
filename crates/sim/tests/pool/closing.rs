//! Closing a pool: nothing goes on afterwards, and whoever waits is answered.

use crate::sharded::{self, SLICE};
use crate::support::{BLOCK, settle, volume, with_drives, write_runs};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use pool::{Level, PoolError};
use reactor::Reactor;
use sim::{Device, Power, Served, SimDrive};
use std::time::Duration;

/// A look at the drives that was under way when a pool was closed was followed by another, without
/// end.
#[test]
fn no_look_at_the_drives_outlasts_the_pool() {
    for delay in 0..12 {
        let power = Power::new(delay);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..4).map(|_| SimDrive::new(1300, power.clone())).collect();
        Reactor::simulated(delay).run(async {
            let pool = sharded::create(2, &drives, Level::Raid6).await;
            drives.iter().for_each(|drive| drive.slow_down(10_000));
            reactor::sleep(Duration::from_millis(100 * delay)).await;
            pool.close().await.expect("closed");
            reactor::sleep(Duration::from_secs(5)).await;
            let operations = power.operations();
            reactor::sleep(Duration::from_secs(60)).await;
            assert_eq!(power.operations(), operations, "delay {delay}");
        });
    }
}

/// Other shards went on answering reads while another host could write.
#[test]
fn no_shard_answers_when_the_pool_has_been_let_go() {
    with_drives(3, async |drives| {
        let pool = sharded::create(3, &drives, Level::Raid5).await;
        let id = sharded::volume(&pool, 8 * SLICE).await;
        let device = pool.volume(id).expect("the volume");
        pool.export().await.expect("exported");
        settle().await;
        for shard in 0..3 {
            let buffer = Buffer::new(BLOCK);
            let answer = device.read(Lba(shard * SLICE), buffer).await.1;
            assert_eq!(answer, Err(IoError::DeviceGone), "shard {shard}");
        }
    });
}

/// Neither drives nor memory, on any core, when its handles are gone.
#[test]
fn nothing_of_a_closed_pool_is_kept() {
    for shards in 1..4 {
        with_drives(3, async |drives| {
            let pool = sharded::create(shards, &drives, Level::Raid5).await;
            let id = sharded::volume(&pool, 8 * SLICE).await;
            let device = pool.volume(id).expect("the volume");
            write_slice(&device, 0).await.expect("written");
            drop(device);
            pool.close().await.expect("closed");
            drop(pool);
            reactor::sleep(Duration::from_secs(60)).await;
            for drive in &drives {
                assert_eq!(drive.handles(), 1, "{shards} shards");
            }
        });
    }
}

async fn write_slice(device: &Device, start: u64) -> Result<(), IoError> {
    let buffer = Buffer::zeroed(SLICE as usize * BLOCK);
    device
        .write(Lba(start), buffer, Durability::Durable)
        .await
        .1
}

/// Fills the pool as far as it goes; returns how many blocks that is.
async fn fill(device: &Device) -> u64 {
    let mut at = 0;
    while write_slice(device, at).await.is_ok() {
        at += SLICE;
    }
    at
}

/// A write that was still finding out whether there was space for it when the pool was closed got
/// in line behind the last that was looked at, and was never answered.
#[test]
fn a_write_that_waits_for_space_is_answered_when_the_pool_is_closed() {
    let mut outlast = 0;
    for (shards, seed) in [
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 4),
        (2, 5),
        (2, 6),
        (2, 7),
    ] {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..3).map(|_| SimDrive::new(1300, power.clone())).collect();
        Reactor::simulated(seed).run(async {
            let pool: Served = sharded::create(shards, &drives, Level::Raid5).await;
            let id = sharded::volume(&pool, 20_000).await;
            let device = pool.volume(id).expect("the volume");
            let filled = fill(&device).await;
            pool.close().await.expect("closed");
            // It knows nothing of the map yet.
            let pool = sharded::open(shards, &drives).await;
            // What a write has begun takes long; what is begun later does not.
            drives.iter().for_each(|drive| drive.slow_down(40_000));
            let writes = (0..4).map(|slice| {
                let device = pool.volume(id).expect("the volume");
                let start = slice % (filled / SLICE) * SLICE;
                reactor::spawn(async move { write_slice(&device, start).await })
            });
            let writes: Vec<_> = writes.collect();
            reactor::sleep(Duration::from_micros(100)).await;
            drives.iter().for_each(|drive| drive.slow_down(1));
            pool.close().await.expect("closed");
            outlast += writes.iter().filter(|write| !write.is_finished()).count();
            for write in writes {
                let answer = reactor::timeout(Duration::from_secs(60), write).await;
                let answer = answer.unwrap_or_else(|_| panic!("{shards} shards: no answer"));
                assert!(answer.is_err(), "{answer:?}");
            }
        });
    }
    assert!(outlast > 8, "writes are to outlast the closing");
}

/// What is begun after the end does nothing.
#[test]
fn a_closed_pool_is_changed_no_more() {
    with_drives(3, async |drives| {
        let pool = crate::support::create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
        let before: Vec<_> = drives.iter().map(SimDrive::blocks_written).collect();
        let refused = pool.checkpoint().await;
        assert!(matches!(refused, Err(PoolError::Offline(_))), "{refused:?}");
        settle().await;
        let after: Vec<_> = drives.iter().map(SimDrive::blocks_written).collect();
        assert!(before == after, "written after the end");
    });
}
