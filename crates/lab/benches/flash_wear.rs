//! What host random writes cost the flash: the pool's log beside in-place RAID 6, on the same
//! modelled drives, in virtual time. Prints a table, and writes `target/bench/flash_wear.json`.
//! With `--quick` on drives a quarter of the size.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use drive::{Drive, EmulatedDrive, EmulatedOptions};
use lab::inplace_raid6::InplaceRaid6;
use pool::{CreateOptions, Entropy, HostId, Level, Pool, VolumeOptions};
use reactor::Reactor;
use serde_json::{Value, json};
use ssd::{FlashCounters, Precondition, Profile, Random, profiles};

const DRIVES: usize = 6;

/// Drives' worth of data in the array.
const DATA_DRIVES: u64 = 4;

const OUTSTANDING: u64 = 32;

/// The in-place array's strip: what RAID 6 over flash is commonly given.
const STRIP_BYTES: u32 = 64 << 10;

/// A drive in miniature has fewer superblocks, so that each still holds some hundred pages.
const SUPERBLOCKS: u32 = 200;

fn main() {
    // `cargo test --benches` asks for a listing or a quick check: this is neither.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--quick");
    let scale = if quick { 0.000_004 } else { 0.000_016 };
    println!("{DRIVES} x CM7-R 7.68 TB (scaled), raid6, random 4 KiB writes, QD {OUTSTANDING}");
    println!("system   drives before  fill  drive blocks  device  media blocks");
    println!("                              per write     WAF     per write");
    let mut results = Vec::new();
    for before in [Precondition::Purge, Precondition::SteadyRandom] {
        for fill_percent in [50, 70, 80] {
            for log in [false, true] {
                let cost = Reactor::simulated(1).run(measure(scale, before, fill_percent, log));
                let [system, state] = [
                    if log { "log" } else { "in place" },
                    if before == Precondition::Purge {
                        "erased"
                    } else {
                        "written full"
                    },
                ];
                results.push(show(system, state, fill_percent, cost));
            }
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&path).expect("target/bench can be made");
    let text = serde_json::to_string_pretty(&results).expect("plain values");
    std::fs::write(path.join("flash_wear.json"), text).expect("target/bench can be written");
}

fn show(system: &str, state: &str, fill_percent: u64, cost: Result<Cost, IoError>) -> Value {
    let head = format!("{system:8} {state:13} {fill_percent:4}%");
    let cost = match cost {
        Ok(cost) => cost,
        Err(error) => {
            println!("{head}  {error}");
            return json!({ "system": system, "drives_before": state,
                "fill_percent": fill_percent, "error": error.to_string() });
        }
    };
    let (drive_blocks, device, media) = (cost.drive_blocks(), cost.device(), cost.media());
    println!("{head}  {drive_blocks:12.2}  {device:6.2}  {media:12.2}");
    json!({
        "system": system,
        "drives_before": state,
        "fill_percent": fill_percent,
        "drive_blocks_per_write": drive_blocks,
        "device_write_amplification": device,
        "media_blocks_per_write": media,
    })
}

/// What a number of host writes came to.
struct Cost {
    host_writes: u64,
    flash: FlashCounters,
}

impl Cost {
    fn drive_blocks(&self) -> f64 {
        self.flash.host_pages as f64 / self.host_writes as f64
    }

    fn device(&self) -> f64 {
        self.flash.write_amplification()
    }

    fn media(&self) -> f64 {
        self.drive_blocks() * self.device()
    }
}

async fn measure(
    scale: f64,
    before: Precondition,
    fill_percent: u64,
    log: bool,
) -> Result<Cost, IoError> {
    let mut models = Vec::new();
    for seed in 0..DRIVES as u64 {
        let mut options = EmulatedOptions::new(profile(), scale);
        options.precondition = before;
        options.seed = seed;
        models.push(EmulatedDrive::open(options).await.expect("the model opens"));
    }
    let namespace = |model: &EmulatedDrive| model.namespace(1).expect("it has one namespace");
    let drives: Vec<Drive> = models.iter().map(|model| namespace(model).into()).collect();
    if !log {
        // The drives read as zeroes, so parity is in order, and nothing needs to be zeroed.
        let sizes = drives.iter().map(|drive| drive.geometry().block_count);
        let used = sizes.min().unwrap_or(0) * DATA_DRIVES * fill_percent / 100;
        let array = InplaceRaid6::open(drives, STRIP_BYTES).expect("six drives of one size");
        return write(Rc::new(array), used, &models).await;
    }
    let mut options = CreateOptions::new("bench", Level::Raid6, HostId([1; 16]));
    options.entropy = Entropy::Seeded(1.into());
    let pool = Pool::create(drives, options)
        .await
        .expect("a pool of six drives");
    let blocks = pool.status().usable_bytes * fill_percent / 100 / 4096;
    let volume = VolumeOptions {
        bytes: blocks * 4096,
        ..VolumeOptions::default()
    };
    let volume = pool
        .create_volume("v", volume)
        .await
        .expect("a volume that fits");
    let device = Rc::new(pool.volume(volume).expect("the volume just made"));
    let cost = write(device, blocks, &models).await;
    pool.close().await.expect("the pool closes");
    cost
}

fn profile() -> Profile {
    let mut profile = profiles::named("cm7-r-7.68").expect("a shipped profile");
    profile.nand.superblocks = SUPERBLOCKS;
    profile
}

/// Fills `blocks` in order, writes as many again at random, and measures as many after that.
async fn write<D: BlockDevice + 'static>(
    device: Rc<D>,
    blocks: u64,
    models: &[EmulatedDrive],
) -> Result<Cost, IoError> {
    for start in (0..blocks).step_by(16) {
        let count = (blocks - start).min(16);
        let buffer = Buffer::zeroed(count as usize * 4096);
        let (_, result) = device.write(Lba(start), buffer, Durability::Durable).await;
        result?;
    }
    random_writes(&device, blocks, 1).await?;
    let earlier = flash(models);
    random_writes(&device, blocks, 2).await?;
    let host_writes = blocks / OUTSTANDING * OUTSTANDING;
    let flash = flash(models).since(&earlier);
    Ok(Cost { host_writes, flash })
}

async fn random_writes<D: BlockDevice + 'static>(
    device: &Rc<D>,
    blocks: u64,
    seed: u64,
) -> Result<(), IoError> {
    let slot = |slot: u64| {
        let device = Rc::clone(device);
        reactor::spawn(async move {
            let mut random = Random::new((seed << 32) | slot);
            let mut buffer = Buffer::zeroed(4096);
            for _ in 0..blocks / OUTSTANDING {
                let at = Lba(u64::from(random.below(blocks as u32)));
                let (back, result) = device.write(at, buffer, Durability::Durable).await;
                result?;
                buffer = back;
            }
            Ok(())
        })
    };
    let tasks: Vec<_> = (0..OUTSTANDING).map(slot).collect();
    for task in tasks {
        task.await?;
    }
    Ok(())
}

/// What all drives have written and copied.
fn flash(models: &[EmulatedDrive]) -> FlashCounters {
    let counters = models.iter().map(EmulatedDrive::flash_counters);
    counters.fold(FlashCounters::default(), |sum, one| sum.and(&one))
}
