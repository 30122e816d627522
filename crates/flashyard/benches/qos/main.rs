//! `cargo bench -p flashyard --bench qos`: how well limits hold over NVMe/TCP on loopback, and
//! what they cost.
//!
//! The node is on CPU 0, all loads on CPU 1. Every figure is the median of the rounds, ratios the
//! median of the rounds' own. `ROUNDS` and `SECONDS` change the defaults of 3 and 5.

#[path = "../support/node.rs"]
mod node;
#[path = "../support/perf.rs"]
mod perf;

use std::path::Path;

use anyhow::{Context, Result};
use bench::median;
use node::Node;
use serde_json::{Value, json};

/// Limits to hold, what to hold to them, and how many of what counts one command is.
const LIMITS: [(&str, f64, &str, &str, f64); 7] = [
    ("--iops 1000", 1e3, "randread", "4k", 1.0),
    ("--iops 10000", 1e4, "randread", "4k", 1.0),
    ("--iops 50000", 5e4, "randread", "4k", 1.0),
    ("--write-iops 10000", 1e4, "randwrite", "4k", 1.0),
    ("--bandwidth 100MB", 1e8, "randread", "4k", 4096.0),
    ("--read-bandwidth 500MB", 5e8, "read", "128k", 131_072.0),
    ("--write-bandwidth 500MB", 5e8, "write", "128k", 131_072.0),
];

fn main() -> Result<()> {
    if !bench::is_asked_for() {
        return Ok(());
    }
    let (rounds, seconds) = (bench::setting("ROUNDS", 3), bench::setting("SECONDS", 5));
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let node = start(&directory.path().join("node"))?;
    println!("Machine: {}\n", bench::machine());
    let accuracy = accuracy(&node, rounds, seconds)?;
    let cost = cost(&node, rounds, seconds)?;
    let result = json!({ "machine": bench::machine(), "held": accuracy, "cost": cost });
    bench::save("qos", &[], &result);
    Ok(())
}

/// A node with a volume that stands on nothing, and another in a pool.
fn start(directory: &Path) -> Result<Node> {
    let node = Node::start(directory)?;
    node.call("drive add null --null 400GiB")?;
    node.call("volume create null --drive null --allow any")?;
    node.call("drive add memory --memory 1GiB")?;
    node.call("pool create pool --level raid0 --drives memory")?;
    node.call("volume create other --pool pool --size 256MiB --allow any")?;
    Ok(node)
}

/// What a limited volume does, in parts of its limit.
fn accuracy(node: &Node, rounds: usize, seconds: usize) -> Result<Vec<Value>> {
    println!("| limit | load, QD 32 | of the limit |\n|---|---|---|");
    let mut rows = Vec::new();
    for (limit, rate, pattern, bytes, unit) in LIMITS {
        node.call(&format!("volume limit null {limit}"))?;
        let words =
            format!("--rw {pattern} --bs {bytes} --iodepth 32 --ramp-time 1s --runtime {seconds}s");
        let mut shares = Vec::new();
        for _ in 0..rounds {
            let sample = perf::measure(&mut node.perf("null", &words)?, direction(pattern))?;
            eprintln!("{limit}: {sample}");
            shares.push(100.0 * sample.iops * unit / rate);
        }
        let share = median(shares);
        println!("| `{limit}` | {pattern} {bytes} | {share:.2}% |");
        rows.push(json!({ "limit": limit, "load": pattern, "percent": share }));
    }
    node.call("volume limit null")?;
    Ok(rows)
}

/// What volumes pay for limits of others, and for their own.
fn cost(node: &Node, rounds: usize, seconds: usize) -> Result<Vec<Value>> {
    println!("\n| 4 KiB reads of nothing, QD 128 | IOPS | ratio |\n|---|---|---|");
    let words = format!("--rw randread --bs 4k --iodepth 128 --runtime {seconds}s");
    let cases = [
        ("no limit anywhere", "", ""),
        (
            "a limit and a minimum elsewhere",
            "",
            "--iops 1000 --minimum-iops 500",
        ),
        (
            "a limit that is not reached",
            "--iops 100000000 --bandwidth 100TB",
            "",
        ),
    ];
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((_, own, other), rates) in cases.iter().zip(&mut rates) {
            node.call(format!("volume limit null {own}").trim_end())?;
            node.call(format!("volume limit other {other}").trim_end())?;
            let sample = perf::measure(&mut node.perf("null", &words)?, "read")?;
            rates.push(sample.iops);
        }
    }
    let mut rows = Vec::new();
    for ((case, ..), own) in cases.iter().zip(&rates) {
        let ratios = own.iter().zip(&rates[0]).map(|(one, free)| one / free);
        let (ratio, iops) = (median(ratios), median(own.iter().copied()));
        println!("| {case} | {iops:.0} | {ratio:.3} |");
        rows.push(json!({ "case": case, "iops": iops, "ratio": ratio }));
    }
    Ok(rows)
}

fn direction(pattern: &str) -> &str {
    if pattern.ends_with("read") {
        "read"
    } else {
        "write"
    }
}
