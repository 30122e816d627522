//! The discovery subsystem by both its names: the well-known one, and that of its node alone.

use std::time::Duration;

use access::chap::DhGroup;
use access::{AllowedHosts, PskHash, TlsKey};
use initiator::{ConnectOptions, Controller, Credentials, Error};
use nvme::event::AsyncEvent;
use nvme::fabrics::{
    CONTROLLER_ID_DYNAMIC, Configuration, Connect, ConnectData, DISCOVERY_NQN, InvalidParameter,
    connect_offset,
};
use nvme::identify::controller_type;
use nvme::log::{DiscoveryEntry, DiscoveryHeader, LogPage, SubsystemType, entry_flags};
use nvme::text::from_terminated;
use nvme_target::{NodeIdentity, PortSettings, TargetError, TargetSettings, Transport};
use zerocopy::FromBytes;

use crate::authentication::keys;
use crate::io::geometry;
use crate::raw::Raw;
use crate::{Fixture, HOST, SUBSYSTEM, nqn, options, simulate, subsystem};

const OWN: &str = "nqn.2024-01.io.flashyard.discovery:one";
const OF_ANOTHER_NODE: &str = "nqn.2024-01.io.flashyard.discovery:two";
const BOTH: [&str; 2] = [DISCOVERY_NQN, OWN];

fn start() -> Fixture {
    let node = NodeIdentity {
        discovery_nqn: Some(nqn(OWN)),
        ..NodeIdentity::default()
    };
    Fixture::of_node(&node, TargetSettings::default(), geometry(4096, 64))
}

/// Adds a second port.
fn add_port(fixture: &Fixture, tls: bool) -> std::net::SocketAddr {
    let port = PortSettings {
        id: 2,
        listen: "127.0.0.1:4421".parse().unwrap(),
        advertise: None,
        reuse_port: false,
        tls,
        transport: Transport::Tcp,
    };
    fixture.target.add_port(port).unwrap()
}

async fn connect(fixture: &Fixture, name: &str) -> Controller {
    let connected = Controller::connect(fixture.address, name, options()).await;
    connected.unwrap()
}

/// SUBNQN of Identify Controller.
fn told(controller: &Controller) -> String {
    let data = controller.identify().unwrap();
    from_terminated(&data.subsystem_nqn).unwrap().to_owned()
}

async fn entries(controller: &Controller) -> Vec<DiscoveryEntry> {
    let log = controller.log_page(LogPage::DISCOVERY, 0, 0, 6144).await;
    let log = log.unwrap();
    let (header, rest) = DiscoveryHeader::read_from_prefix(&log).unwrap();
    let entries = rest.chunks_exact(size_of::<DiscoveryEntry>());
    let entries = entries.take(header.records.get() as usize);
    let entries = entries.map(|entry| DiscoveryEntry::read_from_bytes(entry).unwrap());
    entries.collect()
}

/// Hosts learn the name of the node alone from either, and connect anew by that.
#[test]
fn discovery_has_a_name_that_no_other_node_has() {
    simulate(300, async {
        let fixture = start();
        add_port(&fixture, false);
        for name in BOTH {
            let controller = connect(&fixture, name).await;
            let identified = controller.identify().unwrap();
            assert_eq!(identified.controller_type, controller_type::DISCOVERY);
            assert_eq!(told(&controller), OWN, "asked for {name}");
            let entries = entries(&controller).await;
            let of_itself =
                |entry: &&DiscoveryEntry| entry.subsystem_type == SubsystemType::CURRENT_DISCOVERY;
            let itself: Vec<_> = entries.iter().filter(of_itself).collect();
            let ports: Vec<u16> = itself.iter().map(|entry| entry.port_id.get()).collect();
            assert_eq!(ports, [1, 2]);
            for entry in itself {
                let flags = entry_flags::DUPLICATE | entry_flags::PERSISTENT;
                assert_eq!(entry.flags.get(), flags);
                assert_eq!(from_terminated(&entry.subsystem_nqn), Some(OWN));
            }
            assert_eq!(entries.len(), 4, "{SUBSYSTEM} through both ports");
        }
    });
}

