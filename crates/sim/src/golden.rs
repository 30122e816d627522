//! Golden images: drives of pools as some version of the product left them, in a few kilobytes.
//!
//! An image is the drives one after the other: size in blocks (8 bytes), number of blocks that are
//! not zero (8), then each: its number (8), number of runs (2), and runs of equal words: how many
//! (2), the word (8). Numbers are little-endian.

use crate::drive::{Power, SimDrive};
use crate::world::race;
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::{
    CreateOptions, Entropy, HostId, Level, Pool, PoolError, SnapshotId, VolumeId, VolumeOptions,
};
use reactor::Reactor;
use std::cell::Cell;
use std::rc::Rc;

const BLOCK: usize = 4096;
const WORD: usize = 8;
/// Blocks of one write.
const RUN: usize = 12;

/// The host that holds the pools in the images.
pub const HOST: HostId = HostId([0x60; 16]);

/// An image: how it is called, and what is special about its pool.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// Name of its file, without `.image`.
    pub name: &'static str,
    level: Level,
    drives: usize,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Closed and handed over.
    Exported,
    /// The power failed: the log has to be replayed.
    Crashed,
    /// A drive has failed, and then the power.
    Degraded,
}

/// Every image there is. One is never changed: a new format gets new ones beside them.
pub const ALL: [Golden; 3] = [
    Golden {
        name: "v1-raid6-exported",
        level: Level::Raid6,
        drives: 5,
        end: End::Exported,
    },
    Golden {
        name: "v1-raid10-crashed",
        level: Level::Raid10,
        drives: 4,
        end: End::Crashed,
    },
    Golden {
        name: "v1-raid1-degraded",
        level: Level::Raid1,
        drives: 2,
        end: End::Degraded,
    },
];

/// The byte that fills a block of a volume in its `round`-th writing.
fn fill(round: u8, block: u64) -> u8 {
    (block as u8).wrapping_mul(31).wrapping_add(round) | 1
}

async fn write(
    pool: &Pool<SimDrive>,
    id: VolumeId,
    blocks: std::ops::Range<u64>,
    round: u8,
) -> Result<(), PoolError> {
    let device = pool.volume(id)?;
    for start in blocks.clone().step_by(RUN) {
        let run = (blocks.end - start).min(RUN as u64);
        let mut buffer = Buffer::new(run as usize * BLOCK);
        for (block, content) in (start..).zip(buffer.chunks_mut(BLOCK)) {
            content.fill(fill(round, block));
        }
        let written = device.write(Lba(start), buffer, Durability::Durable).await;
        written.1?;
    }
    Ok(())
}

/// Fills a new pool with a volume, a snapshot, a clone and a volume that reserves space.
async fn fill_pool(pool: &Pool<SimDrive>) -> Result<(), PoolError> {
    let options = |blocks: u64, reserved| VolumeOptions {
        bytes: blocks * BLOCK as u64,
        reserved,
        attributes: b"kept for the user".to_vec(),
    };
    let first = pool.create_volume("first", options(300, false)).await?;
    write(pool, first, 0..200, 1).await?;
    let snapshots = [(first, "snapshot".to_owned())];
    let snapshot = pool.snapshot(&snapshots).await?[0];
    write(pool, first, 100..250, 2).await?;
    let device = pool.volume(first)?;
    device.deallocate(BlockRange::new(Lba(40), 20)).await?;
    let clone = pool.clone_snapshot(snapshot, "clone").await?;
    write(pool, clone, 10..30, 3).await?;
    let thick = pool.create_volume("reserved", options(64, true)).await?;
    // Behind the last checkpoint.
    write(pool, thick, 0..40, 4).await?;
    write(pool, first, 0..10, 5).await
}

/// Makes an image with the code as it is.
///
/// # Errors
/// The pool refused something.
pub fn make(golden: &Golden) -> Result<Vec<u8>, PoolError> {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives: Vec<SimDrive> = (0..golden.drives)
        .map(|_| SimDrive::new(1300, power.clone()))
        .collect();
    let result = Rc::new(Cell::new(None));
    Reactor::simulated(11).run(race(std::future::pending::<()>(), async {
        result.set(Some(live(golden, &drives).await));
    }));
    result.take().unwrap_or(Ok(()))?;
    Ok(drives.iter().flat_map(drive_bytes).collect())
}

