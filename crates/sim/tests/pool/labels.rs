//! Labels of drives that have changed their size, and labels that are damaged.

use crate::support::{
    HOST, OTHER, assert_runs, copies, create, heads, open, settle, take, volume, with_drives,
    write_runs,
};
use pool::{
    CreateOptions, DriveChange, Entropy, Level, OpenOptions, Pool, PoolError, PoolEvent, PoolState,
};
use sim::{Power, SimDrive};

/// What is on the drives, on drives of another size.
fn resized(drives: &[SimDrive], blocks: u64) -> Vec<SimDrive> {
    let power = Power::new(2);
    power.switch_on(u64::MAX);
    let copy = |drive: &SimDrive| {
        let copy = SimDrive::new(blocks, power.clone());
        let inside = drive.blocks_written().into_iter();
        for (at, content) in inside.filter(|(at, _)| *at < blocks) {
            copy.put(at, content);
        }
        copy
    };
    drives.iter().map(copy).collect()
}

async fn try_open(drives: &[SimDrive]) -> Result<Pool<SimDrive>, PoolError> {
    let options = OpenOptions {
        entropy: Entropy::seeded(4),
        ..OpenOptions::new(HOST)
    };
    Pool::open(drives.to_vec(), options).await
}

fn all(drives: &[SimDrive]) -> Vec<Vec<(u64, Vec<u8>)>> {
    drives.iter().map(SimDrive::blocks_written).collect()
}

/// Half of the superblocks were sought at the end that the drives had by then: the pool was opened
/// as it had been a checkpoint before, with zones in it that were somebody else's by then.
#[test]
fn a_pool_on_drives_that_were_enlarged_is_found_as_it_was() {
    for volumes in 1..5 {
        with_drives(3, async |drives| {
            let pool = create(&drives, Level::Raid5).await;
            let id = volume(&pool, "a", 400).await;
            write_runs(&pool, id, 25).await;
            for number in 1..volumes {
                volume(&pool, &format!("v{number}"), 10).await;
            }
            let larger = resized(&drives, 2000);
            let pool = open(&larger).await;
            assert_eq!(pool.volumes().len(), volumes, "of {volumes}");
            assert_runs(&pool, id, 25).await;
            pool.checkpoint().await.expect("a checkpoint");
            drop(pool);
            let pool = open(&larger).await;
            assert_runs(&pool, id, 25).await;
            pool.close().await.expect("closed");
            // Nor is anything left behind by which the drive could be taken for a member.
            pool::wipe(&larger[0]).await.expect("wiped");
            assert_eq!(pool::probe(&resized(&larger, 1300)[0]).await, Ok(None));
        });
    }
}

/// Neither did a holder see a claim in such a place.
#[test]
fn a_holder_sees_claims_on_drives_that_were_enlarged() {
    for volumes in 1..3 {
        with_drives(3, async |drives| {
            create(&drives, Level::Raid5)
                .await
                .close()
                .await
                .expect("closed");
            let drives = resized(&drives, 2000);
            let first = open(&drives).await;
            for number in 0..volumes {
                volume(&first, &format!("v{number}"), 10).await;
            }
            let taking = reactor::spawn(async move { take(&drives, OTHER, 9).await });
            settle().await;
            settle().await;
            assert_eq!(first.status().state, PoolState::Offline, "{volumes}");
            let second = taking.await.expect("taken");
            assert_eq!(second.volumes().len(), volumes);
            second.close().await.expect("closed");
        });
    }
}

#[test]
fn a_drive_that_became_smaller_is_refused_and_left_alone() {
    with_drives(3, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.close().await.expect("closed");
        let mixed = [resized(&drives[..1], 1250), drives[1..].to_vec()].concat();
        let before = all(&mixed);
        let refused = try_open(&mixed).await.err();
        let expected = PoolError::DriveShrank {
            index: 0,
            found: 1250,
            before: 1300,
        };
        assert_eq!(refused, Some(expected));
        assert!(all(&mixed) == before, "a refused pool was written");
        let without = open(&mixed[1..]).await;
        assert_runs(&without, id, 25).await;
        without.close().await.expect("closed");
    });
}

/// Flips bits of a drive's superblocks, behind what tells that they are such.
fn damage(drive: &SimDrive) {
    for at in heads(drive).into_iter().chain(copies(drive)) {
        let mut content = drive.content(at);
        content[200] ^= 4;
        drive.put(at, content);
    }
}

/// A damaged label was taken for none: the operator read that a member was missing that was there,
/// and could have given the drive to another pool.
#[test]
fn a_damaged_label_is_told_from_none() {
    with_drives(4, async |drives| {
        let pool = create(&drives[..3], Level::Raid5).await;
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        let ids: Vec<_> = pool.status().drives.iter().map(|drive| drive.id).collect();
        pool.close().await.expect("closed");
        let whole = all(&drives);
        drives.iter().take(3).for_each(damage);
        let damaged = |index, error: Option<PoolError>| match error {
            Some(PoolError::LabelDamaged { index: at, label }) => {
                assert_eq!((at, label.pool_name.as_str()), (index, "tank"));
                assert!(ids.contains(&label.drive) && label.index < 3);
            }
            other => panic!("{other:?}"),
        };
        damaged(0, pool::probe(&drives[1]).await.err());
        damaged(0, try_open(&drives).await.err());
        let options = CreateOptions::new("b", Level::Raid1, HOST);
        let taken = [drives[3].clone(), drives[1].clone()].to_vec();
        damaged(1, Pool::create(taken, options).await.err());
        for (at, content) in &whole[0] {
            drives[0].put(*at, content.clone());
        }
        let said = try_open(&drives).await.err().expect("refused").to_string();
        assert!(
            said.contains(") is there with a damaged label, member 2 ("),
            "{said}"
        );
        for (at, content) in &whole[2] {
            drives[2].put(*at, content.clone());
        }
        let pool = open(&drives).await;
        let first = pool.next_event().await;
        let (id_of_damaged, index) = (ids[1], 1);
        let told = PoolEvent::Drive {
            id: id_of_damaged,
            index,
            change: DriveChange::LabelDamaged,
        };
        assert_eq!(first, Some(told));
        damaged(0, pool.add_drive(drives[1].clone()).await.err());
        pool::wipe(&drives[1]).await.expect("wiped");
        pool.add_drive(drives[1].clone()).await.expect("added");
        settle().await;
        assert_runs(&pool, id, 25).await;
        assert_eq!(pool.status().state, PoolState::Online);
        pool.close().await.expect("closed");
    });
}
