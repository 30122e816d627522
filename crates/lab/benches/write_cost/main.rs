//! Blocks written to the drives for each 4 KiB random write of a host, once the pool has been
//! overwritten for a while: the log beside what arithmetic says and beside in-place RAID 6, on
//! counting drives in virtual time. The limit is `W (d + p + h) / d` with `W = 1 / (1 - v)`: fill
//! is a share of what is not reserved, and the headers' own blocks (h to a row) are reserved. Then
//! reads all in order: how many requests to the drives that takes, before and after.
//! Prints a table, and writes `target/bench/write_cost.json`. With `--quick` at one fill only;
//! `ONLY='90% 512 80/20'`, or a part of that, chooses among the cases.

mod load;
#[allow(dead_code, reason = "only recovery's processor time counts")]
mod sparse;

use std::rc::Rc;

use block::BlockDevice;
use lab::inplace_raid6::InplaceRaid6;
use load::Pattern;
use pool::{CreateOptions, Entropy, HostId, Level, Pool, PoolVolume, Settings, VolumeOptions};
use reactor::Reactor;
use serde_json::{Value, json};
use sparse::{BLOCK_BYTES, SparseDrive, Traffic};

const DRIVES: usize = 24;
const DATA: f64 = 22.0;
const ZONE_ROWS: u64 = 64;
const ZONES: u64 = 300;
/// What is set aside at both ends of a drive is less than so many zones.
const ZONES_RESERVED: u64 = 16;
/// The in-place array's strip: what RAID 6 over flash is commonly given.
const STRIP_BYTES: u32 = 64 << 10;

/// One row of the table.
#[derive(Clone, Copy)]
struct Case {
    fill_percent: u64,
    outstanding: u64,
    pattern: Pattern,
}

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--quick");
    println!("raid6 of {DRIVES} drives, random 4 KiB writes, blocks written to drives per write");
    println!("system    fill  QD   pattern  stripes  limit  ratio    map  other  drives read");
    let fills: &[u64] = if quick { &[80] } else { &[50, 70, 80, 90] };
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut results = Vec::new();
    for &fill_percent in fills {
        for (outstanding, pattern) in [
            (32, Pattern::Uniform),
            (512, Pattern::Uniform),
            (32, Pattern::Skewed),
            (512, Pattern::Skewed),
        ] {
            let case = Case {
                fill_percent,
                outstanding,
                pattern,
            };
            let name = format!("{fill_percent}% {outstanding} {}", pattern.name());
            if !name.contains(&only) {
                continue;
            }
            results.push(Reactor::simulated(1).run(measure_log(case)));
        }
    }
    results.push(Reactor::simulated(1).run(measure_in_place()));
    bench::save(
        "write_cost",
        &["fill_percent", "outstanding"],
        &json!(results),
    );
}

fn drives(zones: u64) -> Vec<SparseDrive> {
    let blocks = zones * ZONE_ROWS;
    (0..DRIVES).map(|_| SparseDrive::new(blocks)).collect()
}

fn traffic(drives: &[SparseDrive]) -> Traffic {
    drives.iter().fold(Traffic::default(), |sum, drive| {
        let one = drive.traffic();
        Traffic {
            read: sum.read + one.read,
            written: sum.written + one.written,
            read_requests: sum.read_requests + one.read_requests,
        }
    })
}

/// Requests to the drives for each 128 KiB of a volume that is read in order.
async fn scatter(drives: &[SparseDrive], device: &Rc<PoolVolume<SparseDrive>>, blocks: u64) -> f64 {
    let before = traffic(drives).read_requests;
    let requests = load::read_in_order(device, blocks).await;
    (traffic(drives).read_requests - before) as f64 / requests as f64
}

/// The share of a segment's blocks that still live when it is cleaned: `v = exp(-(1 - v) / fill)`.
fn live_share(fill: f64) -> f64 {
    (0..1000).fold(0.5, |live: f64, _| (-(1.0 - live) / fill).exp())
}

