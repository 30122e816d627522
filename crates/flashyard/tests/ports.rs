//! Ports on the command line: what hosts are told of one is changed at once and remembered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use api::{DriveSpec, List, PathState, Port, PortChange, VolumeSpec};
use support::{Node, free_address, name, wait_until};

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

fn pools(node: &Node) -> Vec<Vec<(String, PathState)>> {
    let own = |port: &Port| {
        let pools = port.pools.iter();
        pools
            .map(|(pool, path)| (pool.to_string(), *path))
            .collect()
    };
    listed(node).iter().map(own).collect()
}

/// A node with two ports and the pools `left` and `right`.
fn with_two_ports_and_pools() -> Node {
    let [api, one, other] = [free_address(), free_address(), free_address()];
    let settings = format!(
        "api.protocol = \"http\"\napi.listen = \"{api}\"\n\
         [[nvme.ports]]\nlisten = \"{one}\"\n[[nvme.ports]]\nlisten = \"{other}\"\n"
    );
    let node = Node::configured_with(&settings, []);
    for pool in ["left", "right"] {
        let path = node.path().canonicalize().unwrap().join(pool);
        let path = path.to_str().unwrap();
        node.answer(&["drive", "add", pool, path, "--size", "64MiB"]);
        node.answer(&["pool", "create", pool, "--level", "raid0", "--drives", pool]);
    }
    node
}

/// A pool has its own state at a port until it is the port's again. It lasts as the port's does,
/// and goes with the pool.
#[test]
fn a_pool_has_a_path_of_its_own_which_survives_a_crash() {
    let mut node = with_two_ports_and_pools();
    assert_eq!(pools(&node), [vec![], vec![]]);
    let set = ["port", "set", "1", "--pool", "left", "--path"];
    let shown = node.answer(&[&set[..], &["persistent-loss"]].concat());
    assert!(
        shown.contains("optimized, left: persistent-loss"),
        "{shown}"
    );
    node.answer(&["port", "set", "2", "--pool", "right", "--path", "change"]);
    let lost = ("left".to_owned(), PathState::PersistentLoss);
    let changing = ("right".to_owned(), PathState::Change);
    assert_eq!(pools(&node), [vec![lost.clone()], vec![changing]]);
    node.kill();
    node.start();
    let ended = ("right".to_owned(), PathState::Inaccessible);
    assert_eq!(pools(&node), [vec![lost], vec![ended]], "nobody ends it");
    assert_eq!(paths(&node).len(), 2);
    let status = node.answer(&["status"]);
    for problem in [
        "is persistent-loss for pool left",
        "is inaccessible for pool right",
    ] {
        assert!(status.contains(problem), "{status}");
    }
    node.answer(&["port", "set", "1", "--path", "non-optimized"]);
    node.answer(&["port", "set", "1", "--pool", "left", "--as-port"]);
    let as_port = pools(&node);
    assert!(as_port[0].is_empty(), "{as_port:?}");
    node.answer(&["pool", "destroy", "right"]);
    assert_eq!(pools(&node), [vec![], vec![]]);
    let unknown: &[&str] = &["port", "set", "1", "--pool", "nope", "--path", "optimized"];
    let of_none: &[&str] = &["port", "set", "1", "--as-port"];
    let nothing: &[&str] = &["port", "set", "1"];
    node.refuses(&[
        (unknown, 1, &["no pool is named nope"]),
        (of_none, 2, &["--pool"]),
        (nothing, 2, &["--path"]),
    ]);
    let twice = PortChange {
        pools: [(name("left"), PathState::Optimized)].into(),
        as_port: [name("left")].into(),
        ..PortChange::default()
    };
    let refused = node.client().change_port(1, &twice).unwrap_err();
    assert!(refused.to_string().contains("pool left"), "{refused}");
}

/// A port is no good path to one pool, and the better one to the other: each volume's addresses are
/// in the order of its own pool, wherever they are told.
#[test]
fn addresses_of_a_volume_are_in_the_order_of_its_pools_states() {
    let node = with_two_ports_and_pools();
    for pool in ["left", "right"] {
        node.answer(&["volume", "create", pool, "--pool", pool, "--size", "1MiB"]);
    }
    node.answer(&[
        "port",
        "set",
        "1",
        "--pool",
        "left",
        "--path",
        "inaccessible",
    ]);
    node.answer(&["port", "set", "2", "--path", "non-optimized"]);
    let client = node.client();
    let [first, second] = <[String; 2]>::try_from(client.status().unwrap().nvme_addresses).unwrap();
    let order = |volume: &str| client.status_for(&name(volume)).unwrap().nvme_addresses;
    assert_eq!(order("right"), [first.clone(), second.clone()]);
    assert_eq!(order("left"), [second.clone(), first.clone()]);
    let shown = node.answer(&["volume", "show", "left"]);
    let place = |address: &String| {
        shown
            .find(&address[address.find(':').unwrap() + 1..])
            .unwrap()
    };
    assert!(place(&second) < place(&first), "{shown}");
    let refused = client.status_for(&name("none")).unwrap_err();
    assert!(
        refused.to_string().contains("no volume is named none"),
        "{refused}"
    );
}

/// A transition that nobody ends is ended before hosts give the path up.
#[test]
fn a_change_of_state_ends_by_itself() {
    let node = Node::develop(&[]);
    node.answer(&["port", "set", "1", "--path", "change"]);
    assert_eq!(paths(&node)[0].1, PathState::Change);
    wait_until("the end of the transition", || {
        paths(&node)[0].1 == PathState::Inaccessible
    });
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("not ended in time"), "{events}");
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
