//! Layers that went are named by stripes that stay: what is kept for their sake has a bound.

use crate::support::{assert_runs, volume, with_pool, write, write_runs};
use pool::{Level, Pool};
use sim::SimDrive;

/// An eighth of what these small drives have for tables, at 12 bytes.
const MOST: usize = 682;

/// Redirects from layers that have gone.
fn redirects(pool: &Pool<SimDrive>) -> usize {
    let said = pool.describe();
    let before = said.split(" redirects").next().expect("it says how many");
    let count = before.rsplit(' ').next().expect("a number");
    count.parse().expect("a number")
}

/// Blocks that nobody writes again fill segments, which no cleaning for space ever moves; the
/// tables kept a redirect for every layer that had been folded since, until there was no room for
/// more and not even a snapshot could be deleted.
#[test]
fn snapshots_come_and_go_beside_what_is_never_written_again() {
    with_pool(Level::Raid1, 2, async |pool, _| {
        let cold = volume(&pool, "cold", 160).await;
        write_runs(&pool, cold, 10).await;
        let hot = volume(&pool, "hot", 16).await;
        let mut most = 0;
        for round in 0..2 * MOST as u64 {
            write(&pool, hot, round % 16, 1, round as u8).await;
            let taken = pool.snapshot(&[(hot, "s".to_owned())]).await;
            let snapshot = taken.expect("taken")[0];
            pool.delete_snapshot(snapshot).await.expect("deleted");
            most = most.max(redirects(&pool));
        }
        assert!(
            (MOST * 3 / 4..MOST * 5 / 4).contains(&most),
            "{most} redirects"
        );
        let moved = pool.counters().relocated_blocks;
        // All that stays once for as many redirects as there may be, about.
        assert!((160..1600).contains(&moved), "{moved} blocks moved");
        assert_runs(&pool, cold, 10).await;
    });
}
