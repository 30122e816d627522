//! The cleaner reads one piece of a segment while it writes the one before: hosts change blocks
//! wherever those are on their way.

use crate::sharded::{create, open, read, volume};
use crate::support::BLOCK;
use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use pool::Level;
use reactor::Reactor;
use sim::{Device, Power, Random, SimDrive};
use std::rc::Rc;

const WRITERS: u64 = 8;

/// Writes over or gives back up to three blocks at a time, in a stretch that no other writer has
/// and that holds `held`; returns what it holds then.
async fn change(
    device: Rc<Device>,
    start: u64,
    mut held: Vec<u8>,
    seed: u64,
) -> (Rc<Device>, Vec<u8>) {
    let random = Random::new(seed);
    for turn in 0..held.len() {
        let at = random.below(held.len() as u64 - 3);
        let count = 1 + random.below(3);
        let byte = match random.once_in(8) {
            true => 0,
            false => 1 + (turn % 255) as u8,
        };
        let lba = Lba(start + at);
        if byte == 0 {
            let range = BlockRange::new(lba, count);
            device.deallocate(range).await.expect("given back");
        } else {
            let mut buffer = Buffer::new(count as usize * BLOCK);
            buffer.fill(byte);
            let written = device.write(lba, buffer, Durability::Durable).await;
            written.1.expect("written");
        }
        held[at as usize..(at + count) as usize].fill(byte);
    }
    (device, held)
}

/// Seven tenths of a pool are changed by several writers at once in each of three lives, which
/// all end without a word.
fn changes_keep(level: Level, lives: [usize; 3]) {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..5).map(|_| SimDrive::new(2000, power.clone())).collect();
    let mut held: Vec<Vec<u8>> = Vec::new();
    for (life, shards) in (0..).zip(lives) {
        Reactor::simulated(50 + life).run(async {
            let pool = match life {
                0 => create(shards, &drives, level).await,
                _ => open(shards, &drives).await,
            };
            if life == 0 {
                let usable = pool.status().usable_bytes / BLOCK as u64;
                let stretch = usable * 7 / 10 / WRITERS;
                held = vec![vec![0; stretch as usize]; WRITERS as usize];
                volume(&pool, stretch * WRITERS).await;
            }
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let (mut device, stretch) = (Rc::new(device), held[0].len() as u64);
            let what = format!("{level}, life {life} with {shards} shards");
            let blocks = stretch * WRITERS;
            assert_eq!(read(&device, 0, blocks).await, held.concat(), "{what}");
            let before = pool.counters().relocated_blocks;
            let writers = (0..).zip(held.drain(..)).map(|(writer, held)| {
                let seed = life * WRITERS + writer;
                reactor::spawn(change(Rc::clone(&device), writer * stretch, held, seed))
            });
            let writers: Vec<_> = writers.collect();
            for writer in writers {
                let (back, now) = writer.await;
                device = back;
                held.push(now);
            }
            let moved = pool.counters().relocated_blocks - before;
            assert!(moved > blocks / 8, "{what}: {moved} of {blocks}");
            assert_eq!(read(&device, 0, blocks).await, held.concat(), "{what}");
        });
        drives.iter().for_each(SimDrive::lose_power);
    }
}

#[test]
fn blocks_that_are_changed_while_the_cleaner_has_them_are_what_hosts_made_them() {
    for level in [Level::Raid0, Level::Raid6] {
        changes_keep(level, [1; 3]);
    }
}

#[test]
fn so_are_those_of_several_shards() {
    changes_keep(Level::Raid5, [2, 3, 1]);
}
