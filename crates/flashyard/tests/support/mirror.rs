//! A node with a mirror of two drives on files, volumes in it, and the mirror in another node.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use crate::support::Node;

/// Where a node has a drive's file, or another one beside it.
pub fn file(node: &Node, drive: &str) -> PathBuf {
    node.path().canonicalize().unwrap().join(drive)
}

pub fn add_drive(node: &Node, drive: &str) {
    let path = file(node, drive);
    let add = ["drive", "add", drive, path.to_str().unwrap()];
    node.answer(&[&add[..], &["--size", "16MiB"]].concat());
}

/// Makes a volume that any host may see.
pub fn create(node: &Node, volume: &str, place: &[&str]) {
    let create = ["volume", "create", volume, "--allow", "any"];
    node.answer(&[&create[..], place].concat());
}

/// A node with the pool p, a mirror of the drives a and b.
pub fn with_a_pool(settings: &str) -> Node {
    let node = Node::configured(settings);
    for drive in ["a", "b"] {
        add_drive(&node, drive);
    }
    node.answer(&["pool", "create", "p", "--level", "raid1", "--drives", "a,b"]);
    node
}

/// Exports the pool and kills the node. Gives another one that has imported the pool as q, from the
/// same drives under other names.
pub fn moved(node: &mut Node) -> Node {
    node.answer(&["pool", "export", "p"]);
    let files = ["a", "b"].map(|drive| file(node, drive));
    node.kill();
    let other = Node::configured("[node]\nname = \"other\"\n");
    for (called, file) in ["x", "y"].iter().zip(&files) {
        other.answer(&["drive", "add", called, file.to_str().unwrap()]);
    }
    other.answer(&["pool", "import", "p", "--as", "q"]);
    other
}
