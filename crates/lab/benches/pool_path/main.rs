//! What a pool itself costs, with no network: processor time of one core for each request to a
//! raid6 pool over drives in memory, beside one such drive. What is read in sequence was written so
//! first, and then over at random. Prints a table, and writes `target/bench/pool_path.json`.
//! `OPERATIONS` (of 4 KiB; 500000) and `ROUNDS` (3) change the defaults; `ONLY` and
//! `DEVICE` name the beginning of the one load and device to run, for a profiler.

#[path = "../pool_over_tcp/made.rs"]
mod made;

use std::cell::Cell;
use std::rc::Rc;

use bench::{median, processor_seconds, setting};
use block::{BlockDevice, Buffer, Durability, Lba};
use lab::load::SplitMix;
use made::{BLOCK_BYTES, DEVICES, Device};
use reactor::{Reactor, ReactorConfig};
use serde_json::json;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Random,
    Sequential,
}

/// One row for each device.
struct Load {
    name: &'static str,
    order: Order,
    writes: bool,
    blocks: u64,
    depth: u64,
}

const LOADS: [Load; 5] = [
    load("randread 4 KiB", Order::Random, false, 1, 128),
    load("read 128 KiB", Order::Sequential, false, 32, 32),
    load("randwrite 4 KiB", Order::Random, true, 1, 128),
    load("scattered read 128 KiB", Order::Sequential, false, 32, 32),
    load("write 128 KiB", Order::Sequential, true, 32, 32),
];

const fn load(name: &'static str, order: Order, writes: bool, blocks: u64, depth: u64) -> Load {
    Load {
        name,
        order,
        writes,
        blocks,
        depth,
    }
}

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let operations = setting("OPERATIONS", 500_000);
    let only = std::env::var("ONLY").unwrap_or_default();
    let device = std::env::var("DEVICE").unwrap_or_default();
    let mut samples = vec![vec![Vec::new(); DEVICES.len()]; LOADS.len()];
    for _ in 0..setting("ROUNDS", 3) {
        for (nth, (which, name)) in DEVICES.iter().enumerate() {
            if !name.starts_with(&device) {
                continue;
            }
            let reactor = Reactor::io_uring(ReactorConfig::default()).expect("an io_uring");
            let times = reactor.run(measure(*which, operations, &only));
            for (load, time) in samples.iter_mut().zip(times) {
                load[nth].extend(time);
            }
        }
    }
    print(&samples);
}

fn print(samples: &[Vec<Vec<f64>>]) {
    println!("| load | device | processor us | of the drive's rate |\n|---|---|---|---|");
    let mut results = Vec::new();
    for (load, devices) in LOADS.iter().zip(samples) {
        for ((_, device), own) in DEVICES.iter().zip(devices) {
            if own.is_empty() {
                continue;
            }
            let ratios = own.iter().zip(&devices[0]).map(|(one, drive)| drive / one);
            let (time, share) = (median(own.iter().copied()), 100.0 * median(ratios));
            println!("| {} | {device} | {time:.2} | {share:.0}% |", load.name);
            results.push(json!({
                "load": load.name, "device": device, "processor_us": time,
                "percent_of_drive": share,
            }));
        }
    }
    bench::save("pool_path", &[], &json!(results));
}

/// Microseconds of each load on a device that nobody used before; `None` for those left out.
async fn measure(device: Device, operations: u64, only: &str) -> Vec<Option<f64>> {
    if device == Device::Drive {
        return all(&made::drive().await, operations, only).await;
    }
    let (pool, volume) = made::pool(device).await;
    let times = all(&volume, operations, only).await;
    pool.close().await.expect("it closes");
    times
}

async fn all<D: BlockDevice + 'static>(
    device: &Rc<D>,
    operations: u64,
    only: &str,
) -> Vec<Option<f64>> {
    let mut times = Vec::new();
    for load in &LOADS {
        times.push(match load.name.starts_with(only) {
            true => Some(run(device, load, operations / load.blocks).await),
            false => None,
        });
    }
    times
}

/// Microseconds of processor time for each of `operations`.
async fn run<D: BlockDevice + 'static>(
    device: &Rc<D>,
    load: &'static Load,
    operations: u64,
) -> f64 {
    let blocks = device.geometry().block_count / load.blocks;
    let next = Rc::new(Cell::new(0));
    let begun = processor_seconds();
    let tasks: Vec<_> = (0..load.depth)
        .map(|slot| {
            let (device, next) = (device.clone(), next.clone());
            reactor::spawn(async move {
                let mut random = SplitMix::new(slot);
                let mut buffer = Buffer::copy_of(&vec![9; (load.blocks * BLOCK_BYTES) as usize]);
                while next.get() < operations {
                    let nth = next.replace(next.get() + 1);
                    let place = match load.order {
                        Order::Random => random.below(blocks),
                        Order::Sequential => nth % blocks,
                    };
                    let at = Lba(place * load.blocks);
                    let (back, result) = match load.writes {
                        true => device.write(at, buffer, Durability::Durable).await,
                        false => device.read(at, buffer).await,
                    };
                    result.expect("it fits");
                    buffer = back;
                    // As a network's requests do: many come in one turn of the loop.
                    reactor::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    (processor_seconds() - begun) * 1e6 / operations as f64
}
