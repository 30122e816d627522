//! Several cores: a volume lives on one of them, connections on any of them reach it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use initiator::{ConnectOptions, TargetAddress};
use lab::load::{Pattern, PerfOptions, Stop, Verify, Workload};
use support::{Node, name, text};

fn verified_load(node: &Node, volume: &str) -> lab::load::Report {
    let volume = node.client().volume(&name(volume)).unwrap();
    let options = PerfOptions {
        target: TargetAddress {
            address: node.endpoints().nvme[0],
            subsystem_nqn: volume.nqn,
            namespace_id: Some(volume.nsid),
        },
        connect: ConnectOptions::new("nqn.2026-11.example.flashyard:test"),
        workload: Workload {
            pattern: Pattern::RandRw,
            depth: 8,
            jobs: 4,
            size_bytes: Some(2 << 20),
            number_ios: Some(500),
            runtime: Some(Duration::from_secs(60)),
            random_map: false,
            verify: Verify::Crc32c,
            ..Workload::default()
        },
        cores: Vec::new(),
        journal: None,
    };
    lab::load::run(&options, &Stop::default(), |_| {}).unwrap()
}

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
        let report = verified_load(&node, volume);
        assert!(report.is_clean(), "{volume}: {report}");
        let acknowledged = report.verification.unwrap().blocks_acknowledged;
        assert!(
            acknowledged > 100,
            "{volume}: {acknowledged} blocks were verified"
        );
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
