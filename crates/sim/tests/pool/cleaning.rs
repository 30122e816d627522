//! Cleaning beside hosts, over drives that transfer one block after the other: hosts come first.

use crate::support::{BLOCK, HOST, volume, with_drives_of};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, Entropy, Level, Pool, PoolVolume, Settings};
use sim::{Random, SimDrive};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// A drive takes so long for each block, whoever asks for it.
const TRANSFER: Duration = Duration::from_micros(4);
/// Each of the writers rests so long after each write.
const REST: Duration = Duration::from_micros(400);
const WRITERS: u64 = 4;
/// Blocks of a piece; a segment has sixteen of them.
const PIECE: u32 = 64;

async fn create(drives: &[SimDrive]) -> Pool<SimDrive> {
    let options = CreateOptions {
        zone_bytes: Some(256 * BLOCK as u64),
        settings: Settings {
            checkpoint_updates: 3000,
            cleaner_piece_blocks: PIECE,
            ..Settings::default()
        },
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid6, HOST)
    };
    let made = Pool::create(drives.to_vec(), options).await;
    made.expect("a pool")
}

async fn write(device: &PoolVolume<SimDrive>, start: u64, blocks: u64) {
    let buffer = Buffer::zeroed(blocks as usize * BLOCK);
    let written = device.write(Lba(start), buffer, Durability::Durable).await;
    written.1.expect("written");
}

/// How long reads take, in their order, and the longest write, while a volume that fills the pool
/// by that percentage is written over at random for some time.
async fn times(
    pool: &Pool<SimDrive>,
    drives: &[SimDrive],
    percent: u64,
) -> (Vec<Duration>, Duration) {
    let blocks = pool.status().usable_bytes / BLOCK as u64 * percent / 100;
    let id = volume(pool, "a", blocks).await;
    let device = pool.volume(id).expect("the volume");
    for start in (0..blocks - 16).step_by(16) {
        write(&device, start, 16).await;
    }
    for drive in drives {
        drive.take_turns(TRANSFER);
    }
    let over = Rc::new(Cell::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (device, over) = (device.clone(), over.clone());
            reactor::spawn(async move {
                let (random, mut longest) = (Random::new(writer), Duration::ZERO);
                while !over.get() {
                    let begun = reactor::now();
                    write(&device, random.below(blocks), 1).await;
                    longest = longest.max(reactor::now() - begun);
                    reactor::sleep(REST).await;
                }
                longest
            })
        })
        .collect();
    let (random, mut reads, begun) = (Random::new(99), Vec::new(), reactor::now());
    while reactor::now() - begun < Duration::from_secs(2) {
        let begun = reactor::now();
        let read = device
            .read(Lba(random.below(blocks)), Buffer::new(BLOCK))
            .await;
        read.1.expect("read");
        reads.push(reactor::now() - begun);
        reactor::sleep(Duration::from_micros(100)).await;
    }
    over.set(true);
    let mut longest = Duration::ZERO;
    for writer in writers {
        longest = longest.max(writer.await);
    }
    reads.sort_unstable();
    (reads, longest)
}

/// Hosts waited for as long as it takes to read and write a whole segment.
#[test]
fn hosts_wait_for_a_piece_of_what_is_cleaned_at_most() {
    with_drives_of(6, 12_000, async |drives| {
        let pool = create(&drives).await;
        let (reads, longest_write) = times(&pool, &drives, 85).await;
        let moved = pool.counters().relocated_blocks;
        assert!(moved > 20_000, "{moved} blocks moved");
        let at = |share: usize| reads[reads.len() * share / 100];
        let alone = Duration::from_micros(50) + TRANSFER;
        assert!(at(50) < alone, "{:?} in the middle", at(50));
        assert!(at(95) < 2 * alone, "{:?} for 95 of 100", at(95));
        let longest = reads[reads.len() - 1];
        // Several pieces may be under way, of which each drive reads a part and writes it.
        let pieces = TRANSFER * (8 * PIECE / 4);
        assert!(longest < pieces, "{longest:?} for a read");
        assert!(longest_write < 2 * pieces, "{longest_write:?} for a write");
        pool.close().await.expect("closed");
    });
}
