//! Several cores: a volume lives on one of them, connections on any of them reach it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use load::{clean, target, verified_load};
use support::{Node, text};

#[test]
fn every_core_reaches_every_volume() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if cpus > 1 { "0,1" } else { "0" };
    let node = Node::develop(&["--drives", "2", "--cores", cores]);
    node.answer(&["volume", "create", "v", "--drive", "d1", "--allow", "any"]);
    node.answer(&["drive", "add", "d2", "--memory", "16MiB"]);
    let small = [
        "volume",
        "create",
        "small",
        "--drive",
        "d2",
        "--block-size",
        "512",
    ];
    node.answer(&[&small[..], &["--allow", "any"]].concat());
    for volume in ["demo", "v", "small"] {
        clean(&verified_load(target(&node, volume), 4096, 500), volume);
    }
    let cores = node.client().status().unwrap().cores;
    assert_eq!(cores.len(), cpus.min(2));
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let ports = ["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"];
    let verb = ["serve", "--dev", path, "--cores", "4000"];
    let refused = support::flashyard(&[&verb[..], &ports].concat());
    assert_eq!(refused.status.code(), Some(1));
    let message = text(&refused.stderr);
    assert!(message.contains("4000"), "{message}");
}
