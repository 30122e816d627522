//! Connections under TLS: who is served, who is refused, and that the device is the same.

use std::net::SocketAddr;
use std::time::Duration;

use access::{AllowedHosts, PskHash, TlsKey};
use block::conformance::{self, Plan};
use initiator::{ConnectOptions, Controller, Error, discover};
use nvme::Status;
use nvme::fabrics::Connect;
use nvme_target::{PortSettings, RefusalReason, TargetEvent, TargetSettings};
use reactor::sim::NetworkModel;

use crate::io::geometry;
use crate::raw::{Raw, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, nqn, options, simulate, subsystem};

const OTHER_SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:other";

/// A target with a port in the clear and one under TLS, and a host that has a key.
struct Scene {
    fixture: Fixture,
    secure: SocketAddr,
    key: TlsKey,
}

impl Scene {
    fn new(hash: PskHash) -> Scene {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 512));
        let port = PortSettings {
            id: 2,
            listen: "127.0.0.1:4421".parse().unwrap(),
            advertise: None,
            reuse_port: false,
            tls: true,
            transport: nvme_target::Transport::Tcp,
        };
        let secure = fixture.target.add_port(port).unwrap();
        let other = subsystem(OTHER_SUBSYSTEM, AllowedHosts::Any);
        fixture.target.add_subsystem(other).unwrap();
        let key = TlsKey::generate(hash);
        fixture.target.set_tls_key(&nqn(HOST), Some(key.clone()));
        Scene {
            fixture,
            secure,
            key,
        }
    }

    async fn connect(&self, options: ConnectOptions) -> Result<Controller, Error> {
        Controller::connect(self.secure, SUBSYSTEM, options).await
    }

    fn refusals(&self) -> Vec<RefusalReason> {
        let events = self.fixture.target.take_events().into_iter();
        let reason = |event| match event {
            TargetEvent::HostRefused { reason, .. } => Some(reason),
            _ => None,
        };
        events.filter_map(reason).collect()
    }
}

fn with(key: &TlsKey) -> ConnectOptions {
    ConnectOptions {
        tls_key: Some(key.clone()),
        io_queues: 2,
        ..options()
    }
}

/// The contract of a device holds under TLS too, over a network that cuts records anywhere.
#[test]
fn a_namespace_under_tls_is_a_conforming_device() {
    for (seed, hash, digests) in [
        (90, PskHash::Sha256, false),
        (91, PskHash::Sha384, true),
        (92, PskHash::Sha256, true),
    ] {
        simulate(seed, async {
            reactor::sim::set_network(NetworkModel {
                latency: Duration::from_micros(1)..Duration::from_micros(100),
                fragment_bytes_max: 9000,
                ..NetworkModel::default()
            });
            let scene = Scene::new(hash);
            let mut options = with(&scene.key);
            options.header_digest = digests;
            options.data_digest = digests;
            let controller = scene.connect(options).await.unwrap();
            let namespace = controller.namespace(1).await.unwrap();
            conformance::check(&namespace, Plan::quick(seed))
                .await
                .unwrap();
            controller.disconnect().await;
            assert!(scene.fixture.target.shutdown(Duration::from_secs(1)).await);
        });
    }
}

#[test]
fn discovery_says_which_port_wants_tls_and_may_itself_be_under_it() {
    simulate(93, async {
        let scene = Scene::new(PskHash::Sha256);
        let (plain, under_tls) = (options(), with(&scene.key));
        for (address, options) in [(scene.fixture.address, plain), (scene.secure, under_tls)] {
            let records = discover(address, &options).await.unwrap();
            assert_eq!(records.len(), 6);
            for record in records {
                assert_eq!(record.secure, record.port_id == 2, "{record:?}");
            }
        }
    });
}

