//! Two hosts and one pool: who takes it by force waits, and who has lost it stops.

use crate::support::{
    BLOCK, HOST, OTHER, create, heads, open, put_back, read, settle, take, volume, with_drives,
    write, write_runs,
};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use pool::{Entropy, HostId, Level, OpenOptions, Pool, PoolError, PoolState, VolumeId};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::time::Duration;

/// What a claim by force waits.
const TAKEOVER: Duration = Duration::from_secs(8);
/// Of a volume that takes a third of two drives.
const BLOCKS: u64 = 640;

async fn try_write(pool: &Pool<SimDrive>, id: VolumeId, byte: u8) -> Result<(), IoError> {
    let device = pool.volume(id).expect("the volume");
    let mut buffer = Buffer::new(BLOCK);
    buffer.fill(byte);
    device.write(Lba(0), buffer, Durability::Durable).await.1
}

#[test]
fn a_holder_stops_before_the_one_that_takes_the_pool_begins() {
    with_drives(4, async |drives| {
        let first = create(&drives, Level::Raid6).await;
        let id = volume(&first, "a", 100).await;
        write(&first, id, 0, 1, 1).await;
        let begun = reactor::now();
        let taking = reactor::spawn({
            let drives = drives.clone();
            async move { take(&drives, OTHER, 9).await }
        });
        let mut last = 1;
        for turn in 2.. {
            match try_write(&first, id, turn).await {
                Ok(()) => last = turn,
                Err(error) => {
                    assert_eq!(error, IoError::DeviceGone);
                    break;
                }
            }
            reactor::sleep(Duration::from_millis(20)).await;
        }
        assert!(
            reactor::now() - begun < Duration::from_millis(1200),
            "a look a second"
        );
        assert!(!taking.is_finished(), "it waits for longer than that");
        let status = first.status();
        assert_eq!(status.state, PoolState::Offline);
        let reason = status.reason.map(|reason| reason.as_str());
        assert_eq!(reason, Some("another host has taken the pool over"));
        let device = first.volume(id).expect("the volume");
        let stale = device.read(Lba(0), Buffer::new(BLOCK)).await.1;
        assert_eq!(
            stale,
            Err(IoError::DeviceGone),
            "it may have been overwritten"
        );
        let second = taking.await.expect("taken");
        assert!(reactor::now() - begun >= TAKEOVER);
        // What was refused may have been written all the same.
        let found = read(&second, id, 0, 1).await;
        let either = [last, last + 1].map(|byte| vec![byte; BLOCK]);
        assert!(
            either.contains(&found),
            "{last} was acknowledged: {}",
            found[0]
        );
        second.close().await.expect("closed");
    });
}

async fn open_as(
    drives: &[SimDrive],
    host: HostId,
    seed: u64,
) -> Result<Pool<SimDrive>, PoolError> {
    let options = OpenOptions {
        entropy: Entropy::seeded(seed),
        ..OpenOptions::new(host)
    };
    Pool::open(drives.to_vec(), options).await
}

/// Its claim is on the drives, as of one that died then. The one before knows nothing of it yet,
/// and goes on until it looks.
#[test]
fn who_gives_up_taking_a_pool_waits_as_long_when_it_comes_again() {
    with_drives(4, async |drives| {
        let first = create(&drives, Level::Raid6).await;
        let id = volume(&first, "a", 100).await;
        write(&first, id, 0, 1, 1).await;
        let begun = reactor::now();
        let taking = reactor::timeout(Duration::from_millis(30), take(&drives, OTHER, 9)).await;
        assert!(taking.is_err(), "it waits for longer than that");
        let again = reactor::spawn({
            let drives = drives.clone();
            async move { open_as(&drives, OTHER, 10).await }
        });
        let mut last = 1;
        for turn in 2.. {
            if try_write(&first, id, turn).await.is_err() {
                break;
            }
            last = turn;
            reactor::sleep(Duration::from_millis(20)).await;
        }
        assert!(last > 10, "it went on for a while");
        let second = again.await.expect("the claim by force was its own");
        assert!(reactor::now() - begun >= TAKEOVER);
        let found = read(&second, id, 0, 1).await;
        let either = [last, last + 1].map(|byte| vec![byte; BLOCK]);
        assert!(
            either.contains(&found),
            "{last} was acknowledged: {}",
            found[0]
        );
        // What it has entered is its own.
        drop(first);
        let begun = reactor::now();
        second.close().await.expect("closed");
        let second = open_as(&drives, OTHER, 11).await.expect("its own");
        assert!(reactor::now() - begun < Duration::from_secs(1));
        second.close().await.expect("closed");
    });
}

