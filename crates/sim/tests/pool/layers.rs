//! What becomes of the maps of deleted volumes and snapshots, piece by piece, beside hosts.

use crate::spoil::{Found, NODE, beginning, spoil};
use crate::support::{BLOCK, HOST, read, volume, with_drives_of, write};
use block::{BlockDevice, BlockRange, Buffer, IoError, Lba};
use pool::{
    CreateOptions, Entropy, Holder, Level, OpenOptions, Pool, PoolState, Settings, VolumeId,
};
use reactor::Reactor;
use sim::{Power, Random, SimDrive};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Next to no cache for the map: what is to be known comes from the drives.
fn settings(leaves_removed_at_once: usize) -> Settings {
    Settings {
        map_cache_bytes: 0,
        leaves_removed_at_once,
        ..Settings::default()
    }
}

async fn create(drives: &[SimDrive], settings: Settings) -> Pool<SimDrive> {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings,
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid5, HOST)
    };
    let pool = Pool::create(drives.to_vec(), options).await;
    pool.expect("a pool")
}

async fn open(drives: &[SimDrive], settings: Settings, seed: u64) -> Pool<SimDrive> {
    let options = OpenOptions {
        settings,
        entropy: Entropy::seeded(seed),
        ..OpenOptions::new(HOST)
    };
    let pool = Pool::open(drives.to_vec(), options).await;
    pool.expect("the pool opens")
}

async fn snapshot(pool: &Pool<SimDrive>, id: VolumeId, name: &str) -> pool::SnapshotId {
    let taken = pool.snapshot(&[(id, name.to_owned())]).await;
    taken.expect("a snapshot")[0]
}

async fn timed<T>(work: impl Future<Output = T>) -> Duration {
    let begun = reactor::now();
    work.await;
    reactor::now() - begun
}

/// The longest that one of the writes takes which a host does one by one until told to stop.
fn keep_writing(
    pool: &Pool<SimDrive>,
    id: VolumeId,
    over: Rc<Cell<bool>>,
) -> reactor::Task<Duration> {
    let pool = pool.clone();
    reactor::spawn(async move {
        let (mut longest, mut at) = (Duration::ZERO, 0);
        while !over.get() {
            at += 1;
            longest = longest.max(timed(write(&pool, id, at % 50, 1, 9)).await);
        }
        longest
    })
}

/// A volume whose map has some sixty leaves.
async fn large(pool: &Pool<SimDrive>, name: &str) -> VolumeId {
    let id = volume(pool, name, 15_000).await;
    for start in (0..15_000).step_by(250) {
        write(pool, id, start, 250, 1).await;
    }
    pool.checkpoint().await.expect("checkpoint");
    id
}

/// Every write of the pool waited until the last node of a deleted volume had been read.
#[test]
fn hosts_go_on_while_large_volumes_and_snapshots_are_deleted() {
    with_drives_of(4, 12_000, async |drives| {
        let pool = create(&drives, settings(4096)).await;
        let busy = volume(&pool, "busy", 100).await;
        let first = large(&pool, "large").await;
        let snapshot = snapshot(&pool, first, "then").await;
        for start in (0..15_000).step_by(100) {
            write(&pool, first, start, 1, 2).await;
        }
        pool.checkpoint().await.expect("checkpoint");
        let alone = timed(write(&pool, busy, 0, 1, 3)).await;
        let over = Rc::new(Cell::new(false));
        let host = keep_writing(&pool, busy, over.clone());
        pool.delete_snapshot(snapshot).await.expect("deleted");
        pool.delete_volume(first).await.expect("deleted");
        while pool.status().removing {
            reactor::sleep(Duration::from_millis(1)).await;
        }
        over.set(true);
        let beside = host.await;
        assert!(beside < 12 * alone, "{beside:?} beside it, {alone:?} alone");
        assert!(pool.status().used_bytes <= 300 * BLOCK as u64);
        pool.close().await.expect("closed");
    });
}

