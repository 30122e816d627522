//! What a node tells of a host's connections, and how a host without a name comes in.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "attacks/peer.rs"]
mod peer;
mod support;

use std::time::Duration;

use api::{PathState, Severity};
use initiator::{ConnectOptions, Controller};
use nvme::fabrics::{Configuration, Property, PropertyOffset};
use nvme::{IoOpcode, SglDescriptor, SubmissionEntry};
use peer::{Claim, Peer, capsule, status};
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

/// A host that is connected, and whose I/O queues come and go.
struct Restless<'a> {
    node: &'a Node,
    subsystem_nqn: String,
    controller_id: u16,
    admin: Peer,
}

impl Restless<'_> {
    fn connect(node: &Node) -> Restless<'_> {
        let subsystem_nqn = node.client().volume(&name("v")).unwrap().nqn;
        let mut admin = Peer::initialized(node.endpoints().nvme[0]).unwrap();
        let claim = Claim {
            host_nqn: HOST,
            host_id: ID.to_be_bytes(),
            subsystem_nqn: &subsystem_nqn,
            ..Claim::default()
        };
        let answer = admin.connect(&claim).unwrap();
        assert_eq!(status(&answer), 0);
        let controller_id = answer.entry.result.get() as u16;
        let enable = Property::set(PropertyOffset::CONFIGURATION, Configuration::ENABLE.0);
        admin.command(enable.entry(), &[]).unwrap();
        Restless {
            node,
            subsystem_nqn,
            controller_id,
            admin,
        }
    }

    /// Its I/O queue, with a write under way if `busy`, which waits for its data.
    fn queue(&self, busy: bool) -> Peer {
        let mut queue = Peer::initialized(self.node.endpoints().nvme[0]).unwrap();
        let claim = Claim {
            host_nqn: HOST,
            host_id: ID.to_be_bytes(),
            subsystem_nqn: &self.subsystem_nqn,
            controller_id: self.controller_id,
            queue_id: 1,
            ..Claim::default()
        };
        assert_eq!(status(&queue.connect(&claim).unwrap()), 0);
        if busy {
            let data = SglDescriptor::transport(4096);
            let mut write = SubmissionEntry::new(IoOpcode::WRITE.0, 1, data);
            write.namespace_id = 1.into();
            queue.send(&capsule(&write, &[]));
            // R2T: the node has the command.
            queue.next_pdu().unwrap();
        }
        queue
    }

    /// How many queues the node knows of.
    fn queues(&self) -> usize {
        let shown = self.node.client().host_connections(&name("db")).unwrap();
        shown.sessions[0].queues as usize
    }

    /// Loses that queue, and waits until the node has seen it.
    fn lose(&self, queue: Peer) {
        drop(queue);
        wait_until("the queue is gone", || self.queues() == 0);
    }
}

/// From now on the end of this connection is a reset.
fn reset_at_end(peer: &Peer) {
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&peer.stream, linger).unwrap();
}

/// The event names the host, its address and the reason, once however often it comes; a queue that
/// is closed at rest is no news.
#[test]
fn a_connection_that_is_lost_in_mid_command_is_told_with_host_address_and_reason() {
    let node = Node::develop(&["--drives", "2"]);
    node.answer(&["host", "add", "db", "--nqn", HOST]);
    node.answer(&["volume", "create", "v", "--drive", "d1", "--allow", "db"]);
    let client = node.client();
    let losses = || {
        let events = client.events(0).unwrap().items.into_iter();
        let lost = events.filter(|event| event.message.contains("lost a queue"));
        lost.collect::<Vec<_>>()
    };
    let host = Restless::connect(&node);
    host.lose(host.queue(false));
    assert_eq!(losses(), [], "closed at rest");
    let reasons = [
        "the connection broke",
        "it closed the connection in mid-command",
    ];
    for _ in 0..10 {
        let broken = host.queue(true);
        reset_at_end(&broken);
        host.lose(broken);
    }
    host.lose(host.queue(true));
    wait_until("both are told", || losses().len() >= reasons.len());
    let told = losses();
    assert_eq!(told.len(), reasons.len(), "{told:?}");
    for (event, reason) in told.iter().zip(reasons) {
        assert_eq!(event.severity, Severity::Warning, "{event:?}");
        assert_eq!(event.object, format!("subsystem/{}", host.subsystem_nqn));
        let who = format!("{HOST} at 127.0.0.1:");
        assert!(event.message.starts_with(&who), "{event:?}");
        assert!(event.message.ends_with(reason), "{event:?}");
    }
    // No refusal, and none is counted.
    let shown = client.host_connections(&name("db")).unwrap();
    assert_eq!(shown.last_refusal, None);
    reset_at_end(&host.admin);
    drop(host);
    wait_until("the end of the controller is told", || {
        let mut events = client.events(0).unwrap().items.into_iter();
        events.any(|event| event.message == format!("{HOST} disconnected: the connection broke"))
    });
}
