//! Snapshots of several volumes at one instant, while hosts write to all of them: a write is in its
//! snapshot if one is in another's that was only submitted when the first had been acknowledged.

use crate::sharded::{SLICE, create, open, read};
use crate::support::BLOCK;
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{Level, SnapshotId, VolumeId, VolumeOptions};
use reactor::Reactor;
use sim::{Power, Random, Served, SimDrive};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Blocks that are written to, in slices of different shards.
const WRITERS: u64 = 6;
const VOLUMES: usize = 3;

async fn volumes(pool: &Served) -> Vec<VolumeId> {
    let mut made = Vec::new();
    for number in 0..VOLUMES {
        let options = VolumeOptions {
            bytes: WRITERS * SLICE * BLOCK as u64,
            ..VolumeOptions::default()
        };
        let id = pool.create_volume(&format!("v{number}"), options).await;
        made.push(id.expect("a volume"));
    }
    made
}

/// Writes a number to one block of each volume in turn, then the next number.
async fn write_in_turn(pool: Served, volumes: Vec<VolumeId>, block: u64, over: Rc<Cell<bool>>) {
    let devices = volumes.iter().map(|id| pool.volume(*id).expect("there"));
    let devices: Vec<_> = devices.collect();
    for number in 1..=u8::MAX {
        for device in &devices {
            if over.get() {
                return;
            }
            let mut buffer = Buffer::new(BLOCK);
            buffer.fill(number);
            let written = device.write(Lba(block), buffer, Durability::Cached).await;
            // The power has failed.
            if written.1.is_err() {
                return;
            }
        }
    }
}

/// What snapshots of one instant have of a writer's block, in the order in which it writes: each
/// has as much as the one before, or one number less.
async fn is_one_instant(pool: &Served, snapshots: &[SnapshotId], block: u64) -> bool {
    let mut found = Vec::new();
    for snapshot in snapshots {
        let device = pool.snapshot_device(*snapshot).expect("there");
        found.push(read(&device, block, 1).await[0]);
    }
    let (first, last) = (found[0], found[found.len() - 1]);
    found.is_sorted_by(|before, after| before >= after) && first - last <= 1
}

#[test]
fn snapshots_of_several_volumes_are_of_one_instant() {
    let mut moments = 0;
    for seed in 0..24 {
        let random = Random::new(seed);
        let power = Power::new(seed);
        power.switch_on(u64::MAX);
        let drives = [(); 4].map(|()| SimDrive::new(2000, power.clone()));
        let shards = 1 + (seed % 3) as usize;
        let groups = Reactor::simulated(seed).run(async {
            let pool = create(shards, &drives, Level::Raid5).await;
            let volumes = volumes(&pool).await;
            let over = Rc::new(Cell::new(false));
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (pool, volumes) = (pool.clone(), volumes.clone());
                    let work = write_in_turn(pool, volumes, writer * SLICE, over.clone());
                    reactor::spawn(work)
                })
                .collect();
            let mut groups = Vec::new();
            for group in 0..4 {
                reactor::sleep(Duration::from_micros(random.below(1500))).await;
                let named = volumes.iter().map(|id| (*id, format!("{}-{group}", id.0)));
                let named: Vec<_> = named.collect();
                groups.push(pool.snapshot(&named).await.expect("taken"));
            }
            over.set(true);
            for writer in writers {
                writer.await;
            }
            groups
        });
        // Snapshots stay what they are, whatever of the writes does not.
        drives.iter().for_each(SimDrive::lose_power);
        Reactor::simulated(seed + 100).run(async {
            power.switch_on(u64::MAX);
            let pool = open(shards, &drives).await;
            for snapshots in &groups {
                for writer in 0..WRITERS {
                    let together = is_one_instant(&pool, snapshots, writer * SLICE).await;
                    assert!(together, "seed {seed}: writer {writer}");
                    moments += 1;
                }
            }
            pool.close().await.expect("closed");
        });
    }
    assert_eq!(moments, 24 * 4 * WRITERS);
}
