//! What a pool says it can hold, it holds; and at the end of its space it says so and goes on.

use crate::support::{
    BLOCK, HOST, read, settle, try_write, volume, with_drives_of, with_pool, write,
};
use block::{BlockDevice, BlockRange, Buffer, IoError, Lba};
use pool::{
    CreateOptions, Entropy, Level, Pool, PoolError, PoolState, PoolVolume, VolumeId, VolumeOptions,
};
use sim::{Random, SimDrive};
use std::rc::Rc;

/// Requests in flight.
const DEPTH: u64 = 8;

/// Writes `count` single blocks, several at a time; which ones `pick` says.
async fn write_singles(
    device: &PoolVolume<SimDrive>,
    count: u64,
    pick: impl Fn(u64) -> u64 + 'static,
) -> Result<(), (u64, IoError)> {
    let pick = Rc::new(pick);
    let tasks = (0..DEPTH).map(|task| {
        let (device, pick) = (device.clone(), pick.clone());
        reactor::spawn(async move {
            for number in (task..count).step_by(DEPTH as usize) {
                let written = try_write(&device, pick(number), 1).await;
                written.map_err(|error| (number, error))?;
            }
            Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    Ok(())
}

/// Writes every block once, in an order that looks random.
async fn fill(device: &PoolVolume<SimDrive>, blocks: u64) -> Result<(), (u64, IoError)> {
    // An odd stride that has no factor in common visits every block once.
    let stride = (blocks / 3 * 2 + 1..).find(|stride| gcd(*stride, blocks) == 1);
    let stride = stride.expect("there is one");
    write_singles(device, blocks, move |number| number * stride % blocks).await
}

fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 {
        left
    } else {
        gcd(right, left % right)
    }
}

async fn overwrite(device: &PoolVolume<SimDrive>, blocks: u64) -> Result<(), (u64, IoError)> {
    let random = Random::new(5);
    write_singles(device, blocks, move |_| random.below(blocks)).await
}

/// A pool with zones of its own choice, and a volume of `percent` of what it says it can hold.
async fn pool_with_volume(
    drives: &[SimDrive],
    level: Level,
    percent: u64,
) -> (Pool<SimDrive>, PoolVolume<SimDrive>, u64) {
    let options = CreateOptions {
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", level, HOST)
    };
    let pool = Pool::create(drives.to_vec(), options)
        .await
        .expect("a pool");
    let blocks = usable_blocks(&pool) * percent / 100;
    let id = volume(&pool, "a", blocks).await;
    let device = pool.volume(id).expect("the volume");
    (pool, device, blocks)
}

fn usable_blocks(pool: &Pool<SimDrive>) -> u64 {
    pool.status().usable_bytes / BLOCK as u64
}

/// Fills a pool to the last usable block with lone writes, overwrites it at random, and finds
/// that it is full for new blocks and open for everything else.
fn holds(level: Level, drives: usize, blocks: u64) {
    with_drives_of(drives, blocks, async |drives| {
        let (pool, device, usable) = pool_with_volume(&drives, level, 100).await;
        let what = format!("{level} on {} drives of {blocks} blocks", drives.len());
        let raw = drives.len() as u64 * blocks;
        assert!(usable * 8 > raw / 4, "{what} hold only {usable} blocks");
        assert_eq!(
            fill(&device, usable).await,
            Ok(()),
            "filling {what}: {}",
            pool.describe()
        );
        assert_eq!(
            overwrite(&device, usable).await,
            Ok(()),
            "overwriting {what}: {}",
            pool.describe()
        );
        // What was overwritten does not make it hold more than there is room for.
        let status = pool.status();
        assert!(
            status.used_bytes <= status.usable_bytes,
            "{what}: {status:?}"
        );
        let other = volume(&pool, "b", 100).await;
        let other = pool.volume(other).expect("the volume");
        let refused = try_write(&other, 0, 1).await;
        assert_eq!(refused, Err(IoError::CapacityExceeded), "{what}");
        let range = BlockRange::new(Lba(7), 20);
        device
            .deallocate(range)
            .await
            .expect("a full pool deallocates");
        assert_eq!(
            write_singles(&other, 20, |number| number).await,
            Ok(()),
            "{what}"
        );
        assert_eq!(
            try_write(&other, 20, 1).await,
            Err(IoError::CapacityExceeded),
            "{what}"
        );
        let id = pool.volumes()[0].id;
        pool.delete_volume(id).await.expect("a full pool deletes");
        assert_eq!(try_write(&other, 20, 1).await, Ok(()), "{what}");
        assert_eq!(pool.status().state, PoolState::Online);
        pool.close().await.expect("closed");
    });
}

#[test]
fn what_is_usable_can_be_used_on_few_drives() {
    for blocks in [900, 1300, 2100] {
        holds(Level::Raid0, 1, blocks);
        holds(Level::Raid1, 2, blocks);
        holds(Level::Raid5, 3, blocks);
        holds(Level::Raid6, 4, blocks);
        holds(Level::Raid10, 4, blocks);
    }
}

#[test]
fn what_is_usable_can_be_used_on_many_drives() {
    holds(Level::Raid0, 7, 900);
    holds(Level::Raid1, 5, 900);
    holds(Level::Raid5, 12, 900);
    holds(Level::Raid6, 9, 900);
    holds(Level::Raid6, 24, 900);
    holds(Level::Raid6, 32, 900);
    holds(Level::Raid10, 9, 900);
}

#[test]
fn what_is_usable_can_be_used_on_drives_of_31_mb() {
    holds(Level::Raid1, 2, 7936);
    holds(Level::Raid6, 6, 7936);
}

/// With as many columns as drives a lost drive makes every new segment narrower, and they hold less
/// than before: what a full pool holds has no room in them. It goes on as it is, without that
/// drive's share of redundancy, holds what it promised, and is rebuilt once it holds less.
#[test]
fn a_full_pool_that_loses_a_drive_goes_on_and_is_rebuilt_when_there_is_room() {
    with_drives_of(6, 1300, async |drives| {
        let (pool, device, blocks) = pool_with_volume(&drives, Level::Raid6, 98).await;
        assert_eq!(fill(&device, blocks).await, Ok(()));
        drives[3].die_after(0);
        settle().await;
        let _ = try_write(&device, 0, 1).await;
        settle().await;
        assert_eq!(pool.status().state, PoolState::Degraded);
        assert!(usable_blocks(&pool) >= blocks);
        let other = volume(&pool, "b", 100).await;
        let other = pool.volume(other).expect("the volume");
        assert_eq!(try_write(&other, 0, 1).await, Ok(()));
        for block in 0..blocks {
            let read = device.read(Lba(block), Buffer::new(BLOCK)).await;
            assert_eq!(read.1, Ok(()), "block {block}");
        }
        let half = BlockRange::new(Lba(0), blocks / 2);
        device.deallocate(half).await.expect("deallocated");
        assert_eq!(try_write(&other, 0, 1).await, Ok(()));
        for _ in 0..30 {
            settle().await;
        }
        assert_eq!(
            pool.status().state,
            PoolState::Online,
            "{}",
            pool.describe()
        );
        pool.close().await.expect("closed");
    });
}

/// Space promised to a volume is there when it is wanted, whatever the others do.
#[test]
fn a_volume_that_reserves_space_can_always_be_written() {
    with_drives_of(4, 1300, async |drives| {
        let (pool, thin, usable) = pool_with_volume(&drives, Level::Raid5, 100).await;
        let thick = reserving(&pool, "thick", usable / 2)
            .await
            .expect("it fits");
        let thick = pool.volume(thick).expect("the volume");
        assert_eq!(pool.status().reserved_bytes, usable / 2 * BLOCK as u64);
        let refused = reserving(&pool, "too much", usable / 2 + 2).await;
        assert_eq!(refused, Err(PoolError::NoSpace));
        let filled = write_singles(&thin, usable, |number| number).await;
        assert!(
            matches!(filled, Err((_, IoError::CapacityExceeded))),
            "{filled:?}"
        );
        assert!(pool.counters().host_blocks_written >= usable / 2 - DEPTH);
        for _ in 0..3 {
            assert_eq!(fill(&thick, usable / 2).await, Ok(()));
        }
        pool.checkpoint().await.expect("checkpoint");
        assert_eq!(pool.status().reserved_bytes, 0, "it holds all of it");
        pool.close().await.expect("closed");
    });
}

/// After a snapshot none of its blocks are the volume's own: as much space is needed again.
#[test]
fn a_snapshot_of_a_volume_that_reserves_space_needs_as_much_again() {
    with_drives_of(4, 1300, async |drives| {
        let (pool, _, usable) = pool_with_volume(&drives, Level::Raid5, 100).await;
        let part = usable * 2 / 5;
        let id = reserving(&pool, "thick", part).await.expect("it fits");
        let device = pool.volume(id).expect("the volume");
        assert_eq!(fill(&device, part).await, Ok(()));
        let taken = pool.snapshot(&[(id, "first".to_owned())]).await;
        let first = taken.expect("as much again fits")[0];
        assert_eq!(fill(&device, part).await, Ok(()));
        let refused = pool.snapshot(&[(id, "second".to_owned())]).await;
        assert_eq!(refused, Err(PoolError::NoSpace));
        let larger = usable * 7 / 10 * BLOCK as u64;
        let refused = pool.resize_volume(id, larger, false).await;
        assert_eq!(refused, Err(PoolError::NoSpace));
        let back = pool.rollback(id, first).await;
        back.expect("what was written since goes");
        assert_eq!(fill(&device, part).await, Ok(()));
        pool.reserve_volume(id, false).await.expect("thin now");
        let grown = pool.resize_volume(id, larger, false).await;
        grown.expect("a thin volume may grow");
        let refused = pool.reserve_volume(id, true).await;
        assert_eq!(refused, Err(PoolError::NoSpace));
        pool.close().await.expect("closed");
    });
}

async fn reserving(pool: &Pool<SimDrive>, name: &str, blocks: u64) -> Result<VolumeId, PoolError> {
    let options = VolumeOptions {
        bytes: blocks * BLOCK as u64,
        reserved: true,
        ..VolumeOptions::default()
    };
    pool.create_volume(name, options).await
}

/// Blocks that were being overwritten counted as new ones: a write was refused in a pool that had
/// room for it.
#[test]
fn what_is_being_overwritten_takes_no_room_from_others() {
    with_pool(Level::Raid0, 1, async |pool, _| {
        let id = volume(&pool, "a", 700).await;
        let usable = pool.status().usable_bytes / BLOCK as u64;
        let (half, more) = (usable / 5, usable * 3 / 10);
        for start in [0, half] {
            write(&pool, id, start, half, 1).await;
        }
        pool.checkpoint().await.expect("checkpoint");
        let overwriting = [0, half].map(|start| {
            let pool = pool.clone();
            reactor::spawn(async move { write(&pool, id, start, half, 2).await })
        });
        reactor::yield_now().await;
        write(&pool, id, 2 * half, more, 3).await;
        for task in overwriting {
            task.await;
        }
        assert_eq!(read(&pool, id, 2 * half - 1, 2).await[..BLOCK], [2; BLOCK]);
        assert_eq!(read(&pool, id, 2 * half - 1, 2).await[BLOCK..], [3; BLOCK]);
    });
}

type Writes = Vec<reactor::Task<Result<(), IoError>>>;

/// Begins to write all of a volume, everything at once.
fn begin_to_write_all(device: &PoolVolume<SimDrive>, blocks: u64) -> Writes {
    let starts = (0..blocks).step_by(16);
    let writes = starts.map(|start| {
        let device = device.clone();
        reactor::spawn(async move { try_write(&device, start, 16.min(blocks - start)).await })
    });
    writes.collect()
}

/// How many were refused.
async fn refused(writes: Writes) -> usize {
    let mut refused = 0;
    for write in writes {
        refused += usize::from(write.await.is_err());
    }
    refused
}

/// What was written to it between a look at what is held and the snapshot counted nowhere.
#[test]
fn a_snapshot_of_a_volume_that_reserves_space_is_reckoned_with_what_is_being_written() {
    with_drives_of(4, 1300, async |drives| {
        let (pool, thin, usable) = pool_with_volume(&drives, Level::Raid5, 100).await;
        let part = usable * 2 / 5;
        let thick = reserving(&pool, "thick", part).await.expect("it fits");
        let device = pool.volume(thick).expect("the volume");
        assert_eq!(fill(&thin, usable - part).await, Ok(()));
        pool.checkpoint().await.expect("checkpoint");
        let writes = begin_to_write_all(&device, part);
        reactor::yield_now().await;
        let taken = pool.snapshot(&[(thick, "then".to_owned())]).await;
        assert_eq!(taken.err(), Some(PoolError::NoSpace));
        assert_eq!(refused(writes).await, 0);
        for _ in 0..3 {
            assert_eq!(refused(begin_to_write_all(&device, part)).await, 0);
        }
        pool.close().await.expect("closed");
    });
}

/// Overwrites that were let pass since the volume held their blocks, and that a snapshot overtook,
/// took the space that is kept for another volume: the snapshot holds those blocks from then on.
#[test]
fn what_a_snapshot_overtakes_takes_no_space_that_is_promised() {
    with_drives_of(4, 1300, async |drives| {
        let (pool, thin, usable) = pool_with_volume(&drives, Level::Raid5, 100).await;
        let part = usable / 2;
        let thick = reserving(&pool, "thick", part).await.expect("it fits");
        let thick = pool.volume(thick).expect("the volume");
        let held = usable - part;
        assert_eq!(fill(&thin, held).await, Ok(()));
        pool.checkpoint().await.expect("checkpoint");
        let id = pool.volumes()[0].id;
        let overwrites = begin_to_write_all(&thin, held);
        reactor::yield_now().await;
        let taken = pool.snapshot(&[(id, "then".to_owned())]).await;
        taken.expect("a snapshot");
        let overtaken = refused(overwrites).await;
        for _ in 0..3 {
            assert_eq!(refused(begin_to_write_all(&thick, part)).await, 0);
        }
        assert!(overtaken > 0, "nothing was queued");
        pool.checkpoint().await.expect("checkpoint");
        assert!(pool.status().used_bytes <= pool.status().usable_bytes);
        pool.close().await.expect("closed");
    });
}
