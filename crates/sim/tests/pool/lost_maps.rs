//! Nodes of the map that go bad in a pool that is busy: each costs what it told of, whatever else
//! counts on the map at that moment, and the pool goes on.

use crate::sharded::{begin_life, create, open, try_write, volume};
use crate::spoil::{NODE, beginning, read_each, spoil, word};
use crate::support::{BLOCK, with_drives_of};
use block::BlockDevice;
use pool::{Level, PoolState};
use reactor::Reactor;
use sim::{Device, Power, Random, SimDrive};

const DRIVES: usize = 5;
/// A leaf has room for 254 blocks, and for as many again until the next one begins.
const IN_LEAF: usize = 254;

/// Spoils every node of the lowest level that is about the same block as one of them, taken at
/// random.
fn lose_a_leaf(drives: &[SimDrive], random: &Random) {
    let nodes = beginning(drives, NODE).into_iter();
    let leaves: Vec<_> = nodes.filter(|(_, _, content)| content[4] == 0).collect();
    let of = |content: &[u8]| (word(content, 8), word(content, 16));
    // None has been written before the first checkpoint.
    let Some(one) = leaves.get(random.below(leaves.len() as u64) as usize) else {
        return;
    };
    let one = of(&one.2);
    let lost = leaves.iter().filter(|(_, _, content)| of(content) == one);
    lost.for_each(|(drive, at, _)| spoil(&drives[*drive], *at));
}

/// How many blocks are lost that were not before; the others are what they were.
fn newly_lost(held: &[Option<u8>], found: &[Option<u8>], what: &str) -> usize {
    let mut lost = 0;
    for (block, (held, found)) in held.iter().zip(found).enumerate() {
        match (held, found) {
            (Some(_), None) => lost += 1,
            // What was written to it while its node was lost may be all that there is of it.
            (None, _) => {}
            _ => assert_eq!(held, found, "{what}: block {block}"),
        }
    }
    lost
}

/// Three fifths of a pool are written over at random in each of some lives, which all end without a
/// word; a leaf is lost in the middle of each and after it.
fn lives_through(seed: u64, lives: [usize; 4]) {
    let power = Power::new(seed);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..DRIVES)
        .map(|_| SimDrive::new(4500, power.clone()))
        .collect();
    let random = Random::new(seed);
    let mut held: Vec<Option<u8>> = Vec::new();
    for (life, shards) in (0..).zip(lives) {
        Reactor::simulated(seed + u64::from(life)).run(async {
            let (pool, device) = begin_life(life, shards, &drives, Level::Raid0).await;
            let blocks = device.geometry().block_count;
            held.resize(blocks as usize, Some(0));
            let what = format!("seed {seed}, life {life} with {shards} shards");
            let found = read_each(&device, blocks).await;
            let lost = newly_lost(&held, &found, &what);
            assert!(lost <= 2 * IN_LEAF, "{what}: {lost} blocks are lost");
            held = found;
            let turns = blocks / 2;
            for turn in 0..turns {
                let start = random.below(blocks - 2);
                let byte = (turn * 7) as u8 ^ life;
                let written = try_write(&device, start, 3, byte).await;
                assert_eq!(written, Ok(()), "{what}: {}", pool.describe());
                held[start as usize..start as usize + 3].fill(Some(byte));
                if turn == turns / 2 && life > 0 {
                    lose_a_leaf(&drives, &random);
                }
            }
            let found = read_each(&device, blocks).await;
            let lost = newly_lost(&held, &found, &what);
            assert!(lost <= 2 * IN_LEAF, "{what}: {lost} blocks are lost");
            held = found;
            assert_ne!(pool.status().state, PoolState::Offline, "{what}");
        });
        drives.iter().for_each(SimDrive::lose_power);
        lose_a_leaf(&drives, &random);
    }
}

/// The pool went offline for good where a lost leaf had told of a segment that was freed since, as
/// the log had all that it held; and where it had told of a block that the log moves, the pool
/// could not be opened.
#[test]
fn a_leaf_costs_its_blocks_and_not_the_pool_whatever_the_log_has_of_them() {
    for seed in 0..12 {
        lives_through(seed, [1, 1, 3, 2]);
    }
}

async fn fill_at_random(device: &Device, blocks: &[u64], random: &Random, what: &str) {
    let mut blocks = blocks.to_vec();
    while !blocks.is_empty() {
        let next = random.below(blocks.len() as u64) as usize;
        let block = blocks.swap_remove(next);
        let written = try_write(device, block, 1, block as u8).await;
        assert_eq!(written, Ok(()), "{what}");
    }
}

/// Nobody writes to what a snapshot has, so no write comes on the leaf. Segments in which one of
/// its blocks may be, dead or alive, are emptied all the same, and hosts have all the space there
/// is.
#[test]
fn a_leaf_of_a_snapshot_does_not_keep_the_cleaner_from_its_work() {
    for shards in [1, 3] {
        let what = format!("{shards} shards");
        with_drives_of(DRIVES, 4500, async |drives| {
            let random = Random::new(5);
            let pool = create(shards, &drives, Level::Raid0).await;
            let blocks = pool.status().usable_bytes / BLOCK as u64 * 2 / 5;
            let id = volume(&pool, blocks).await;
            let device = pool.volume(id).expect("the volume");
            let all: Vec<u64> = (0..blocks).collect();
            // So that whatever is in a segment, half of it is dead.
            for _ in 0..2 {
                fill_at_random(&device, &all, &random, &what).await;
            }
            let taken = pool.snapshot(&[(id, "s".to_owned())]).await;
            let snapshot = taken.expect("a snapshot")[0];
            // Memory has nodes as well.
            pool.close().await.expect("closed");
            for (drive, at, content) in beginning(&drives, NODE) {
                if content[4] == 0 && word(&content, 16) == 0 {
                    spoil(&drives[drive], at);
                }
            }
            let pool = open(shards, &drives).await;
            let device = pool.volume(id).expect("the volume");
            let rest = &all[2 * IN_LEAF..];
            fill_at_random(&device, rest, &random, &what).await;
            let held: Vec<Option<u8>> = all.iter().map(|block| Some(*block as u8)).collect();
            for device in [device, pool.snapshot_device(snapshot).expect("it is there")] {
                let lost = newly_lost(&held, &read_each(&device, blocks).await, &what);
                assert!(lost > 0 && lost <= 2 * IN_LEAF, "{what}: {lost} are lost");
            }
            pool.close().await.expect("closed");
        });
    }
}