/// A snapshot waited until everything that had been written was in the maps.
#[test]
fn a_snapshot_does_not_wait_for_the_maps() {
    with_drives_of(4, 12_000, async |drives| {
        let pool = create(&drives, settings(4096)).await;
        let id = large(&pool, "large").await;
        for start in (0..15_000).step_by(10) {
            write(&pool, id, start, 1, 2).await;
        }
        let taking = timed(snapshot(&pool, id, "then")).await;
        let merging = timed(pool.checkpoint()).await;
        assert!(
            2 * taking < merging,
            "{taking:?} for the snapshot, {merging:?} for the maps"
        );
        pool.close().await.expect("closed");
    });
}

/// A read asked one layer after the other what it knows.
#[test]
fn a_read_below_many_snapshots_asks_their_layers_side_by_side() {
    with_drives_of(4, 12_000, async |drives| {
        let pool = create(&drives, settings(4096)).await;
        let id = large(&pool, "large").await;
        let device = pool.volume(id).expect("the volume");
        // One read is as quick as the drives happen to be: several are told apart.
        let cold = async |first: u64| {
            let reads = async {
                for block in (first..15_000).step_by(500) {
                    device
                        .read(Lba(block), Buffer::new(BLOCK))
                        .await
                        .1
                        .expect("read");
                }
            };
            timed(reads).await
        };
        let before = cold(400).await;
        for number in 0..48 {
            // Every layer has a leaf to look into.
            for block in (0..15_000).step_by(1000) {
                write(&pool, id, block, 1, number).await;
            }
            snapshot(&pool, id, &format!("s{number}")).await;
        }
        pool.checkpoint().await.expect("checkpoint");
        let beneath = cold(401).await;
        assert!(beneath < 12 * before, "{beneath:?} now, {before:?} before");
        pool.close().await.expect("closed");
    });
}

/// What volumes and snapshots should read as, a byte for each block.
struct Image(Vec<u8>);

impl Image {
    async fn check(&self, pool: &Pool<SimDrive>, id: VolumeId, when: &str) {
        let blocks = self.0.len() as u64;
        for start in (0..blocks).step_by(100) {
            let count = 100.min(blocks - start);
            let found = read(pool, id, start, count).await;
            for (offset, block) in found.chunks(BLOCK).enumerate() {
                let expected = self.0[start as usize + offset];
                let right = block.iter().all(|byte| *byte == expected);
                assert!(right, "block {} {when}", start as usize + offset);
            }
        }
    }

    async fn check_some(&self, pool: &Pool<SimDrive>, id: VolumeId, random: &Random) {
        for _ in 0..3 {
            let start = random.below(self.0.len() as u64 - 30);
            let found = read(pool, id, start, 30).await;
            for (block, found) in (start..).zip(found.chunks(BLOCK)) {
                assert_eq!(found, [self.0[block as usize]; BLOCK], "block {block}");
            }
        }
    }

    /// Writes and gives back some blocks.
    async fn change(&mut self, pool: &Pool<SimDrive>, id: VolumeId, random: &Random, many: u64) {
        for _ in 0..many {
            let start = random.below(self.0.len() as u64 - 20);
            let count = 1 + random.below(20);
            let range = start as usize..(start + count) as usize;
            if random.once_in(4) {
                let device = pool.volume(id).expect("the volume");
                let given = device.deallocate(BlockRange::new(Lba(start), count));
                given.await.expect("given back");
                self.0[range].fill(0);
            } else {
                let byte = 1 + random.below(255) as u8;
                write(pool, id, start, count, byte).await;
                self.0[range].fill(byte);
            }
        }
    }
}

