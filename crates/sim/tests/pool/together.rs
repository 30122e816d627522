//! Reads of single blocks that come at once are looked up together: each brings its own block, of
//! whatever layer, and what the volume is when it is read.

use crate::support::{
    BLOCK, HOST, assert_runs, open, read, volume, with_drives, with_pool, write, write_runs,
};
use block::{BlockDevice, Lba};
use pool::{CreateOptions, Entropy, Level, Pool, Settings, VolumeId};
use reactor::Task;
use sim::SimDrive;
use std::collections::BTreeSet;

const RUNS: u64 = 40;
const BLOCKS: u64 = RUNS * 16;

/// A pool with room for so many bytes of its map in memory.
async fn create(drives: &[SimDrive], map_cache_bytes: usize) -> Pool<SimDrive> {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings: Settings {
            map_cache_bytes,
            ..Settings::default()
        },
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid6, HOST)
    };
    let pool = Pool::create(drives.to_vec(), options).await;
    pool.expect("a pool")
}

/// Reads every block of the volumes at once, each by itself; gives the byte it is full of.
async fn read_all(pool: &Pool<SimDrive>, volumes: &[VolumeId]) -> Vec<Vec<u8>> {
    let read_one = |id: VolumeId, block: u64| {
        let pool = pool.clone();
        reactor::spawn(async move {
            let found = read(&pool, id, block, 1).await;
            assert!(found.iter().all(|byte| *byte == found[0]), "a mixture");
            found[0]
        })
    };
    let begun: Vec<Vec<Task<u8>>> = volumes
        .iter()
        .map(|id| (0..BLOCKS).map(|block| read_one(*id, block)).collect())
        .collect();
    let mut all = Vec::new();
    for tasks in begun {
        let mut bytes = Vec::new();
        for task in tasks {
            bytes.push(task.await);
        }
        all.push(bytes);
    }
    all
}

/// Every run is full of its number, but for those that were changed.
fn expected(changed: impl Fn(u64) -> Option<u8>) -> Vec<u8> {
    let block = |block| changed(block).unwrap_or((block / 16) as u8);
    (0..BLOCKS).map(block).collect()
}

/// A volume with updates that are in its map and others that are not, a snapshot below it, a clone
/// beside it: whether all of the map is in memory or next to nothing.
#[test]
fn each_read_brings_its_own_block() {
    for map_cache_bytes in [0, 1 << 20] {
        with_drives(6, async |drives| {
            let pool = create(&drives, map_cache_bytes).await;
            let id = volume(&pool, "a", BLOCKS).await;
            write_runs(&pool, id, RUNS).await;
            let snapshot = pool
                .snapshot(&[(id, "a1".into())])
                .await
                .expect("a snapshot")[0];
            let clone = pool.clone_snapshot(snapshot, "b").await.expect("a clone");
            for block in (0..BLOCKS).step_by(7) {
                write(&pool, id, block, 1, 200).await;
            }
            let device = pool.volume(clone).expect("the clone");
            let range = block::BlockRange::new(Lba(100), 50);
            device.deallocate(range).await.expect("given back");
            // Of what was written so far only the map knows.
            pool.snapshot(&[(clone, "b1".into())])
                .await
                .expect("a snapshot");
            for block in (3..BLOCKS).step_by(11) {
                write(&pool, clone, block, 1, 100).await;
            }
            let found = read_all(&pool, &[id, clone]).await;
            let own = expected(|block| (block % 7 == 0).then_some(200));
            let cloned = expected(|block| match block {
                _ if block % 11 == 3 => Some(100),
                100..150 => Some(0),
                _ => None,
            });
            assert_eq!(found, [own, cloned], "{map_cache_bytes} bytes of map");
            pool.close().await.expect("closed");
            let pool = open(&drives).await;
            assert_eq!(read_all(&pool, &[id, clone]).await, found, "opened again");
            pool.close().await.expect("closed");
        });
    }
}

/// A rollback exchanges the layer under reads that are under way.
#[test]
fn reads_beside_rollbacks_bring_one_state_or_the_other() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "a", BLOCKS).await;
        write_runs(&pool, id, RUNS).await;
        let snapshot = pool
            .snapshot(&[(id, "a1".into())])
            .await
            .expect("a snapshot")[0];
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            write(&pool, id, 16, 16, 99).await;
            let rolled = pool.clone();
            let rollback = reactor::spawn(async move { rolled.rollback(id, snapshot).await });
            while !rollback.is_finished() {
                let found = read_all(&pool, &[id]).await.remove(0);
                seen.extend(&found[16..32]);
                assert!(found[32..] == expected(|_| None)[32..]);
            }
            rollback.await.expect("rolled back");
            assert_runs(&pool, id, RUNS).await;
        }
        assert_eq!(seen, BTreeSet::from([1, 99]));
    });
}
