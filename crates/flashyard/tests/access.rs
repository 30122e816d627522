//! Who sees a volume: hosts that are allowed, and nobody else, from the moment it is said.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use block::{BlockDevice, Buffer, Lba};
use initiator::{ConnectOptions, Controller, discover};
use nvme::event::AsyncEvent;
use reactor::{Reactor, ReactorConfig, sleep};
use support::Node;

const FRIEND: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:77777777-3f0e-4a54-a7c0-8ea4e0f8a8aa";

async fn visible(address: SocketAddr, host: &str) -> Vec<String> {
    let records = discover(address, &ConnectOptions::new(host)).await.unwrap();
    let mut names: Vec<String> = records
        .into_iter()
        .map(|record| record.subsystem_nqn)
        .collect();
    names.retain(|name| !name.contains("discovery"));
    names
}

#[test]
fn a_volume_is_invisible_to_hosts_that_are_not_allowed() {
    let node = Node::develop(&["--drives", "2"]);
    node.answer(&["volume", "deny", "demo", "any"]);
    node.answer(&["host", "add", "friend", "--nqn", FRIEND]);
    node.answer(&[
        "volume", "create", "v", "--drive", "d1", "--allow", "friend",
    ]);
    let nqn = node.client().volume(&support::name("v")).unwrap().nqn;
    let address = node.endpoints().nvme[0];
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            assert_eq!(visible(address, FRIEND).await, [nqn.as_str()]);
            assert_eq!(visible(address, STRANGER).await, [""; 0]);
            let refused = Controller::connect(address, &nqn, ConnectOptions::new(STRANGER)).await;
            assert!(refused.is_err());

            let friend = Controller::connect(address, &nqn, ConnectOptions::new(FRIEND))
                .await
                .unwrap();
            let namespace = friend.namespace(1).await.unwrap();
            assert_eq!(namespace.geometry().capacity_bytes(), 16 << 20);
            assert_eq!(namespace.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
            let sessions = node.client().sessions().unwrap().items;
            assert_eq!(sessions.len(), 1);
            assert_eq!(sessions[0].host, Some(support::name("friend")));
            assert_eq!(
                (sessions[0].nqn.as_str(), sessions[0].queues),
                (nqn.as_str(), 1)
            );
            assert!(node.answer(&["session", "list"]).contains("friend"));
            assert_eq!(node.client().status().unwrap().sessions, 1);

            node.answer(&["volume", "deny", "v", "friend"]);
            assert!(namespace.read(Lba(0), Buffer::new(4096)).await.1.is_err());
            assert_eq!(visible(address, FRIEND).await, [""; 0]);
            while !node.client().sessions().unwrap().items.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            let events = node.answer(&["event", "list"]);
            assert!(
                events.contains(STRANGER) && events.contains("refused"),
                "{events}"
            );
        });
}

/// Names as hosts have them: a machine identifier as nvme-cli 1 and libnvme write it, and the
/// longest there is, with nothing behind the domain.
#[test]
fn every_form_of_a_host_name_is_allowed_and_served() {
    let node = Node::develop(&["--drives", "1"]);
    node.answer(&["volume", "deny", "demo", "any"]);
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&support::name("demo")).unwrap().nqn;
    let longest = format!(
        "nqn.2024-01.com{}",
        format!(".{}", "y".repeat(51)).repeat(4)
    );
    assert_eq!(longest.len(), 223);
    for (name, host) in [
        (
            "undashed",
            "nqn.2014-08.org.nvmexpress:uuid:07e4a0a641d54bff96b28a173dcfb6b5",
        ),
        ("long", &longest),
    ] {
        node.answer(&["host", "add", name, "--nqn", host]);
        node.answer(&["volume", "allow", "demo", name]);
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            assert_eq!(visible(address, host).await, [nqn.as_str()]);
            let connected = Controller::connect(address, &nqn, ConnectOptions::new(host)).await;
            let namespace = connected.unwrap().namespace(1).await.unwrap();
            assert_eq!(namespace.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
        });
    }
}

