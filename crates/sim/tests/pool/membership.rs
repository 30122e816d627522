//! Superblocks that power loss tears, while members are lost and join: no drive is given up that
//! did nothing wrong, and what was never whole never counts.

use crate::support::{
    BLOCK, Machine, assert_runs, copies, create, heads, put_back, read, settle, volume, write,
    write_runs,
};
use pool::{Level, PoolState};
use sim::SimDrive;
use std::pin::pin;
use std::time::Duration;

/// Runs `work`; returns what was in a block before it was changed for the last time.
async fn before_the_last_change(drive: &SimDrive, block: u64, work: impl Future) -> Vec<u8> {
    let (mut now, mut before) = (drive.content(block), Vec::new());
    let mut work = std::pin::pin!(work);
    loop {
        let moment = reactor::timeout(Duration::from_micros(1), work.as_mut()).await;
        let found = drive.content(block);
        if found != now {
            before = std::mem::replace(&mut now, found);
        }
        if moment.is_ok() {
            return before;
        }
    }
}

/// Of a superblock that says which drive is lost only the copy came, and of the next
/// attempt, which had the very same tables, only those: together they passed for a membership that
/// nobody else knew of, and the pool did not open.
#[test]
fn two_torn_superblocks_do_not_make_a_whole_one() {
    let machine = Machine::new(1, 3);
    let survivors = &machine.drives[1..];
    let torn = &machine.drives[1];
    let closed = machine.live(0, u64::MAX, async {
        let pool = create(&machine.drives, Level::Raid5).await;
        pool.close().await.expect("closed");
    });
    closed.expect("the power stays on");
    let images: Vec<_> = machine
        .drives
        .iter()
        .map(SimDrive::blocks_written)
        .collect();
    machine.live(1, u64::MAX, machine.open(survivors, 1));
    let changed = |at: &u64| !images[1].contains(&(*at, torn.content(*at)));
    let head = copies(torn).into_iter().find(changed).expect("a copy");
    let first = torn.content(head);
    // All that is left of this attempt is one block of one drive.
    for (drive, image) in machine.drives.iter().zip(&images) {
        put_back(drive, image);
    }
    torn.put(head, first.clone());
    // The next attempt loses that block of that drive, and nothing else.
    let second = machine.open(survivors, 2);
    let before = machine.live(2, u64::MAX, before_the_last_change(torn, head, second));
    assert_ne!(torn.content(head), first, "another membership");
    torn.put(head, before.expect("the power stays on"));
    let opened = machine.live(3, u64::MAX, machine.open(&machine.drives, 3));
    opened
        .expect("the power stays on")
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Power loss left members with one whole superblock; the membership that a new drive was the
/// first to know had the same number, was written over it, and torn: a good drive was lost.
#[test]
fn a_superblock_is_never_written_over_the_only_one() {
    for fuse in 0..60 {
        let machine = Machine::new(fuse, 4);
        let (members, new) = machine.drives.split_at(3);
        let made = machine.live(0, u64::MAX, async {
            let pool = create(members, Level::Raid5).await;
            let mut joining = pin!(pool.add_drive(new[0].clone()));
            while !matches!(pool::probe(&new[0]).await, Ok(Some(_))) {
                let moment = reactor::timeout(Duration::from_micros(1), joining.as_mut()).await;
                assert!(moment.is_err(), "it is to be stopped half way");
            }
        });
        made.expect("the power stays on");
        for drive in members {
            let newest = |at: &u64| u64::from_le_bytes(sequence_of(&drive.content(*at)));
            let both = heads(drive).into_iter().zip(copies(drive));
            let older = both.min_by_key(|(head, _)| newest(head));
            let (head, copy) = older.expect("a superblock");
            drive.put(copy, vec![0; BLOCK]);
            drive.put(head, vec![0; BLOCK]);
        }
        machine.live(1, fuse, machine.open(&machine.drives, 1));
        let status = machine.live(2, u64::MAX, async {
            let opened = machine.open(&machine.drives, 2).await;
            let pool = opened.unwrap_or_else(|error| panic!("fuse {fuse}: {error}"));
            pool.status()
        });
        let status = status.expect("the power stays on");
        assert_eq!(status.state, PoolState::Online, "fuse {fuse}: {status:?}");
    }
}

/// Power was lost before a drive that joined had its second superblock, and the next one, for want
/// of another member, was written over the first and torn: with two of four drives gone by its own
/// account the pool did not open.
#[test]
fn a_drive_that_was_joining_is_not_left_without_a_superblock() {
    for seed in 0..1000 {
        for checkpoints in 0..2 {
            let machine = Machine::new(seed, 4);
            let (members, new) = machine.drives.split_at(3);
            let made = machine.live(0, u64::MAX, async {
                let pool = create(members, Level::Raid5).await;
                for _ in 0..checkpoints {
                    pool.checkpoint().await.expect("a checkpoint");
                }
                let mut joining = pin!(pool.add_drive(new[0].clone()));
                while !matches!(pool::probe(&new[0]).await, Ok(Some(_))) {
                    let moment = reactor::timeout(Duration::from_micros(1), joining.as_mut()).await;
                    assert!(moment.is_err(), "it is to be stopped half way");
                }
            });
            made.expect("the power stays on");
            let present = &machine.drives[1..];
            machine.live(1, seed % 60, machine.open(present, 1));
            let opened = machine.live(2, u64::MAX, machine.open(present, 2));
            let opened = opened.expect("the power stays on");
            assert!(opened.is_ok(), "seed {seed}: {:?}", opened.err());
        }
    }
}

/// Power was lost while a membership without drive 3 was being written; the two drives that had it
/// were away the next time, and the other two went on. Together they were refused as used apart.
#[test]
fn a_membership_that_never_was_complete_does_not_keep_a_pool_from_opening() {
    let machine = Machine::new(1, 4);
    let drives = &machine.drives;
    let lived = machine.live(0, u64::MAX, async {
        let pool = create(drives, Level::Raid6).await;
        let id = volume(&pool, "a", 200).await;
        write_runs(&pool, id, 8).await;
        let before = drives[2].blocks_written();
        let third = pool.status().drives[3].id;
        pool.fail_drive(third).await.expect("one drive may fail");
        (id, before)
    });
    let (id, before) = lived.expect("the power stays on");
    // Drive 2 has nothing of it.
    put_back(&drives[2], &before);
    let lived = machine.live(1, u64::MAX, async {
        let pool = machine.open(&drives[2..], 1).await;
        let pool = pool.expect("two are enough");
        write(&pool, id, 7 * 16, 16, 99).await;
        pool.close().await.expect("closed");
    });
    lived.expect("the power stays on");
    let lived = machine.live(2, u64::MAX, async {
        let pool = machine.open(drives, 2).await;
        let pool = pool.unwrap_or_else(|error| panic!("{error}"));
        // The other two have missed a write: they come back empty.
        for drive in &drives[..2] {
            pool.add_drive(drive.clone()).await.expect("it joins");
        }
        while pool.status().state != PoolState::Online {
            settle().await;
        }
        drives[2].die_after(0);
        drives[3].die_after(0);
        assert_runs(&pool, id, 7).await;
        let found = read(&pool, id, 7 * 16, 16).await;
        assert!(found.iter().all(|byte| *byte == 99));
    });
    lived.expect("the power stays on");
}

/// The number of a superblock.
fn sequence_of(block: &[u8]) -> [u8; 8] {
    block[64..72].try_into().expect("eight bytes")
}