#[test]
fn nobody_waits_long_who_takes_nothing_from_anybody() {
    with_drives(3, async |drives| {
        let begun = reactor::now();
        create(&drives, Level::Raid5)
            .await
            .close()
            .await
            .expect("closed");
        open(&drives).await.export().await.expect("exported");
        assert!(reactor::now() - begun < Duration::from_secs(1));
        let pool = open_as(&drives, OTHER, 5).await.expect("exported");
        pool.close().await.expect("closed");
        assert!(reactor::now() - begun < Duration::from_secs(2));
    });
}

type Opened = Result<Pool<SimDrive>, PoolError>;

/// Whether a pool is as it should be, be it with all of its drives or not.
fn serves(pool: &Pool<SimDrive>, lacks_drive: bool) -> bool {
    let state = pool.status().state;
    state == PoolState::Online || lacks_drive && state == PoolState::Degraded
}

/// The pools that serve when all have been tried.
async fn serving(
    opening: impl IntoIterator<Item = reactor::Task<Opened>>,
    lacks_drive: bool,
) -> Vec<Pool<SimDrive>> {
    let mut got = Vec::new();
    for opened in opening {
        got.extend(opened.await.ok());
    }
    got.retain(|pool| serves(pool, lacks_drive));
    got
}

/// Neither knew of the other, and both wrote, until one of them looked the next time.
#[test]
fn of_two_that_open_a_pool_that_nobody_holds_at_once_one_gets_it() {
    for seed in 0..40 {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives = [(); 4].map(|()| SimDrive::new(1300, power.clone()));
        Reactor::simulated(seed).run(async {
            let pool = create(&drives, Level::Raid6).await;
            let id = volume(&pool, "a", 100).await;
            pool.export().await.expect("exported");
            let lacks_drive = seed % 4 < 2;
            if lacks_drive {
                drives[0].die_after(0);
            }
            // Where state was copied, two nodes have one name.
            let second = if seed % 2 == 0 { HOST } else { OTHER };
            let opening =
                [(HOST, 0, 100), (second, seed * 50, 101)].map(|(host, delay_us, entropy)| {
                    let mut drives = drives.to_vec();
                    // In whichever order the drives are given.
                    drives.rotate_left((delay_us / 50 % 4) as usize);
                    reactor::spawn(async move {
                        reactor::sleep(Duration::from_micros(delay_us)).await;
                        open_as(&drives, host, entropy).await
                    })
                });
            let got = serving(opening, lacks_drive).await;
            assert_eq!(got.len(), 1, "seed {seed}: {} hosts have it", got.len());
            write(&got[0], id, 0, 1, 7).await;
            reactor::sleep(Duration::from_secs(2)).await;
            assert_eq!(read(&got[0], id, 0, 1).await, vec![7; BLOCK]);
            got[0].close().await.expect("closed");
        });
    }
}