/// Two hosts with a volume each in one subsystem: neither sees the other's, nor is in the way of
/// what is done to it; a volume is given and taken under a connection, and all of it lasts.
#[test]
fn each_host_sees_its_own_volumes_of_a_shared_subsystem() {
    let mut node = Node::develop(&["--drives", "3", "--cores", "0,1"]);
    node.answer(&["volume", "deny", "demo", "any"]);
    let hosts = [("friend", FRIEND), ("stranger", STRANGER)];
    for ((host, nqn), drive) in hosts.into_iter().zip(["d1", "d2"]) {
        node.answer(&["host", "add", host, "--nqn", nqn]);
        let create = ["volume", "create", drive, "--drive", drive, "--allow", host];
        node.answer(&[&create[..], &["--subsystem", "group"]].concat());
    }
    let nqn = node.client().volume(&support::name("d1")).unwrap().nqn;
    let reactor = || Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor().run(async {
        let address = node.endpoints().nvme[0];
        let connect = |host| Controller::connect(address, &nqn, ConnectOptions::new(host));
        let friend = connect(FRIEND).await.unwrap();
        assert_eq!(visible(address, STRANGER).await, [nqn.as_str()]);
        assert_eq!(friend.active_namespaces().await.unwrap(), [1]);
        assert!(friend.namespace(2).await.is_err());
        // Whoever is connected for another volume is not in the way.
        node.answer(&["volume", "delete", "d2"]);
        let again = ["volume", "create", "d2", "--drive", "d2", "--keep-data"];
        node.answer(&[&again[..], &["--subsystem", "group", "--allow", "stranger"]].concat());
        let stranger = connect(STRANGER).await.unwrap();
        assert_eq!(stranger.active_namespaces().await.unwrap(), [2]);
        let refused = node.ask(&["volume", "delete", "d2"]);
        let refused = support::text(&refused.stderr);
        assert!(
            refused.contains(STRANGER) && !refused.contains(FRIEND),
            "{refused}"
        );

        node.answer(&["volume", "allow", "d2", "friend"]);
        assert_eq!(
            friend.next_event().await,
            Some(AsyncEvent::NAMESPACE_CHANGED)
        );
        let shared = friend.namespace(2).await.unwrap();
        assert_eq!(shared.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
        node.answer(&["volume", "deny", "d2", "friend"]);
        assert!(shared.read(Lba(0), Buffer::new(4096)).await.1.is_err());
        let own = friend.namespace(1).await.unwrap();
        assert_eq!(own.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
        assert_eq!(node.client().sessions().unwrap().items.len(), 2);
    });
    node.kill();
    node.start();
    reactor().run(async {
        let address = node.endpoints().nvme[0];
        for (host, seen) in [(FRIEND, 1), (STRANGER, 2)] {
            let options = ConnectOptions::new(host);
            let host = Controller::connect(address, &nqn, options).await.unwrap();
            assert_eq!(host.active_namespaces().await.unwrap(), [seen]);
        }
    });
}

#[test]
fn namespaces_come_and_go_in_a_shared_subsystem() {
    let node = Node::develop(&["--drives", "3"]);
    let create = |volume: &str, drive: &str| {
        let verb = ["volume", "create", volume, "--drive", drive];
        node.answer(&[&verb[..], &["--subsystem", "group", "--allow", "any"]].concat())
    };
    create("a", "d1");
    let nqn = node.client().volume(&support::name("a")).unwrap().nqn;
    let address = node.endpoints().nvme[0];
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let options = ConnectOptions::new(FRIEND);
            let controller = Controller::connect(address, &nqn, options).await.unwrap();
            assert_eq!(controller.active_namespaces().await.unwrap(), [1]);
            create("b", "d2");
            assert_eq!(controller.active_namespaces().await.unwrap(), [1, 2]);
            node.answer(&["volume", "delete", "a", "--force"]);
            assert_eq!(controller.active_namespaces().await.unwrap(), [2]);
            let left = controller.namespace(2).await.unwrap();
            assert_eq!(left.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
        });
}
