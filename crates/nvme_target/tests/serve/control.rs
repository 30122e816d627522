//! Changes while hosts are connected, and what hosts are told.

use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, discover};
use nvme::event::AsyncEvent;
use nvme::fabrics::DISCOVERY_NQN;
use nvme::log::LogPage;
use nvme_target::{TargetEvent, TargetSettings};

use crate::device::Memory;
use crate::io::geometry;
use crate::{Fixture, HOST, SUBSYSTEM, namespace, nqn, options, simulate, subsystem};

/// Adding, growing and removing namespaces raises the event once until the log is read; the log
/// names them; the host then sees the new state.
#[test]
fn namespace_changes_are_told_and_listed() {
    simulate(10, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let name = nqn(SUBSYSTEM);
        let second = Rc::new(Memory::new(geometry(512, 128)));
        fixture
            .target
            .add_namespace(&name, namespace(7), second)
            .unwrap();
        fixture.device.grow(100);
        fixture.target.namespace_resized(&name, 1).unwrap();
        assert_eq!(
            controller.next_event().await,
            Some(AsyncEvent::NAMESPACE_CHANGED)
        );
        let changed = controller
            .log_page(LogPage::CHANGED_NAMESPACES, u32::MAX, 0, 4096)
            .await
            .unwrap();
        assert_eq!(changed[..12], [1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(controller.active_namespaces().await.unwrap(), [1, 7]);
        let grown = controller.namespace(1).await.unwrap();
        assert_eq!(grown.geometry().block_count, 100);

        let device = fixture.target.remove_namespace(&name, 7).await.unwrap();
        assert_eq!(Rc::strong_count(&device), 1);
        assert_eq!(
            controller.next_event().await,
            Some(AsyncEvent::NAMESPACE_CHANGED)
        );
        assert_eq!(controller.active_namespaces().await.unwrap(), [1]);
    });
}

/// A namespace is handed back only when commands in flight on it have ended.
#[test]
fn removing_a_namespace_waits_for_its_commands() {
    simulate(11, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        fixture.device.delay.set(Duration::from_secs(2));
        let read = reactor::spawn(async move { namespace.read(Lba(0), Buffer::new(4096)).await.1 });
        reactor::sleep(Duration::from_secs(1)).await;
        fixture
            .target
            .remove_namespace(&nqn(SUBSYSTEM), 1)
            .await
            .unwrap();
        assert_eq!(Rc::strong_count(&fixture.device), 1);
        assert_eq!(read.await, Ok(()));
    });
}

/// Who is not on the list is refused with the status for it, sees nothing in discovery, and is
/// disconnected when taken off the list.
#[test]
fn only_allowed_hosts_connect_and_see() {
    simulate(12, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let private = "nqn.2024-01.io.flashyard:private";
        let hosts = AllowedHosts::list([nqn("nqn.2024-01.io.example:other")]);
        fixture
            .target
            .add_subsystem(subsystem(private, hosts.clone()))
            .unwrap();
        let names = |records: Vec<initiator::DiscoveryRecord>| -> Vec<String> {
            records
                .into_iter()
                .map(|record| record.subsystem_nqn)
                .collect()
        };
        let seen = names(discover(fixture.address, &options()).await.unwrap());
        assert!(seen.contains(&SUBSYSTEM.to_owned()) && !seen.contains(&private.to_owned()));
        assert!(
            Controller::connect(fixture.address, private, options())
                .await
                .is_err()
        );
        let refused = fixture.target.take_events().into_iter().any(|event| {
            matches!(event, TargetEvent::HostRefused { host_nqn, .. }
                if host_nqn == Some(nqn(HOST)))
        });
        assert!(refused);

        fixture
            .target
            .set_allowed_hosts(&nqn(SUBSYSTEM), hosts)
            .unwrap();
        reactor::sleep(Duration::from_secs(3)).await;
        assert!(fixture.target.sessions().is_empty());
        assert!(controller.active_namespaces().await.is_err());
        assert!(discover(fixture.address, &options()).await.unwrap().len() < seen.len());
    });
}

/// A host that was denied is fenced once its last command has ended on the device, and no sooner;
/// others are not concerned.
#[test]
fn a_host_that_was_denied_is_fenced_when_its_last_write_has_ended() {
    simulate(15, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let other = "nqn.2024-01.io.example:other";
        let stays = fixture.connect(ConnectOptions::new(other)).await;
        let goes = fixture.connect(options()).await;
        let namespace = goes.namespace(1).await.unwrap();
        fixture.device.delay.set(Duration::from_secs(9));
        let block = Buffer::new(4096);
        drop(reactor::spawn(async move {
            namespace.write(Lba(0), block, Durability::Cached).await
        }));
        reactor::sleep(Duration::from_secs(1)).await;
        let (target, name) = (&fixture.target, nqn(SUBSYSTEM));
        let hosts = AllowedHosts::list([nqn(other)]);
        target.set_allowed_hosts(&name, hosts).unwrap();
        let asked = reactor::now();
        let fenced = |seconds| target.is_fenced(&name, 1, Duration::from_secs(seconds));
        assert!(!fenced(5).await.unwrap(), "its write is still under way");
        assert!(fenced(60).await.unwrap());
        let waited = reactor::now() - asked;
        assert!(waited >= Duration::from_secs(8), "fenced after {waited:?}");
        fixture.device.delay.set(Duration::ZERO);
        assert!(stays.namespace(1).await.is_ok());
    });
}

/// A persistent discovery controller hears of every change of what it reports.
#[test]
fn discovery_changes_are_told() {
    simulate(13, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let discovery = Controller::connect(fixture.address, DISCOVERY_NQN, options())
            .await
            .unwrap();
        let before = discovery.discovery_log().await.unwrap();
        let added = "nqn.2024-01.io.flashyard:added";
        fixture
            .target
            .add_subsystem(subsystem(added, AllowedHosts::Any))
            .unwrap();
        assert_eq!(
            discovery.next_event().await,
            Some(AsyncEvent::DISCOVERY_CHANGED)
        );
        let after = discovery.discovery_log().await.unwrap();
        assert_eq!(after.len(), before.len() + 1);
        fixture.target.remove_subsystem(&nqn(added)).await.unwrap();
        assert_eq!(
            discovery.next_event().await,
            Some(AsyncEvent::DISCOVERY_CHANGED)
        );
        assert_eq!(discovery.discovery_log().await.unwrap().len(), before.len());
    });
}

/// A host that vanishes is given up when its keep alive timeout has passed, and leaves nothing.
#[test]
fn a_host_that_vanishes_is_noticed() {
    simulate(14, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let mut options = options();
        options.keep_alive = Some(Duration::from_secs(5));
        let controller = fixture.connect(options).await;
        reactor::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            fixture.target.sessions().len(),
            1,
            "an idle host keeps its controller"
        );
        reactor::sim::set_partitioned(true);
        reactor::sleep(Duration::from_secs(10)).await;
        let counters = fixture.target.counters();
        assert_eq!((counters.controllers, counters.connections), (0, 0));
        assert_eq!(counters.keep_alive_expirations, 1);
        drop(controller);
    });
}
