//! Ports on the command line: what hosts are told of one is changed at once and remembered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use api::{DriveSpec, List, PathState, Port, VolumeSpec};
use support::{Node, free_address, name};

fn listed(node: &Node) -> Vec<Port> {
    let listed = node.answer(&["port", "list", "--output", "json"]);
    let listed: List<Port> = serde_json::from_str(&listed).unwrap();
    listed.items
}

fn paths(node: &Node) -> Vec<(u16, PathState)> {
    let row = |port: &Port| (port.id, port.path);
    listed(node).iter().map(row).collect()
}

#[test]
fn a_path_is_changed_and_survives_a_crash() {
    let mut node = Node::develop(&["--listen", "[::1]:0"]);
    let fresh = [(1, PathState::Optimized), (2, PathState::Optimized)];
    assert_eq!(paths(&node), fresh);
    let set = node.answer(&["port", "set", "2", "--path", "inaccessible"]);
    assert!(
        set.contains("inaccessible") && set.contains("[::1]"),
        "{set}"
    );
    node.kill();
    node.start();
    assert_eq!(paths(&node)[1].1, PathState::Inaccessible);
    let status = node.answer(&["status"]);
    assert!(status.contains("port 2 at [::1]"), "{status}");
    node.answer(&["port", "set", "2", "--path", "non-optimized"]);
    assert_eq!(paths(&node)[1].1, PathState::NonOptimized);
    let set_third: &[&str] = &["port", "set", "3", "--path", "optimized"];
    node.refuses(&[(set_third, 1, &["no port 3", "1 to 2"])]);
}

/// This machine has no RDMA device. The node says so and serves its other port.
#[test]
fn a_port_without_a_device_leaves_the_others_as_they_are() {
    let (tcp, api) = (free_address(), free_address());
    let settings = format!(
        "api.protocol = \"http\"\napi.listen = \"{api}\"\n\
         [[nvme.ports]]\nlisten = \"127.0.0.1:4427\"\ntransport = \"rdma\"\n\
         [[nvme.ports]]\nlisten = \"{tcp}\"\n"
    );
    let node = Node::configured_with(&settings, []);
    let found = listed(&node);
    let fault = found[0].fault.clone().unwrap();
    // Either is what somebody has to install.
    assert!(
        fault.contains("librdmacm1") || fault.contains("needed: a device"),
        "{fault}"
    );
    assert_eq!(found[1].fault, None);
    let status = node.answer(&["status"]);
    assert!(
        status.contains(&format!("port 1 serves nobody: {fault}")),
        "{status}"
    );
    let over_rdma = status.lines().find(|line| line.starts_with("nvme/rdma"));
    assert!(over_rdma.unwrap().ends_with(" -"), "{status}");
    assert!(node.answer(&["port", "list"]).contains("OFFLINE"));
    let drive = DriveSpec::Memory {
        size: "64MiB".parse().unwrap(),
    };
    node.client().add_drive(&name("d"), &drive).unwrap();
    let volume = VolumeSpec {
        drive: Some(name("d")),
        hosts: vec![name("any")],
        ..VolumeSpec::default()
    };
    node.client().create_volume(&name("data"), &volume).unwrap();
    let mut target = load::target(&node, "data");
    target.address = tcp;
    let report = load::verified_load(target, 4096, 500);
    load::clean(&report, "over TCP");
}