#[test]
fn a_port_under_tls_serves_nobody_without_the_right_key() {
    simulate(94, async {
        let scene = Scene::new(PskHash::Sha256);
        // In the clear; with another key; with the key of another hash; as another host.
        let stranger = ConnectOptions {
            host_nqn: "nqn.2024-01.io.example:stranger".to_owned(),
            ..with(&scene.key)
        };
        for options in [
            options(),
            with(&TlsKey::generate(PskHash::Sha256)),
            with(&TlsKey::generate(PskHash::Sha384)),
            stranger,
        ] {
            assert!(scene.connect(options).await.is_err());
        }
        reactor::sleep(Duration::from_secs(20)).await;
        assert_eq!(scene.fixture.target.counters().connections, 0);
        let told = scene.refusals();
        assert!(told.contains(&RefusalReason::NoSecureChannel), "{told:?}");
        scene.connect(with(&scene.key)).await.unwrap();
    });
}

/// A key by which two names are the same and the secret is not.
#[test]
fn a_wrong_secret_under_a_good_name_is_told() {
    simulate(95, async {
        let scene = Scene::new(PskHash::Sha256);
        let [host, subsystem] = [nqn(HOST), nqn(SUBSYSTEM)];
        // Version 0 names no digest.
        let psk = TlsKey::generate(PskHash::Sha256)
            .psks(&host, &subsystem)
            .remove(1);
        assert!(Raw::secured(scene.secure, &psk).await.is_err());
        reactor::sleep(Duration::from_secs(1)).await;
        assert_eq!(scene.refusals(), [RefusalReason::TlsFailed]);
    });
}

#[test]
fn a_host_with_a_key_is_not_served_in_the_clear() {
    simulate(96, async {
        let scene = Scene::new(PskHash::Sha256);
        let address = scene.fixture.address;
        let refused = Controller::connect(address, SUBSYSTEM, options()).await;
        assert!(matches!(
            refused.err(),
            Some(Error::Refused { status, .. }) if status.code() == Status::CONNECT_INVALID_HOST
        ));
        assert_eq!(scene.refusals(), [RefusalReason::TlsRequired]);
        let other = ConnectOptions::new("nqn.2024-01.io.example:other");
        assert!(Controller::connect(address, SUBSYSTEM, other).await.is_ok());
    });
}

/// What a key was used for is what Connect has to ask for.
#[test]
fn a_secured_connection_is_good_for_its_host_and_subsystem_alone() {
    simulate(97, async {
        let scene = Scene::new(PskHash::Sha256);
        let psk = scene.key.psks(&nqn(HOST), &nqn(OTHER_SUBSYSTEM)).remove(0);
        let raw = Raw::secured(scene.secure, &psk).await.unwrap();
        let raw = raw.initialize().await;
        let connect = Connect::new(0, 31, 5000);
        let refused = raw.connect(&connect, &connect_data(0xffff)).await;
        let status = refused.status().code();
        assert_eq!(status, Status::CONNECT_INVALID_PARAMETERS);
    });
}

#[test]
fn a_slow_handshake_ends_and_a_changed_key_disconnects() {
    simulate(98, async {
        let scene = Scene::new(PskHash::Sha256);
        for begin in [&[][..], &[0x16, 3, 1, 1]] {
            let raw = Raw::open(scene.secure).await;
            raw.send(begin).await;
            reactor::sleep(Duration::from_secs(5)).await;
            assert_eq!(scene.fixture.target.counters().connections, 1);
            assert!(raw.closes_within(Duration::from_secs(20)).await);
        }
        let controller = scene.connect(with(&scene.key)).await.unwrap();
        let new = TlsKey::generate(PskHash::Sha384);
        scene
            .fixture
            .target
            .set_tls_key(&nqn(HOST), Some(new.clone()));
        reactor::sleep(Duration::from_secs(3)).await;
        assert!(controller.active_namespaces().await.is_err());
        assert!(scene.connect(with(&scene.key)).await.is_err());
        scene.connect(with(&new)).await.unwrap();
        // A target that stops does not wait for hosts that began and say no more.
        let _idle = Raw::open(scene.secure).await;
        reactor::sleep(Duration::from_millis(100)).await;
        assert!(scene.fixture.target.shutdown(Duration::from_secs(1)).await);
    });
}
