//! Stripes whose header is lost with all its copies, while their blocks are there.

use crate::sharded::{SLICE, create, read, volume, write};
use crate::spoil::{HEADER, beginning, spoil, spoil_copies, word};
use crate::support::{BLOCK, settle, with_drives};
use block::{BlockRange, Lba};
use pool::{Holder, Level, PoolEvent, PoolState};
use sim::{Served, SimDrive};
use std::time::Duration;

/// Blocks of the volume.
const BLOCKS: u64 = 20 * SLICE;

/// A mirrored pool of which nothing is wrong but the copies of one header, which a shard wrote, and
/// the place of a drive that had one.
async fn without_a_header(shards: usize, shard: u32, drives: &[SimDrive]) -> (Served, usize) {
    let pool = create(shards, drives, Level::Raid1).await;
    let id = volume(&pool, BLOCKS).await;
    let device = pool.volume(id).expect("the volume");
    for start in (0..BLOCKS).step_by(SLICE as usize) {
        write(&device, start, SLICE, 1 + (start / SLICE) as u8).await;
    }
    pool.checkpoint().await.expect("a checkpoint");
    // What was written last has not been moved. Records begin behind 80 bytes, the kind at
    // their end.
    let headers = beginning(drives, HEADER);
    let host = |it: &[u8]| it[87] == 1 && it[8] == SLICE as u8;
    let own = headers
        .iter()
        .filter(|(_, _, it)| word(it, 28) == shard && host(it));
    let last = own.max_by_key(|(_, _, it)| word(it, 40));
    let (drive, _, content) = last.expect("each shard has written");
    spoil_copies(drives, content);
    (pool, *drive)
}

/// Its blocks stayed where they were, whatever shard had them, and were moved again and again.
#[test]
fn a_rebuild_that_cannot_be_finished_says_so() {
    for (shards, shard) in [(1, 0), (2, 0), (2, 1)] {
        with_drives(4, async |drives| {
            let (pool, drive) = without_a_header(shards, shard, &drives).await;
            let fails = pool.status().drives[drive].id;
            pool.fail_drive(fails).await.expect("one drive may fail");
            let told = async {
                while let Some(event) = pool.next_event().await {
                    if matches!(event, PoolEvent::RebuildStuck { left_blocks } if left_blocks > 0) {
                        return;
                    }
                }
            };
            let told = reactor::timeout(Duration::from_secs(5), told).await;
            assert!(told.is_ok(), "{shards}, {shard}: {}", pool.describe());
            let checkpoints = pool.counters().checkpoints;
            settle().await;
            assert_eq!(pool.counters().checkpoints, checkpoints, "it rests");
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let found = read(&device, 0, BLOCKS).await;
            let expected = (0..BLOCKS).map(|block| 1 + (block / SLICE) as u8);
            assert_eq!(found, expected.collect::<Vec<_>>());
            pool.close().await.expect("closed");
        });
    }
}

/// Neither the cleaner nor a rebuild finds the blocks of such a stripe; a scrub does, by the maps,
/// and has them moved to where a header tells of them.
#[test]
fn a_scrub_moves_what_no_header_tells_of() {
    for (shards, shard) in [(1, 0), (2, 0), (2, 1), (3, 2)] {
        with_drives(4, async |drives| {
            let (pool, drive) = without_a_header(shards, shard, &drives).await;
            let report = pool.scrub().await.expect("a scrub");
            assert_eq!(
                (report.moved, report.lost_blocks, report.lost_nodes),
                (SLICE, 0, 0),
                "{shards}, {shard}: {report:?}"
            );
            pool.checkpoint().await.expect("a checkpoint");
            let again = pool.scrub().await.expect("a scrub");
            assert_eq!((again.moved, again.repaired), (0, 0), "{again:?}");
            let fails = pool.status().drives[drive].id;
            pool.fail_drive(fails).await.expect("one drive may fail");
            settle().await;
            let status = pool.status();
            assert_eq!(status.drives.len(), 3, "{}", pool.describe());
            assert_eq!(status.state, PoolState::Online);
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let found = read(&device, 0, BLOCKS).await;
            let expected = (0..BLOCKS).map(|block| 1 + (block / SLICE) as u8);
            assert_eq!(found, expected.collect::<Vec<_>>());
            pool.close().await.expect("closed");
        });
    }
}

/// Of a stripe whose header is lost a block is as well, in all its copies: there was no word of it.
#[test]
fn a_scrub_tells_of_lost_blocks_that_no_header_tells_of() {
    for (shards, shard) in [(1, 0), (2, 0), (2, 1)] {
        with_drives(4, async |drives| {
            let (pool, _) = without_a_header(shards, shard, &drives).await;
            let headers = beginning(&drives, HEADER);
            let spoiled = headers.iter().filter(|(_, _, it)| it[4000] == 1);
            let header = spoiled.map(|(_, _, it)| it).next().expect("it is there");
            // Its records begin behind 80 bytes.
            let block = u64::from(word(header, 80));
            let byte = 1 + (block / SLICE) as u8;
            let data = vec![byte; BLOCK];
            let mut left = 3;
            for (index, at, _) in beginning(&drives, &data) {
                // The blocks of a column follow the header; this is the first of them.
                if drives[index].content(at - 1) == *header {
                    spoil(&drives[index], at);
                    left -= 1;
                }
            }
            assert_eq!(left, 0, "each copy");
            let report = pool.scrub().await.expect("a scrub");
            assert_eq!(
                (report.moved, report.lost_blocks),
                (SLICE - 1, 1),
                "{report:?}"
            );
            let id = pool.volumes()[0].id;
            let [lost] = &report.lost[..] else {
                panic!("{report:?}");
            };
            assert_eq!((lost.holder, lost.blocks), (Holder::Volume(id), 1));
            assert_eq!(lost.ranges, [BlockRange::new(Lba(block), 1)]);
            pool.close().await.expect("closed");
        });
    }
}
