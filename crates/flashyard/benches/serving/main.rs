//! `cargo bench -p flashyard --bench serving`: what a node serves over NVMe/TCP on loopback.
//!
//! One core for the target and one for the load; every row is measured in each round, and the
//! table shows medians. With `SPDK` set to the directory of a built SPDK tree, its target and its
//! own load generator take the same rows in the same rounds, so that the ratio of the two columns
//! belongs to one machine at one time. `ROUNDS` and `SECONDS` change the defaults of 3 and 5.

mod idle;
mod node;
mod rows;
mod spdk;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result};

use rows::{ROWS, Sample};

fn main() -> Result<()> {
    // `cargo test --benches` runs bench programs with `--test`; there is nothing to check here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let rounds: usize = setting("ROUNDS", 3)?;
    let seconds: u64 = setting("SECONDS", 5)?;
    let spdk = std::env::var_os("SPDK").map(PathBuf::from);
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let file = rows::prepare_file(directory.path())?;

    let mut ours = vec![Vec::new(); ROWS.len()];
    let mut theirs = vec![Vec::new(); ROWS.len()];
    for round in 1..=rounds {
        let node = node::Node::start(&directory.path().join(format!("round{round}")), &file)?;
        measure("flashyard", round, &mut ours, |row| {
            node.measure(row, seconds)
        })?;
        drop(node);
        if let Some(tree) = &spdk {
            let target = spdk::Target::start(tree, &file)?;
            measure("spdk", round, &mut theirs, |row| {
                target.measure(row, seconds)
            })?;
        }
    }
    let idle = idle::measure(&directory.path().join("idle"))?;
    table::print_and_save(&ours, spdk.is_some().then_some(&theirs[..]), &idle)
}

fn measure(
    who: &str,
    round: usize,
    samples: &mut [Vec<Sample>],
    mut run: impl FnMut(&rows::Row) -> Result<Sample>,
) -> Result<()> {
    for (row, samples) in ROWS.iter().zip(samples) {
        let sample = run(row).with_context(|| format!("{who}: {row}"))?;
        eprintln!("round {round} {who:>9} {row}: {sample}");
        samples.push(sample);
    }
    Ok(())
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .ok()
            .with_context(|| format!("{name}={text}: a whole number is wanted")),
        Err(_) => Ok(default),
    }
}
