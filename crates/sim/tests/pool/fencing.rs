//! Two hosts and one pool: who takes it by force waits, and who has lost it stops.

use crate::support::{
    BLOCK, HOST, OTHER, create, open, read, settle, take, volume, with_drives, write,
};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use pool::{Entropy, HostId, Level, OpenOptions, Pool, PoolError, PoolState, VolumeId};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::time::Duration;

/// What a claim by force waits.
const TAKEOVER: Duration = Duration::from_secs(8);

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
        assert_eq!(status.reason, Some("another host has taken the pool over"));
        let device = first.volume(id).expect("the volume");
        let stale = device.read(Lba(0), Buffer::new(BLOCK)).await.1;
        assert_eq!(
            stale,
            Err(IoError::DeviceGone),
            "it may have been overwritten"
        );
        let second = taking.await.expect("taken");
        assert!(reactor::now() - begun >= TAKEOVER);
        assert_eq!(read(&second, id, 0, 1).await, vec![last; BLOCK]);
        second.close().await.expect("closed");
    });
}

#[test]
fn nobody_waits_who_takes_nothing_from_anybody() {
    with_drives(3, async |drives| {
        let begun = reactor::now();
        create(&drives, Level::Raid5)
            .await
            .close()
            .await
            .expect("closed");
        open(&drives).await.export().await.expect("exported");
        let other = OpenOptions {
            entropy: Entropy::seeded(5),
            ..OpenOptions::new(OTHER)
        };
        let pool = Pool::open(drives.clone(), other).await.expect("exported");
        pool.close().await.expect("closed");
        assert!(reactor::now() - begun < Duration::from_secs(1));
    });
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
