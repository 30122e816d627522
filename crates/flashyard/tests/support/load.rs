//! Verified load on a volume of a node.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use initiator::{ConnectOptions, TargetAddress};
use lab::load::{Pattern, PerfOptions, Report, Stop, Verify, Workload};

use super::support::{Node, name};

/// Who connects.
pub const HOST: &str = "nqn.2026-11.example.flashyard:test";

/// Where a volume is served.
pub fn target(node: &Node, volume: &str) -> TargetAddress {
    let volume = node.client().volume(&name(volume)).unwrap();
    TargetAddress {
        transport: initiator::Transport::Tcp,
        address: node.endpoints().nvme[0],
        subsystem_nqn: volume.nqn,
        namespace_id: Some(volume.nsid),
    }
}

/// Writes and reads at random from four connections, and reads everything back at the end.
pub fn verified_load(target: TargetAddress, transfer_bytes: u32, number_ios: u64) -> Report {
    let options = PerfOptions {
        target,
        connect: ConnectOptions::new(HOST),
        workload: Workload {
            pattern: Pattern::RandRw,
            transfer_bytes,
            depth: 8,
            jobs: 4,
            size_bytes: Some(4 << 20),
            number_ios: Some(number_ios),
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

/// Fails unless much was verified, and all of it was as it should be.
pub fn clean(report: &Report, what: &str) {
    assert!(report.is_clean(), "{what}: {report}");
    let acknowledged = report.verification.as_ref().unwrap().blocks_acknowledged;
    assert!(acknowledged > 100, "{what}: {acknowledged} blocks");
}
