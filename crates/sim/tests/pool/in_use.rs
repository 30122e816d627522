//! How many blocks volumes have in use, as hosts are told that ask for it.

use crate::sharded::write;
use crate::support::BLOCK;
use block::{BlockDevice, BlockRange, Lba};
use pool::{CreateOptions, Entropy, Level, Settings, VolumeId, VolumeOptions};
use reactor::Reactor;
use sim::{Device, Power, Served, SimDrive};
use std::time::Duration;

/// A merge is due for hosts alone after far more updates than there are here.
const UPDATES: usize = 100_000;

/// Time for a merge that was asked for, and for a walk through the maps.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(7);

/// A new pool with one volume of 400 blocks.
async fn create(shards: usize) -> (Served, VolumeId, Device) {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = (0..6).map(|_| SimDrive::new(16_000, power.clone()));
    let options = CreateOptions {
        zone_bytes: Some(64 * BLOCK as u64),
        settings: Settings {
            checkpoint_updates: UPDATES,
            slice_blocks: 16,
            ..Settings::default()
        },
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid6, crate::support::HOST)
    };
    let pool = Served::create(shards, drives.collect(), options).await;
    let pool = pool.expect("a pool");
    let volume = VolumeOptions {
        bytes: 400 * BLOCK as u64,
        ..VolumeOptions::default()
    };
    let volume = pool.create_volume("a", volume).await.expect("a volume");
    let device = pool.volume(volume).expect("the volume");
    (pool, volume, device)
}

async fn deallocate(device: &Device, start: u64, blocks: u64) {
    let range = BlockRange::new(Lba(start), blocks);
    device.deallocate(range).await.expect("given back");
}

/// What every core says of a volume once what was asked for is done.
async fn used(device: &Device) -> u64 {
    let ask = || -> Vec<u64> {
        device
            .parts()
            .iter()
            .map(|part| part.used_blocks())
            .collect()
    };
    // Merged is what was asked for first, and counted what was asked for then.
    for _ in 0..2 {
        ask();
        reactor::sleep(FOLLOWS_WITHIN).await;
    }
    let said = ask();
    assert!(said.iter().all(|used| *used == said[0]), "{said:?}");
    said[0]
}

fn with_pool<F: Future<Output = ()>>(test: impl Fn(Served, VolumeId, Device) -> F) {
    for shards in [1, 3] {
        Reactor::simulated(1).run(async {
            let (pool, volume, device) = create(shards).await;
            test(pool.clone(), volume, device).await;
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn what_is_in_use_follows_writes_deallocations_and_sizes() {
    with_pool(async |pool, volume, device| {
        assert_eq!(used(&device).await, 0);
        write(&device, 0, 300, 1).await;
        assert_eq!(used(&device).await, 300);
        write(&device, 200, 100, 2).await;
        assert_eq!(used(&device).await, 300, "it was overwritten");
        deallocate(&device, 0, 50).await;
        assert_eq!(used(&device).await, 250);
        let zeroes = BlockRange::new(Lba(50), 10);
        let zeroed = device.write_zeroes(zeroes, block::Durability::Durable);
        zeroed.await.expect("zeroes");
        assert_eq!(used(&device).await, 240);
        let resize = |blocks| pool.resize_volume(volume, blocks * BLOCK as u64, true);
        resize(800).await.expect("it grows");
        assert_eq!(used(&device).await, 240);
        write(&device, 790, 10, 3).await;
        assert_eq!(used(&device).await, 250);
        resize(100).await.expect("it shrinks");
        assert_eq!(used(&device).await, 40);
        deallocate(&device, 0, 100).await;
        assert_eq!(used(&device).await, 0);
    });
}

#[test]
fn what_a_snapshot_shares_is_in_use_by_each_volume_that_reads_it() {
    with_pool(async |pool, volume, device| {
        write(&device, 0, 300, 1).await;
        let taken = pool.snapshot(&[(volume, "s".to_owned())]).await;
        let snapshot = taken.expect("taken")[0];
        assert_eq!(used(&device).await, 300);
        write(&device, 0, 100, 2).await;
        deallocate(&device, 200, 100).await;
        write(&device, 300, 10, 3).await;
        assert_eq!(used(&device).await, 210, "what is in both counts once");
        let copy = pool.clone_snapshot(snapshot, "copy").await.expect("cloned");
        let copy = pool.volume(copy).expect("the clone");
        assert_eq!(used(&copy).await, 300);
        write(&copy, 390, 10, 4).await;
        assert_eq!((used(&copy).await, used(&device).await), (310, 210));
        let rolled = pool.rollback(volume, snapshot).await;
        rolled.expect("gone back");
        assert_eq!(used(&device).await, 300);
        pool.delete_snapshot(snapshot).await.expect("deleted");
        assert_eq!((used(&copy).await, used(&device).await), (310, 300));
    });
}

#[test]
fn who_asks_waits_for_nothing_and_is_told_of_no_more_than_there_is() {
    with_pool(async |pool, volume, device| {
        write(&device, 0, 300, 1).await;
        let taken = pool.snapshot(&[(volume, "s".to_owned())]).await;
        taken.expect("taken");
        write(&device, 0, 300, 2).await;
        pool.checkpoint().await.expect("a checkpoint");
        let part = &device.parts()[0];
        assert_eq!(part.used_blocks(), 400, "nobody has counted yet");
        reactor::sleep(FOLLOWS_WITHIN).await;
        assert_eq!(part.used_blocks(), 300);
    });
}

/// Each second somebody asks, while hosts write and while they do not.
#[test]
fn who_asks_often_costs_hosts_few_merges() {
    with_pool(async |pool, _, device| {
        let ask = async |writes: u64| {
            let before = pool.counters().checkpoints;
            for second in 0..60 {
                if second < writes {
                    write(&device, second, 1, 1).await;
                }
                device.parts()[0].used_blocks();
                reactor::sleep(Duration::from_secs(1)).await;
            }
            pool.counters().checkpoints - before
        };
        let merges = ask(60).await;
        assert!((10..=12).contains(&merges), "{merges}");
        let merges = ask(1).await;
        assert_eq!(merges, 1, "what had been written last, and no more");
        assert_eq!(ask(0).await, 0, "nothing is new");
        write(&device, 100, 1, 1).await;
        reactor::sleep(FOLLOWS_WITHIN).await;
        assert_eq!(ask(0).await, 0);
    });
}

#[test]
fn a_pool_closes_while_somebody_counts() {
    with_pool(async |pool, volume, device| {
        write(&device, 0, 400, 1).await;
        let taken = pool.snapshot(&[(volume, "s".to_owned())]).await;
        taken.expect("taken");
        pool.checkpoint().await.expect("a checkpoint");
        for part in device.parts() {
            part.used_blocks();
        }
    });
}
