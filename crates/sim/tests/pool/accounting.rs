//! Who holds which space, block by block.

use crate::support::{BLOCK, volume, with_pool, write};
use pool::{Accounting, Level, Pool, SpaceUse};
use sim::SimDrive;

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
