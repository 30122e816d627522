//! A scrub gives way to hosts, and ends when it is told to.

use crate::support::{BLOCK, volume, with_pool, write_runs};
use block::{BlockDevice, Buffer, Lba};
use pool::{Level, PoolError};
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
