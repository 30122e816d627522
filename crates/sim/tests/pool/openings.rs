//! Openings while a drive answers nothing: hosts do not wait for it where the pool can do without.

use crate::support::{
    Machine, assert_runs, create, open, read, volume, with_drives, write, write_runs,
};
use pool::{Level, PoolState};
use reactor::Instant;
use sim::SimDrive;
use std::time::Duration;

/// Longer than any opening takes, and far shorter than for ever.
const LONG: Duration = Duration::from_secs(60);

/// The drive was waited for without end, redundancy or not.
#[test]
fn a_silent_drive_does_not_keep_a_pool_from_opening() {
    for silent in 0..4 {
        with_drives(4, async |drives| {
            let pool = create(&drives, Level::Raid5).await;
            let id = volume(&pool, "a", 400).await;
            write_runs(&pool, id, 25).await;
            pool.close().await.expect("closed");
            drop(pool);
            drives[silent].hang(true);
            let opened = reactor::timeout(LONG, open(&drives)).await;
            let pool = opened.expect("within a minute");
            assert_eq!(pool.status().state, PoolState::Degraded);
            assert_runs(&pool, id, 25).await;
            write_runs(&pool, id, 25).await;
            let closed = reactor::timeout(LONG, pool.close()).await;
            closed.expect("within a minute").expect("closed");
            drop(pool);
            // It answers again, and what it had been given to write arrives: it is stale.
            drives[silent].hang(false);
            drives[silent].land();
            let pool = open(&drives).await;
            assert_runs(&pool, id, 25).await;
            pool.close().await.expect("closed");
        });
    }
}

/// So with one that falls silent at any moment of an opening, or while the pool is closed.
#[test]
fn a_drive_that_falls_silent_does_not_keep_a_pool_from_opening_or_closing() {
    for step in 0..22 {
        let machine = Machine::new(step + 1, 4);
        let id = machine.live(0, u64::MAX, async {
            let pool = create(&machine.drives, Level::Raid6).await;
            let id = volume(&pool, "a", 400).await;
            write_runs(&pool, id, 20).await;
            id
        });
        let id = id.expect("a volume");
        machine.power.switch_on(u64::MAX);
        reactor::Reactor::simulated(step).run(async {
            let drive = machine.drives[1].clone();
            drop(reactor::spawn(async move {
                reactor::sleep(Duration::from_micros(1 << step)).await;
                drive.hang(true);
            }));
            let opened = reactor::timeout(LONG, machine.open(&machine.drives, 1)).await;
            let pool = opened.expect("within a minute").expect("opens");
            assert_runs(&pool, id, 20).await;
            let closed = reactor::timeout(LONG, pool.close()).await;
            closed.expect("within a minute").expect("closed");
        });
    }
}

/// Where redundancy does not do it, the drive is waited for.
#[test]
fn a_pool_waits_for_a_silent_drive_that_it_cannot_do_without() {
    with_drives(2, async |drives| {
        let pool = create(&drives, Level::Raid0).await;
        let id = volume(&pool, "a", 100).await;
        write(&pool, id, 0, 100, 3).await;
        pool.close().await.expect("closed");
        drop(pool);
        drives[1].hang(true);
        let begun: Instant = reactor::now();
        let own: Vec<SimDrive> = drives.clone();
        let opening = reactor::spawn(async move { open(&own).await });
        reactor::sleep(LONG).await;
        assert!(!opening.is_finished(), "the drive is needed");
        drives[1].hang(false);
        let pool = opening.await;
        assert!(reactor::now() - begun < 2 * LONG);
        assert!(read(&pool, id, 0, 100).await.iter().all(|byte| *byte == 3));
        pool.close().await.expect("closed");
    });
}

/// One member went on while the other was gone, so it alone has what was written last. It was not
/// ready when both were there again: the other one was opened, and all that was new was gone.
#[test]
fn an_opening_waits_for_a_drive_that_may_have_the_latest_state() {
    with_drives(2, async |drives| {
        let pool = create(&drives, Level::Raid1).await;
        let id = volume(&pool, "a", 100).await;
        write(&pool, id, 0, 100, 1).await;
        drives[1].die_after(0);
        write(&pool, id, 0, 100, 2).await;
        pool.close().await.expect("closed");
        drop(pool);
        drives[1].revive();
        drives[0].refuse_reads(true);
        let ready = drives[0].clone();
        drop(reactor::spawn(async move {
            reactor::sleep(Duration::from_secs(8)).await;
            ready.refuse_reads(false);
        }));
        let pool = open(&drives).await;
        assert!(read(&pool, id, 0, 100).await.iter().all(|byte| *byte == 2));
        pool.close().await.expect("closed");
    });
}

/// One that does not get ready counts as absent, as a silent one does.
#[test]
fn a_drive_that_does_not_get_ready_does_not_keep_a_pool_from_opening() {
    with_drives(4, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
        drop(pool);
        drives[2].refuse_reads(true);
        let opened = reactor::timeout(LONG, open(&drives)).await;
        let pool = opened.expect("within a minute");
        assert_eq!(pool.status().state, PoolState::Degraded);
        assert_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
    });
}
