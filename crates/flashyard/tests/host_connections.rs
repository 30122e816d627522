//! What a node tells of a host's connections, and how a host without a name comes in.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "attacks/peer.rs"]
mod peer;
mod support;

use std::time::Duration;

use api::PathState;
use initiator::{ConnectOptions, Controller};
use peer::{Claim, Peer, status};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, wait_until};

/// Of the name below.
const ID: u128 = 0x5c1a_9b1e_3f0e_4a54_a7c0_8ea4_e0f8_a8aa;
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

fn on_a_core<F: Future<Output = ()>>(scenario: F) {
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(scenario);
}

/// Sessions with port, path, queues and keep alive, the volumes it may see, the last refusal and
/// the commands: all of one host, and nothing of another.
#[test]
fn a_host_is_shown_with_all_that_concerns_its_connections() {
    let node = Node::develop(&["--drives", "3"]);
    node.answer(&["volume", "deny", "demo", "any"]);
    node.answer(&["host", "add", "db", "--nqn", HOST]);
    node.answer(&["host", "add", "other", "--nqn", "nqn.2026-11.example:other"]);
    node.answer(&["volume", "create", "v", "--drive", "d1", "--allow", "db"]);
    node.answer(&["volume", "create", "w", "--drive", "d2", "--allow", "other"]);
    let client = node.client();
    let nqn_of = |volume| client.volume(&name(volume)).unwrap().nqn;
    let shown = || client.host_connections(&name("db")).unwrap();
    let addresses = &node.endpoints().nvme;
    let before = shown();
    assert_eq!((before.sessions.len(), before.last_refusal), (0, None));
    on_a_core(async {
        let mut options = ConnectOptions::new(HOST);
        options.io_queues = 2;
        options.keep_alive = Some(Duration::from_secs(7));
        let connect = async |volume| {
            let nqn = nqn_of(volume);
            Controller::connect(addresses[0], &nqn, options.clone()).await
        };
        assert!(connect("w").await.is_err());
        wait_until("a refusal", || shown().last_refusal.is_some());
        let connected = connect("v").await.unwrap();
        node.answer(&["port", "set", "1", "--path", "non-optimized"]);
        let shown = shown();
        let refusal = shown.last_refusal.unwrap();
        assert_eq!(refusal.nqn, Some(nqn_of("w")));
        assert_eq!(refusal.reason, "it is not allowed");
        let [session] = shown.sessions.as_slice() else {
            panic!("{:?}", shown.sessions)
        };
        assert_eq!(session.nqn, nqn_of("v"));
        assert_eq!(session.controller_id, connected.controller_id().unwrap());
        assert_eq!((session.port, session.path), (1, PathState::NonOptimized));
        assert_eq!((session.queues, session.keep_alive_ms), (2, 7000));
        let [namespace] = shown.namespaces.as_slice() else {
            panic!("{:?}", shown.namespaces)
        };
        assert_eq!((&namespace.volume, namespace.paths), (&name("v"), 1));
        assert_eq!(namespace.capacity_bytes, 16 << 20);
        let (ip, port) = (addresses[0].ip(), addresses[0].port());
        let command = format!(
            "nvme connect --transport=tcp --traddr={ip} --trsvcid={port} --nqn={} \
             --hostnqn={HOST} --ctrl-loss-tmo=600 --reconnect-delay=2 --keep-alive-tmo=5",
            nqn_of("v")
        );
        assert_eq!(shown.commands, [command.as_str()]);
        let alone = node.answer(&["host", "show", "db", "--commands"]);
        assert_eq!(alone.trim(), command);
        let text = node.answer(&["host", "show", "db"]);
        let remote = session.remote.as_str();
        for part in [HOST, "it is not allowed", "non-optimized", remote, &command] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let other = client.host_connections(&name("other")).unwrap();
        assert_eq!((other.sessions.len(), other.last_refusal), (0, None));
        assert_eq!(other.namespaces[0].volume, name("w"));
    });
    let unknown = node.ask(&["host", "show", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
}

/// The host identifier is the name of a host that gives none, where any host may come; elsewhere an
/// event says who was refused and why.
#[test]
fn a_host_without_a_name_is_known_by_its_identifier() {
    let node = Node::develop(&["--drives", "2"]);
    node.answer(&["host", "add", "db", "--nqn", HOST]);
    node.answer(&["volume", "create", "v", "--drive", "d1", "--allow", "db"]);
    let client = node.client();
    let nqn_of = |volume| client.volume(&name(volume)).unwrap().nqn;
    let connect = |volume| {
        let mut host = Peer::initialized(node.endpoints().nvme[0]).unwrap();
        let nqn = nqn_of(volume);
        let claim = Claim {
            host_nqn: "",
            host_id: ID.to_be_bytes(),
            subsystem_nqn: &nqn,
            ..Claim::default()
        };
        let answer = host.connect(&claim).unwrap();
        (host, status(&answer))
    };
    let (host, answer) = connect("demo");
    assert_eq!(answer, 0);
    let shown = || client.host_connections(&name("db")).unwrap();
    assert_eq!(shown().sessions.len(), 1);
    drop(host);
    let (_host, answer) = connect("v");
    assert_ne!(answer, 0);
    wait_until("a refusal", || shown().last_refusal.is_some());
    let refusal = shown().last_refusal.unwrap();
    assert!(refusal.reason.contains("no host NQN"), "{refusal:?}");
    let events = node.answer(&["event", "list"]);
    assert!(events.contains(&refusal.reason), "{events}");
}

/// Nodes that may serve the same pool are told apart by their controllers: a host that is connected
/// to both has two controllers of two identifiers, each within the range of its node.
#[test]
fn controllers_have_the_identifiers_of_their_nodes_range() {
    let ranges = [(1000, 1063), (1064, 1127)];
    let nodes = ranges.map(|(first, last)| {
        let node = Node::configured(&format!("[nvme]\ncontroller_ids = [{first}, {last}]\n"));
        node.answer(&["drive", "add", "d", "--memory", "16MiB"]);
        node.answer(&["volume", "create", "v", "--drive", "d", "--allow", "any"]);
        node
    });
    on_a_core(async {
        for (node, (first, last)) in nodes.iter().zip(ranges) {
            let nqn = node.client().volume(&name("v")).unwrap().nqn;
            let address = node.endpoints().nvme[0];
            for _ in 0..3 {
                let options = ConnectOptions::new(HOST);
                let connected = Controller::connect(address, &nqn, options).await.unwrap();
                let id = connected.controller_id().unwrap();
                assert!((first..=last).contains(&id), "{id} of {first} to {last}");
            }
        }
    });
}
