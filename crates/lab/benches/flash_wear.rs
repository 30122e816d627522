//! What host random writes cost the flash, and how fast they are: the pool's log beside in-place
//! RAID 6, on the same modelled drives, in virtual time. The limit is what the drives' program rate
//! allows a log that writes `W (d + p) / d` blocks for each, if the drives add nothing; fill is a
//! share of what is not reserved. Prints a table with what others have published, and writes
//! `target/bench/flash_wear.json`. With `--quick` at 80% only;
//! `ONLY='log erased 90%'`, or a part of that, chooses among the rows.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use drive::{Drive, EmulatedDrive, EmulatedOptions};
use lab::inplace_raid6::InplaceRaid6;
use pool::{Counters, CreateOptions, Entropy, HostId, Level, Pool, VolumeOptions};
use reactor::Reactor;
use serde_json::{Value, json};
use ssd::{FlashCounters, Precondition, Profile, Random, profiles};

const DRIVES: usize = 24;

/// Drives' worth of data in the array.
const DATA_DRIVES: u64 = 22;

const OUTSTANDING: u64 = 1024;

/// The in-place array's strip: what RAID 6 over flash is commonly given.
const STRIP_BYTES: u32 = 64 << 10;

/// Capacity factor of the drives: 123 MB each.
const SCALE: f64 = 0.000_016;

/// The drives are so many times slower than whole ones, where rates are concerned. At the whole
/// drive's speed a pool would use up its few free segments in less time than a checkpoint takes,
/// which no pool of whole drives does. Rates are shown as those of whole drives.
const SLICE: u32 = 32;

/// Zones that are small beside the drive, and large beside what is written in a millisecond.
const ZONE_BYTES: u64 = 1 << 20;

/// A drive in miniature has fewer superblocks, so that each still holds some hundred pages.
const SUPERBLOCKS: u32 = 200;

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--quick");
    let fills: &[u64] = if quick { &[80] } else { &[50, 60, 70, 80, 90] };
    println!("{DRIVES} x CM7-R 7.68 TB (scaled), raid6, random 4 KiB writes, QD {OUTSTANDING}");
    println!(
        "system   drives before  fill  drive blocks  of them  of them  writes per  device  \
         media blocks   K IOPS   limit"
    );
    println!(
        "                              per write     stripes  map      checkpoint  WAF     \
         per write"
    );
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut results = Vec::new();
    for before in [Precondition::Purge, Precondition::SteadyRandom] {
        for &fill_percent in fills {
            for log in [false, true] {
                let [system, state] = [
                    if log { "log" } else { "in place" },
                    if before == Precondition::Purge {
                        "erased"
                    } else {
                        "written full"
                    },
                ];
                if !format!("{system} {state} {fill_percent}%").contains(&only) {
                    continue;
                }
                let cost = Reactor::simulated(1).run(measure(before, fill_percent, log));
                results.push(show(system, state, fill_percent, cost));
            }
        }
    }
    for (system, state, kiops) in PUBLISHED {
        println!("{system:22} {state:38} {kiops:10}");
        results.push(json!({ "system": system, "state": state, "kiops_published": kiops }));
    }
    bench::save("flash_wear", &["fill_percent"], &json!(results));
}

/// What others have published for 4 KiB random writes to 24 drives: not these drives, and as
/// published, not measured here.
const PUBLISHED: [(&str, &str, u64); 3] = [
    ("published: SupremeRAID", "raid6, 24 drives", 1487),
    (
        "published: Linux MD",
        "raid6, 24 drives, the lower figure",
        100,
    ),
    (
        "published: Linux MD",
        "raid6, 24 drives, the higher figure",
        658,
    ),
];

/// Pages that all drives program in a second, copies included.
fn programs_per_second() -> f64 {
    // At one drive write a day's namespace size the published rate times the model's own write
    // amplification there: 309 K times 3.69.
    DRIVES as f64 * 309e3 * 3.69
}

