//! Handles of several drives that are offered to the cores of a pool at a time, in any order.

use crate::sharded::SLICE;
use crate::support::{BLOCK, HOST, open, settle};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, Entropy, Level, Pool, Settings, Shard, Sliced, VolumeOptions};
use reactor::Reactor;
use sim::{Power, SimDrive};

/// Of the volume.
const BLOCKS: u64 = 600;

/// A pool of three shards on some of the drives, with no redundancy that could hide anything.
async fn create(drives: &[SimDrive]) -> (Pool<SimDrive>, Vec<Shard<SimDrive>>) {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings: Settings {
            slice_blocks: SLICE as u32,
            ..Settings::default()
        },
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid0, HOST)
    };
    let mut wiring = pool::wire(3);
    let joining: Vec<_> = wiring
        .split_off(1)
        .into_iter()
        .map(|wiring| reactor::spawn(Shard::join(wiring, drives.to_vec())))
        .collect();
    let first = wiring.swap_remove(0);
    let pool = Pool::create_on(first, drives.to_vec(), options).await;
    let mut others = Vec::new();
    for joined in joining {
        others.push(joined.await.expect("joined"));
    }
    (pool.expect("a pool"), others)
}

fn byte(block: u64) -> u8 {
    (block % 251) as u8 + 1
}

/// Two drives join at once. Each core has the handles of both, one core in one order and the other
/// in another: a core that took the first that it had would write what is one drive's to the other.
#[test]
fn every_core_takes_the_handle_of_the_drive_that_joins() {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..4).map(|_| SimDrive::new(1300, power.clone())).collect();
    Reactor::simulated(7).run(async {
        let (pool, shards) = create(&drives[..2]).await;
        let offers = [[2, 3], [3, 2]];
        for (shard, offered) in shards.iter().zip(offers) {
            offered
                .iter()
                .for_each(|drive| shard.offer_drive(drives[*drive].clone()));
        }
        let other = reactor::spawn({
            let (pool, drive) = (pool.clone(), drives[3].clone());
            async move { pool.add_drive(drive).await }
        });
        pool.add_drive(drives[2].clone()).await.expect("joined");
        other.await.expect("joined");
        let options = VolumeOptions {
            bytes: BLOCKS * BLOCK as u64,
            ..VolumeOptions::default()
        };
        let id = pool.create_volume("a", options).await.expect("a volume");
        let mut parts = vec![pool.volume(id).expect("the volume")];
        parts.extend(shards.iter().map(|it| it.volume(id).expect("the volume")));
        let device = Sliced::new(parts, SLICE as u32);
        for block in 0..BLOCKS {
            let buffer = Buffer::copy_of(&[byte(block); BLOCK]);
            let written = device.write(Lba(block), buffer, Durability::Durable).await;
            written.1.expect("written");
        }
        settle().await;
        let on_new = drives[2..].iter().map(|drive| drive.blocks_written().len());
        let on_new: Vec<usize> = on_new.collect();
        // Labels alone are fewer.
        assert!(on_new.iter().all(|blocks| *blocks > 100), "{on_new:?}");
        assert_reads(&device).await;
    });
    drives.iter().for_each(SimDrive::lose_power);
    Reactor::simulated(8).run(async {
        let pool = open(&drives).await;
        let id = pool.volumes()[0].id;
        assert_reads(&pool.volume(id).expect("the volume")).await;
        let scrubbed = pool.scrub().await.expect("scrubbed");
        assert!(scrubbed.lost.is_empty(), "{scrubbed:?}");
        pool.close().await.expect("closed");
    });
}

async fn assert_reads(device: &impl BlockDevice) {
    for start in 0..BLOCKS {
        let (found, read) = device.read(Lba(start), Buffer::new(BLOCK)).await;
        read.unwrap_or_else(|error| panic!("block {start}: {error}"));
        assert!(found.iter().all(|it| *it == byte(start)), "block {start}");
    }
}
