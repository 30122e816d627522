//! What is given back to drives: what lay on those of a new pool, or on one that joins; and blocks,
//! while they are being moved: whatever comes first on the drives, they stay given back, after a
//! power failure too.

use crate::support::{BLOCK, HOST, create, read, settle, volume, with_drives, write_runs};
use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use pool::{Entropy, Level, OpenOptions, Pool, VolumeId};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::time::Duration;

/// Runs of 16 blocks that are written; every third is given back.
const RUNS: u64 = 25;

async fn give_back(pool: &Pool<SimDrive>, id: VolumeId) {
    let device = pool.volume(id).expect("the volume");
    for run in (0..RUNS).step_by(3) {
        let range = BlockRange::new(Lba(run * 16), 16);
        device.deallocate(range).await.expect("given back");
    }
}

async fn assert_given_back(pool: &Pool<SimDrive>, id: VolumeId, what: &str) {
    for run in 0..RUNS {
        let expected = if run % 3 == 0 { 0 } else { run as u8 };
        let found = read(pool, id, run * 16, 16).await;
        assert_eq!(found, vec![expected; 16 * BLOCK], "{what}: run {run}");
    }
}

/// What is given back `delay` after everything began to move off a lost drive; returns whether
/// blocks were being moved before and after.
fn race(delay: Duration, checkpoint: bool) -> bool {
    let power = Power::new(5);
    let drives: Vec<SimDrive> = (0..6).map(|_| SimDrive::new(1300, power.clone())).collect();
    power.switch_on(u64::MAX);
    let what = format!("{delay:?} {checkpoint}");
    let raced = Reactor::simulated(11).run(async {
        let pool = create(&drives, Level::Raid6).await;
        let id = volume(&pool, "a", RUNS * 16).await;
        write_runs(&pool, id, RUNS).await;
        pool.checkpoint().await.expect("checkpoint");
        let lost = pool.status().drives[2].id;
        pool.fail_drive(lost).await.expect("one may fail");
        reactor::sleep(delay).await;
        let before = pool.counters().relocated_blocks;
        give_back(&pool, id).await;
        assert_given_back(&pool, id, &what).await;
        if checkpoint {
            pool.checkpoint().await.expect("checkpoint");
        }
        reactor::sleep(delay).await;
        assert_given_back(&pool, id, &what).await;
        before > 0 && pool.counters().relocated_blocks > before
    });
    drives.iter().for_each(SimDrive::lose_power);
    Reactor::simulated(12).run(async {
        let options = OpenOptions {
            entropy: Entropy::seeded(6),
            ..OpenOptions::new(HOST)
        };
        let opened = Pool::open(drives.clone(), options).await;
        let pool = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
        let id = pool.volumes()[0].id;
        assert_given_back(&pool, id, &what).await;
        pool.close().await.expect("closed");
    });
    raced
}

#[test]
fn blocks_that_are_given_back_while_they_move_stay_given_back() {
    let delays = (0..60).map(|step| Duration::from_micros(step * 50));
    let raced = delays.flat_map(|delay| [race(delay, false), race(delay, true)]);
    let raced = raced.filter(|raced| *raced).count();
    assert!(raced > 5, "{raced} met blocks on their way");
}

async fn use_up(drive: &SimDrive) {
    let mut buffer = Buffer::new(600 * BLOCK);
    buffer.fill(9);
    let written = drive.write(Lba(300), buffer, Durability::Durable).await;
    written.1.expect("written");
}

async fn assert_forgotten(drive: &SimDrive) {
    let buffer = Buffer::new(600 * BLOCK);
    let (buffer, result) = drive.read(Lba(300), buffer).await;
    result.expect("read");
    assert!(buffer.iter().all(|byte| *byte == 0));
}

#[test]
fn what_lay_on_the_drives_of_a_new_pool_is_given_back_to_them() {
    with_drives(4, async |drives| {
        for drive in &drives {
            use_up(drive).await;
        }
        let pool = create(&drives, Level::Raid5).await;
        for drive in &drives {
            assert_forgotten(drive).await;
        }
        pool.close().await.expect("closed");
    });
}

/// It was full of what nobody reads for as long as it was a member.
#[test]
fn what_lay_on_a_drive_that_joins_is_given_back_to_it() {
    with_drives(4, async |drives| {
        let pool = create(&drives[..3], Level::Raid5).await;
        use_up(&drives[3]).await;
        pool.add_drive(drives[3].clone()).await.expect("joins");
        settle().await;
        assert_forgotten(&drives[3]).await;
        pool.close().await.expect("closed");
    });
}
