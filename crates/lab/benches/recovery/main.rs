//! How long a pool takes from a kill to its first answer, with much data mapped and as many updates
//! as may be pending: drives in virtual time that keep only what is not zero, processor time as it
//! is, without what the simulated drives take of it. `GIB` says how much is mapped (64).
//! Prints a table, and writes `target/bench/recovery.json`.

#[path = "../write_cost/sparse.rs"]
mod sparse;

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Lba};
use lab::load::SplitMix;
use pool::{
    CreateOptions, Entropy, HostId, Level, OpenOptions, Pool, Settings, VolumeId, VolumeOptions,
};
use reactor::Reactor;
use serde_json::json;
use sparse::{BLOCK_BYTES, SparseDrive};

const DRIVES: u64 = 24;
const DATA: u64 = 22;
/// Blocks of the requests that fill the volume, and how many are under way.
const FILL_BLOCKS: u64 = 256;
const FILL_DEPTH: u64 = 8;
const DEPTH: u64 = 256;

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let gib: u64 = std::env::var("GIB")
        .ok()
        .map_or(64, |text| text.parse().expect("a whole number of GiB"));
    let blocks = (gib << 30) / BLOCK_BYTES as u64;
    // Half as much again as the data takes, so that there is room for the map and for cleaning.
    let drive_blocks = blocks / DATA * 3 / 2 + (64 << 10);
    let drives: Vec<SparseDrive> = (0..DRIVES)
        .map(|_| SparseDrive::new(drive_blocks))
        .collect();
    let volume = Reactor::simulated(1).run(write(drives.clone(), blocks));
    let read_before: u64 = drives.iter().map(|drive| drive.traffic().read).sum();
    let clones = drives.clone();
    let (seconds, first, map) = Reactor::simulated(2).run(recover(clones, volume, blocks));
    let read: u64 = drives.iter().map(|drive| drive.traffic().read).sum();
    let read = read - read_before;
    let map_per_tib = map as f64 * 1024.0 / gib as f64 / f64::from(1 << 30);
    let updates = Settings::default().checkpoint_updates;
    println!("raid6 of {DRIVES} drives, {gib} GiB mapped, killed with {updates} updates pending");
    println!("processor s  drives' s  blocks read  map GiB per TiB  cache MiB");
    let cache = Settings::default().map_cache_bytes >> 20;
    println!("{seconds:11.2} {first:11.2} {read:12} {map_per_tib:16.2} {cache:10}");
    let result = json!({
        "mapped_gib": gib,
        "pending_updates": updates,
        "processor_seconds_to_first_io": seconds,
        "drive_seconds_to_first_io": first,
        "blocks_read": read,
        "map_gib_per_tib": map_per_tib,
        "map_cache_mib": cache,
    });
    bench::save(
        "recovery",
        &["mapped_gib", "pending_updates", "map_cache_mib"],
        &result,
    );
}

/// Fills a volume, then overwrites blocks of it until a checkpoint is all but due; the pool is not
/// closed.
async fn write(drives: Vec<SparseDrive>, blocks: u64) -> VolumeId {
    let mut options = CreateOptions::new("bench", Level::Raid6, HostId([1; 16]));
    options.entropy = Entropy::Seeded(1.into());
    let pool = Pool::create(drives, options).await.expect("a pool");
    let volume = VolumeOptions {
        bytes: blocks * BLOCK_BYTES as u64,
        reserved: false,
        attributes: Vec::new(),
    };
    let id = pool.create_volume("v", volume).await.expect("a volume");
    let device = Rc::new(pool.volume(id).expect("just made"));
    let parts = blocks / FILL_BLOCKS;
    let fills = (0..FILL_DEPTH).map(|nth| {
        let device = device.clone();
        reactor::spawn(async move {
            let mut buffer = Buffer::zeroed(FILL_BLOCKS as usize * BLOCK_BYTES);
            for part in (nth..parts).step_by(FILL_DEPTH as usize) {
                let at = Lba(part * FILL_BLOCKS);
                let (back, result) = device.write(at, buffer, Durability::Durable).await;
                result.expect("it fits");
                buffer = back;
            }
        })
    });
    for task in fills.collect::<Vec<_>>() {
        task.await;
    }
    pool.checkpoint().await.expect("a checkpoint");
    let updates = Settings::default().checkpoint_updates as u64 * 99 / 100;
    let writes = (0..DEPTH).map(|nth| {
        let device = device.clone();
        reactor::spawn(async move {
            let mut random = SplitMix::new(nth);
            for _ in 0..updates / DEPTH {
                let at = Lba(random.below(blocks));
                let buffer = Buffer::zeroed(BLOCK_BYTES);
                let (_, result) = device.write(at, buffer, Durability::Durable).await;
                result.expect("it fits");
            }
        })
    });
    for task in writes.collect::<Vec<_>>() {
        task.await;
    }
    id
}

/// Processor seconds, drives' seconds, and bytes of the map.
async fn recover(drives: Vec<SparseDrive>, volume: VolumeId, blocks: u64) -> (f64, f64, u64) {
    let (processor, begun) = (bench::processor_seconds(), reactor::now());
    let mut options = OpenOptions::new(HostId([1; 16]));
    options.entropy = Entropy::Seeded(2.into());
    let unpacking =
        |drives: &[SparseDrive]| -> f64 { drives.iter().map(SparseDrive::unpacking_seconds).sum() };
    let unpacked = unpacking(&drives);
    let pool = Pool::open(drives.clone(), options).await.expect("it opens");
    let device = pool.volume(volume).expect("it was made");
    let buffer = Buffer::new(BLOCK_BYTES);
    let (_, result) = device.read(Lba(blocks / 2), buffer).await;
    result.expect("it reads");
    let times = (
        bench::processor_seconds() - processor - (unpacking(&drives) - unpacked),
        (reactor::now() - begun).as_secs_f64(),
    );
    let map = pool.status().map_bytes;
    pool.close().await.expect("it closes");
    (times.0, times.1, map)
}
