//! Drives that cannot be read for a while: what they have is not lost.

use crate::support::{
    assert_runs, create, open, read, settle, told, volume, with_drives, with_pool, write,
    write_runs,
};
use block::{BlockDevice, Buffer, IoError, Lba};
use pool::{Level, Pool, PoolError, PoolEvent, PoolState};
use sim::SimDrive;
use std::time::Duration;

/// Longer than a checkpoint reads nodes again that are lost for good.
const OUTAGE: Duration = Duration::from_secs(9);
/// Blocks of the volume.
const BLOCKS: u64 = 1200;

/// More drives than may be lost did not read for some seconds. Nodes of the map that lay there were
/// given up, and the blocks that they told of with them: what was there could not be had again.
#[test]
fn nodes_are_not_given_up_while_drives_are_away() {
    let mut waited = 0;
    for away in 0..4 {
        with_drives(8, async |drives| {
            let pool = create(&drives, Level::Raid5).await;
            let id = volume(&pool, "a", BLOCKS).await;
            for start in (0..BLOCKS).step_by(240) {
                write(&pool, id, start, 240, 1).await;
            }
            // Memory is to have no node.
            pool.close().await.expect("closed");
            let pool = open(&drives).await;
            let away = [&drives[2 * away], &drives[2 * away + 1]];
            away.iter().for_each(|drive| drive.refuse_reads(true));
            let merging = reactor::spawn({
                let pool = pool.clone();
                async move {
                    for start in (0..BLOCKS).step_by(100) {
                        write(&pool, id, start, 1, 2).await;
                    }
                    pool.checkpoint().await
                }
            });
            reactor::sleep(OUTAGE).await;
            waited += u32::from(!merging.is_finished());
            // Who reads is told to try again, not that anything is lost.
            let device = pool.volume(id).expect("the volume");
            let (_, result) = device.read(Lba(1), Buffer::new(16 * 4096)).await;
            assert!(
                [Ok(()), Err(IoError::NotReady)].contains(&result),
                "{result:?}"
            );
            away.iter().for_each(|drive| drive.refuse_reads(false));
            merging.await.expect("checkpoint");
            assert_eq!(pool.status().state, PoolState::Online);
            for (block, content) in (0..).zip(read(&pool, id, 0, BLOCKS).await.chunks(4096)) {
                let expected = if block % 100 == 0 { 2 } else { 1 };
                assert!(
                    content.iter().all(|byte| *byte == expected),
                    "block {block}"
                );
            }
            let report = pool.scrub().await.expect("a scrub");
            assert_eq!((report.lost_blocks, report.lost_nodes), (0, 0));
            pool.close().await.expect("closed");
        });
    }
    assert!(waited > 0, "no checkpoint had to wait");
}

/// Two of the drives are not ready for a while, from now on.
fn leave_for_a_while(drives: &[SimDrive]) {
    let away = [drives[1].clone(), drives[2].clone()];
    away.iter().for_each(|drive| drive.refuse_reads(true));
    drop(reactor::spawn(async move {
        reactor::sleep(OUTAGE).await;
        away.iter().for_each(|drive| drive.refuse_reads(false));
    }));
}

async fn tells_losses(pool: &Pool<SimDrive>) -> bool {
    let lost = |event: &PoolEvent| {
        matches!(
            event,
            PoolEvent::BlockLost { .. } | PoolEvent::MoreBlocksLost { .. }
        )
    };
    told(pool).await.iter().any(lost)
}

/// A scrub told as lost what drives had that were not ready.
#[test]
fn a_scrub_waits_for_drives_that_are_not_ready() {
    with_pool(Level::Raid5, 4, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        leave_for_a_while(&drives);
        let report = pool.scrub().await.expect("a scrub");
        assert_eq!((report.lost_blocks, report.lost_nodes), (0, 0));
        assert!(!tells_losses(&pool).await);
        assert_runs(&pool, id, 25).await;
    });
}

/// Where they do not get ready it ends, and tells of no loss.
#[test]
fn a_scrub_ends_when_drives_do_not_get_ready() {
    with_pool(Level::Raid5, 4, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.checkpoint().await.expect("a checkpoint");
        let away = [&drives[1], &drives[2]];
        away.iter().for_each(|drive| drive.refuse_reads(true));
        assert_eq!(pool.scrub().await, Err(PoolError::Io(IoError::NotReady)));
        assert!(!tells_losses(&pool).await);
        away.iter().for_each(|drive| drive.refuse_reads(false));
        assert_eq!(pool.scrub().await.map(|report| report.lost_blocks), Ok(0));
        assert_runs(&pool, id, 25).await;
    });
}

/// What was on a drive counted as unreadable for good when other drives were not ready for a
/// moment, so the drive could not leave.
#[test]
fn a_drive_leaves_once_others_are_ready_again() {
    with_pool(Level::Raid5, 5, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        let leaving = pool.status().drives[1].id;
        leave_for_a_while(&drives);
        assert_eq!(pool.remove_drive(leaving).await, Ok(()));
        assert!(!tells_losses(&pool).await);
        assert_runs(&pool, id, 25).await;
    });
}

/// Blocks were told as lost when more drives failed than may, though the pool goes offline for that
/// and has them again when it is opened.
#[test]
fn a_pool_that_goes_offline_for_failed_drives_tells_of_no_loss() {
    with_drives(4, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        // Memory is to have no node.
        pool.close().await.expect("closed");
        let pool = open(&drives).await;
        let gone = [&drives[1], &drives[2]];
        gone.iter().for_each(|drive| drive.die_after(0));
        let device = pool.volume(id).expect("the volume");
        for start in (0..400).step_by(16) {
            let (_, result) = device.read(Lba(start), Buffer::new(16 * 4096)).await;
            assert_ne!(result, Err(IoError::UnrecoveredRead));
        }
        settle().await;
        assert!(!tells_losses(&pool).await);
        drop((device, pool));
        gone.iter().for_each(|drive| drive.revive());
        let pool = open(&drives).await;
        assert_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
    });
}
