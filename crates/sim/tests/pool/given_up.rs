//! What nobody waits for any more: a change happens as a whole, or not at all, and a write takes no
//! more room than there is.

use crate::sharded;
use crate::support::{BLOCK, Machine, create, read, rest, volume, with_drives, write};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{Level, Pool, PoolState, VolumeId};
use reactor::Reactor;
use sim::{Power, SimDrive};
use std::time::Duration;

/// What a life of a pool leaves to the next one.
async fn prepare(machine: &Machine) -> VolumeId {
    let pool = create(&machine.drives, Level::Raid1).await;
    let id = volume(&pool, "a", 100).await;
    write(&pool, id, 0, 1, 1).await;
    pool.close().await.expect("closed");
    id
}

/// A block of the only snapshot, if there is one.
async fn in_snapshot(pool: &Pool<SimDrive>) -> Option<u8> {
    let snapshot = pool.snapshots().first()?.id;
    let device = pool.snapshot_device(snapshot).expect("the snapshot");
    let (buffer, read) = device.read(Lba(0), Buffer::new(BLOCK)).await;
    read.expect("read");
    Some(buffer[0])
}

/// A snapshot was given up while its tables were on their way to the drives. It was in memory, so
/// what was written from then on named a layer that no drive knew of: after a crash the write,
/// acknowledged, was gone.
#[test]
fn a_write_after_a_snapshot_that_was_given_up_outlives_a_crash() {
    let (mut given_up, mut taken) = (0, 0);
    for micros in (0..400).step_by(8) {
        let machine = Machine::new(micros + 1, 2);
        let id = machine.live(0, u64::MAX, prepare(&machine));
        let id = id.expect("a volume");
        machine.live(1, u64::MAX, async {
            let pool = machine.open(&machine.drives, 1).await.expect("opens");
            let names = [(id, "s".to_owned())];
            let time = Duration::from_micros(micros);
            let ended = reactor::timeout(time, pool.snapshot(&names)).await;
            given_up += usize::from(ended.is_err());
            write(&pool, id, 0, 1, 2).await;
            assert_eq!(pool.status().state, PoolState::Online);
        });
        machine.live(2, u64::MAX, async {
            let pool = machine.open(&machine.drives, 2).await.expect("opens");
            let found = read(&pool, id, 0, 1).await[0];
            assert_eq!(found, 2, "given up after {micros} microseconds");
            let before = in_snapshot(&pool).await;
            assert!([None, Some(1)].contains(&before), "{before:?}");
            taken += usize::from(before.is_some());
            pool.close().await.expect("closed");
        });
    }
    assert!(given_up > 10 && taken > 10, "{given_up}, {taken}");
}

/// A drive had zones in use that no membership knew of.
#[test]
fn a_drive_whose_joining_was_given_up_joins_or_does_not() {
    let mut joined = 0;
    for (micros, shards) in (0..24).map(|step| (1 << step, 1 + step as usize % 2)) {
        let power = Power::new(micros);
        power.switch_on(u64::MAX);
        let drives: Vec<SimDrive> = (0..4).map(|_| SimDrive::new(1300, power.clone())).collect();
        let mut id = None;
        Reactor::simulated(micros).run(async {
            let pool = sharded::create(shards, &drives[..3], Level::Raid5).await;
            id = Some(sharded::volume(&pool, 400).await);
            let joins = pool.add_drive(drives[3].clone());
            let _ = reactor::timeout(Duration::from_micros(micros), joins).await;
            let device = pool.volume(id.expect("a volume")).expect("the volume");
            for start in (0..400).step_by(16) {
                let buffer = Buffer::copy_of(&vec![5; 16 * BLOCK]);
                let written = device.write(Lba(start), buffer, Durability::Durable).await;
                written.1.expect("written");
            }
        });
        drives.iter().for_each(SimDrive::lose_power);
        // Who never joined is not needed.
        Reactor::simulated(micros + 1).run(async {
            let pool = sharded::open(1, &drives).await;
            joined += usize::from(pool.status().drives.len() == 4);
            let device = pool.volume(id.expect("a volume")).expect("the volume");
            for start in (0..400).step_by(16) {
                let (found, read) = device.read(Lba(start), Buffer::new(16 * BLOCK)).await;
                read.expect("read");
                assert!(found.iter().all(|byte| *byte == 5));
            }
            pool.close().await.expect("closed");
        });
    }
    assert!(joined > 0, "none has joined");
}

/// The room for a write that was given up counted for no longer than until the next merge,
/// although it was in the queue yet, and was written later: a pool took more than it can hold.
#[test]
fn writes_that_were_given_up_take_no_more_than_there_is_room_for() {
    for shards in [1, 3] {
        with_drives(3, async |drives| {
            let pool = sharded::create(shards, &drives, Level::Raid1).await;
            let usable = pool.status().usable_bytes;
            let blocks = 4 * usable / BLOCK as u64;
            let id = sharded::volume(&pool, blocks).await;
            let device = pool.volume(id).expect("the volume");
            for start in (0..blocks - 16).step_by(16) {
                let buffer = Buffer::copy_of(&[7; 16 * BLOCK]);
                let write = device.write(Lba(start), buffer, Durability::Durable);
                // It gets in line, or waits for room.
                let _ = reactor::timeout(Duration::ZERO, write).await;
                if start % 512 == 0 {
                    let pool = pool.clone();
                    drop(reactor::spawn(async move { pool.checkpoint().await }));
                    reactor::sleep(Duration::from_micros(300)).await;
                }
            }
            rest().await;
            pool.checkpoint().await.expect("a checkpoint");
            let status = pool.status();
            assert!(status.used_bytes > usable / 2, "{shards}: {status:?}");
            assert!(status.used_bytes <= usable, "{shards}: {status:?}");
            pool.close().await.expect("closed");
        });
    }
}

/// In a pool that is all but full a write takes a checkpoint itself, to find out what lives. When
/// it was given up then, the pool was offline.
#[test]
fn a_write_that_is_given_up_while_it_waits_for_room_ends_alone() {
    let mut given_up = 0;
    for shards in [1, 3] {
        with_drives(3, async |drives| {
            let pool = sharded::create(shards, &drives, Level::Raid1).await;
            let usable = pool.status().usable_bytes / BLOCK as u64;
            let id = sharded::volume(&pool, 2 * usable).await;
            let device = pool.volume(id).expect("the volume");
            let mut blocks = 0;
            while sharded::try_write(&device, blocks, 1, 7).await.is_ok() {
                blocks += 1;
            }
            assert!(blocks > usable / 2, "{blocks} of {usable}");
            for micros in (0..2000).step_by(20) {
                // What is overwritten counts twice until the next merge.
                let _ = sharded::try_write(&device, micros % blocks, 1, 8).await;
                let write = sharded::try_write(&device, blocks + 20, 1, 9);
                let ended = reactor::timeout(Duration::from_micros(micros), write).await;
                given_up += usize::from(ended.is_err());
                assert_eq!(pool.status().state, PoolState::Online, "{shards}: {micros}");
            }
            pool.close().await.expect("closed");
        });
    }
    assert!(given_up > 20, "{given_up}");
}
