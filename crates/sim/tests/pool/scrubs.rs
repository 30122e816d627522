//! A scrub gives way to hosts, and ends when it is told to.

use crate::support::{BLOCK, read, settle, volume, with_pool, write, write_runs};
use block::{BlockDevice, Buffer, Lba};
use pool::{Level, Pool, PoolError, VolumeId};
use reactor::Task;
use sim::SimDrive;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn hosts_slow_a_scrub_down() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "v", 800).await;
        write_runs(&pool, id, 50).await;
        let alone = timed(async { pool.scrub().await.map(|report| report.stripes) }).await;
        let device = pool.volume(id).expect("the volume");
        let over = Rc::new(Cell::new(false));
        let host = reactor::spawn({
            let over = over.clone();
            async move {
                while !over.get() {
                    let (_, read) = device.read(Lba(3), Buffer::new(BLOCK)).await;
                    read.expect("it is there");
                    reactor::yield_now().await;
                }
            }
        });
        let beside = timed(async { pool.scrub().await.map(|report| report.stripes) }).await;
        over.set(true);
        host.await;
        assert_eq!(beside.0, alone.0, "it checks as much");
        assert!(
            beside.1 > 2 * alone.1,
            "{alone:?} alone, {beside:?} beside a host"
        );
    });
}

#[test]
fn a_scrub_ends_when_told_to_and_the_next_one_checks_everything() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "v", 800).await;
        write_runs(&pool, id, 50).await;
        let whole = pool.scrub().await.expect("a scrub");
        let begun = reactor::spawn({
            let pool = pool.clone();
            async move { pool.scrub().await }
        });
        for _ in 0..5 {
            reactor::yield_now().await;
        }
        pool.stop_scrub();
        assert_eq!(begun.await, Err(PoolError::ScrubStopped));
        let again = pool.scrub().await.expect("a scrub");
        assert_eq!((again.stripes, again.nodes), (whole.stripes, whole.nodes));
    });
}

/// What `work` gives, and how long it takes.
async fn timed<T: std::fmt::Debug>(
    work: impl Future<Output = Result<T, PoolError>>,
) -> (T, Duration) {
    let begun = reactor::now();
    let done = work.await.expect("nothing fails");
    (done, reactor::now() - begun)
}

/// Every block that is full of `byte`: a drive and a block of it.
fn find(drives: &[SimDrive], byte: u8) -> Vec<(usize, u64)> {
    let full = |(_, content): &(u64, Vec<u8>)| content.iter().all(|one| *one == byte);
    let on = |drive: &SimDrive| drive.blocks_written().into_iter().filter(full);
    let found = drives.iter().enumerate();
    found
        .flat_map(|(index, drive)| on(drive).map(move |(at, _)| (index, at)))
        .collect()
}

/// A reader of the run that is full of `byte`, the drive that holds it, and the block that it waits
/// for. Parity of equal blocks can be full of the same byte, and is no block that hosts read.
async fn hold_a_reader(
    (pool, id): (&Pool<SimDrive>, VolumeId),
    drives: &[SimDrive],
    byte: u8,
) -> (Task<Vec<u8>>, usize, u64) {
    for (drive, at) in find(drives, byte) {
        drives[drive].hold_reads_of(Some(at));
        let pool = pool.clone();
        let reader = reactor::spawn(async move { read(&pool, id, u64::from(byte) * 16, 16).await });
        settle().await;
        if drives[drive].held_reads() == 1 {
            return (reader, drive, at);
        }
        drives[drive].hold_reads_of(None);
        reader.await;
    }
    panic!("run {byte} has no block that hosts read");
}

/// A segment in which nothing lives waits for its readers to be freed; when the last one ended
/// while a scrub checked it, its zones were written anew and the scrub put back what had been
/// there.
#[test]
fn a_scrub_leaves_segments_alone_that_only_wait_for_their_readers() {
    let mut reused = [3, 8, 13, 18, 23, 28, 33, 38, 43, 48].map(scrub_beside_a_reader);
    reused.sort_unstable();
    assert!(reused.contains(&true), "no zone was written anew");
}

/// Has a run read, written over and checked at once. Says whether its zone was written anew before
/// the check was through: zones that are set apart meanwhile are not.
fn scrub_beside_a_reader(watched: u8) -> bool {
    // Segments enough that hosts come to the first ones again before they have to wait.
    const RUNS: u64 = 60;
    let reused = Cell::new(false);
    with_pool(Level::Raid5, 4, async |pool, drives| {
        let id = volume(&pool, "v", RUNS * 16).await;
        write_runs(&pool, id, RUNS).await;
        pool.checkpoint().await.expect("a checkpoint");
        let (reader, drive, at) = hold_a_reader((&pool, id), &drives, watched).await;
        for run in 0..RUNS {
            write(&pool, id, run * 16, 16, 100 + run as u8).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        let scrub = reactor::spawn({
            let pool = pool.clone();
            async move { pool.scrub().await }
        });
        settle().await;
        drives[drive].hold_reads_of(None);
        drives[drive].let_read_go();
        assert!(reader.await.iter().all(|byte| *byte == watched));
        // Its zones are free, and taken when those that were free before have been.
        let former = [drives[drive].content(at), vec![0; BLOCK]];
        for run in (0..RUNS).cycle().take(20 * RUNS as usize) {
            write(&pool, id, run * 16, 16, run as u8).await;
            reused.set(!former.contains(&drives[drive].content(at)));
            if reused.get() {
                break;
            }
        }
        drives[drive].let_read_go();
        scrub.await.expect("a scrub");
        let again = pool.scrub().await.expect("a scrub");
        assert_eq!(again.repaired, 0, "{again:?}");
    });
    reused.get()
}
