//! What scenarios of pools on several shards share.

use crate::support::{BLOCK, HOST};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use pool::{CreateOptions, Entropy, Level, OpenOptions, Settings, VolumeId, VolumeOptions};
use sim::{Device, Served, SimDrive};

/// Blocks of a slice.
pub const SLICE: u64 = 16;

/// Small slices, pieces of few rows for the cleaner, and no cache for the map.
fn settings() -> Settings {
    Settings {
        map_cache_bytes: 0,
        slice_blocks: SLICE as u32,
        cleaner_piece_blocks: 16,
        ..Settings::default()
    }
}

/// A new pool of small segments.
pub async fn create(shards: usize, drives: &[SimDrive], level: Level) -> Served {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings: settings(),
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", level, HOST)
    };
    let made = Served::create(shards, drives.to_vec(), options).await;
    made.expect("a pool")
}

/// Opens the pool on `drives`.
pub async fn open(shards: usize, drives: &[SimDrive]) -> Served {
    let options = OpenOptions {
        settings: settings(),
        entropy: Entropy::seeded(4),
        ..OpenOptions::new(HOST)
    };
    let opened = Served::open(shards, drives.to_vec(), options).await;
    opened.expect("the pool opens")
}

pub async fn volume(pool: &Served, blocks: u64) -> VolumeId {
    let options = VolumeOptions {
        bytes: blocks * BLOCK as u64,
        ..VolumeOptions::default()
    };
    pool.create_volume("a", options).await.expect("a volume")
}

/// A new pool in its first life, with a volume of three fifths of it; after that the same again.
pub async fn begin_life(
    life: u8,
    shards: usize,
    drives: &[SimDrive],
    level: Level,
) -> (Served, Device) {
    let pool = match life {
        0 => create(shards, drives, level).await,
        _ => open(shards, drives).await,
    };
    if life == 0 {
        let usable = pool.status().usable_bytes / BLOCK as u64;
        volume(&pool, usable * 3 / 5).await;
    }
    let device = pool.volume(pool.volumes()[0].id).expect("the volume");
    (pool, device)
}

/// Writes blocks that are full of `byte`.
pub async fn try_write(device: &Device, start: u64, blocks: u64, byte: u8) -> Result<(), IoError> {
    let mut buffer = Buffer::new(blocks as usize * BLOCK);
    buffer.fill(byte);
    device
        .write(Lba(start), buffer, Durability::Durable)
        .await
        .1
}

/// The same, of what nothing stands in the way.
pub async fn write(device: &Device, start: u64, blocks: u64, byte: u8) {
    let written = try_write(device, start, blocks, byte).await;
    written.expect("written");
}

/// The first byte of each block, each of which has only that.
pub async fn read(device: &Device, start: u64, blocks: u64) -> Vec<u8> {
    let buffer = Buffer::new(blocks as usize * BLOCK);
    let (buffer, result) = device.read(Lba(start), buffer).await;
    result.expect("read");
    let one = |block: &[u8]| {
        assert!(block.iter().all(|byte| *byte == block[0]), "a mixture");
        block[0]
    };
    buffer.chunks(BLOCK).map(one).collect()
}
