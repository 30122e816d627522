//! What a volume sees of a noisy neighbour in a pool of two modelled drives: its 99th percentile
//! of latency, alone and beside, in virtual time, so that every machine finds the same. Prints a
//! table, and writes `target/bench/neighbours.json`.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

#[path = "../tests/nodes/scene/mod.rs"]
mod scene;

use std::time::Duration;

use node::Terms;
use reactor::Reactor;
use scene::{Noise, READS, Scene, WRITES, limited, part};
use serde_json::json;

fn main() {
    // `cargo test --benches` asks for a listing or a quick check: this is neither.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("| neighbour | what holds | p99 alone, us | beside, us | ratio | its IOPS |");
    println!("|---|---|---|---|---|---|");
    let rows = Reactor::simulated(31).run(async {
        let scene = Scene::start().await;
        let mut rows = Vec::new();
        for noise in [READS, WRITES] {
            for (words, quiet, noisy) in [
                ("nothing", Terms::default(), Terms::default()),
                ("a minimum of 30,000", part(Some(30_000)), part(None)),
                (
                    "a limit of 20,000 for it",
                    Terms::default(),
                    limited(20_000),
                ),
            ] {
                scene.set_terms("quiet", quiet).await;
                scene.set_terms("noisy", noisy).await;
                rows.push(measure(&scene, noise, words).await);
            }
        }
        scene.node.shutdown(Duration::from_secs(1)).await.unwrap();
        rows
    });
    bench::save("neighbours", &[], &json!(rows));
}

async fn measure(scene: &Scene, noise: Noise, terms: &str) -> serde_json::Value {
    let moved = scene.beside(noise).await;
    let kind = if noise.writes { "writes" } else { "reads" };
    let name = format!("{} KiB {kind}, QD {}", noise.bytes >> 10, noise.depth);
    let micros = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    let (alone, beside) = (micros(moved.alone_ns), micros(moved.beside_ns));
    let (ratio, rate) = (moved.ratio(), moved.rate);
    println!("| {name} | {terms} | {alone:.1} | {beside:.1} | {ratio:.2} | {rate} |");
    json!({
        "neighbour": name, "terms": terms, "p99_alone_us": alone, "p99_beside_us": beside,
        "ratio": ratio, "neighbour_iops": rate,
    })
}
