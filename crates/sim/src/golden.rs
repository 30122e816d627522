//! Golden images: drives of pools as some version of the product left them, in a few kilobytes.

mod packed;

pub use packed::{drives, drives_on};

use crate::drive::{Power, SimDrive};
use crate::random::Random;
use crate::world::race;
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::{
    CreateOptions, Entropy, HostId, Level, OpenOptions, Pool, PoolError, Settings, SnapshotId,
    VolumeId, VolumeInfo, VolumeOptions,
};
use reactor::Reactor;
use std::cell::Cell;
use std::rc::Rc;

const BLOCK: usize = 4096;
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
    /// Behind a deleted snapshot two layers were becoming one when the power failed.
    Folding,
    /// Segments were cleaned and written again while the maps still named them, the power failed,
    /// and failed once more when the pool had just been opened, before it merged what it found.
    Reused,
}

/// Every image there is. One is never changed: a new format gets new ones beside them.
pub const ALL: [Golden; 9] = [
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
    Golden {
        name: "v1-raid5-reused",
        level: Level::Raid5,
        drives: 3,
        end: End::Reused,
    },
    Golden {
        name: "v2-raid6-folding",
        level: Level::Raid6,
        drives: 5,
        end: End::Folding,
    },
    Golden {
        name: "v2-raid0-exported",
        level: Level::Raid0,
        drives: 2,
        end: End::Exported,
    },
    Golden {
        name: "v3-raid1-degraded",
        level: Level::Raid1,
        drives: 2,
        end: End::Degraded,
    },
    Golden {
        name: "v3-raid5-reused",
        level: Level::Raid5,
        drives: 3,
        end: End::Reused,
    },
    Golden {
        name: "v3-raid6-folding",
        level: Level::Raid6,
        drives: 5,
        end: End::Folding,
    },
];

/// Blocks of the volume that is written over and over, and how often.
const WORN_BLOCKS: u64 = 240;
const WORN_ROUNDS: u8 = 8;

/// Blocks of the volume whose layers are becoming one, and the first that was written over.
const FOLDED_BLOCKS: u64 = 800;
const FOLDED_FROM: u64 = 200;

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

/// Writes a volume over and over in random order, until the pool has to clean.
async fn wear(pool: &Pool<SimDrive>) -> Result<(), PoolError> {
    let options = VolumeOptions {
        bytes: WORN_BLOCKS * BLOCK as u64,
        ..VolumeOptions::default()
    };
    let worn = pool.create_volume("worn", options).await?;
    let random = Random::new(0x601d);
    for round in 1..=WORN_ROUNDS {
        let mut runs: Vec<u64> = (0..WORN_BLOCKS).step_by(RUN).collect();
        while !runs.is_empty() {
            let start = runs.swap_remove(random.below(runs.len() as u64) as usize);
            write(pool, worn, start..start + RUN as u64, round).await?;
        }
    }
    Ok(())
}

/// Has two layers become one, leaf by leaf, and leaves them half way.
async fn fold(pool: &Pool<SimDrive>) -> Result<(), PoolError> {
    let options = VolumeOptions {
        bytes: FOLDED_BLOCKS * BLOCK as u64,
        ..VolumeOptions::default()
    };
    let folded = pool.create_volume("folded", options).await?;
    write(pool, folded, 0..FOLDED_BLOCKS, 6).await?;
    let gone = pool.snapshot(&[(folded, "gone".to_owned())]).await?[0];
    write(pool, folded, FOLDED_FROM..FOLDED_BLOCKS, 7).await?;
    pool.checkpoint().await?;
    pool.delete_snapshot(gone).await?;
    pool.checkpoint().await?;
    assert!(pool.status().removing, "it takes more steps than one");
    Ok(())
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
    if golden.end == End::Reused {
        drives.iter().for_each(SimDrive::lose_power);
        power.switch_on(u64::MAX);
        let options = OpenOptions {
            entropy: Entropy::seeded(0x601e),
            ..OpenOptions::new(HOST)
        };
        let opened = Reactor::simulated(12)
            .run(async { Pool::open(drives.clone(), options).await.map(drop) });
        opened?;
    }
    Ok(drives.iter().flat_map(packed::drive_bytes).collect())
}

async fn live(golden: &Golden, drives: &[SimDrive]) -> Result<(), PoolError> {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        entropy: Entropy::seeded(0x601d),
        settings: Settings {
            leaves_removed_at_once: 1,
            ..Settings::default()
        },
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
        End::Folding => fold(&pool).await,
        End::Reused => wear(&pool).await,
    }
}

/// Checks that an open pool holds exactly what its image was made with.
///
/// # Errors
/// What differs.
pub async fn verify(pool: &Pool<SimDrive>) -> Result<(), String> {
    let volumes = pool.volumes();
    let named = |found: &VolumeInfo| (found.name.clone(), found.bytes / BLOCK as u64);
    let names: Vec<(String, u64)> = volumes.iter().map(named).collect();
    let expected = [("first", 300), ("clone", 300), ("reserved", 64)];
    let expected = expected.map(|(name, blocks)| (name.to_owned(), blocks));
    let more = [
        ("worn".to_owned(), WORN_BLOCKS),
        ("folded".to_owned(), FOLDED_BLOCKS),
    ];
    let as_made = names.starts_with(&expected)
        && names[expected.len()..]
            .iter()
            .all(|found| more.contains(found))
        && volumes[0].attributes == b"kept for the user"
        && volumes
            .iter()
            .all(|found| found.reserved == (found.name == "reserved"));
    if !as_made {
        return Err(format!("other volumes: {volumes:?}"));
    }
    let snapshots = pool.snapshots();
    let [snapshot] = &snapshots[..] else {
        return Err(format!("other snapshots: {snapshots:?}"));
    };
    if snapshot.volume != volumes[0].id {
        return Err(format!("of another volume: {snapshot:?}"));
    }
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
    let worn = |block: u64| fill(WORN_ROUNDS, block);
    let folded = |block: u64| match block {
        0..FOLDED_FROM => fill(6, block),
        _ => fill(7, block),
    };
    for found in &volumes[expected.len()..] {
        let content: &dyn Fn(u64) -> u8 = match found.name == "worn" {
            true => &worn,
            false => &folded,
        };
        compare(
            pool,
            Some(found.id),
            None,
            found.bytes / BLOCK as u64,
            content,
        )
        .await?;
    }
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
