//! Hosts that have stopped writing: what waits for the maps is merged, once, if it is enough.

use crate::sharded;
use crate::support::BLOCK;
use block::{BlockDevice, BlockRange, Lba};
use pool::{CreateOptions, Entropy, Level, Settings, VolumeOptions};
use reactor::Reactor;
use sim::{Device, Power, Served, SimDrive};
use std::time::Duration;

/// A merge is due after so many updates, and worth its while after an eighth.
const UPDATES: usize = 800;

async fn write(device: &Device, blocks: std::ops::Range<u64>, byte: u8) {
    for at in blocks {
        sharded::write(device, at, 1, byte).await;
    }
}

/// A new pool with one volume.
async fn create(shards: usize) -> (Served, Device) {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = (0..6).map(|_| SimDrive::new(4000, power.clone())).collect();
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings: Settings {
            checkpoint_updates: UPDATES,
            slice_blocks: 16,
            ..Settings::default()
        },
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid6, crate::support::HOST)
    };
    let pool = Served::create(shards, drives, options).await;
    let pool = pool.expect("a pool");
    let volume = VolumeOptions {
        bytes: 400 * BLOCK as u64,
        ..VolumeOptions::default()
    };
    let volume = pool.create_volume("a", volume).await.expect("a volume");
    let device = pool.volume(volume).expect("the volume");
    (pool, device)
}

#[test]
fn what_waits_for_the_maps_is_merged_once_when_hosts_fall_silent() {
    for shards in [1, 3] {
        Reactor::simulated(1).run(async {
            let (pool, device) = create(shards).await;
            let before = pool.counters().checkpoints;
            let merges = || pool.counters().checkpoints - before;
            write(&device, 0..300, 1).await;
            assert_eq!(merges(), 0, "they are fewer than a merge is due for");
            reactor::sleep(Duration::from_secs(3)).await;
            assert_eq!(merges(), 1, "{shards} shards");
            reactor::sleep(Duration::from_secs(30)).await;
            assert_eq!(merges(), 1, "nothing has come since");
            write(&device, 0..50, 2).await;
            reactor::sleep(Duration::from_secs(30)).await;
            assert_eq!(merges(), 1, "that is not worth it");
            write(&device, 50..250, 2).await;
            reactor::sleep(Duration::from_secs(3)).await;
            assert_eq!(merges(), 2, "with what came before it is");
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn deallocated_space_is_counted_as_free_when_hosts_fall_silent() {
    for shards in [1, 3] {
        Reactor::simulated(1).run(async {
            let (pool, device) = create(shards).await;
            write(&device, 0..300, 1).await;
            reactor::sleep(Duration::from_secs(3)).await;
            let before = pool.counters().checkpoints;
            let merges = || pool.counters().checkpoints - before;
            assert_eq!(pool.status().used_bytes, 300 * BLOCK as u64);
            // One update, of many blocks.
            let range = BlockRange::new(Lba(0), 200);
            device.deallocate(range).await.expect("given back");
            reactor::sleep(Duration::from_secs(3)).await;
            assert_eq!(merges(), 1, "{shards} shards");
            assert_eq!(pool.status().used_bytes, 100 * BLOCK as u64);
            pool.close().await.expect("closed");
        });
    }
}

/// Each shard writes far fewer stripes than those after which it tells how it is doing.
#[test]
fn what_few_stripes_of_another_shard_deallocated_is_counted_too() {
    for shard in [1, 2] {
        Reactor::simulated(1).run(async {
            let (pool, device) = create(3).await;
            write(&device, 0..336, 1).await;
            reactor::sleep(Duration::from_secs(3)).await;
            let before = pool.counters().checkpoints;
            assert_eq!(pool.status().used_bytes, 336 * BLOCK as u64);
            for slice in (shard..21).step_by(3) {
                let range = BlockRange::new(Lba(16 * slice), 16);
                device.deallocate(range).await.expect("given back");
            }
            reactor::sleep(Duration::from_secs(5)).await;
            let used = pool.status().used_bytes;
            assert_eq!(used, (336 - 112) * BLOCK as u64, "of shard {shard}");
            reactor::sleep(Duration::from_secs(30)).await;
            assert_eq!(pool.counters().checkpoints - before, 1, "once");
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn hosts_that_go_on_writing_are_left_in_peace() {
    Reactor::simulated(1).run(async {
        let (pool, device) = create(1).await;
        let before = pool.counters().checkpoints;
        for at in 0..400 {
            write(&device, at..at + 1, 1).await;
            reactor::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(pool.counters().checkpoints, before);
        pool.close().await.expect("closed");
    });
}