async fn measure_log(case: Case) -> Value {
    let drives = drives(ZONES + ZONES_RESERVED);
    let mut options = CreateOptions::new("bench", Level::Raid6, HostId([1; 16]));
    options.entropy = Entropy::Seeded(1.into());
    options.zone_bytes = Some(ZONE_ROWS * BLOCK_BYTES as u64);
    options.settings = Settings {
        checkpoint_updates: 8000,
        ..Settings::default()
    };
    let pool = Pool::create(drives.clone(), options).await.expect("a pool");
    let space = pool.status().unreserved_bytes / BLOCK_BYTES as u64;
    let blocks = space * case.fill_percent / 100;
    let volume = VolumeOptions {
        bytes: blocks * BLOCK_BYTES as u64,
        ..VolumeOptions::default()
    };
    let volume = pool.create_volume("v", volume).await.expect("a volume");
    let device: Rc<PoolVolume<SparseDrive>> = Rc::new(pool.volume(volume).expect("just made"));
    load::fill(&device, blocks).await;
    let in_order = scatter(&drives, &device, blocks).await;
    let warm_up = blocks * 2;
    load::random_writes(&device, blocks, warm_up, case.outstanding, case.pattern).await;
    let (before, counted) = (pool.counters(), traffic(&drives));
    load::random_writes(&device, blocks, blocks, case.outstanding, case.pattern).await;
    let after = pool.counters();
    let now = traffic(&drives);
    let scattered = scatter(&drives, &device, blocks).await;
    let hosts = (after.host_blocks_written - before.host_blocks_written) as f64;
    let per_write = |count: u64| count as f64 / hosts;
    let stripes = per_write(after.stripe_blocks_written - before.stripe_blocks_written);
    let map = per_write(after.map_blocks_written - before.map_blocks_written);
    let written = per_write(now.written - counted.written);
    let relocated = per_write(after.relocated_blocks - before.relocated_blocks);
    let number = (after.stripes - before.stripes) as f64;
    // Rows of an average stripe follow from what the stripes hold: one block of each is its header.
    let rows = per_write(after.stripe_blocks_written - before.stripe_blocks_written) * hosts
        / number
        / DRIVES as f64;
    let headers = DATA * rows / (DATA * rows - 1.0);
    let live = live_share(case.fill_percent as f64 / 100.0 * headers);
    let limit = 1.0 / (1.0 - live) * DRIVES as f64 / (DATA - 1.0 / rows);
    println!(
        "log       {:3}%  {:3}  {:8} {stripes:6.2} {limit:6.2} {:6.2} {map:6.2} {:6.2} {:8.2}   \
         {relocated:.2} moved, {rows:.1} rows, {in_order:.1} and {scattered:.1} to read 128 KiB",
        case.fill_percent,
        case.outstanding,
        case.pattern.name(),
        stripes / limit,
        written - stripes - map,
        per_write(now.read - counted.read),
    );
    pool.close().await.expect("the pool closes");
    json!({
        "system": "log",
        "fill_percent": case.fill_percent,
        "outstanding": case.outstanding,
        "pattern": case.pattern.name(),
        "stripe_blocks_per_write": stripes,
        "limit": limit,
        "map_blocks_per_write": map,
        "all_blocks_per_write": written,
        "blocks_read_per_write": per_write(now.read - counted.read),
        "blocks_moved_per_write": relocated,
        "rows_of_a_stripe": rows,
        "drive_requests_per_128_kib_read_of_what_was_written_in_order": in_order,
        "drive_requests_per_128_kib_read_in_steady_state": scattered,
    })
}

async fn measure_in_place() -> Value {
    let drives = drives(16);
    let array = InplaceRaid6::open(drives.clone(), STRIP_BYTES).expect("equal drives");
    let blocks = array.geometry().block_count;
    let outstanding = 32;
    let writes = 20_000;
    let counted = traffic(&drives);
    let array = Rc::new(array);
    load::random_writes(&array, blocks, writes, outstanding, Pattern::Uniform).await;
    let now = traffic(&drives);
    let per_write = |count: u64| count as f64 / writes as f64;
    let (read, written) = (
        per_write(now.read - counted.read),
        per_write(now.written - counted.written),
    );
    println!(
        "in place  any   {outstanding:3}  uniform  {written:6.2} \
         {:>6} {:>6} {:>6} {:>6} {read:8.2}",
        "-", "-", "-", "-",
    );
    json!({
        "system": "in place",
        "outstanding": outstanding,
        "pattern": "uniform",
        "all_blocks_per_write": written,
        "blocks_read_per_write": read,
    })
}
