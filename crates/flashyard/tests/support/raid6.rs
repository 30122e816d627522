//! A raid6 pool of files, and of other drives beside them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use super::support::Node;

/// Makes `pool` of `files` drives called d0, d1 and so on, each of so many bytes, and of those in
/// `others`, which have names and are where a path says.
pub fn make_pool(node: &Node, files: u32, size: &str, others: &[(&str, &Path)]) {
    let mut drives = Vec::new();
    for number in 0..files {
        let drive = format!("d{number}");
        let path = node.path().join(format!("{drive}.img"));
        let add = ["drive", "add", &drive, path.to_str().unwrap()];
        node.answer(&[&add[..], &["--size", size]].concat());
        drives.push(drive);
    }
    for (name, path) in others {
        node.answer(&["drive", "add", name, path.to_str().unwrap()]);
        drives.push((*name).to_owned());
    }
    let create = ["pool", "create", "pool", "--level", "raid6"];
    node.answer(&[&create[..], &["--drives", &drives.join(",")]].concat());
}
