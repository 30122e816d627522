//! Many volumes of a pool: what each takes in memory, and how long all take to list.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use api::{ANY_HOST, Name, Size, VolumeSpec};
use bench::median;
use serde_json::{Value, json};

use crate::node::Node;

/// A smaller pool has no room for the tables of so many volumes.
const OF_FILE: Size = Size(16 << 30);

/// Makes the volumes, in two subsystems, as one has at most 8,192. Lists them `lists` times in each
/// way.
pub fn measure(node: &Node, directory: &Path, volumes: usize, lists: usize) -> Result<Value> {
    let client = node.client()?;
    node.create_pool(&"pool".parse()?, directory, OF_FILE)?;
    let (before, began) = (node.memory_bytes()?, Instant::now());
    for number in 0..volumes {
        let subsystem = format!("s{}", number % 2);
        let volume = VolumeSpec {
            pool: Some("pool".parse()?),
            size: Some(Size(16 << 20)),
            subsystem: Some(subsystem.parse()?),
            hosts: vec![ANY_HOST.parse()?],
            ..VolumeSpec::default()
        };
        client.create_volume(&name(number)?, &volume)?;
    }
    let make_ms = began.elapsed().as_secs_f64() * 1e3 / volumes as f64;
    let bytes = (node.memory_bytes()? - before) / volumes as f64;
    let api_ms = listed((volumes, lists), || Ok(client.volumes()?.items.len()))?;
    let line_ms = listed((volumes, lists), || {
        let output = node.command("volume list").output()?;
        ensure!(
            output.status.success(),
            "the command ended with {}",
            output.status
        );
        let printed = String::from_utf8_lossy(&output.stdout).lines().count();
        Ok(printed - 1)
    })?;
    println!(
        "{volumes} volumes of a pool: each made in {make_ms:.2} ms, {bytes:.0} bytes of memory; \
         listed by the client in {api_ms:.1} ms, by `flashyard volume list` in {line_ms:.1} ms"
    );
    Ok(json!({
        "volumes": volumes, "make_ms": make_ms, "bytes": bytes,
        "list_by_client_ms": api_ms, "list_by_command_ms": line_ms,
    }))
}

/// What the volume `number` is called.
pub fn name(number: usize) -> Result<Name> {
    Ok(format!("v{number:05}").parse()?)
}

/// The median of how long a list of all volumes takes, which says how many it has.
fn listed(
    (volumes, lists): (usize, usize),
    mut list: impl FnMut() -> Result<usize>,
) -> Result<f64> {
    let mut took_ms = Vec::new();
    for _ in 0..lists {
        let began = Instant::now();
        let found = list()?;
        took_ms.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!(found == volumes, "{found} volumes are listed");
    }
    Ok(median(took_ms))
}
