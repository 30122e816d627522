//! `cargo bench -p flashyard --bench scale`: ten thousand volumes and a thousand hosts at one node.
//! How long the volumes take to list, how many hosts a core connects in a second, and what memory
//! the node has for each volume, host and queue.
//!
//! The node's data path is on CPU 0; its control plane, the hosts and whoever lists share CPU 1.
//! Memory is what the node has of its own (RssAnon of proc_pid_status(5)): before and after, over
//! how many came in between. Memory of the kernel, such as of sockets, is not in it. `VOLUMES`,
//! `LISTS` and `SECONDS` change the defaults of 10,000, 20 and 5.

mod hosts;
#[path = "../support/node.rs"]
mod node;
mod volumes;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::json;

use node::Node;

fn main() -> Result<()> {
    if !bench::is_asked_for() {
        return Ok(());
    }
    let count = bench::setting("VOLUMES", 10_000);
    let (lists, seconds) = (bench::setting("LISTS", 20), bench::setting("SECONDS", 5));
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let mut node = Node::start(directory.path())?;
    run_on(&[1])?;
    println!("Machine: {}\n", bench::machine());
    let volumes = volumes::measure(&node, directory.path(), count, lists)?;
    let hosts = hosts::measure(&mut node, seconds)?;
    let result = json!({ "machine": bench::machine(), "volumes": volumes, "hosts": hosts });
    bench::save("scale", &[], &result);
    Ok(())
}

/// Has this thread, and processes that it starts, run on these CPUs alone.
fn run_on(processors: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    sched_setaffinity(None, &set).context("choosing processors")
}
