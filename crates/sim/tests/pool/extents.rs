//! What snapshots hold, and by what they differ, block by block.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "sets are made of runs, and some of one"
)]

use crate::support::{BLOCK, create, open, rest, volume, with_drives_of, with_pool, write};
use block::{BlockDevice, BlockRange, Lba};
use pool::{Level, Pool, PoolError, SnapshotId, VolumeId};
use sim::{Options, Random, SimDrive, run};
use std::collections::BTreeSet;
use std::time::Duration;

async fn snapshot(pool: &Pool<SimDrive>, id: VolumeId, name: &str) -> SnapshotId {
    let taken = pool.snapshot(&[(id, name.to_owned())]).await;
    taken.expect("a snapshot")[0]
}

/// The blocks that hold something, or may differ, and those of them that read as zeroes; asked for
/// `limit` extents at a time.
async fn blocks(
    pool: &Pool<SimDrive>,
    id: SnapshotId,
    since: Option<SnapshotId>,
    limit: usize,
) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut data, mut zeroes) = (BTreeSet::new(), BTreeSet::new());
    let mut from = Some(0);
    while let Some(at) = from {
        let some = pool.extents(id, since, at, limit).await.expect("extents");
        assert!(some.extents.len() <= limit);
        for extent in some.extents {
            let start = extent.start / BLOCK as u64;
            let run = start..start + extent.bytes / BLOCK as u64;
            let kind = if extent.zeroes {
                &mut zeroes
            } else {
                &mut data
            };
            kind.extend(run);
        }
        from = some.next;
    }
    (data, zeroes)
}

async fn deallocate(pool: &Pool<SimDrive>, id: VolumeId, start: u64, blocks: u64) {
    let device = pool.volume(id).expect("the volume");
    let range = BlockRange::new(Lba(start), blocks);
    device.deallocate(range).await.expect("deallocated");
}

fn set(ranges: impl IntoIterator<Item = std::ops::Range<u64>>) -> BTreeSet<u64> {
    ranges.into_iter().flatten().collect()
}

/// Exactly what was written and deallocated in between, also with the snapshots in between deleted,
/// their layers joined, the pool opened anew, and whichever way the answer is cut.
#[test]
fn a_difference_is_what_was_written_in_between() {
    with_drives_of(4, 6000, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 4000).await;
        write(&pool, id, 100, 200, 1).await;
        let first = snapshot(&pool, id, "first").await;
        assert_eq!(blocks(&pool, first, None, 3).await.0, set([100..300]));
        let random = Random::new(5);
        let (mut written, mut names) = (BTreeSet::new(), Vec::new());
        for round in 0..12 {
            for _ in 0..20 {
                let (start, count) = (1000 + random.below(2000), 1 + random.below(3));
                write(&pool, id, start, count, round).await;
                written.extend(start..start + count);
            }
            names.push(snapshot(&pool, id, &format!("s{round}")).await);
        }
        deallocate(&pool, id, 250, 30).await;
        let last = snapshot(&pool, id, "last").await;
        let expected = (written.clone(), set([250..280]));
        assert_eq!(blocks(&pool, last, Some(first), 1000).await, expected);
        for name in names {
            pool.delete_snapshot(name).await.expect("deleted");
            assert_eq!(blocks(&pool, last, Some(first), 7).await, expected);
        }
        pool.close().await.expect("closed");
        let pool = open(&drives).await;
        assert_eq!(blocks(&pool, last, Some(first), 1).await, expected);
        rest().await;
        assert!(!pool.status().removing, "the layers in between are gone");
        assert_eq!(blocks(&pool, last, Some(first), 64).await, expected);
        let all: BTreeSet<u64> = set([100..250, 280..300]).union(&written).copied().collect();
        assert_eq!(blocks(&pool, last, None, 64).await, (all, set([])));
        pool.close().await.expect("closed");
    });
}