/// A node without a name of its own for it has the well-known one.
#[test]
fn discovery_without_a_name_of_its_own_has_the_well_known_one() {
    simulate(301, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = connect(&fixture, DISCOVERY_NQN).await;
        assert_eq!(told(&controller), DISCOVERY_NQN);
        let entries = entries(&controller).await;
        let first = from_terminated(&entries[0].subsystem_nqn);
        assert_eq!(first, Some(DISCOVERY_NQN));
    });
}

/// Changes are told to hosts that came by either name, and silent ones are given up alike.
#[test]
fn discovery_is_the_same_by_both_names() {
    simulate(302, async {
        let fixture = start();
        let kept = [
            connect(&fixture, DISCOVERY_NQN).await,
            connect(&fixture, OWN).await,
        ];
        let added = "nqn.2024-01.io.flashyard:added";
        let settings = subsystem(added, AllowedHosts::Any);
        fixture.target.add_subsystem(settings).unwrap();
        for controller in &kept {
            let event = controller.next_event().await;
            assert_eq!(event, Some(AsyncEvent::DISCOVERY_CHANGED));
        }
        for name in BOTH {
            // A host without a name may discover, and is not kept in silence.
            let raw = Raw::initialized(fixture.address).await;
            let data = ConnectData::new([1; 16], CONTROLLER_ID_DYNAMIC, name, "");
            let answer = raw.connect(&Connect::new(0, 31, 0), &data).await;
            assert!(answer.status().is_success(), "{name}");
            raw.configure(Configuration::ENABLE).await;
            assert!(!raw.closes_within(Duration::from_secs(60)).await, "{name}");
            assert!(raw.closes_within(Duration::from_secs(120)).await, "{name}");
        }
    });
}

#[test]
fn the_name_of_another_node_is_nothing_here_and_its_own_is_taken() {
    simulate(303, async {
        let fixture = start();
        let raw = Raw::initialized(fixture.address).await;
        let data = ConnectData::new([1; 16], CONTROLLER_ID_DYNAMIC, OF_ANOTHER_NODE, HOST);
        let answer = raw.connect(&Connect::new(0, 31, 0), &data).await;
        let parameter = InvalidParameter {
            offset: connect_offset::SUBSYSTEM_NQN,
            in_data: true,
        };
        assert!(!answer.status().is_success());
        assert_eq!(answer.result.get(), u64::from(parameter.result()));
        for name in BOTH {
            let settings = subsystem(name, AllowedHosts::Any);
            let added = fixture.target.add_subsystem(settings);
            let taken =
                matches!(added, Err(TargetError::SubsystemExists(taken)) if taken == nqn(name));
            assert!(taken, "{name}");
        }
    });
}

/// A tenant's host has to prove its secret for discovery, whatever it calls that.
#[test]
fn hosts_with_a_secret_prove_it_by_either_name() {
    simulate(304, async {
        let fixture = start();
        let keys = keys(DhGroup::Null);
        let tenant = Some("acme".into());
        fixture.target.set_host_tenant(&nqn(HOST), tenant);
        fixture.target.set_host_keys(&nqn(HOST), Some(keys.clone()));
        for name in BOTH {
            let without = Controller::connect(fixture.address, name, options()).await;
            assert!(matches!(without, Err(Error::SecretRequired)), "{name}");
            let credentials = Credentials::new(keys.host.clone(), keys.controller.clone());
            let with = ConnectOptions {
                credentials: Some(credentials.at_least(keys.hash, keys.group)),
                ..options()
            };
            let controller = Controller::connect(fixture.address, name, with).await;
            assert_eq!(told(&controller.unwrap()), OWN);
        }
    });
}

/// A host's key in the kernel is for the one name that it was put there for. So a host that came
/// under TLS is told the name that it has a key for.
#[test]
fn a_host_under_tls_is_told_the_name_that_it_came_by() {
    simulate(305, async {
        let fixture = start();
        let secure = add_port(&fixture, true);
        let key = TlsKey::generate(PskHash::Sha256);
        fixture.target.set_tls_key(&nqn(HOST), Some(key.clone()));
        let under_tls = ConnectOptions {
            tls_key: Some(key),
            ..options()
        };
        for name in BOTH {
            let controller = Controller::connect(secure, name, under_tls.clone()).await;
            assert_eq!(told(&controller.unwrap()), name);
            // In the clear it may discover all the same.
            assert_eq!(told(&connect(&fixture, name).await), OWN);
        }
    });
}
