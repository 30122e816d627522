//! Pools whose volumes claim the subsystems of volumes that are here: their hosts get into nothing
//! that the node does not give them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/label.rs"]
mod label;
mod support;

use std::path::{Path, PathBuf};

use connected::{HOST, connected};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, text};

const STRANGER: &str = "nqn.2026-11.example.flashyard:stranger";

/// A node called `here`, whose volume `demo` is for one host.
fn victim() -> Node {
    let node = Node::configured("[node]\nname = \"here\"\n");
    pool(&node, "pool", "d0");
    node.answer(&["host", "add", "db-1", "--nqn", HOST]);
    volume(&node, "pool", "demo", &["--allow", "db-1"]);
    node
}

/// Another of that name, with a pool `aaa`, which comes first by its name.
fn attacker() -> (Node, PathBuf) {
    let node = Node::configured("[node]\nname = \"here\"\n");
    let image = pool(&node, "aaa", "d0");
    (node, image)
}

fn pool(node: &Node, pool: &str, drive: &str) -> PathBuf {
    let image = node.path().join(format!("{drive}.img"));
    let add = ["drive", "add", drive, image.to_str().unwrap()];
    node.answer(&[&add[..], &["--size", "64MiB"]].concat());
    node.answer(&[
        "pool", "create", pool, "--level", "raid0", "--drives", drive,
    ]);
    image
}

fn volume(node: &Node, pool: &str, volume: &str, more: &[&str]) {
    let create = ["volume", "create", volume, "--pool", pool, "--size", "1MiB"];
    node.answer(&[&create[..], more].concat());
}

fn add_image(node: &Node, image: &Path) {
    node.answer(&["drive", "add", "usb", image.to_str().unwrap()]);
}

fn admits_a_stranger(node: &Node, nqn: &str) -> bool {
    let address = node.endpoints().nvme[0];
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions::new(STRANGER);
        Controller::connect(address, nqn, options).await.is_ok()
    })
}

/// That `demo` is served to its host, and to nobody else.
fn is_guarded(node: &Node) {
    let demo = node.client().volume(&name("demo")).unwrap();
    assert_eq!(demo.hosts, [name("db-1")]);
    assert!(!admits_a_stranger(node, &demo.nqn));
    connected(node, "demo", async |_, _| {});
}

#[test]
fn an_import_does_not_let_its_hosts_into_a_volume_that_is_here() {
    let (mut attacker, image) = attacker();
    for volume_of_group in ["x1", "evil"] {
        let more = ["--subsystem", "demo", "--allow", "any"];
        volume(&attacker, "aaa", volume_of_group, &more);
    }
    attacker.answer(&["volume", "delete", "x1"]);
    let claimed = attacker.client().volume(&name("evil")).unwrap();
    attacker.answer(&["pool", "export", "aaa"]);
    attacker.terminate();

    let mut node = victim();
    let demo = node.client().volume(&name("demo")).unwrap();
    assert_eq!(claimed.nqn, demo.nqn);
    assert_ne!(claimed.nsid, demo.nsid);
    add_image(&node, &image);
    node.refuses(&[(
        &["pool", "import", "aaa"],
        1,
        &["evil (volume demo has its NQN", "--rename-volume evil=NAME"],
    )]);
    is_guarded(&node);
    node.answer(&["pool", "import", "aaa", "--rename-volume", "evil=evil"]);
    for restarted in [false, true] {
        if restarted {
            node.kill();
            node.start();
        }
        let evil = node.client().volume(&name("evil")).unwrap();
        assert_ne!(evil.nqn, demo.nqn);
        assert_eq!(evil.hosts, [name("any")]);
        assert!(admits_a_stranger(&node, &evil.nqn));
        is_guarded(&node);
    }
    // The hosts of one are none of the other's.
    node.answer(&["volume", "allow", "evil", "db-1"]);
    is_guarded(&node);
}

#[test]
fn hosts_of_a_newcomer_to_a_shared_subsystem_see_the_newcomer_only() {
    let (mut attacker, image) = attacker();
    attacker.answer(&["host", "add", "somebody", "--nqn", STRANGER]);
    for number in 1..=2 {
        let more = ["--subsystem", "group", "--allow", "somebody"];
        volume(&attacker, "aaa", &format!("x{number}"), &more);
    }
    attacker.answer(&["volume", "delete", "x1"]);
    attacker.answer(&["pool", "export", "aaa"]);
    attacker.terminate();

    let node = victim();
    let more = ["--subsystem", "group", "--allow", "db-1"];
    volume(&node, "pool", "member", &more);
    let member = node.client().volume(&name("member")).unwrap();
    assert!(!admits_a_stranger(&node, &member.nqn));
    add_image(&node, &image);
    node.answer(&["pool", "import", "aaa"]);
    let joined = node.client().volume(&name("x2")).unwrap();
    assert_eq!(joined.nqn, member.nqn);
    for (volume, host) in [(&joined, STRANGER), (&member, HOST)] {
        let address = node.endpoints().nvme[0];
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        let seen = reactor.run(async {
            let options = ConnectOptions::new(host);
            let connected = Controller::connect(address, &volume.nqn, options).await;
            connected.unwrap().active_namespaces().await.unwrap()
        });
        assert_eq!(seen, [volume.nsid], "{host}");
    }
}

#[test]
fn drives_that_were_altered_while_away_take_no_volumes_address() {
    let (mut attacker, image) = attacker();
    volume(&attacker, "aaa", "evil", &["--allow", "any"]);
    attacker.answer(&["pool", "export", "aaa"]);
    attacker.terminate();

    let mut node = victim();
    add_image(&node, &image);
    node.answer(&["pool", "import", "aaa"]);
    let evil = node.client().volume(&name("evil")).unwrap();
    node.terminate();
    label::replace_in_tables(&image, ":here:evil", ":here:demo");
    label::replace_in_tables(&image, "\"nsid\":1", "\"nsid\":2");
    node.start();
    // Its pool is opened first, and demo is served all the same.
    is_guarded(&node);
    assert!(!admits_a_stranger(&node, &evil.nqn));
    let shown = node.client().volume(&name("evil")).unwrap();
    let reason = shown.reason.unwrap();
    for part in ["volume demo has its NQN", "--rename-volume evil=NAME"] {
        assert!(reason.contains(part), "{reason}");
    }
    let refused = node.ask(&["volume", "allow", "evil", "db-1"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    is_guarded(&node);
    // The way that the message names.
    node.answer(&["pool", "export", "aaa"]);
    node.answer(&["pool", "import", "aaa", "--rename-volume", "evil=evil"]);
    let evil = node.client().volume(&name("evil")).unwrap();
    assert!(admits_a_stranger(&node, &evil.nqn));
    is_guarded(&node);
}
