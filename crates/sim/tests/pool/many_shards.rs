//! Pools of as many shards as there may be.

use crate::support::{BLOCK, HOST};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, Entropy, Level, OpenOptions, PoolError, Settings, VolumeOptions};
use reactor::Reactor;
use sim::crafted::{self, Place};
use sim::{Power, Served, SimDrive};

const SHARDS: usize = 256;
const SLICE: u64 = 16;
/// Stripes that a shard may have under way: a host's, and the cleaner's.
const UNDER_WAY: u64 = 4 + 8;
/// Such that shards have most of the zones of a drive.
const DRIVE_BLOCKS: u64 = 32 * 1200;
/// Of a stripe.
const DURABLE_THROUGH: Place = Place {
    name: "durable_through",
    offset: 48,
    bytes: 8,
};

fn settings() -> Settings {
    Settings {
        map_cache_bytes: 0,
        slice_blocks: SLICE as u32,
        ..Settings::default()
    }
}

async fn create(drives: &[SimDrive]) -> Served {
    let options = CreateOptions {
        zone_bytes: Some(32 * BLOCK as u64),
        settings: settings(),
        entropy: Entropy::seeded(3),
        ..CreateOptions::new("tank", Level::Raid0, HOST)
    };
    let made = Served::create(SHARDS, drives.to_vec(), options).await;
    made.expect("a pool")
}

async fn open(shards: usize, drives: &[SimDrive], seed: u64) -> Served {
    let options = OpenOptions {
        settings: settings(),
        entropy: Entropy::seeded(seed),
        ..OpenOptions::new(HOST)
    };
    let opened = Served::open(shards, drives.to_vec(), options).await;
    opened.unwrap_or_else(|error| panic!("{shards} shards: {error}"))
}

/// Every shard writes a block of its own, when the tables have no room for another volume.
async fn prepare(drives: &[SimDrive]) {
    let pool = create(drives).await;
    let options = VolumeOptions {
        bytes: SHARDS as u64 * SLICE * BLOCK as u64,
        ..VolumeOptions::default()
    };
    let id = pool.create_volume("a", options).await.expect("a volume");
    let full = loop {
        let name = format!("{:0255}", pool.volumes().len());
        let options = VolumeOptions {
            bytes: BLOCK as u64,
            attributes: vec![7; 8192],
            ..VolumeOptions::default()
        };
        match pool.create_volume(&name, options).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(full, PoolError::TablesFull { .. }), "{full:?}");
    let device = pool.volume(id).expect("the volume");
    for shard in 0..SHARDS as u64 {
        let buffer = Buffer::copy_of(&[5; BLOCK]);
        let written = device.write(Lba(shard * SLICE), buffer, Durability::Durable);
        written.await.1.expect("written");
    }
}

/// Makes of every shard's stripe the last of as many as can be under way. It is whole, and of the
/// others there is nothing.
fn tear(drive: &SimDrive) {
    let headers = drive.blocks_written().into_iter();
    let headers = headers.filter(|(_, block)| block.starts_with(b"FYST"));
    assert_eq!(headers.count(), SHARDS);
    crafted::alter_headers(drive, |header| {
        let sequence = crafted::SEQUENCE.read(header);
        DURABLE_THROUGH.write(header, sequence - 1);
        crafted::SEQUENCE.write(header, sequence + UNDER_WAY - 1);
    });
}

/// A recovery writes down which stripes it has found torn, of every shard, into tables that are as
/// full as they get.
#[test]
fn a_pool_of_many_shards_opens_with_the_most_torn_stripes_there_can_be() {
    let power = Power::new(5);
    power.switch_on(u64::MAX);
    let drives = [SimDrive::new(DRIVE_BLOCKS, power)];
    Reactor::simulated(1).run(prepare(&drives));
    drives[0].lose_power();
    tear(&drives[0]);
    for (turn, shards) in (2..).zip([SHARDS, 1]) {
        Reactor::simulated(turn).run(async {
            let pool = open(shards, &drives, turn).await;
            let tables = crafted::tables(&drives[0]);
            let places = crafted::table_places(&tables).into_iter();
            let torn = places.filter(|place| place.name == "torn sequence").count();
            // In the next life they are merged.
            let expected = if shards > 1 {
                SHARDS as u64 * (UNDER_WAY - 1)
            } else {
                0
            };
            assert!(torn as u64 >= expected, "{torn} torn stripes");
            let device = pool.volume(pool.volumes()[0].id).expect("the volume");
            let (found, read) = device.read(Lba(0), Buffer::new(BLOCK)).await;
            read.expect("read");
            assert_eq!(&found[..], &[5; BLOCK], "what is whole counts");
        });
        drives[0].lose_power();
    }
}
