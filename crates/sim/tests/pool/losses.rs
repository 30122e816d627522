//! Blocks that go bad: what can be had is put right wherever it is met, and what cannot is said,
//! whose it is, and keeps nothing else from going on.

use crate::sharded;
use crate::spoil::spoil;
use crate::support::{BLOCK, settle, told, volume, with_drives, with_pool};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use pool::{Holder, Level, LostBlock, Pool, PoolEvent, PoolState, VolumeId};
use sim::{Served, SimDrive};

/// Where blocks are that are full of `byte`: a drive, a block of it.
fn full_of(drives: &[SimDrive], byte: u8) -> Vec<(usize, u64)> {
    let on = |(index, drive): (usize, &SimDrive)| {
        let blocks = drive.blocks_written().into_iter();
        let full = blocks.filter(|(_, content)| content.iter().all(|one| *one == byte));
        full.map(|(at, _)| (index, at)).collect::<Vec<_>>()
    };
    drives.iter().enumerate().flat_map(on).collect()
}

/// Spoils every block that is full of `byte`: all copies in a mirror.
fn spoil_all(drives: &[SimDrive], byte: u8) {
    for (drive, at) in full_of(drives, byte) {
        spoil(&drives[drive], at);
    }
}

async fn read_one(pool: &Pool<SimDrive>, id: VolumeId, block: u64) -> Result<u8, IoError> {
    let device = pool.volume(id).expect("the volume");
    let (buffer, result) = device.read(Lba(block), Buffer::new(BLOCK)).await;
    result.map(|()| buffer[0])
}

/// Of the places where a block's bytes are, its own and others of its row, hosts read one.
#[test]
fn a_host_that_reads_a_bad_block_has_it_written_back() {
    for level in [Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10] {
        for unreadable in [false, true] {
            with_pool(level, 5, async |pool, drives| {
                let id = volume(&pool, "a", 100).await;
                let mut buffer = Buffer::new(40 * BLOCK);
                for (block, content) in (1..).zip(buffer.chunks_mut(BLOCK)) {
                    content.fill(block);
                }
                let device = pool.volume(id).expect("the volume");
                let written = device.write(Lba(0), buffer, Durability::Durable).await;
                written.1.expect("written");
                let mut put_right = 0;
                for (drive, at) in full_of(&drives, 18) {
                    let (drive, before) = (&drives[drive], drives[drive].content(at));
                    match unreadable {
                        true => drive.make_unreadable(at),
                        false => spoil(drive, at),
                    }
                    assert_eq!(read_one(&pool, id, 17).await, Ok(18), "{level}");
                    let (found, result) = drive.read(Lba(at), Buffer::new(BLOCK)).await;
                    put_right += u64::from(result.is_ok() && found[..] == before[..]);
                    drive.put(at, before);
                }
                let repaired = pool.counters().repaired_blocks;
                assert_eq!((put_right, repaired), (1, 1), "{level}, {unreadable}");
            });
        }
    }
}

/// A block of a snapshot and of its volume, one that only the snapshot reads, since the volume
/// wrote over it, and one of a volume alone.
#[test]
fn a_scrub_says_whose_blocks_are_lost_and_how_many() {
    for shards in [1, 3] {
        with_drives(3, async |drives| {
            let pool = sharded::create(shards, &drives, Level::Raid1).await;
            let id = sharded::volume(&pool, 400).await;
            let device = pool.volume(id).expect("the volume");
            let put = async |block: u64, count: u64, byte: u8| {
                for block in block..block + count {
                    sharded::write(&device, block, 1, byte).await;
                }
            };
            put(0, 200, 1).await;
            put(50, 3, 2).await;
            put(70, 1, 3).await;
            let taken = pool.snapshot(&[(id, "s".to_owned())]).await;
            let snapshot = taken.expect("taken")[0];
            put(70, 1, 4).await;
            put(90, 2, 5).await;
            for byte in [2, 3, 5] {
                spoil_all(&drives, byte);
            }
            let report = pool.scrub().await.expect("a scrub");
            assert_eq!(
                (report.lost_blocks, report.lost_nodes),
                (6, 0),
                "{report:?}"
            );
            let lost: Vec<_> = report
                .lost
                .iter()
                .map(|it| (it.holder, it.blocks))
                .collect();
            let (ours, theirs) = (Holder::Volume(id), Holder::Snapshot(snapshot));
            assert_eq!(
                lost,
                [(ours, 5), (theirs, 4)],
                "{shards} shards: {report:?}"
            );
            let range = |start, blocks| BlockRange::new(Lba(start), blocks);
            assert_eq!(report.lost[0].ranges, [range(50, 3), range(90, 2)]);
            assert_eq!(report.lost[1].ranges, [range(50, 3), range(70, 1)]);
            let events = told(&pool).await;
            let ended = PoolEvent::ScrubEnded {
                repaired_blocks: 0,
                lost_blocks: 6,
                lost_nodes: 0,
            };
            assert!(events.contains(&ended), "{events:?}");
            let named = events
                .iter()
                .filter(|event| matches!(event, PoolEvent::BlockLost { .. }));
            assert_eq!(named.count(), 6, "{events:?}");
            // The same again: nothing of it is gone, nor counted twice.
            let again = pool.scrub().await.expect("a scrub");
            assert_eq!(again.lost, report.lost);
            // What is written over is not lost any more.
            put(50, 3, 6).await;
            let last = pool.scrub().await.expect("a scrub");
            let lost: Vec<_> = last.lost.iter().map(|it| (it.holder, it.blocks)).collect();
            assert_eq!(lost, [(ours, 2), (theirs, 4)], "{last:?}");
            pool.close().await.expect("closed");
        });
    }
}