/// As above, where a node's state was copied and both go on with a pool that was theirs.
#[test]
fn of_two_hosts_of_one_name_that_go_on_at_once_one_serves() {
    for seed in 0..40 {
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives = [(); 4].map(|()| SimDrive::new(1300, power.clone()));
        Reactor::simulated(seed).run(async {
            let pool = create(&drives, Level::Raid6).await;
            pool.close().await.expect("closed");
            let lacks_drive = seed % 2 == 0;
            if lacks_drive {
                drives[0].die_after(0);
            }
            let opening = [(0, 100), (seed * 50, 101)].map(|(delay_us, entropy)| {
                let drives = drives.to_vec();
                reactor::spawn(async move {
                    reactor::sleep(Duration::from_micros(delay_us)).await;
                    open_as(&drives, HOST, entropy).await
                })
            });
            let got = serving(opening, lacks_drive).await;
            assert_eq!(got.len(), 1, "seed {seed}: {} hosts have it", got.len());
        });
    }
}

#[test]
fn of_two_that_take_a_pool_at_once_at_most_one_gets_it() {
    with_drives(4, async |drives| {
        let first = create(&drives, Level::Raid6).await;
        for seed in 0..4 {
            let hosts = [HostId([10 + 2 * seed; 16]), HostId([11 + 2 * seed; 16])];
            let taking = hosts.map(|host| {
                let drives = drives.clone();
                let seed = 100 + u64::from(host.0[0]);
                reactor::spawn(async move { take(&drives, host, seed).await })
            });
            let mut got = Vec::new();
            for taken in taking {
                got.extend(taken.await.ok());
            }
            reactor::sleep(Duration::from_secs(2)).await;
            got.retain(|pool| pool.status().state == PoolState::Online);
            assert!(got.len() <= 1, "{} hosts have the pool", got.len());
        }
        assert_eq!(first.status().state, PoolState::Offline);
        let last = take(&drives, HOST, 200).await.expect("alone");
        last.close().await.expect("closed");
    });
}

/// A host stood still, and its clock with it, while it opened a pool that was its own. Another one
/// took the pool meanwhile, and keeps it: nobody has told the first one to take it back.
#[test]
fn a_host_that_stood_still_while_it_opened_its_pool_does_not_take_it_back() {
    for operations in 0..80 {
        stand_still_while_it_opens(Level::Raid5, 3, false, operations);
    }
}

/// As above, where a drive was dead: what the one behind it told was taken for the dead one's, and
/// a claim there overlooked. And where there was but one, its newest superblock looked torn to who
/// had read the head before and the tables since, and was wiped.
#[test]
fn a_host_that_stood_still_without_a_drive_does_not_take_its_pool_back() {
    for operations in 0..80 {
        stand_still_while_it_opens(Level::Raid1, 2, true, operations);
        stand_still_while_it_opens(Level::Raid6, 4, true, operations);
    }
}

fn stand_still_while_it_opens(level: Level, count: usize, lacks_drive: bool, operations: u64) {
    let power = Power::new(operations);
    power.switch_on(u64::MAX);
    let drives: Vec<_> = (0..count)
        .map(|_| SimDrive::new(1300, power.clone()))
        .collect();
    let first = Reactor::simulated(1);
    first.run(async {
        let pool = create(&drives, level).await;
        volume(&pool, "a", 100).await;
        pool.close().await.expect("closed");
        if lacks_drive {
            drives[0].die_after(0);
        }
        power.pause_after(operations);
        let given = drives.to_vec();
        // It ends, if it does, when nobody listens any more.
        drop(reactor::spawn(async move {
            open_as(&given, HOST, 5 + operations % 4).await
        }));
        power.paused().await;
    });
    drives.iter().for_each(SimDrive::land);
    let second = Reactor::simulated(2);
    let (pool, id) = second.run(async {
        let pool = take(&drives, OTHER, 9).await.expect("taken");
        let id = pool.volumes()[0].id;
        write(&pool, id, 0, 1, 7).await;
        (pool, id)
    });
    first.run(async { reactor::sleep(Duration::from_secs(2)).await });
    second.run(async {
        reactor::sleep(Duration::from_secs(4)).await;
        let status = pool.status();
        assert!(serves(&pool, lacks_drive), "after {operations}: {status:?}");
        write(&pool, id, 1, 1, 8).await;
        pool.checkpoint().await.expect("a checkpoint");
    });
}

