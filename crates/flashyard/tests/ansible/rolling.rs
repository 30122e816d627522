//! A rolling upgrade of two nodes: one after the other, while a host writes and verifies on volumes
//! of both.

use serde_json::{Map, Value, json};

use super::servers::Server;
use super::site::{Site, drives, is_verified, packages, verified_load, version};

/// Variables of a node that hosts reach in one network.
fn node(server: &Server, name: &str, network: &str) -> Value {
    json!({
        "machine_pid": server.pid, "flashyard_node_name": name, "flashyard_drives": drives(),
        "flashyard_host_networks": [network],
        "flashyard_pools": [{"name": "fast", "level": "raid6", "drives": ["d0", "d1", "d2", "d3"]}],
    })
}

/// A volume of the host, as the inventory has it.
fn volume(name: &str, node: &str) -> Value {
    json!({
        "name": name, "node": node, "pool": "fast", "size": "2GiB",
        "path": format!("/srv/{name}"), "file_system": "xfs",
    })
}

/// The processes that serve.
fn processes(nodes: [&Server; 2]) -> [String; 2] {
    nodes.map(|node| node.answer("cat /run/flashyard/node.pid"))
}

/// Nodes in the order in which they changed, each of which is done with before the next one begins.
fn order(results: &[Value]) -> Vec<&str> {
    let changed = results.iter().filter(|it| it["changed"] == json!(true));
    let mut nodes: Vec<&str> = changed.map(|it| it["host"].as_str().unwrap()).collect();
    nodes.dedup();
    nodes
}

#[test]
fn two_nodes_are_upgraded_one_after_the_other_under_load() {
    let second = Server::new("node-2");
    let mut site = Site::new();
    let (ours, theirs) = (["203.0.113.10/24"], ["203.0.113.9/24"]);
    second
        .network
        .join(&site.host.network, "other", &ours, &theirs);
    let [package, later] = packages(site.directory.path());
    let inventory = |site: &Site, package| {
        let mut nodes = Map::new();
        let of = |name, server, network| (String::from(name), node(server, name, network));
        nodes.extend([
            of("node-1", &site.node, "192.0.2.0/24"),
            of("node-2", &second, "203.0.113.0/24"),
        ]);
        let volumes = [volume("data", "node-1"), volume("scratch", "node-2")];
        site.inventory(package, nodes, json!({"flashyard_volumes": volumes}));
    };
    inventory(&site, &package);
    site.changes("flashyard.storage.site", &[]);
    let loads = ["/srv/data", "/srv/scratch"].map(|folder| verified_load(&site.host, folder));
    inventory(&site, &later);
    let before = processes([&site.node, &second]);
    let (output, results) = site.play("flashyard.storage.upgrade", &[]);
    assert!(output.status.success(), "{}", super::said(&output));
    assert_eq!(order(&results), ["node-1", "node-2"], "{results:?}");
    let after = processes([&site.node, &second]);
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before, after, "a node was not restarted");
    }
    assert_eq!([&site.node, &second].map(version), ["99.0.0", "99.0.0"]);
    let again = site.changes("flashyard.storage.upgrade", &[]);
    assert!(again.is_empty(), "a second upgrade: {again:?}");
    site.host.answer("pkill --signal INT --exact fio");
    for load in loads {
        is_verified(load);
    }
}