/// A volume over snapshots of which those in the middle are deleted, a leaf at each checkpoint,
/// while it is written to and cleaned and its host dies again and again. `last` is how much is
/// written above them: little, so that the upper layer goes into the lower one, or much.
fn fold(last: u64, seed: u64) {
    let power = Power::new(seed);
    power.switch_on(u64::MAX);
    let drives = [(); 4].map(|()| SimDrive::new(12_000, power.clone()));
    let random = Random::new(seed);
    let mut image = Image(vec![0; 6000]);
    let (id, kept, before) = Reactor::simulated(seed).run(async {
        let pool = create(&drives, settings(1)).await;
        let id = volume(&pool, "a", 6000).await;
        image.change(&pool, id, &random, 900).await;
        let kept = snapshot(&pool, id, "kept").await;
        let before = Image(image.0.clone());
        image.change(&pool, id, &random, 200).await;
        let first = snapshot(&pool, id, "first").await;
        image.change(&pool, id, &random, 100).await;
        let second = snapshot(&pool, id, "second").await;
        image.change(&pool, id, &random, last).await;
        pool.delete_snapshot(first).await.expect("deleted");
        pool.delete_snapshot(second).await.expect("deleted");
        (id, kept, before)
    });
    let (mut lives, mut removing) = (0, true);
    while removing {
        drives.iter().for_each(SimDrive::lose_host);
        lives += 1;
        removing = Reactor::simulated(seed + lives).run(async {
            let pool = open(&drives, settings(1), seed + lives).await;
            let removing = pool.status().removing;
            let steps = || pool.counters().checkpoints;
            while steps() < 2 && pool.status().removing {
                image.change(&pool, id, &random, 2).await;
                image.check_some(&pool, id, &random).await;
            }
            removing
        });
    }
    assert!(lives >= 3, "it was over in {lives} lives");
    drives.iter().for_each(SimDrive::lose_host);
    Reactor::simulated(seed).run(async {
        let pool = open(&drives, settings(1), seed).await;
        let copy = pool.clone_snapshot(kept, "copy").await.expect("a clone");
        before
            .check(&pool, copy, "of the snapshot that was kept")
            .await;
        image.check(&pool, id, "at the end").await;
        let accounts = pool.accounting().await.expect("accounts");
        assert_eq!(accounts.total_bytes, pool.status().used_bytes);
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_fold_reads_the_same_at_every_step() {
    for seed in 0..4 {
        fold(20, 100 + seed);
        fold(500, 200 + seed);
    }
}

/// Where an ancestor had blocks each of them was a hole of its own, in memory and in the map.
#[test]
fn a_clone_that_is_given_back_whole_takes_next_to_nothing() {
    with_drives_of(4, 12_000, async |drives| {
        let pool = create(&drives, settings(4096)).await;
        let id = large(&pool, "large").await;
        let then = snapshot(&pool, id, "then").await;
        let copy = pool.clone_snapshot(then, "copy").await.expect("a clone");
        let before = pool.status().map_bytes;
        let device = pool.volume(copy).expect("the volume");
        let given = device.deallocate(BlockRange::new(Lba(0), 15_000));
        given.await.expect("given back");
        write(&pool, copy, 7000, 1, 5).await;
        pool.checkpoint().await.expect("checkpoint");
        assert_eq!(pool.status().map_bytes, before + BLOCK as u64, "one node");
        let found = read(&pool, copy, 6999, 3).await;
        let expected = [[0; BLOCK], [5; BLOCK], [0; BLOCK]].concat();
        assert!(found == expected);
        assert_eq!(read(&pool, id, 7000, 1).await, [1; BLOCK]);
        pool.close().await.expect("closed");
    });
}

/// What the leaves are about that have ever been on a drive, but for the first of a volume; every
/// block of it was written.
fn leaves(drives: &[SimDrive]) -> BTreeMap<u64, u64> {
    let leaf = |(_, _, node): Found| {
        let first = u64::from_le_bytes(node[16..24].try_into().ok()?);
        let count = u64::from(u16::from_le_bytes([node[6], node[7]]));
        (node[4] == 0 && first > 0).then_some((first, first + count))
    };
    beginning(drives, NODE)
        .into_iter()
        .filter_map(leaf)
        .collect()
}

/// Spoils every copy of a leaf that has ever been on a drive that works.
fn spoil_leaf(drives: &[SimDrive], first: u64) {
    for (drive, at, node) in beginning(drives, NODE) {
        if node[4] == 0 && node[16..24] == first.to_le_bytes() {
            spoil(&drives[drive], at);
        }
    }
}

/// The pool went offline, for good: each checkpoint wanted to read that node.
#[test]
fn a_node_that_cannot_be_read_takes_its_blocks_with_it_and_nothing_else() {
    with_drives_of(4, 12_000, async |drives| {
        let pool = create(&drives, settings(4096)).await;
        let other = volume(&pool, "other", 100).await;
        write(&pool, other, 0, 100, 7).await;
        let id = large(&pool, "large").await;
        let device = pool.volume(id).expect("the volume");
        pool.close().await.expect("closed");
        let pool = open(&drives, settings(4096), 5).await;
        drives[1].die_after(0);
        write(&pool, other, 0, 1, 7).await;
        drop(device);
        let device = pool.volume(id).expect("the volume");
        let unread = async |block: u64| {
            let found = device.read(Lba(block), Buffer::new(BLOCK)).await;
            found.1 == Err(IoError::UnrecoveredRead)
        };
        // Of those on the drive that is gone nothing can be spoilt.
        let mut lost = None;
        for (first, end) in leaves(&drives) {
            spoil_leaf(&drives, first);
            if !unread(first + 100).await {
                continue;
            }
            // Neighbours in memory read well, whatever has become of them: others take their place.
            for block in (0..15_000).step_by(500) {
                unread(block).await;
            }
            // Neighbours that are lost together are told as one.
            if !unread(first - 1).await && !unread(end).await {
                lost = Some((first, end));
                break;
            }
        }
        let (first, end) = lost.expect("a leaf that can be lost");
        let samples = || (0..15_000).step_by(50);
        let mut lost = BTreeSet::new();
        // More than once: the little that is in memory can be read whatever has become of it.
        for block in samples().chain(samples()).chain(samples()) {
            lost.extend(unread(block).await.then_some(block));
        }
        write(&pool, id, first + 120, 1, 4).await;
        pool.checkpoint().await.expect("the pool goes on");
        assert!(unread(first + 119).await && unread(first + 121).await);
        assert_eq!(read(&pool, id, first + 120, 1).await, [4; BLOCK]);
        assert_eq!(read(&pool, other, 99, 1).await, [7; BLOCK]);
        // A block of another leaf that was being moved by then has a place that no leaf need tell.
        for block in samples() {
            match unread(block).await {
                true => assert!(lost.contains(&block), "block {block}"),
                false => {
                    assert!(!(first..end).contains(&block) || block == first + 120);
                    assert_eq!(read(&pool, id, block, 1).await, [1; BLOCK]);
                }
            }
        }
        drop(device);
        pool.close().await.expect("closed");
        let pool = open(&drives, settings(4096), 6).await;
        let device = pool.volume(id).expect("the volume");
        let found = device.read(Lba(first), Buffer::new(BLOCK)).await;
        assert_eq!(found.1, Err(IoError::UnrecoveredRead), "it is not zeroes");
        let report = pool.scrub().await.expect("a scrub");
        let told = |start: u64| {
            let mut lost = report.nodes_lost.iter();
            let lost = lost.find(|lost| lost.blocks.start.0 == start);
            lost.is_some_and(|lost| lost.holders == [Holder::Volume(id)])
        };
        assert!(told(first) && told(first + 121), "{report:?}");
        // What is written or given back there is as it should be.
        write(&pool, id, first, 120, 3).await;
        let rest = end - first - 121;
        let given = device.deallocate(BlockRange::new(Lba(first + 121), rest));
        given.await.expect("given back");
        pool.checkpoint().await.expect("checkpoint");
        let found = read(&pool, id, first, end - first).await;
        let zeroes = vec![0; rest as usize * BLOCK];
        let expected = [vec![3; 120 * BLOCK], vec![4; BLOCK], zeroes];
        assert!(found == expected.concat());
        let again = pool.scrub().await.expect("a scrub");
        assert_eq!(again.lost_nodes, report.lost_nodes - 2, "{again:?}");
        pool.delete_volume(id).await.expect("deleted");
        pool.checkpoint().await.expect("checkpoint");
        assert_eq!(pool.status().state, PoolState::Degraded);
        pool.close().await.expect("closed");
    });
}
