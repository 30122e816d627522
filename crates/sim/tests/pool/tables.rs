//! The place of the tables on the drives: segments and volumes share it, and neither may keep the
//! other from what it needs.

use std::convert::Infallible;

use crate::support::{BLOCK, create, open, read, settle, volume, with_drives, write};
use pool::{
    ATTRIBUTES_BYTES_MAX, Level, Pool, PoolError, PoolState, SnapshotId, VolumeId, VolumeOptions,
};
use sim::{Power, SimDrive};

/// Blocks of one write.
const RUN: u64 = 32;

/// A small drive, of which a pool is made, and a large one that joins.
fn unequal_drives(large: u64) -> Vec<SimDrive> {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    [1300, large]
        .map(|blocks| SimDrive::new(blocks, power.clone()))
        .to_vec()
}

async fn described_volume(pool: &Pool<SimDrive>, name: &str) -> Result<VolumeId, PoolError> {
    let options = VolumeOptions {
        bytes: BLOCK as u64,
        attributes: vec![7; ATTRIBUTES_BYTES_MAX],
        ..VolumeOptions::default()
    };
    pool.create_volume(name, options).await
}

async fn describe(
    pool: &Pool<SimDrive>,
    id: VolumeId,
    attributes: Vec<u8>,
) -> Result<(), PoolError> {
    let described = pool.change_attributes(id, move |_| Ok::<_, Infallible>(attributes));
    described.await.map(drop)
}

async fn assert_written(pool: &Pool<SimDrive>, id: VolumeId, blocks: u64) {
    for start in (0..blocks).step_by(RUN as usize * 8) {
        let found = read(pool, id, start, 1).await;
        assert_eq!(found, vec![(start / RUN) as u8; BLOCK], "block {start}");
    }
}

/// What volumes keep filled the tables' place but for a little. When hosts had written so much that
/// the segments did not fit there, the pool went offline, and could not be opened any more.
#[test]
fn volumes_leave_the_tables_room_for_segments() {
    const BLOCKS: u64 = 20_000;
    let drives = unequal_drives(40_000);
    let mut made = None;
    reactor::Reactor::simulated(1).run(async {
        let pool = create(&drives[..1], Level::Raid0).await;
        pool.add_drive(drives[1].clone()).await.expect("added");
        let id = volume(&pool, "a", BLOCKS).await;
        let mut others = Vec::new();
        let refused = loop {
            match described_volume(&pool, &format!("v{}", others.len())).await {
                Ok(other) => others.push(other),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, PoolError::TablesFull { .. }), "{refused}");
        assert!(others.len() > 1, "some have room");
        for start in (0..BLOCKS).step_by(RUN as usize) {
            write(&pool, id, start, RUN, (start / RUN) as u8).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        made = Some((id, others));
    });
    let (id, others) = made.expect("a volume");
    reactor::Reactor::simulated(2).run(async {
        let pool = open(&drives).await;
        assert_written(&pool, id, BLOCKS).await;
        // Less is always taken.
        let less = describe(&pool, others[0], vec![7; 10]).await;
        less.expect("shorter attributes");
        for other in others {
            pool.delete_volume(other).await.expect("deleted");
        }
        described_volume(&pool, "again").await.expect("room again");
        assert_written(&pool, id, BLOCKS).await;
        assert_eq!(pool.status().state, PoolState::Online);
        pool.close().await.expect("closed");
    });
}

/// A drive of which the tables could not name all zones joins: as much of it is used as they can.
#[test]
fn a_drive_much_larger_than_the_tables_have_room_for_is_used_as_far_as_that_goes() {
    let drives = unequal_drives(80_000);
    let mut made = None;
    reactor::Reactor::simulated(1).run(async {
        let pool = create(&drives[..1], Level::Raid0).await;
        pool.add_drive(drives[1].clone()).await.expect("added");
        let usable = pool.status().usable_bytes / BLOCK as u64;
        assert!((10_000..60_000).contains(&usable), "{usable}");
        let blocks = usable / RUN * RUN;
        let id = volume(&pool, "a", blocks).await;
        for start in (0..blocks).step_by(RUN as usize) {
            write(&pool, id, start, RUN, (start / RUN) as u8).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        made = Some((id, blocks));
    });
    let (id, blocks) = made.expect("a volume");
    reactor::Reactor::simulated(2).run(async {
        let pool = open(&drives).await;
        for start in (0..blocks).step_by(RUN as usize * 3) {
            write(&pool, id, start, RUN, (start / RUN) as u8).await;
        }
        assert_written(&pool, id, blocks).await;
        assert_eq!(pool.status().state, PoolState::Online);
        pool.close().await.expect("closed");
    });
}

async fn snapshot(
    pool: &Pool<SimDrive>,
    of: VolumeId,
    number: usize,
) -> Result<SnapshotId, PoolError> {
    let name = format!("{number:0>255}");
    Ok(pool.snapshot(&[(of, name)]).await?[0])
}

/// With tables as full as they may be nothing could be deleted any more, nor any host be denied.
#[test]
fn what_makes_full_tables_smaller_is_never_refused() {
    with_drives(3, async |drives| {
        let pool = create(&drives, Level::Raid5).await;
        let id = volume(&pool, "a", 100).await;
        let mut snapshots = Vec::new();
        let refused = loop {
            write(&pool, id, snapshots.len() as u64 % 100, 1, 3).await;
            match snapshot(&pool, id, snapshots.len()).await {
                Ok(taken) => snapshots.push(taken),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, PoolError::TablesFull { .. }), "{refused}");
        assert!(snapshots.len() > 20, "{}", snapshots.len());
        describe(&pool, id, Vec::new())
            .await
            .expect("no more than before");
        pool.resize_volume(id, 50 * BLOCK as u64, true)
            .await
            .expect("smaller");
        for taken in snapshots {
            pool.delete_snapshot(taken).await.expect("deleted");
        }
        settle().await;
        assert_eq!(read(&pool, id, 0, 1).await, vec![3; BLOCK]);
        snapshot(&pool, id, 7).await.expect("room again");
        pool.close().await.expect("closed");
        let pool = open(&drives).await;
        assert_eq!(pool.snapshots().len(), 1);
        pool.close().await.expect("closed");
    });
}
