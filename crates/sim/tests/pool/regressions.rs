//! Every fault that the simulation found in the pool, as small as it could be made.

use crate::support::{BLOCK, assert_runs, read, volume, with_pool, write, write_runs};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, Entropy, HostId, Level, OpenOptions, Pool};
use reactor::Reactor;
use sim::{Options, Power, SimDrive, run};

/// A world as it was when the simulation ended every life with the power: a fault was in it.
fn before_deaths(seed: u64) -> Options {
    Options {
        processes_die: false,
        latecomers: false,
        newcomers: false,
        ..Options::new(seed)
    }
}

/// The read had looked up the volume's layer once; the layer was folded away under it and the rest
/// of its blocks read as zeroes.
#[test]
fn a_read_that_outlasts_a_snapshot_sees_the_volume() {
    with_pool(Level::Raid1, 2, async |pool, drives| {
        let id = volume(&pool, "a", 200).await;
        for block in (0..200).rev() {
            write(&pool, id, block, 1, 9).await;
        }
        pool.checkpoint().await.expect("checkpoint");
        // What the read has begun takes long; what is begun later does not.
        drives.iter().for_each(|drive| drive.slow_down(10_000));
        let reader = reactor::spawn({
            let pool = pool.clone();
            async move { read(&pool, id, 0, 200).await }
        });
        reactor::yield_now().await;
        drives.iter().for_each(|drive| drive.slow_down(1));
        let snapshots = pool
            .snapshot(&[(id, "s".to_owned())])
            .await
            .expect("a snapshot");
        pool.delete_snapshot(snapshots[0]).await.expect("deleted");
        assert!(!reader.is_finished(), "the read is to outlast both");
        assert!(reader.await.iter().all(|byte| *byte == 9));
    });
}

/// With a drive lost, segments are narrower: the room behind the last stripe was reckoned as if
/// they were not, and a write that did not fit waited for ever.
#[test]
fn writes_go_on_in_the_narrower_segments_of_a_degraded_pool() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "a", 600).await;
        let drive = pool.status().drives[2].id;
        pool.fail_drive(drive).await.expect("one drive may fail");
        write_runs(&pool, id, 36).await;
        assert_runs(&pool, id, 36).await;
    });
}

/// What decayed on two drives of a raid6 pool is put right, redundancy and map included: after a
/// scrub two other drives may go and everything is there.
#[test]
fn a_scrub_makes_good_what_has_decayed() {
    with_pool(Level::Raid6, 6, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        pool.checkpoint().await.expect("checkpoint");
        drives[1].decay(40);
        drives[4].decay(40);
        let first = pool.scrub().await.expect("a scrub");
        assert!(
            first.repaired > 10 && first.lost.is_empty() && first.lost_nodes == 0,
            "{first:?}"
        );
        let second = pool.scrub().await.expect("a scrub");
        assert_eq!(second.repaired, 0, "{second:?}");
        drives[0].die_after(0);
        drives[2].die_after(0);
        assert_runs(&pool, id, 25).await;
    });
}

/// A lost drive's blocks move to the others, the pool forgets the drive, and may lose more.
#[test]
fn a_pool_that_has_rebuilt_survives_the_next_losses() {
    with_pool(Level::Raid6, 7, async |pool, drives| {
        let id = volume(&pool, "a", 400).await;
        write_runs(&pool, id, 25).await;
        for lost in 0..4 {
            let drive = pool.status().drives[0].id;
            pool.fail_drive(drive).await.expect("a drive may fail");
            reactor::sleep(std::time::Duration::from_secs(1)).await;
            let status = pool.status();
            assert_eq!(
                status.drives.len(),
                drives.len() - 1 - lost,
                "{}",
                pool.describe()
            );
            assert_eq!(pool.status().drives_to_spare, 2);
        }
        assert_runs(&pool, id, 25).await;
    });
}

/// A drive that died while the newest superblock was being copied to it kept the pool from opening.
#[test]
fn a_drive_that_dies_while_the_pool_opens_is_as_good_as_absent() {
    for operations in 0..40 {
        let power = Power::new(operations);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..3).map(|_| SimDrive::new(1300, power.clone())).collect();
        let host = HostId([1; 16]);
        Reactor::simulated(1).run(async {
            let options = CreateOptions {
                zone_bytes: Some(32 * BLOCK as u64),
                entropy: Entropy::seeded(3),
                ..CreateOptions::new("tank", Level::Raid5, host)
            };
            let pool = Pool::create(drives.clone(), options).await.expect("a pool");
            let id = volume(&pool, "a", 100).await;
            write(&pool, id, 5, 16, 7).await;
        });
        // Without the last superblock, drive 1 has to be brought up to date.
        Reactor::simulated(2).run(async {
            let blocks = drives[1].geometry().block_count;
            let zeroes = || Buffer::zeroed(BLOCK);
            let newest = match pool::probe(&drives[1]).await {
                Ok(Some(_)) => blocks - 1,
                _ => 1,
            };
            let _ = drives[1]
                .write(Lba(newest), zeroes(), Durability::Durable)
                .await;
        });
        drives[1].die_after(operations);
        Reactor::simulated(3).run(async {
            let options = OpenOptions {
                entropy: Entropy::seeded(4),
                ..OpenOptions::new(host)
            };
            let pool = Pool::open(drives.clone(), options)
                .await
                .expect("two of three are enough");
            let id = pool.volumes()[0].id;
            assert!(read(&pool, id, 5, 16).await.iter().all(|byte| *byte == 7));
            pool.close().await.expect("closed");
        });
    }
}

