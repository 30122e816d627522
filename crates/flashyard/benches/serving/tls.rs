//! The same volume over TLS 1.3 and in the clear, in turns.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::node::{FLASHYARD, Node};
use crate::perf::{self, Sample};
use crate::table::median;

/// Loads on the volume that stands on nothing.
const LOADS: [(&str, &str); 4] = [
    ("read", "--rw randread --bs 4k --iodepth 1"),
    ("read", "--rw randread --bs 4k --iodepth 128"),
    ("read", "--rw read --bs 128k --iodepth 32"),
    ("write", "--rw write --bs 128k --iodepth 32"),
];

const HOST: &str = "nqn.2026-11.example.flashyard:tls";

/// Measures, prints, and gives what is to be saved.
pub fn measure(node: &Node, directory: &Path, rounds: usize, seconds: u64) -> Result<Value> {
    let key = key_of(node, directory)?;
    println!("\n| load | in the clear, IOPS | TLS, IOPS | ratio | mean us | TLS, mean us |");
    println!("|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for (direction, load) in LOADS {
        let words = format!("{load} --runtime {seconds}s");
        let secret = format!("{words} --host-nqn {HOST} --tls-key {}", key.display());
        let mut pairs: Vec<(Sample, Sample)> = Vec::new();
        for round in 1..=rounds {
            let clear = perf::measure(&mut node.perf("null", &words)?, direction)?;
            let secret = perf::measure(&mut under_tls(node, &secret)?, direction)?;
            eprintln!("round {round} {load}: {clear}; TLS {secret}");
            pairs.push((clear, secret));
        }
        let of = |figure: fn(&(Sample, Sample)) -> f64| median(&pairs, figure);
        let (clear, secret) = (of(|pair| pair.0.iops), of(|pair| pair.1.iops));
        let ratio = of(|pair| pair.1.iops / pair.0.iops);
        println!(
            "| `{load}` | {clear:.0} | {secret:.0} | {ratio:.2} | {:.1} | {:.1} |",
            of(|pair| pair.0.mean_us),
            of(|pair| pair.1.mean_us)
        );
        rows.push(json!({ "load": load, "clear": clear, "tls": secret, "ratio": ratio }));
    }
    Ok(Value::Array(rows))
}

/// `flashyard perf` through the port that asks for TLS, on CPU 1.
fn under_tls(node: &Node, words: &str) -> Result<Command> {
    let mut command = Command::new(FLASHYARD);
    let target = node.target_at(1, "null")?;
    command.args(["perf", &target, "--cores", "1", "--norandommap"]);
    command.args(words.split(' '));
    Ok(command)
}

/// A file with the key of a host of its own, as hosts with a key are not served in the clear.
fn key_of(node: &Node, directory: &Path) -> Result<PathBuf> {
    node.call(&format!("host add tls --nqn {HOST}"))?;
    let made = node.call("host tls-key tls --generate")?;
    let key = made["key"].as_str().context("host tls-key: no key")?;
    let path = directory.join("key");
    std::fs::write(&path, key)?;
    Ok(path)
}
