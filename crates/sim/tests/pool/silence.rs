//! Drives that answer nothing, neither with data nor with an error.

use crate::support::{BLOCK, HOST, read, volume, with_pool, write};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, DriveChange, Entropy, Level, Pool, PoolEvent, PoolState, VolumeOptions};
use reactor::Reactor;
use sim::{Power, Served, SimDrive};
use std::time::Duration;

/// Longer than any drive is waited for that the pool can do without.
const LONG: Duration = Duration::from_secs(25);

async fn events(pool: &Pool<SimDrive>) -> Vec<(usize, DriveChange)> {
    let mut found = Vec::new();
    let soon = Duration::from_millis(1);
    while let Ok(Some(event)) = reactor::timeout(soon, pool.next_event()).await {
        if let PoolEvent::Drive { index, change, .. } = event {
            found.push((index, change));
        }
    }
    found
}

/// Every write waited for it, whatever was said of it.
#[test]
fn a_drive_that_is_failed_is_no_longer_waited_for() {
    with_pool(Level::Raid5, 4, async |pool, drives| {
        let id = volume(&pool, "a", 500).await;
        write(&pool, id, 0, 400, 1).await;
        let silent = pool.status().drives[2].id;
        drives[2].hang(true);
        let writer = reactor::spawn({
            let pool = pool.clone();
            async move { write(&pool, id, 0, 100, 2).await }
        });
        let reader = reactor::spawn({
            let pool = pool.clone();
            async move { read(&pool, id, 100, 300).await }
        });
        reactor::sleep(Duration::from_secs(2)).await;
        assert!(
            !writer.is_finished() && !reader.is_finished(),
            "it is waited for"
        );
        let failed = reactor::timeout(Duration::from_secs(1), pool.fail_drive(silent)).await;
        failed.expect("in time").expect("one drive may fail");
        let through = reactor::timeout(Duration::from_secs(1), async {
            writer.await;
            reader.await
        });
        assert!(
            through
                .await
                .expect("in time")
                .iter()
                .all(|byte| *byte == 1)
        );
        assert!(read(&pool, id, 0, 100).await.iter().all(|byte| *byte == 2));
        drives[2].hang(false);
        reactor::sleep(LONG).await;
        assert!(read(&pool, id, 0, 100).await.iter().all(|byte| *byte == 2));
    });
}

/// Hosts give their requests up after half a minute.
#[test]
fn a_drive_that_stays_silent_is_told_of_and_failed_in_time() {
    for shards in [1, 2] {
        let power = Power::new(9);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..5).map(|_| SimDrive::new(2000, power.clone())).collect();
        Reactor::simulated(3).run(async {
            let options = CreateOptions {
                entropy: Entropy::seeded(3),
                ..CreateOptions::new("tank", Level::Raid6, HOST)
            };
            let pool = Served::create(shards, drives.clone(), options).await;
            let pool = pool.expect("a pool");
            let volume = VolumeOptions {
                bytes: 2000 * BLOCK as u64,
                ..VolumeOptions::default()
            };
            let id = pool.create_volume("a", volume).await.expect("a volume");
            let device = pool.volume(id).expect("the volume");
            drives[1].hang(true);
            // A slice of each shard.
            for start in [0, 256] {
                let buffer = Buffer::copy_of(&vec![7; 8 * BLOCK]);
                let write = device.write(Lba(start), buffer, Durability::Durable);
                let written = reactor::timeout(LONG, write).await;
                written.expect("in time").1.expect("written");
                let (found, result) = device.read(Lba(start), Buffer::new(8 * BLOCK)).await;
                result.expect("read");
                assert!(found.iter().all(|byte| *byte == 7));
            }
            let told = events(&pool).await;
            assert!(told.contains(&(1, DriveChange::Failed)), "{told:?}");
            let silent = |(index, change): &(usize, DriveChange)| {
                *index == 1 && matches!(change, DriveChange::Silent { .. })
            };
            assert!(told.iter().any(silent), "{told:?}");
            pool.close().await.expect("closed");
        });
    }
}

/// A cable, an enclosure or a driver may be what does not answer: it may be back soon, with all.
#[test]
fn drives_that_are_silent_together_are_waited_for() {
    with_pool(Level::Raid6, 6, async |pool, drives| {
        let id = volume(&pool, "a", 500).await;
        write(&pool, id, 0, 200, 1).await;
        for silent in [&drives[..], &drives[1..3]] {
            silent.iter().for_each(|drive| drive.hang(true));
            let writer = reactor::spawn({
                let pool = pool.clone();
                async move { write(&pool, id, 0, 200, 2).await }
            });
            reactor::sleep(LONG).await;
            assert!(!writer.is_finished());
            silent.iter().for_each(|drive| drive.hang(false));
            writer.await;
            assert_eq!(pool.status().state, PoolState::Online);
            assert!(read(&pool, id, 0, 200).await.iter().all(|byte| *byte == 2));
        }
    });
}

/// Without redundancy left there is nothing but to wait.
#[test]
fn the_last_drive_that_a_pool_can_do_with_is_waited_for() {
    with_pool(Level::Raid5, 3, async |pool, drives| {
        let id = volume(&pool, "a", 500).await;
        write(&pool, id, 0, 200, 1).await;
        let first = pool.status().drives[0].id;
        pool.fail_drive(first).await.expect("one drive may fail");
        drives[2].hang(true);
        let reader = reactor::spawn({
            let pool = pool.clone();
            async move { read(&pool, id, 0, 200).await }
        });
        reactor::sleep(LONG).await;
        assert!(!reader.is_finished());
        drives[2].hang(false);
        assert!(reader.await.iter().all(|byte| *byte == 1));
        assert_eq!(pool.status().state, PoolState::Degraded);
    });
}
