//! The newest label of a pool is damaged, or gone: the pool opens as it was last, or not at all.

use crate::support::{BLOCK, copies, create, heads, open, read, try_open, volume, write};
use pool::{Level, Pool, PoolError};
use reactor::Reactor;
use sim::{Power, SimDrive};

/// Levels, how many drives, and whether one of them has failed.
const ALONE: [(Level, usize, bool); 2] = [(Level::Raid0, 1, false), (Level::Raid1, 2, true)];

fn number(block: &[u8], at: usize, bytes: usize) -> u64 {
    let bytes = block[at..at + bytes].iter().rev();
    bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The slot with the newest label of a drive: its superblock, the copy, and the blocks of tables.
fn newest(drive: &SimDrive) -> (u64, u64, Vec<u64>) {
    let both = heads(drive).into_iter().zip(copies(drive));
    let newest = both.max_by_key(|(head, _)| number(&drive.content(*head), 64, 8));
    let (head, copy) = newest.expect("two of them");
    let blocks = number(&drive.content(head), 132, 4).div_ceil(BLOCK as u64);
    let tables = match head {
        1 => (2..2 + blocks).chain(copy - blocks..copy),
        _ => (head - blocks..head).chain(copy + 1..copy + 1 + blocks),
    };
    (head, copy, tables.collect())
}

fn flip(drive: &SimDrive, block: u64, bit: usize) {
    let mut content = drive.content(block);
    content[bit / 8] ^= 1 << (bit % 8);
    drive.put(block, content);
}

fn erase(drive: &SimDrive, blocks: impl IntoIterator<Item = u64>) {
    blocks
        .into_iter()
        .for_each(|block| drive.put(block, vec![0; BLOCK]));
}

/// Runs `work` as one life of a host that ends with the power.
fn live(drives: &[SimDrive], turn: u64, work: impl Future<Output = ()>) {
    Reactor::simulated(turn).run(work);
    drives.iter().for_each(SimDrive::lose_power);
}

fn new_drives(count: usize) -> Vec<SimDrive> {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = (0..count).map(|_| SimDrive::new(1300, power.clone()));
    drives.collect()
}

/// Drives of a pool whose last label tells of a snapshot, and of what was written behind it.
fn with_snapshot(level: Level, count: usize, fails: bool) -> Vec<SimDrive> {
    let drives = new_drives(count);
    live(&drives, 1, async {
        let pool = create(&drives, level).await;
        if fails {
            let id = pool.status().drives[1].id;
            pool.fail_drive(id).await.expect("failed");
        }
        let id = volume(&pool, "a", 100).await;
        write(&pool, id, 0, 1, 1).await;
        pool.checkpoint().await.expect("a checkpoint");
        let taken = pool.snapshot(&[(id, "s".to_owned())]).await;
        taken.expect("taken");
        write(&pool, id, 0, 1, 2).await;
    });
    drives
}

async fn assert_as_it_was(pool: &Pool<SimDrive>) {
    assert_eq!(pool.snapshots().len(), 1, "the snapshot was acknowledged");
    assert!(pool.snapshots()[0].taken.is_some(), "and when it was taken");
    let id = pool.volumes()[0].id;
    assert_eq!(read(pool, id, 0, 1).await, vec![2; BLOCK]);
}

/// The label before it was taken for the newest one: the snapshot was gone, and what was written
/// behind it read as it had been before.
#[test]
fn one_wrong_bit_in_the_newest_label_takes_nothing_away() {
    for (level, count, fails) in ALONE {
        for (nth, part) in (0..120).map(|nth| (nth, nth % 4)) {
            let drives = with_snapshot(level, count, fails);
            let (head, copy, tables) = newest(&drives[0]);
            let half = tables.len() / 2;
            let block = [head, copy, tables[0], tables[half]][part];
            flip(&drives[0], block, (nth * 1009) % (8 * BLOCK));
            live(&drives, 2, async {
                let pool = open(&drives).await;
                assert_as_it_was(&pool).await;
                pool.close().await.expect("closed");
            });
        }
    }
}

/// What is damaged beyond its copies refuses the pool, writes nothing, and can be accepted.
#[test]
fn a_damaged_label_that_was_the_newest_is_not_passed_over() {
    for (level, count, fails) in ALONE {
        for tables_too in [false, true] {
            let drives = with_snapshot(level, count, fails);
            let (head, copy, tables) = newest(&drives[0]);
            match tables_too {
                false => [head, copy]
                    .iter()
                    .for_each(|at| flip(&drives[0], *at, 9000)),
                true => tables.iter().for_each(|at| flip(&drives[0], *at, 9)),
            }
            let before = drives[0].blocks_written();
            live(&drives, 2, async {
                let refused = try_open(&drives[..1], 4, false).await.err();
                let is_named = matches!(
                    refused,
                    Some(PoolError::LatestLabelDamaged { index: 0, older, lost }) if older < lost
                );
                assert!(is_named, "{refused:?}");
                assert!(drives[0].blocks_written() == before, "it was written");
            });
            live(&drives, 3, async {
                let pool = try_open(&drives[..1], 5, true).await.expect("accepted");
                assert_eq!(pool.snapshots().len(), 0, "as it was before");
                pool.close().await.expect("closed");
            });
            live(&drives, 4, async {
                open(&drives[..1]).await.close().await.expect("closed");
            });
        }
    }
}

/// Labels that were never written, or are gone without a trace: stripes tell of them, however often
/// the pool is tried.
#[test]
fn stripes_tell_of_a_later_label_than_there_is() {
    let levels = [
        (Level::Raid0, 1),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid5, 3),
        (Level::Raid6, 4),
        (Level::Raid10, 4),
    ];
    for (level, count) in levels {
        let drives = with_snapshot(level, count, false);
        for drive in &drives {
            let (head, copy, _) = newest(drive);
            erase(drive, [copy, head]);
        }
        for turn in 2..5 {
            live(&drives, turn, async {
                let refused = try_open(&drives, turn, false).await.err();
                let is_named = matches!(
                    refused,
                    Some(PoolError::RolledBack { opened, found }) if opened < found
                );
                assert!(is_named, "{level}, {turn}: {refused:?}");
            });
        }
        live(&drives, 5, async {
            let pool = try_open(&drives, 7, true).await.expect("accepted");
            assert_eq!(pool.snapshots().len(), 0, "as it was before");
            write(&pool, pool.volumes()[0].id, 1, 1, 3).await;
        });
        // What was lost is not taken for what is written now.
        live(&drives, 6, async {
            let pool = try_open(&drives, 8, false).await.expect("nothing is lost");
            let id = pool.volumes()[0].id;
            assert_eq!(read(&pool, id, 1, 1).await, vec![3; BLOCK], "{level}");
            pool.close().await.expect("closed");
        });
    }
}

/// A drive that was wiped by other means is blank: copies do not bring the pool back.
#[test]
fn copies_alone_are_no_label() {
    let drives = with_snapshot(Level::Raid0, 1, false);
    let both = copies(&drives[0]);
    erase(&drives[0], heads(&drives[0]));
    assert!(both.iter().all(|at| drives[0].content(*at)[0] != 0));
    live(&drives, 2, async {
        assert_eq!(pool::probe(&drives[0]).await, Ok(None));
        create(&drives, Level::Raid0)
            .await
            .close()
            .await
            .expect("closed");
        let both = copies(&drives[0]);
        pool::wipe(&drives[0]).await.expect("wiped");
        for at in both {
            assert_eq!(drives[0].content(at), vec![0; BLOCK]);
        }
    });
}
