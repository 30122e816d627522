//! Using a pool for everything that looks at what lies on its drives.

use crate::drive::SimDrive;
use crate::golden;
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{Entropy, OpenOptions, Pool, PoolError};
use reactor::Reactor;
use std::time::Duration;

/// In virtual time, in which a pool waits for drives and for other hosts.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Blocks of each volume that are read, and of one request.
const READ: u64 = 256;
const RUN: u64 = 16;

/// Looks at drives, opens their pool, and reads, writes, counts, checks and closes it: returns why
/// that could not be done. `None` if it never ended, in virtual time.
pub fn open_and_use(drives: Vec<SimDrive>) -> Option<Result<(), PoolError>> {
    Reactor::simulated(5).run(async { reactor::timeout(PATIENCE, open(drives)).await.ok() })
}

async fn open(drives: Vec<SimDrive>) -> Result<(), PoolError> {
    for drive in &drives {
        // What people are shown, whatever it is.
        let label = pool::probe(drive).await;
        drop(format!("{label:?}"));
    }
    let options = OpenOptions {
        force: true,
        entropy: Entropy::seeded(4),
        ..OpenOptions::new(golden::HOST)
    };
    let pool = Pool::open(drives, options).await?;
    let used = use_all(&pool).await;
    let closed = pool.close().await;
    used.and(closed)
}

async fn use_all(pool: &Pool<SimDrive>) -> Result<(), PoolError> {
    for volume in pool.volumes() {
        let device = pool.volume(volume.id)?;
        let blocks = device.geometry().block_count;
        for start in (0..blocks.min(READ)).step_by(RUN as usize) {
            let bytes = (blocks - start).min(RUN) as usize * 4096;
            // That blocks are lost is in order.
            let _ = device.read(Lba(start), Buffer::new(bytes)).await;
        }
        for block in [0, blocks - 1] {
            let buffer = Buffer::zeroed(4096);
            let _ = device.write(Lba(block), buffer, Durability::Durable).await;
        }
    }
    pool.checkpoint().await?;
    pool.accounting().await?;
    let mut before = None;
    for snapshot in pool.snapshots() {
        let mut from = Some(0);
        while let Some(at) = from {
            from = pool.extents(snapshot.id, before, at, 64).await?.next;
        }
        before = Some(snapshot.id);
    }
    pool.scrub().await.map(drop)
}
