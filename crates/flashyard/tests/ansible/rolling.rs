//! A rolling upgrade of two nodes, which a check run predicts: one after the other, while a host
//! writes and verifies on volumes of both. It stops at a node that is not well.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Map, Value, json};

use super::foreseen::{changed, predicts};
use super::said;
use super::servers::Server;
use super::site::{Site, drives, package, sign_in};
use crate::support::{text, tool, wait_until};

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

/// The package of the program, and one of it that has a later version.
fn packages(directory: &Path) -> [PathBuf; 2] {
    let first = package(directory);
    let unpacked = directory.join("unpacked");
    let later = first.with_file_name("flashyard_99.0.0_later.deb");
    let [from, tree, to] = [&first, &unpacked, &later].map(|path| path.to_str().unwrap());
    tool("dpkg-deb", &["--raw-extract", from, tree]);
    let control = unpacked.join("DEBIAN/control");
    let fields = std::fs::read_to_string(&control).unwrap();
    let version = concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(fields.contains(version), "{fields}");
    std::fs::write(&control, fields.replace(version, "Version: 99.0.0\n")).unwrap();
    tool("dpkg-deb", &["-Zgzip", "-z1", "--build", tree, to]);
    [first, later]
}

/// Writes and verifies below the folder of the host until `is_verified`.
fn verified_load(host: &Server, folder: &str) -> Child {
    let job = "--size=24m --bs=4k --direct=1 --ioengine=psync --rw=randwrite --verify=crc32c \
               --verify_backlog=64 --verify_state_save=0 --time_based --runtime=3600";
    let mut fio = host.command(&format!("fio --name=verify --directory={folder} {job}"));
    fio.stdout(Stdio::piped()).stderr(Stdio::piped());
    fio.spawn().unwrap()
}

/// The load has ended, as fio does when it is told to, and nothing of it was wrong.
fn is_verified(fio: Child) {
    let fio = fio.wait_with_output().unwrap();
    let (said, errors) = (text(&fio.stdout), text(&fio.stderr));
    assert!(
        said.contains("err= 0") && said.contains("write:"),
        "{said}{errors}"
    );
}

/// Version of the program's package on a server.
fn version(server: &Server) -> String {
    server.answer("dpkg-query --show --showformat '${Version}' flashyard")
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

/// A pool that has lost a drive stops the upgrade before anything is touched, of this node and of
/// the next one.
fn stops_at_a_node_that_is_not_well(site: &mut Site) {
    sign_in(&site.node);
    site.node.answer("flashyard pool fail-drive fast d3");
    wait_until("the node has a problem", || {
        let status = site.node.answer("flashyard --output json status");
        let status: Value = serde_json::from_str(&status).unwrap();
        status["problems"]
            .as_array()
            .is_some_and(|it| !it.is_empty())
    });
    let (output, results) = site.play("flashyard.storage.upgrade", &[]);
    assert!(!output.status.success(), "{}", said(&output));
    assert!(
        results
            .iter()
            .all(|result| result["host"] == json!("node-1")),
        "{results:?}"
    );
    assert!(
        results
            .iter()
            .all(|result| result["changed"] == json!(false)),
        "{results:?}"
    );
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
    let predicted = site.changes("flashyard.storage.upgrade", &["--check"]);
    assert_eq!(processes([&site.node, &second]), before, "a check run");
    let (output, results) = site.play("flashyard.storage.upgrade", &[]);
    assert!(output.status.success(), "{}", said(&output));
    predicts(&predicted, &changed(&results));
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
    // A package that is not the installed one would be installed.
    inventory(&site, &package);
    stops_at_a_node_that_is_not_well(&mut site);
}
