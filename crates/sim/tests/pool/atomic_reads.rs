//! A read meets an atomic write (NAWUN): it brings all of it or nothing, though parts of the map
//! have to come from the drives first.

use crate::support::{BLOCK, create, open, read, volume, with_drives, write, write_runs};
use pool::Level;
use std::cell::Cell;
use std::time::Duration;

/// Runs of 16 blocks; the one that is read and written at once.
const RUNS: u64 = 100;
const RUN: u64 = 40;

/// Contents of the run before the write and after it: its first block is one that memory knows.
fn runs() -> (Vec<u8>, Vec<u8>) {
    let mut before = vec![RUN as u8; 16 * BLOCK];
    before[..BLOCK].fill(200);
    (before, vec![250; 16 * BLOCK])
}

/// Reads the run `delay` after a write of it was begun; true when it brought the write.
fn race(delay: Duration) -> bool {
    let seen = Cell::new(false);
    with_drives(6, async |drives| {
        let pool = create(&drives, Level::Raid6).await;
        let id = volume(&pool, "a", RUNS * 16).await;
        write_runs(&pool, id, RUNS).await;
        pool.close().await.expect("closed");
        // No node of the map is in memory now.
        let pool = open(&drives).await;
        write(&pool, id, RUN * 16, 1, 200).await;
        let writer = pool.clone();
        let written = reactor::spawn(async move { write(&writer, id, RUN * 16, 16, 250).await });
        reactor::sleep(delay).await;
        let found = read(&pool, id, RUN * 16, 16).await;
        let (before, after) = runs();
        seen.set(found == after);
        assert!(found == before || found == after, "{delay:?}: half of it");
        written.await;
        assert_eq!(read(&pool, id, RUN * 16, 16).await, after);
        pool.close().await.expect("closed");
    });
    seen.get()
}

#[test]
fn a_read_beside_an_atomic_write_brings_all_of_it_or_nothing() {
    let delays = (0..80).map(|step| Duration::from_micros(step * 5));
    let seen: Vec<bool> = delays.map(race).collect();
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
}