/// A host stood still, and its clock with it, while it copied a column or wrote the map; then it
/// went on with that, in zones that had been free and that the next holder had filled.
#[test]
fn a_host_that_stood_still_writes_nothing_to_zones_that_were_free() {
    for operations in (0..600).step_by(4) {
        let power = Power::new(operations);
        power.switch_on(u64::MAX);
        let drives = [(); 3].map(|()| SimDrive::new(1300, power.clone()));
        let first = Reactor::simulated(1);
        let (held, id) = first.run(async {
            let pool = create(&drives[..2], Level::Raid0).await;
            let id = volume(&pool, "a", BLOCKS).await;
            write_runs(&pool, id, BLOCKS / 16).await;
            settle().await;
            pool.add_drive(drives[2].clone()).await.expect("it joins");
            power.pause_after(operations);
            let (writer, device) = (pool.clone(), pool.volume(id).expect("the volume"));
            drop(reactor::spawn(async move {
                for round in 0.. {
                    let at = Lba(round * 7 % BLOCKS);
                    let write = device.write(at, Buffer::new(BLOCK), Durability::Durable);
                    // Another host has the pool by now.
                    if write.await.1.is_err() {
                        return;
                    }
                    if round % 50 == 0 && writer.checkpoint().await.is_err() {
                        return;
                    }
                }
            }));
            power.paused().await;
            (pool, id)
        });
        drives.iter().for_each(SimDrive::land);
        let second = Reactor::simulated(2);
        let pool = second.run(async {
            let pool = take(&drives, OTHER, 9).await.expect("taken");
            for start in (0..BLOCKS).step_by(16) {
                write(&pool, id, start, 16, 2).await;
            }
            pool
        });
        first.run(async { reactor::sleep(Duration::from_millis(900)).await });
        second.run(async {
            for start in (0..BLOCKS).step_by(16) {
                let found = read(&pool, id, start, 16).await;
                assert!(
                    found == [2; 16 * BLOCK],
                    "after {operations}: block {start}"
                );
            }
        });
        drop(held);
    }
}

/// Who has opened a pool in vain may have written so late, over a later superblock of who has it:
/// that is put back, and nobody stops for it.
#[test]
fn what_comes_late_of_an_opening_in_vain_is_put_back() {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    let drives = [(); 4].map(|()| SimDrive::new(1300, power.clone()));
    let holder = |head: &Vec<u8>| head[96..112].to_vec();
    Reactor::simulated(1).run(async {
        let pool = create(&drives, Level::Raid6).await;
        volume(&pool, "a", 100).await;
        pool.export().await.expect("exported");
    });
    let before: Vec<_> = drives.iter().map(SimDrive::blocks_written).collect();
    let claims = Reactor::simulated(2).run(async {
        let given = drives.to_vec();
        drop(reactor::spawn(
            async move { open_as(&given, OTHER, 9).await },
        ));
        reactor::sleep(Duration::from_millis(10)).await;
        let claim = |drive: &SimDrive| {
            let heads = heads(drive).map(|at| (at, drive.content(at)));
            let theirs = |found: &(u64, Vec<u8>)| holder(&found.1) == OTHER.0;
            heads.into_iter().find(theirs).expect("a claim")
        };
        drives.iter().map(claim).collect::<Vec<_>>()
    });
    for (drive, image) in drives.iter().zip(&before) {
        put_back(drive, image);
    }
    Reactor::simulated(3).run(async {
        let pool = open_as(&drives, HOST, 5).await.expect("exported");
        let id = pool.volumes()[0].id;
        write(&pool, id, 0, 1, 7).await;
        pool.checkpoint().await.expect("a checkpoint");
        for (drive, (at, claim)) in drives.iter().zip(claims) {
            drive.put(at, claim);
        }
        reactor::sleep(Duration::from_secs(4)).await;
        assert_eq!(pool.status().state, PoolState::Online);
        for drive in &drives {
            for at in heads(drive) {
                assert_eq!(holder(&drive.content(at)), HOST.0);
            }
        }
    });
    drives.iter().for_each(SimDrive::lose_power);
    Reactor::simulated(4).run(async {
        let pool = open(&drives).await;
        let id = pool.volumes()[0].id;
        assert_eq!(read(&pool, id, 0, 1).await, vec![7; BLOCK]);
        pool.close().await.expect("closed");
    });
}

