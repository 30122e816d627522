//! Segments that the cleaner has emptied are written again before the maps know of it.

use crate::sharded::{begin_life, create, open, read, volume, write};
use crate::support::{BLOCK, settle};
use block::BlockDevice;
use pool::Level;
use reactor::Reactor;
use sim::{Power, Random, SimDrive};

const DRIVES: usize = 5;

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
            let (pool, device) = begin_life(life, shards, &drives, level).await;
            let blocks = device.geometry().block_count;
            held.resize(blocks as usize, 0);
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

/// A write to a pool that is all but full looks at the map before it is let in. It did not count as
/// a reader: nodes that it was about to read were replaced, their place was written again, and the
/// write failed.
#[test]
fn a_write_that_looks_whether_it_needs_space_reads_the_map_as_it_was() {
    let mut most = 0;
    for seed in 1..6 {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..3).map(|_| SimDrive::new(1300, power.clone())).collect();
        let turns = Reactor::simulated(seed).run(look_while_the_map_changes(&drives));
        most = turns.max(most);
    }
    // All that changes in between needs space, and that waits in the end for who reads.
    assert!(most > 30, "one look is to outlast many changes of the map");
}

/// Returns how often the map was changed while a write looked at it.
async fn look_while_the_map_changes(drives: &[SimDrive]) -> u64 {
    let pool = create(1, drives, Level::Raid5).await;
    let usable = pool.status().usable_bytes / BLOCK as u64;
    let id = volume(&pool, usable).await;
    let device = pool.volume(id).expect("the volume");
    for start in (0..usable - 16).step_by(16) {
        write(&device, start, 16, 1).await;
    }
    pool.close().await.expect("closed");
    // It knows nothing of the map yet.
    let pool = open(1, drives).await;
    settle().await;
    let device = pool.volume(id).expect("the volume");
    // What the write has begun takes long; what is begun later does not.
    drives.iter().for_each(|drive| drive.slow_down(40_000));
    let slow = reactor::spawn({
        let device = pool.volume(id).expect("the volume");
        async move { write(&device, 40, 32, 2).await }
    });
    reactor::yield_now().await;
    drives.iter().for_each(|drive| drive.slow_down(1));
    let mut turns = 0;
    while !slow.is_finished() && turns < 400 {
        write(&device, turns * 7 % (usable - 40), 1, 1).await;
        pool.checkpoint().await.expect("a checkpoint");
        turns += 1;
    }
    slow.await;
    pool.close().await.expect("closed");
    turns
}