async fn live(golden: &Golden, drives: &[SimDrive]) -> Result<(), PoolError> {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        entropy: Entropy::seeded(0x601d),
        ..CreateOptions::new("golden", golden.level, HOST)
    };
    let pool = Pool::create(drives.to_vec(), options).await?;
    if golden.end == End::Degraded {
        pool.fail_drive(pool.status().drives[1].id).await?;
    }
    fill_pool(&pool).await?;
    match golden.end {
        End::Exported => pool.export().await,
        End::Crashed | End::Degraded => Ok(()),
    }
}

/// Checks that an open pool holds exactly what its image was made with.
///
/// # Errors
/// What differs.
pub async fn verify(pool: &Pool<SimDrive>) -> Result<(), String> {
    let volumes = pool.volumes();
    let names: Vec<(&str, u64, bool)> = volumes
        .iter()
        .map(|found| {
            (
                found.name.as_str(),
                found.bytes / BLOCK as u64,
                found.reserved,
            )
        })
        .collect();
    let expected = [
        ("first", 300, false),
        ("clone", 300, false),
        ("reserved", 64, true),
    ];
    if names != expected || volumes[0].attributes != b"kept for the user" {
        return Err(format!("other volumes: {volumes:?}"));
    }
    let snapshots = pool.snapshots();
    let [snapshot] = &snapshots[..] else {
        return Err(format!("other snapshots: {snapshots:?}"));
    };
    let base = |block: u64| if block < 200 { fill(1, block) } else { 0 };
    let first = |block: u64| match block {
        0..10 => fill(5, block),
        40..60 => 0,
        100..250 => fill(2, block),
        _ => base(block),
    };
    let clone = |block: u64| match block {
        10..30 => fill(3, block),
        _ => base(block),
    };
    let thick = |block: u64| if block < 40 { fill(4, block) } else { 0 };
    compare(pool, Some(volumes[0].id), None, 300, &first).await?;
    compare(pool, Some(volumes[1].id), None, 300, &clone).await?;
    compare(pool, Some(volumes[2].id), None, 64, &thick).await?;
    compare(pool, None, Some(snapshot.id), 300, &base).await
}

async fn compare(
    pool: &Pool<SimDrive>,
    volume: Option<VolumeId>,
    snapshot: Option<SnapshotId>,
    blocks: u64,
    expected: &dyn Fn(u64) -> u8,
) -> Result<(), String> {
    let device = match (volume, snapshot) {
        (Some(id), _) => pool.volume(id),
        (None, Some(id)) => pool.snapshot_device(id),
        (None, None) => return Err("nothing to compare".to_owned()),
    };
    let device = device.map_err(|error| error.to_string())?;
    for block in 0..blocks {
        let (buffer, result) = device.read(Lba(block), Buffer::new(BLOCK)).await;
        result.map_err(|error: IoError| format!("block {block}: {error}"))?;
        if buffer.iter().any(|byte| *byte != expected(block)) {
            return Err(format!("block {block} of {volume:?} {snapshot:?} differs"));
        }
    }
    Ok(())
}

fn drive_bytes(drive: &SimDrive) -> Vec<u8> {
    let blocks = drive.blocks_written();
    let mut bytes = Vec::new();
    bytes.extend(drive.geometry().block_count.to_le_bytes());
    bytes.extend((blocks.len() as u64).to_le_bytes());
    for (number, content) in blocks {
        let mut runs: Vec<(u16, &[u8])> = Vec::new();
        for word in content.chunks(WORD) {
            match runs.last_mut() {
                Some((count, last)) if *last == word => *count += 1,
                _ => runs.push((1, word)),
            }
        }
        bytes.extend(number.to_le_bytes());
        bytes.extend((runs.len() as u16).to_le_bytes());
        for (count, word) in runs {
            bytes.extend(count.to_le_bytes());
            bytes.extend(word);
        }
    }
    bytes
}

/// The drives of an image; `None` if it is not one.
pub fn drives(image: &[u8]) -> Option<Vec<SimDrive>> {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let mut rest = image;
    let mut drives = Vec::new();
    while !rest.is_empty() {
        let drive = SimDrive::new(number(&mut rest, 8)?, power.clone());
        for _ in 0..number(&mut rest, 8)? {
            let block = number(&mut rest, 8)?;
            let mut content = Vec::with_capacity(BLOCK);
            for _ in 0..number(&mut rest, 2)? {
                let count = number(&mut rest, 2)? as usize;
                let word = number(&mut rest, 8)?.to_le_bytes();
                content.extend(word.repeat(count));
            }
            drive.put(block, (content.len() == BLOCK).then_some(content)?);
        }
        drives.push(drive);
    }
    Some(drives)
}

fn number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let (head, tail) = rest.split_at_checked(bytes)?;
    *rest = tail;
    let byte = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
    Some(head.iter().rev().fold(0, byte))
}