/// A mirrored pool of four drives with a volume of 320 blocks, of which one is lost; and a drive
/// that had it.
async fn with_a_lost_block(shards: usize, drives: &[SimDrive], block: u64) -> (Served, usize) {
    let pool = sharded::create(shards, drives, Level::Raid1).await;
    let id = sharded::volume(&pool, 320).await;
    let device = pool.volume(id).expect("the volume");
    for at in 0..320 {
        sharded::write(&device, at, 1, if at == block { 77 } else { 1 }).await;
    }
    pool.checkpoint().await.expect("a checkpoint");
    let drive = full_of(drives, 77)[0].0;
    spoil_all(drives, 77);
    (pool, drive)
}

/// A block that is lost keeps its segment from being freed, and nothing else from being moved; when
/// it is written over the rebuild comes to its end.
#[test]
fn a_rebuild_ends_but_for_what_is_lost_and_then_altogether() {
    for shards in [1, 3] {
        with_drives(4, async |drives| {
            let (pool, drive) = with_a_lost_block(shards, &drives, 100).await;
            let fails = pool.status().drives[drive].id;
            pool.fail_drive(fails).await.expect("one drive may fail");
            settle().await;
            let events = told(&pool).await;
            let mut rebuilds = events.iter().filter(|event| {
                matches!(
                    event,
                    PoolEvent::Rebuild { .. } | PoolEvent::RebuildStuck { .. }
                )
            });
            let last = rebuilds.next_back();
            assert!(
                matches!(last, Some(PoolEvent::RebuildStuck { left_blocks: 1.. })),
                "{shards} shards: {events:?}"
            );
            let lost = LostBlock {
                layer: 1,
                block: 100,
            };
            let holders = vec!["a".to_owned()];
            assert!(
                events.contains(&PoolEvent::BlockLost {
                    lost,
                    blocks: 1,
                    holders
                }),
                "{events:?}"
            );
            assert_eq!(pool.status().state, PoolState::Degraded);
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            for block in 0..320 {
                let (buffer, read) = device.read(Lba(block), Buffer::new(BLOCK)).await;
                match block {
                    100 => assert_eq!(read, Err(IoError::UnrecoveredRead)),
                    _ => assert_eq!((read, buffer[0]), (Ok(()), 1), "{block}"),
                }
            }
            sharded::write(&device, 100, 1, 2).await;
            pool.checkpoint().await.expect("a checkpoint");
            settle().await;
            let status = pool.status();
            assert_eq!(
                status.state,
                PoolState::Online,
                "{shards}: {}",
                pool.describe()
            );
            assert_eq!(status.drives.len(), 3);
            pool.close().await.expect("closed");
        });
    }
}

/// Nobody waits for a segment that holds a lost block: everything around it dies, so that it would
/// be the best one to clean, again and again.
#[test]
fn the_cleaner_leaves_a_lost_block_where_it_is_and_goes_on_elsewhere() {
    for shards in [1, 3] {
        with_drives(4, async |drives| {
            let (pool, _) = with_a_lost_block(shards, &drives, 100).await;
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let usable = pool.status().usable_bytes / BLOCK as u64;
            let blocks = usable * 9 / 10;
            let bytes = blocks * BLOCK as u64;
            let id = pool.volumes()[0].id;
            pool.resize_volume(id, bytes, false).await.expect("grown");
            for round in 0..4 {
                for block in (0..blocks).filter(|block| *block != 100) {
                    sharded::write(&device, block * 101 % blocks, 1, round).await;
                }
            }
            assert!(
                pool.counters().relocated_blocks > 100,
                "{:?}",
                pool.counters()
            );
            // Hosts have fallen silent: what waits for the maps is merged once.
            for _ in 0..5 {
                settle().await;
            }
            let before = pool.counters();
            settle().await;
            assert_eq!(pool.counters(), before, "{shards}: it rests");
            pool.close().await.expect("closed");
        });
    }
}
