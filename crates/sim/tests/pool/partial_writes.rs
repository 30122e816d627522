//! Writes of less than a block beside what exchanges all blocks of a volume.

use crate::support::{BLOCK, read, volume, with_pool, write};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use drive::Emulate512;
use pool::{Level, Pool, VolumeId};
use reactor::Task;
use sim::SimDrive;
use std::collections::BTreeSet;
use std::time::Duration;

const SECTOR: usize = 512;

/// Writes the first sector of block 5, after a while.
fn write_sector(
    pool: &Pool<SimDrive>,
    id: VolumeId,
    byte: u8,
    delay: Duration,
) -> Task<Result<(), IoError>> {
    let device = Emulate512::new(pool.volume(id).expect("the volume"));
    reactor::spawn(async move {
        reactor::sleep(delay).await;
        let mut sector = Buffer::new(SECTOR);
        sector.fill(byte);
        let written = device.write(Lba(5 * 8), sector, Durability::Durable);
        written.await.1
    })
}

/// A volume goes back to a snapshot under a host that writes sectors: what was beside them before
/// does not come back with them. A snapshot under such a write costs it nothing.
#[test]
fn what_is_beside_a_sector_stays_rolled_back() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "a", 64).await;
        write(&pool, id, 5, 1, 1).await;
        let snapshot = pool.snapshot(&[(id, "s".into())]).await.expect("taken")[0];
        let mut seen = BTreeSet::new();
        for round in 0..150_u64 {
            write(&pool, id, 5, 1, 99).await;
            let writing = write_sector(&pool, id, 50, Duration::from_micros(round * 3));
            pool.rollback(id, snapshot).await.expect("rolled back");
            writing.await.expect("written");
            let found = read(&pool, id, 5, 1).await;
            seen.insert(found[0]);
            assert_eq!(&found[SECTOR..], vec![1; BLOCK - SECTOR], "round {round}");

            let writing = write_sector(&pool, id, 1, Duration::ZERO);
            let name = format!("s{round}");
            let later = pool.snapshot(&[(id, name)]).await.expect("taken")[0];
            writing.await.expect("written");
            assert_eq!(read(&pool, id, 5, 1).await, vec![1; BLOCK]);
            pool.rollback(id, snapshot).await.expect("rolled back");
            pool.delete_snapshot(later).await.expect("deleted");
        }
        assert_eq!(seen, BTreeSet::from([1, 50]), "before a rollback and after");
    });
}