/// A rollback, clones and sizes: what either of two has and the other has not.
#[test]
fn snapshots_differ_by_what_either_has_for_itself() {
    with_pool(Level::Raid1, 2, async |pool, _| {
        let id = volume(&pool, "a", 100).await;
        write(&pool, id, 0, 10, 1).await;
        let base = snapshot(&pool, id, "base").await;
        write(&pool, id, 5, 10, 2).await;
        deallocate(&pool, id, 0, 2).await;
        let left = snapshot(&pool, id, "left").await;
        pool.rollback(id, base).await.expect("rolled back");
        write(&pool, id, 20, 5, 3).await;
        let right = snapshot(&pool, id, "right").await;
        // What `left` had deallocated is there again.
        let back = (set([0..2, 5..15, 20..25]), set([]));
        assert_eq!(blocks(&pool, right, Some(left), 9).await, back);
        assert_eq!(
            blocks(&pool, right, Some(right), 9).await,
            Default::default()
        );
        let copy = pool.clone_snapshot(left, "copy").await.expect("cloned");
        write(&pool, copy, 50, 1, 4).await;
        let cloned = snapshot(&pool, copy, "cloned").await;
        assert_eq!(blocks(&pool, cloned, Some(left), 9).await.0, set([50..51]));
        pool.resize_volume(copy, 12 * BLOCK as u64, true)
            .await
            .expect("smaller");
        let small = snapshot(&pool, copy, "small").await;
        assert_eq!(blocks(&pool, small, None, 9).await.0, set([2..12]));
        assert_eq!(
            blocks(&pool, small, Some(cloned), 9).await,
            Default::default()
        );
        let foreign = volume(&pool, "b", 30).await;
        write(&pool, foreign, 29, 1, 5).await;
        let foreign = snapshot(&pool, foreign, "foreign").await;
        let all = (set([0..10, 29..30]), set([]));
        assert_eq!(blocks(&pool, foreign, Some(base), 9).await, all);
        pool.delete_snapshot(base).await.expect("deleted");
        for (asked, since) in [(foreign, Some(base)), (base, None)] {
            let refused = pool.extents(asked, since, 0, 9).await;
            assert!(
                matches!(refused, Err(PoolError::NotFound(_))),
                "{refused:?}"
            );
        }
        let behind = pool.extents(foreign, None, 30 * BLOCK as u64, 9).await;
        let behind = behind.expect("nothing");
        assert_eq!((behind.extents, behind.next), (Vec::new(), None));
    });
}

/// One block of a hundred has changed: of the map, which memory does not have, about so much is
/// read, each node for as long as a drive is made to take for it.
#[test]
fn a_difference_costs_in_proportion_to_what_changed() {
    with_drives_of(4, 20_000, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        const BLOCKS: u64 = 25_600;
        let id = volume(&pool, "a", BLOCKS).await;
        for start in (0..BLOCKS).step_by(256) {
            write(&pool, id, start, 256, 1).await;
        }
        let first = snapshot(&pool, id, "first").await;
        for start in (0..BLOCKS).step_by(100) {
            write(&pool, id, start, 1, 2).await;
        }
        let second = snapshot(&pool, id, "second").await;
        pool.close().await.expect("closed");
        let mut nodes = Vec::new();
        for since in [None, Some(first)] {
            let pool = open(&drives).await;
            pool.checkpoint().await.expect("a checkpoint");
            rest().await;
            let delay = Duration::from_secs(1);
            let slow = |delay| drives.iter().for_each(|it| it.slow_reads(b"FYMN", delay));
            slow(delay);
            let begun = reactor::now();
            let (data, _) = blocks(&pool, second, since, 100_000).await;
            nodes.push((reactor::now() - begun).as_secs());
            slow(Duration::ZERO);
            let expected = if since.is_some() {
                BLOCKS / 100
            } else {
                BLOCKS
            };
            assert_eq!(data.len() as u64, expected);
            pool.close().await.expect("closed");
        }
        let [all, changed] = nodes[..] else {
            panic!("two answers");
        };
        // Leaves of 254 records, and those above them.
        assert!((BLOCKS / 254..BLOCKS / 100).contains(&all), "{all} nodes");
        assert!(
            (1..=all / 12).contains(&changed),
            "{changed} of {all} nodes"
        );
    });
}

/// Crashes, bad drives, several shards, deletions and rollbacks at random: whatever differs is told
/// of, and what is told to be zeroes is.
#[test]
fn differences_survive_what_pools_survive() {
    for seed in 5000..5012 {
        let options = Options {
            shards_max: 3,
            extents: true,
            ..Options::new(seed)
        };
        run(&options).unwrap_or_else(|found| panic!("{found}"));
    }
}