/// While a member was being forgotten somebody published a snapshot, or another size of a volume;
/// the member list then went out with the tables from before. These worlds met it.
#[test]
fn forgetting_a_member_does_not_take_back_what_was_published_meanwhile() {
    for seed in [101_407, 103_872] {
        run(&before_deaths(seed)).unwrap_or_else(|found| panic!("{found}"));
    }
}

/// Power loss tore superblocks so that two attempts made one, or a drive was left with none.
#[test]
fn torn_superblocks_cost_no_drive() {
    for seed in [106_426, 110_887] {
        run(&before_deaths(seed)).unwrap_or_else(|found| panic!("{found}"));
    }
}

/// Power loss left half of a pool's drives with a membership that the others never had; those went
/// on by themselves, and then the pool did not open: its drives had been used apart.
#[test]
fn a_membership_on_half_of_the_drives_yields() {
    let options = Options {
        shards_max: 3,
        ..before_deaths(9_701_502)
    };
    run(&options).unwrap_or_else(|found| panic!("{found}"));
}

/// Power failed again and again soon after a pool that was all but full had been opened. Each
/// opening begins a segment for the map, and did not take those that the tables had nothing in: the
/// pool did not open for want of space.
#[test]
fn a_full_pool_opens_after_one_crash_upon_another() {
    run(&before_deaths(10_003_830)).unwrap_or_else(|found| panic!("{found}"));
}

/// A drive that was not ready hid a superblock that the last opening had left torn; when
/// it was ready, that passed for another host's.
#[test]
fn what_the_last_opening_left_is_no_rival() {
    run(&before_deaths(2_003_254)).unwrap_or_else(|found| panic!("{found}"));
}

/// While it was found out that a drive could not leave, it already took no new segments: those made
/// meanwhile had one copy, on a drive that died then.
#[test]
fn a_drive_that_may_not_leave_still_takes_copies() {
    let options = Options {
        shards_max: 3,
        ..before_deaths(2_502_947)
    };
    run(&options).unwrap_or_else(|found| panic!("{found}"));
}

/// Segments had just been made ready, and nothing else could be done, when a writer that had not
/// yet looked still counted as waiting: its writes were refused in pools that were all but empty.
/// So were those of one that looked while a checkpoint was making the segments known.
#[test]
fn a_write_is_not_refused_for_want_of_segments_that_are_ready() {
    for (level, drives) in [(Level::Raid0, 1), (Level::Raid1, 2), (Level::Raid10, 4)] {
        with_pool(level, drives, async |pool, _| {
            let id = volume(&pool, "a", 480).await;
            for start in [0, 240] {
                write(&pool, id, start, 240, 9).await;
                pool.checkpoint().await.expect("checkpoint");
            }
        });
    }
    for seed in [9_200_049, 9_200_323, 9_725_324] {
        run(&before_deaths(seed)).unwrap_or_else(|found| panic!("{found}"));
    }
}

/// What lay ready for a shard lacked a drive by then, its writer could not use it, and since
/// something lay ready nothing else was asked for: a write was refused in an empty pool.
#[test]
fn what_lies_ready_and_lacks_a_drive_keeps_no_shard_from_another() {
    let options = Options {
        shards_max: 3,
        latecomers: false,
        newcomers: false,
        ..Options::new(20_000_908)
    };
    run(&options).unwrap_or_else(|found| panic!("{found}"));
}

/// Zones that columns had left were about to be free, with the checkpoint under way: the writer
/// that waited for them was refused.
#[test]
fn a_write_waits_for_zones_that_columns_are_leaving() {
    let options = Options {
        shards_max: 3,
        crowded: Some(true),
        latecomers: false,
        newcomers: false,
        ..Options::new(2_000_666)
    };
    run(&options).expect("nothing is refused while there is room");
}

/// Zeroes that a read brought were those from before a write; the model took them for those of a
/// deallocation after it, which had not come yet, and called these stale when they were read. This
/// fault was in the model alone.
#[test]
fn zeroes_from_before_a_write_are_not_taken_for_later_ones() {
    let options = Options {
        rivals: true,
        ..Options::new(248_340_856)
    };
    run(&options).unwrap_or_else(|found| panic!("{found}"));
}
