//! Nodes of the map that go bad: a scrub loses nothing that could be had before it, whatever it
//! cannot walk through.

use crate::sharded;
use crate::spoil::{Found, NODE, beginning, readable, row_of, spoil, spoil_copies, word};
use crate::support::{
    BLOCK, HOST, create, open, settle, volume, with_drives_of, write, write_runs,
};
use pool::{Entropy, Holder, Level, OpenOptions, Pool, PoolState, Settings, VolumeId};
use sim::{Random, Served, SimDrive};
use std::cell::Cell;
use std::time::Duration;

/// Runs of 16 blocks.
const RUNS: u64 = 375;
const BLOCKS: u64 = RUNS * 16;
/// Leaves of a map of so many blocks, written at once.
const LEAVES: u64 = BLOCKS.div_ceil(IN_LEAF);
/// Blocks of each.
const IN_LEAF: u64 = 254;

/// A raid5 pool of three drives, with a map of which rows hold a leaf of the lower half and one of
/// the upper, as far from the ends.
async fn with_mixed_rows(drives: &[SimDrive]) -> (Pool<SimDrive>, VolumeId) {
    let pool = create(drives, Level::Raid5).await;
    let id = volume(&pool, "a", BLOCKS).await;
    write_runs(&pool, id, RUNS).await;
    pool.checkpoint().await.expect("a checkpoint");
    for leaf in 0..LEAVES / 2 {
        for block in [leaf, LEAVES - 1 - leaf].map(|leaf| leaf * IN_LEAF + 10) {
            write(&pool, id, block, 1, (block / 16) as u8).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
    }
    (pool, id)
}

fn is_leaf((_, _, content): &Found) -> bool {
    content[4] == 0
}

/// The first block that a node is about.
fn first((_, _, content): &Found) -> u64 {
    u64::from(word(content, 16))
}

/// Both halves of every row can be had, but for one row: a leaf in the middle is lost, and of each
/// row that has leaves of both halves the one of the upper is bad.
fn lose_the_middle_and_spoil_what_is_behind(drives: &[SimDrive]) {
    let leaves = beginning(drives, NODE).into_iter().filter(is_leaf);
    let leaves: Vec<Found> = leaves.collect();
    let firsts = leaves.iter().map(first);
    let middle = firsts.filter(|first| *first < BLOCKS / 2 - IN_LEAF).max();
    let middle = middle.expect("there are leaves");
    for leaf in leaves {
        let Some(row) = row_of(drives, &leaf) else {
            continue;
        };
        if first(&leaf) == middle {
            // With its parity.
            spoil(&drives[leaf.0], leaf.1);
            for (drive, at) in row {
                if !drives[drive].content(at).starts_with(NODE) {
                    spoil(&drives[drive], at);
                }
            }
        }
        let below = |(drive, at): &(usize, u64)| {
            let content = drives[*drive].content(*at);
            content.starts_with(NODE) && first(&(*drive, *at, content)) < middle
        };
        if first(&leaf) > middle + IN_LEAF && row.iter().any(below) {
            spoil(&drives[leaf.0], leaf.1);
        }
    }
}

/// The walk ended where a node was lost; what was behind counted as dead, and the redundancy by
/// which it could still be had was made anew of what was bad.
#[test]
fn behind_a_lost_node_nothing_is_lost_that_could_be_had() {
    with_drives_of(3, 8000, async |drives| {
        let (pool, id) = with_mixed_rows(&drives).await;
        lose_the_middle_and_spoil_what_is_behind(&drives);
        let before = readable(&drives, BLOCKS).await;
        let lost = before.iter().filter(|block| block.is_none()).count() as u64;
        assert!(lost > 0 && lost <= IN_LEAF, "{lost} blocks are lost");
        let report = pool.scrub().await.expect("a scrub");
        let [node] = &report.nodes_lost[..] else {
            panic!("{report:?}");
        };
        assert_eq!(
            (report.lost_nodes, &node.holders[..]),
            (1, &[Holder::Volume(id)][..])
        );
        let told = node.blocks.start.0..node.blocks.start.0 + node.blocks.blocks;
        let outside = (0..)
            .zip(&before)
            .filter(|(block, _)| !told.contains(block));
        assert!(
            outside.map(|(_, found)| found).all(Option::is_some),
            "{report:?}"
        );
        assert!(report.repaired > LEAVES / 3, "{report:?}");
        assert!(readable(&drives, BLOCKS).await == before);
    });
}

/// Whatever is bad, and wherever.
#[test]
fn a_scrub_loses_nothing_that_could_be_had() {
    for seed in 0..12 {
        with_drives_of(3, 8000, async |drives| {
            let random = Random::new(seed);
            let (pool, _) = with_mixed_rows(&drives).await;
            for (drive, at, _) in beginning(&drives, NODE) {
                // One drive has next to nothing right; what the others have wrong is lost.
                if drive == seed as usize % 3 || random.once_in(30) {
                    spoil(&drives[drive], at);
                }
            }
            let before = readable(&drives, BLOCKS).await;
            let report = pool.scrub().await.expect("a scrub");
            let after = readable(&drives, BLOCKS).await;
            let kept = before
                .iter()
                .zip(&after)
                .all(|(before, after)| before.is_none() || before == after);
            assert!(kept, "seed {seed}: {report:?}");
        });
    }
}

/// A scrub held every node of all maps in memory. Now it holds those of one part of them at a time,
/// here of one segment, and finds and repairs as much.
#[test]
fn a_scrub_that_holds_few_nodes_checks_and_repairs_as_much() {
    with_drives_of(3, 8000, async |drives| {
        let (pool, _) = with_mixed_rows(&drives).await;
        pool.close().await.expect("closed");
        let pool = open(&drives).await;
        let whole = pool.scrub().await.expect("a scrub");
        assert_eq!((whole.walks, whole.repaired), (1, 0), "{whole:?}");
        pool.close().await.expect("closed");
        let before = readable(&drives, BLOCKS).await;
        let bad = beginning(&drives[1..2], NODE);
        assert!(bad.len() as u64 > LEAVES / 3);
        for (_, at, _) in bad {
            spoil(&drives[1], at);
        }
        let settings = Settings {
            map_cache_bytes: 0,
            scrub_nodes_at_once: 1,
            ..Settings::default()
        };
        let options = OpenOptions {
            settings,
            entropy: Entropy::seeded(5),
            ..OpenOptions::new(HOST)
        };
        let pool = Pool::open(drives.clone(), options).await;
        let pool = pool.expect("the pool opens");
        let parts = pool.scrub().await.expect("a scrub");
        assert!(parts.walks > 1, "{parts:?}");
        assert_eq!((parts.nodes, parts.stripes), (whole.nodes, whole.stripes));
        assert!(parts.repaired > 0, "{parts:?}");
        assert_eq!((parts.lost_nodes, parts.lost_blocks), (0, 0), "{parts:?}");
        let again = pool.scrub().await.expect("a scrub");
        assert_eq!((again.repaired, again.nodes), (0, whole.nodes), "{again:?}");
        assert!(readable(&drives, BLOCKS).await == before);
    });
}

/// A snapshot was taken and deleted while its volume's map was walked through: the map went to a
/// layer that there had not been when the scrub began, and what was left of it counted as dead.
#[test]
fn maps_that_go_to_another_layer_meanwhile_are_walked_through() {
    // How long a scrub takes that nobody disturbs.
    let whole = Cell::new(Duration::ZERO);
    for moment in 0..16 {
        with_drives_of(3, 8000, async |drives| {
            let (pool, id) = with_mixed_rows(&drives).await;
            for leaf in beginning(&drives, NODE).iter().filter(|leaf| is_leaf(leaf)) {
                if leaf.0 == moment as usize % 3 {
                    spoil(&drives[leaf.0], leaf.1);
                }
            }
            let before = readable(&drives, BLOCKS).await;
            assert!(before.iter().all(Option::is_some));
            let begun = reactor::now();
            let scrub = reactor::spawn({
                let pool = pool.clone();
                async move { (pool.scrub().await, reactor::now()) }
            });
            if moment > 0 {
                reactor::sleep(whole.get() * moment / 16).await;
                let taken = pool.snapshot(&[(id, "s".to_owned())]).await;
                let snapshot = taken.expect("taken")[0];
                pool.delete_snapshot(snapshot).await.expect("deleted");
            }
            let (report, ended) = scrub.await;
            if moment == 0 {
                whole.set(ended - begun);
            }
            let report = report.expect("a scrub");
            let lost = (report.lost_blocks, report.lost_nodes);
            assert_eq!(lost, (0, 0), "{moment}: {report:?}");
            assert!(readable(&drives, BLOCKS).await == before, "{moment}");
            let again = pool.scrub().await.expect("a scrub");
            assert_eq!(again.repaired, 0, "{moment}: {again:?}");
        });
    }
}

async fn fill(pool: &Served, blocks: u64, byte: u8) {
    let device = pool.volume(pool.volumes()[0].id).expect("the volume");
    for block in 0..blocks {
        // Whether or not what was there can be read.
        sharded::write(&device, block, 1, byte).await;
    }
    pool.checkpoint().await.expect("a checkpoint");
}

/// A mirrored pool of four drives that has lost a leaf of its map, or the root of it, and has been
/// written over since.
async fn with_a_node_lost(shards: usize, level: u8, drives: &[SimDrive]) -> Served {
    let pool = sharded::create(shards, drives, Level::Raid1).await;
    sharded::volume(&pool, 4 * IN_LEAF).await;
    fill(&pool, 4 * IN_LEAF, 1).await;
    // Memory has nodes as well.
    pool.close().await.expect("closed");
    let nodes = beginning(drives, NODE).into_iter();
    // Those of earlier checkpoints lie about as well.
    let lost = nodes.filter(|(_, _, content)| content[4] == level && word(content, 16) == 0);
    let lost: Vec<Vec<u8>> = lost.map(|(_, _, content)| content).collect();
    assert!(!lost.is_empty(), "a map has one of level {level}");
    lost.iter()
        .for_each(|content| spoil_copies(drives, content));
    let pool = sharded::open(shards, drives).await;
    fill(&pool, 4 * IN_LEAF, 2).await;
    pool
}

/// Where there is something that has been written over, and is not free.
async fn fail_a_drive(pool: &Served, drives: &[SimDrive]) {
    let (drive, ..) = beginning(drives, &[1; BLOCK])[0];
    let fails = pool.status().drives[drive].id;
    pool.fail_drive(fails).await.expect("one drive may fail");
    settle().await;
}

async fn assert_rebuilt(pool: &Served, which: &str) {
    let status = pool.status();
    assert_eq!(
        status.state,
        PoolState::Online,
        "{which}: {}",
        pool.describe()
    );
    assert_eq!(status.drives.len(), 3, "{which}");
    let device = pool.volume(pool.volumes()[0].id).expect("the volume");
    let found = sharded::read(&device, 0, 4 * IN_LEAF).await;
    assert!(found.iter().all(|byte| *byte == 2), "{which}");
}

/// On one shard and on three, a leaf and the root.
fn with_each_node_lost(work: impl AsyncFn(Served, &[SimDrive], usize, &str)) {
    for (shards, level) in [(1, 0), (1, 1), (3, 0), (3, 1)] {
        with_drives_of(4, 8000, async |drives| {
            let which = format!("{shards} shards, level {level}");
            let pool = with_a_node_lost(shards, level, &drives).await;
            work(pool, &drives, shards, &which).await;
        });
    }
}

/// What the node had told of counted as alive for ever, nodes below it too: it kept its segments,
/// and a rebuild from being finished. With several shards blocks that it told of could not be
/// written, for want of knowing whether that takes more room.
#[test]
fn what_a_lost_node_told_of_does_not_keep_its_segments() {
    with_each_node_lost(async |pool, drives, _, which| {
        fail_a_drive(&pool, drives).await;
        assert_rebuilt(&pool, which).await;
        pool.close().await.expect("closed");
    });
}

/// After a restart nobody knows that a node was lost.
#[test]
fn a_scrub_frees_what_only_a_lost_node_told_of() {
    with_each_node_lost(async |pool, drives, shards, which| {
        pool.close().await.expect("closed");
        let pool = sharded::open(shards, drives).await;
        fail_a_drive(&pool, drives).await;
        assert_eq!(pool.status().state, PoolState::Degraded, "{which}");
        let report = pool.scrub().await.expect("a scrub");
        assert!(report.recounted > 0, "{which}: {report:?}");
        assert_eq!((report.lost_blocks, report.lost_nodes), (0, 0), "{which}");
        settle().await;
        assert_rebuilt(&pool, which).await;
        let again = pool.scrub().await.expect("a scrub");
        assert_eq!(again.recounted, 0, "{which}: {again:?}");
        pool.close().await.expect("closed");
    });
}
