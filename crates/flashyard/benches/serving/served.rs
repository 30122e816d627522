//! The node that is measured: a volume for each [`Device`].

use std::path::Path;

use anyhow::Result;

use crate::node::Node;
use crate::perf::{self, Sample};
use crate::rows::{Device, Row};

/// Starts a node with its state in `directory`; `file` becomes one of its drives.
pub fn start(directory: &Path, file: &Path) -> Result<Node> {
    let node = Node::start(directory)?;
    node.call("drive add null --null 400GiB")?;
    node.call("drive add memory --memory 256MiB")?;
    node.call(&format!("drive add file {}", file.display()))?;
    for volume in ["null", "memory", "file"] {
        node.call(&format!(
            "volume create {volume} --drive {volume} --allow any"
        ))?;
    }
    // Memory that was never written costs nothing to read; the peer's is touched at start.
    let mut fill = node.perf("memory", "--rw write --bs 128k --iodepth 8")?;
    perf::measure(&mut fill, "write")?;
    Ok(node)
}

/// Runs `flashyard perf` for one row, on CPU 1.
pub fn measure(node: &Node, row: &Row, seconds: u64) -> Result<Sample> {
    let volume = match row.device {
        Device::Null => "null",
        Device::Memory => "memory",
        Device::File => "file",
    };
    let Row {
        pattern,
        block_bytes,
        depth,
        ..
    } = row;
    let words = format!("--rw {pattern} --bs {block_bytes} --iodepth {depth} --runtime {seconds}s");
    let direction = if pattern.ends_with("read") {
        "read"
    } else {
        "write"
    };
    perf::measure(&mut node.perf(volume, &words)?, direction)
}