/// Whoever had the pool by then wiped the very drives that the last holder asked: it found nobody
/// there, and went on acknowledging.
#[test]
fn a_wiped_drive_vouches_for_nobody() {
    with_drives(4, async |drives| {
        let first = create(&drives, Level::Raid5).await;
        let id = volume(&first, "a", 100).await;
        write(&first, id, 0, 1, 1).await;
        for drive in &drives {
            pool::wipe(drive).await.expect("wiped");
        }
        reactor::sleep(Duration::from_secs(6)).await;
        assert_eq!(try_write(&first, id, 2).await, Err(IoError::DeviceGone));
    });
}

/// What a former holder may still write to was emptied where it lacked a drive, as it has to be;
/// but then its zones were used at once, and what came late overwrote what was there by then.
#[test]
fn what_a_former_holder_may_write_to_is_left_alone_where_a_drive_is_missing() {
    with_drives(6, async |drives| {
        let first = create(&drives, Level::Raid6).await;
        let id = volume(&first, "a", 200).await;
        for block in 0..20 {
            write(&first, id, block, 1, 1).await;
        }
        let second = take(&drives[1..], OTHER, 9).await.expect("taken");
        let left_alone = second.status().quarantined_bytes;
        assert!(left_alone > 0, "the log was open");
        for turn in 2..40 {
            for start in (40..200).step_by(16) {
                write(&second, id, start, 10, turn).await;
            }
        }
        settle().await;
        assert!(second.counters().relocated_blocks > 0, "it was emptied");
        assert_eq!(second.status().quarantined_bytes, left_alone);
        assert_eq!(read(&second, id, 19, 1).await, vec![1; BLOCK]);
        second.close().await.expect("closed");
    });
}

/// A host stood still, and its clock with it, while it added a drive. Another one took the pool,
/// added the drive and went. Then the first one put its own label over the other's.
#[test]
fn a_drive_that_two_hosts_add_belongs_to_the_later_one() {
    for operations in 0..40 {
        let power = Power::new(1);
        power.switch_on(u64::MAX);
        let drives = [(); 5].map(|()| SimDrive::new(1300, power.clone()));
        let (members, newcomer) = (drives[..4].to_vec(), drives[4].clone());
        let first = Reactor::simulated(1);
        first.run(async {
            let pool = create(&members, Level::Raid5).await;
            let id = volume(&pool, "a", 100).await;
            write(&pool, id, 0, 1, 1).await;
            power.pause_after(operations);
            let newcomer = newcomer.clone();
            // It ends, if it does, when nobody listens any more.
            drop(reactor::spawn(
                async move { pool.add_drive(newcomer).await },
            ));
            power.paused().await;
        });
        drives.iter().for_each(SimDrive::land);
        Reactor::simulated(2).run(async {
            let second = take(&drives, OTHER, 9).await.expect("taken");
            let added = second.add_drive(newcomer).await;
            let added_by_first = matches!(added, Err(PoolError::DriveInUse { .. }));
            assert!(added.is_ok() || added_by_first, "{added:?}");
            second.close().await.expect("closed");
        });
        first.run(async { reactor::sleep(Duration::from_secs(2)).await });
        Reactor::simulated(3).run(async {
            let third = take(&drives[1..], OTHER, 10).await;
            let third = third.unwrap_or_else(|error| panic!("after {operations}: {error}"));
            let id = third.volumes()[0].id;
            assert_eq!(read(&third, id, 0, 1).await, vec![1; BLOCK]);
            third.close().await.expect("closed");
        });
    }
}
