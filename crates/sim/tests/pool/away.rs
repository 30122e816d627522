//! Drives that cannot be read for a while: what they have is not lost.

use crate::support::{create, open, read, volume, with_drives, write};
use block::{BlockDevice, Buffer, IoError, Lba};
use pool::{Level, PoolState};
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