/// Writes a second that the flash allows a log at this fill.
fn limit(fill: f64) -> f64 {
    let live = (0..1000).fold(0.5, |live: f64, _| (-(1.0 - live) / fill).exp());
    let blocks = 1.0 / (1.0 - live) * DRIVES as f64 / DATA_DRIVES as f64;
    programs_per_second() / blocks
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
    let kiops = f64::from(SLICE) * cost.host_writes as f64 / cost.seconds / 1000.0;
    let limit = limit(fill_percent as f64 / 100.0) / 1000.0;
    let (stripes, map) = (cost.stripes, cost.map);
    let apart = cost.host_writes.checked_div(cost.checkpoints).unwrap_or(0);
    println!(
        "{head}  {drive_blocks:12.2}  {stripes:7.2}  {map:7.2}  {apart:10}  {device:6.2}  \
         {media:12.2} {kiops:8.0} {limit:7.0}"
    );
    json!({
        "system": system,
        "drives_before": state,
        "fill_percent": fill_percent,
        "drive_blocks_per_write": drive_blocks,
        "stripe_blocks_per_write": stripes,
        "map_blocks_per_write": map,
        "writes_per_checkpoint": apart,
        "device_write_amplification": device,
        "media_blocks_per_write": media,
        "kiops": kiops,
        "kiops_limit_of_a_log": limit,
    })
}

/// What a number of host writes came to.
struct Cost {
    host_writes: u64,
    seconds: f64,
    flash: FlashCounters,
    /// Of a log: blocks of stripes for each write, and of the map.
    stripes: f64,
    map: f64,
    checkpoints: u64,
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

async fn measure(before: Precondition, fill_percent: u64, log: bool) -> Result<Cost, IoError> {
    let mut models = Vec::new();
    for seed in 0..DRIVES as u64 {
        let mut options = EmulatedOptions::new(profile(), SCALE);
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
        let array = InplaceRaid6::open(drives, STRIP_BYTES).expect("drives of one size");
        return write(Rc::new(array), used, &models, Counters::default).await;
    }
    let mut options = CreateOptions::new("bench", Level::Raid6, HostId([1; 16]));
    options.entropy = Entropy::Seeded(1.into());
    options.zone_bytes = Some(ZONE_BYTES);
    // As many updates to a node of the map as a large pool has memory for.
    options.settings.checkpoint_updates = 50_000;
    let pool = Pool::create(drives, options).await.expect("a pool");
    let blocks = pool.status().unreserved_bytes * fill_percent / 100 / 4096;
    let volume = VolumeOptions {
        bytes: blocks * 4096,
        ..VolumeOptions::default()
    };
    let volume = pool
        .create_volume("v", volume)
        .await
        .expect("a volume that fits");
    let device = Rc::new(pool.volume(volume).expect("the volume just made"));
    let cost = write(device, blocks, &models, || pool.counters()).await;
    pool.close().await.expect("the pool closes");
    cost
}

fn profile() -> Profile {
    let whole = profiles::named("cm7-r-7.68").expect("a shipped profile");
    let mut profile = whole.slice(SLICE).expect("a part of a drive");
    profile.nand.superblocks = SUPERBLOCKS;
    profile
}

/// Fills `blocks` in order, writes as many again at random, and measures as many after that.
async fn write<D: BlockDevice + 'static>(
    device: Rc<D>,
    blocks: u64,
    models: &[EmulatedDrive],
    counters: impl Fn() -> Counters,
) -> Result<Cost, IoError> {
    for start in (0..blocks).step_by(16) {
        let count = (blocks - start).min(16);
        let buffer = Buffer::zeroed(count as usize * 4096);
        let (_, result) = device.write(Lba(start), buffer, Durability::Durable).await;
        result?;
    }
    random_writes(&device, blocks, 1).await?;
    let (earlier, begun) = (flash(models), reactor::now());
    let before = counters();
    random_writes(&device, blocks, 2).await?;
    let host_writes = blocks / OUTSTANDING * OUTSTANDING;
    let flash = flash(models).since(&earlier);
    let seconds = (reactor::now() - begun).as_secs_f64();
    let after = counters();
    let per_write = |blocks: u64| blocks as f64 / host_writes as f64;
    Ok(Cost {
        host_writes,
        seconds,
        flash,
        stripes: per_write(after.stripe_blocks_written - before.stripe_blocks_written),
        map: per_write(after.map_blocks_written - before.map_blocks_written),
        checkpoints: after.checkpoints - before.checkpoints,
    })
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
