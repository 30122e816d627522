//! How fast the model is: page writes through the translation layer, and requests through the two
//! simulated fidelities. Prints a table, and writes `target/bench/ssd.json`.

use std::time::Instant;

use serde_json::json;
use ssd::{Fidelity, Flash, FlashGeometry, Load, Precondition, Profile, Random, Study, profiles};

/// Each figure is the median of this many runs.
const RUNS: usize = 5;

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let mut results = Vec::new();
    println!("translation layer, uniform random page writes in steady state, one core");
    for (superblock_pages, namespace_tb) in [(2048, 7.68), (2048, 6.4), (65_536, 7.68)] {
        let (host, media) = median_pair(|| flash_writes(superblock_pages, namespace_tb));
        println!(
            "  800 x {superblock_pages:5} pages, {namespace_tb:.2} of 8.985 TB: \
             {host:6.1} M host, {media:6.1} M media page writes/s"
        );
        results.push(json!({
            "name": format!("flash-800x{superblock_pages}-{namespace_tb}"),
            "host_writes_per_second": host * 1e6,
            "media_writes_per_second": media * 1e6,
        }));
    }
    let profile = profiles::named("cm7-r-7.68").expect("a shipped profile");
    println!("{}, requests of 4 KiB, one core", profile.drive.name);
    for (rw, jobs, depth) in [("randread", 16, 32), ("randwrite", 8, 4), ("randrw", 8, 8)] {
        for fidelity in [Fidelity::Timeline, Fidelity::Event] {
            let (rate, _) = median_pair(|| (requests(&profile, rw, jobs, depth, fidelity), 0.0));
            println!(
                "  {rw:9} {:3} outstanding, {fidelity:?}: {rate:5.1} M requests/s",
                jobs * depth
            );
            results.push(json!({
                "name": format!("{rw}-{fidelity:?}"),
                "requests_per_second": rate * 1e6,
            }));
        }
    }
    bench::save("ssd", &[], &json!(results));
}

/// The run with the median first value.
fn median_pair(run: impl Fn() -> (f64, f64)) -> (f64, f64) {
    let mut found: Vec<(f64, f64)> = (0..RUNS).map(|_| run()).collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    found[RUNS / 2]
}

/// Millions of host and media page writes a second, over one pass.
fn flash_writes(pages_per_superblock: u32, namespace_tb: f64) -> (f64, f64) {
    let raw_pages = 800.0 * f64::from(pages_per_superblock);
    let geometry = FlashGeometry {
        superblocks: 800,
        pages_per_superblock,
        logical_pages: (raw_pages * namespace_tb / 8.985) as u32,
        low_water: 2,
    };
    let mut flash = Flash::new(geometry).expect("this flash has spare");
    let live: Vec<u32> = (0..geometry.logical_pages).collect();
    Precondition::SteadyRandom.apply(&mut flash, &live, 1);
    let mut random = Random::new(2);
    let mut batch = [0; 64];
    let started = Instant::now();
    for _ in 0..geometry.logical_pages.min(4_000_000) / 64 {
        for page in &mut batch {
            *page = random.below(geometry.logical_pages);
        }
        flash.write_batch(&batch);
    }
    let seconds = started.elapsed().as_secs_f64();
    let counters = flash.counters();
    let millions = |pages: u64| pages as f64 / seconds / 1e6;
    (
        millions(counters.host_pages),
        millions(counters.media_pages()),
    )
}

/// Millions of requests a second, warm-up and preconditioning included.
fn requests(profile: &Profile, rw: &str, jobs: u32, depth: u32, fidelity: Fidelity) -> f64 {
    let load = Load::new(rw, 70, 4096)
        .expect("a load of fio's")
        .with_depth(jobs, depth);
    let mut study = Study::new(profile, profile.capacity_bytes(), load);
    study.fidelity = fidelity;
    let started = Instant::now();
    let outcome = study
        .run(&mut |_| true)
        .expect("a study of the whole drive");
    let measured = outcome.expect("nothing stops it").requests;
    measured as f64 / started.elapsed().as_secs_f64() / 1e6
}
