//! `cargo bench -p flashyard --bench serving`: what a node serves over NVMe/TCP on loopback.
//!
//! One core for the target and one for the load; every row is measured in each round, and the
//! table shows medians. With `SPDK` set to the directory of a built SPDK tree, its target and its
//! own load generator take each row right after ours, so that the ratio, the median of the rounds'
//! ratios, belongs to one machine at one time. `ROUNDS` and `SECONDS` change the defaults of 3
//! and 5.

#[path = "../support/file.rs"]
mod file;
mod idle;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/perf.rs"]
mod perf;
mod rows;
mod served;
mod spdk;
mod table;
mod tls;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use rows::{FILE_BYTES, ROWS};

fn main() -> Result<()> {
    if !bench::is_asked_for() {
        return Ok(());
    }
    let rounds: usize = bench::setting("ROUNDS", 3);
    let seconds: u64 = bench::setting("SECONDS", 5);
    let spdk = std::env::var_os("SPDK").map(PathBuf::from);
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let file = file::prepare(directory.path(), FILE_BYTES)?;

    let node = served::start(&directory.path().join("node"), &file)?;
    let peer = spdk
        .map(|tree| start_peer(&tree, directory.path()))
        .transpose()?;
    let mut ours = vec![Vec::new(); ROWS.len()];
    let mut theirs = vec![Vec::new(); ROWS.len()];
    for round in 1..=rounds {
        for (number, row) in ROWS.iter().enumerate() {
            let sample = served::measure(&node, row, seconds)?;
            eprintln!("round {round} flashyard {row}: {sample}");
            ours[number].push(sample);
            if let Some(peer) = &peer {
                let sample = peer.measure(row, seconds)?;
                eprintln!("round {round}      spdk {row}: {sample}");
                theirs[number].push(sample);
            }
        }
    }
    let tls = tls::measure(&node, directory.path(), rounds, seconds)?;
    drop(node);
    let compared = peer.is_some().then_some(&theirs[..]);
    drop(peer);
    let idle = idle::measure(&directory.path().join("idle"), &file)?;
    table::print_and_save(&ours, compared, &idle, &tls);
    Ok(())
}

/// SPDK's target on a file of its own, paused until it is measured.
fn start_peer(tree: &Path, directory: &Path) -> Result<spdk::Target> {
    let directory = directory.join("spdk");
    std::fs::create_dir(&directory)?;
    let target = spdk::Target::start(tree, &file::prepare(&directory, FILE_BYTES)?)?;
    target.pause()?;
    Ok(target)
}
