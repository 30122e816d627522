//! Segments that the cleaner has emptied are written again before the maps know of it.

use crate::sharded::{create, open, read, volume};
use crate::support::BLOCK;
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::Level;
use reactor::Reactor;
use sim::{Device, Power, Random, SimDrive};

const DRIVES: usize = 5;

async fn write(device: &Device, start: u64, blocks: u64, byte: u8) {
    let mut buffer = Buffer::new(blocks as usize * BLOCK);
    buffer.fill(byte);
    let written = device.write(Lba(start), buffer, Durability::Durable).await;
    written.1.expect("written");
}

/// Three fifths of a pool are written over at random in each of some lives, which all end
/// without a word. Many times more segments are emptied and written again than there are
/// checkpoints; what the log says must then do without what the maps still point at.
fn lives_through(level: Level, lives: [usize; 2]) {
    let power = Power::new(8);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..DRIVES)
        .map(|_| SimDrive::new(4500, power.clone()))
        .collect();
    let random = Random::new(11);
    let data_columns = (DRIVES - level.drives_lost_max(DRIVES)) as u64;
    let mut held = Vec::new();
    for (life, shards) in (0..).zip(lives) {
        Reactor::simulated(30 + u64::from(life)).run(async {
            let pool = match life {
                0 => create(shards, &drives, level).await,
                _ => open(shards, &drives).await,
            };
            if life == 0 {
                let usable = pool.status().usable_bytes / BLOCK as u64;
                held = vec![0; (usable * 3 / 5) as usize];
                volume(&pool, held.len() as u64).await;
            }
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let blocks = held.len() as u64;
            let what = format!("{level}, life {life} with {shards} shards");
            assert_eq!(read(&device, 0, blocks).await, held, "{what}");
            let before = pool.counters();
            for turn in 0..blocks * 2 / 3 {
                let start = random.below(blocks - 2);
                let byte = (turn * 7) as u8 ^ life;
                write(&device, start, 3, byte).await;
                held[start as usize..start as usize + 3].fill(byte);
            }
            let now = pool.counters();
            let moved = now.relocated_blocks - before.relocated_blocks;
            let checkpoints = now.checkpoints - before.checkpoints;
            // Six segments' worth, of 32 rows each, for each checkpoint.
            let rows = 6 * 32 * checkpoints;
            assert!(
                moved > rows * data_columns,
                "{what}: {moved} for {checkpoints}"
            );
            assert_eq!(read(&device, 0, blocks).await, held, "{what}");
        });
        drives.iter().for_each(SimDrive::lose_power);
    }
}

#[test]
fn what_was_emptied_is_written_again_before_the_maps_know_and_no_crash_shows_it() {
    for level in [Level::Raid0, Level::Raid5, Level::Raid6] {
        lives_through(level, [1; 2]);
    }
}

#[test]
fn shards_empty_segments_and_write_them_again_before_the_maps_know() {
    lives_through(Level::Raid5, [2, 3]);
}
