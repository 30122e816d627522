//! Who holds which space, block by block.

use crate::support::{BLOCK, create, open, volume, with_drives_of, with_pool, write};
use pool::{Accounting, Level, Pool, SpaceUse};
use sim::{Random, SimDrive};
use std::time::Duration;

fn blocks(logical: u64, unique: u64, shared: u64) -> SpaceUse {
    let bytes = |blocks: u64| blocks * BLOCK as u64;
    SpaceUse {
        logical_bytes: bytes(logical),
        unique_bytes: bytes(unique),
        shared_bytes: bytes(shared),
    }
}

/// The accounts, of which the total is what the pool says is in use.
async fn accounts(pool: &Pool<SimDrive>) -> Accounting {
    let found = pool.accounting().await.expect("accounts");
    assert_eq!(found.total_bytes, pool.status().used_bytes, "{found:?}");
    let names = found.volumes.values().chain(found.snapshots.values());
    for entry in names {
        assert_eq!(entry.logical_bytes, entry.unique_bytes + entry.shared_bytes);
    }
    found
}

#[test]
fn every_block_is_counted_once() {
    with_pool(Level::Raid5, 4, async |pool, _| {
        let id = volume(&pool, "a", 600).await;
        write(&pool, id, 0, 500, 1).await;
        let found = accounts(&pool).await;
        assert_eq!(found.volumes[&id], blocks(500, 500, 0));
        let first = pool
            .snapshot(&[(id, "first".to_owned())])
            .await
            .expect("taken")[0];
        let found = accounts(&pool).await;
        assert_eq!(found.volumes[&id], blocks(500, 0, 500));
        assert_eq!(found.snapshots[&first], blocks(500, 0, 500));
        write(&pool, id, 400, 200, 2).await;
        let device = pool.volume(id).expect("the volume");
        let range = block::BlockRange::new(block::Lba(0), 10);
        block::BlockDevice::deallocate(&device, range)
            .await
            .expect("deallocated");
        let found = accounts(&pool).await;
        assert_eq!(found.volumes[&id], blocks(590, 200, 390));
        assert_eq!(found.snapshots[&first], blocks(500, 110, 390));
        assert_eq!(found.total_bytes, 700 * BLOCK as u64);
        let copy = pool.clone_snapshot(first, "copy").await.expect("cloned");
        let found = accounts(&pool).await;
        assert_eq!(found.volumes[&copy], blocks(500, 0, 500));
        assert_eq!(found.snapshots[&first], blocks(500, 0, 500));
        // Two volumes stand on the snapshot: it stays, without a name.
        pool.delete_snapshot(first).await.expect("deleted");
        write(&pool, copy, 400, 100, 3).await;
        let found = accounts(&pool).await;
        assert_eq!(found.volumes[&id], blocks(590, 200, 390));
        assert_eq!(found.volumes[&copy], blocks(500, 110, 390));
        assert_eq!(
            found.unnamed_bytes,
            100 * BLOCK as u64,
            "nobody reads 400..500 of it"
        );
        pool.delete_volume(copy).await.expect("deleted");
        let found = accounts(&pool).await;
        assert_eq!(found.volumes[&id], blocks(590, 590, 0));
        assert_eq!(found.unnamed_bytes, 0);
        assert!(found.snapshots.is_empty());
    });
}

/// Who counted was a reader of all maps for as long as it took: what was freed meanwhile was kept
/// from hosts, which in a pool that is all but full had to wait for the end of it.
#[test]
fn hosts_write_on_in_a_full_pool_that_is_being_counted() {
    with_drives_of(4, 9000, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let usable = pool.status().usable_bytes / BLOCK as u64;
        let (counted, blocks) = (usable * 3 / 5, usable * 3 / 10);
        let shared = volume(&pool, "a", counted).await;
        let other = volume(&pool, "b", blocks).await;
        for (id, blocks) in [(shared, counted), (other, blocks)] {
            for start in (0..blocks - 16).step_by(16) {
                write(&pool, id, start, 16, 1).await;
            }
        }
        let taken = pool.snapshot(&[(shared, "s".to_owned())]).await;
        let snapshot = taken.expect("taken")[0];
        pool.close().await.expect("closed");
        // Memory has the map of what is written, and not of what is counted.
        let pool = open(&drives).await;
        for start in (0..blocks - 16).step_by(16) {
            write(&pool, other, start, 16, 2).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        let delay = Duration::from_millis(20);
        drives
            .iter()
            .for_each(|drive| drive.slow_reads(b"FYMN", delay));
        let counting = reactor::spawn({
            let pool = pool.clone();
            async move { (pool.accounting().await.expect("accounts"), reactor::now()) }
        });
        let begun = reactor::now();
        let random = Random::new(4);
        let (mut writes, mut longest) = (0, Duration::ZERO);
        while !counting.is_finished() {
            let begun = reactor::now();
            write(&pool, other, random.below(blocks - 16), 16, 3).await;
            longest = longest.max(reactor::now() - begun);
            writes += 1;
        }
        let (found, ended) = counting.await;
        let whole = ended - begun;
        assert!(whole > 8 * delay, "{whole:?}");
        assert!(
            longest < whole / 4,
            "{longest:?} of {whole:?}, {writes} writes"
        );
        let (volume, snapshot) = (found.volumes[&shared], found.snapshots[&snapshot]);
        assert_eq!((volume, volume.unique_bytes), (snapshot, 0));
        pool.close().await.expect("closed");
    });
}

/// What is not there all the time is in no account; the others are what they were.
#[test]
fn what_comes_and_goes_while_it_is_counted_is_left_out() {
    with_drives_of(4, 6000, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 8000).await;
        for start in (0..8000).step_by(16) {
            write(&pool, id, start, 16, 1).await;
        }
        let taken = pool.snapshot(&[(id, "s".to_owned())]).await;
        let snapshot = taken.expect("taken")[0];
        let gone = pool.clone_snapshot(snapshot, "gone").await.expect("cloned");
        let counting = reactor::spawn({
            let pool = pool.clone();
            async move { pool.accounting().await.expect("accounts") }
        });
        let delay = Duration::from_millis(20);
        drives
            .iter()
            .for_each(|drive| drive.slow_reads(b"FYMN", delay));
        reactor::sleep(10 * delay).await;
        let came = pool.clone_snapshot(snapshot, "came").await.expect("cloned");
        pool.delete_volume(gone).await.expect("deleted");
        assert!(!counting.is_finished());
        let found = counting.await;
        assert!(!found.volumes.contains_key(&gone) && !found.volumes.contains_key(&came));
        let all = 8000 * BLOCK as u64;
        for entry in [found.volumes[&id], found.snapshots[&snapshot]] {
            assert_eq!((entry.logical_bytes, entry.shared_bytes), (all, all));
        }
        assert_eq!(found.total_bytes, all);
        let again = accounts(&pool).await;
        assert_eq!(again.volumes[&came], blocks(8000, 0, 8000));
    });
}
