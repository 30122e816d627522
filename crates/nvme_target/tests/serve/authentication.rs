//! Hosts that have to authenticate: before they have, they get nothing.

use std::time::Duration;

use access::chap::{ChapHash, DhGroup};
use access::{AllowedHosts, HostKeys, Secret};
use block::{BlockDevice, Buffer, Lba};
use initiator::{ConnectOptions, Controller, Credentials, Error, Refusal, discover};
use nvme::Status;
use nvme::authentication::{Authentication, Failure, Negotiate, requirement};
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::{Connect, Disconnect, Property, PropertyOffset};
use nvme::{AdminOpcode, SglDescriptor, SubmissionEntry};
use nvme_target::{CloseReason, RefusalReason, SubsystemSettings, TargetEvent, TargetSettings};
use zerocopy::IntoBytes;

use crate::io::geometry;
use crate::raw::{Raw, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, nqn, options, simulate, subsystem};

pub(crate) fn keys(group: DhGroup) -> HostKeys {
    HostKeys {
        host: Secret::generate(Some(ChapHash::Sha256)),
        controller: Some(Secret::generate(None)),
        hash: ChapHash::Sha256,
        group,
    }
}

fn with(host: &Secret, controller: Option<&Secret>) -> ConnectOptions {
    ConnectOptions {
        credentials: Some(
            Credentials::new(host.clone(), controller.cloned())
                .at_least(ChapHash::Sha256, DhGroup::Null),
        ),
        io_queues: 2,
        ..options()
    }
}

fn fixture(keys: Option<&HostKeys>) -> Fixture {
    let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
    fixture.target.set_host_keys(&nqn(HOST), keys.cloned());
    fixture
}

async fn refusal(fixture: &Fixture, options: ConnectOptions) -> Error {
    let connected = Controller::connect(fixture.address, SUBSYSTEM, options).await;
    connected.err().expect("the host is refused")
}

/// Admin queue, I/O queues and discovery: each authenticates by itself, both ways.
#[test]
fn a_host_that_proves_its_secret_is_served() {
    simulate(60, async {
        for group in [DhGroup::Null, DhGroup::Ffdhe2048] {
            let keys = keys(group);
            let fixture = fixture(Some(&keys));
            for controller in [None, keys.controller.as_ref()] {
                let connected = fixture.connect(with(&keys.host, controller)).await;
                let namespace = connected.namespace(1).await.unwrap();
                assert_eq!(namespace.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
                assert_eq!(fixture.target.sessions()[0].io_queues, 2);
                connected.disconnect().await;
                reactor::sleep(Duration::from_secs(3)).await;
            }
            let options = with(&keys.host, keys.controller.as_ref());
            assert!(
                !discover(fixture.address, &options)
                    .await
                    .unwrap()
                    .is_empty()
            );
            fixture.target.shutdown(Duration::ZERO).await;
        }
    });
}

#[test]
fn a_host_that_does_not_is_refused_and_told_why() {
    simulate(61, async {
        let keys = keys(DhGroup::Null);
        let fixture = fixture(Some(&keys));
        let other = Secret::generate(None);
        let failed = |refusal| Error::Authentication {
            queue_id: 0,
            refusal,
        };
        for (options, expected) in [
            (options(), Error::SecretRequired),
            (with(&other, None), failed(Refusal::OfHost(Failure::FAILED))),
            (
                with(&keys.host, Some(&other)),
                failed(Refusal::OfController(Failure::FAILED)),
            ),
        ] {
            let found = refusal(&fixture, options).await;
            assert_eq!(found.to_string(), expected.to_string());
        }
        assert!(matches!(
            discover(fixture.address, &options()).await,
            Err(Error::SecretRequired)
        ));
        reactor::sleep(Duration::from_secs(3)).await;
        assert_eq!(fixture.target.counters().connections, 0);
        // The first is told at once, the second is counted for a minute.
        reactor::sleep(Duration::from_secs(60)).await;
        let events = fixture.target.take_events();
        let times = |event: &TargetEvent| match event {
            TargetEvent::HostRefused { reason, times, .. }
                if *reason == RefusalReason::NotAuthenticated(Failure::FAILED) =>
            {
                Some(*times)
            }
            _ => None,
        };
        let refused: Vec<u64> = events.iter().filter_map(times).collect();
        assert_eq!(refused, [1, 1], "{events:?}");
        let told = |event: &TargetEvent| matches!(event, TargetEvent::HostConnected { .. });
        assert!(!events.iter().any(told), "{events:?}");

        // A host without a secret has nothing to prove, and cannot have the controller prove
        // anything.
        fixture.target.set_host_keys(&nqn(HOST), None);
        let distrustful = refusal(&fixture, with(&other, Some(&keys.host))).await;
        assert!(matches!(distrustful, Error::ControllerUnproved));
        fixture.connect(with(&other, None)).await;
    });
}

/// Whatever a host sends on a queue that waits for authentication, it is told that it waits.
#[test]
fn a_closed_queue_answers_nothing_but_authentication() {
    simulate(62, async {
        let fixture = fixture(Some(&keys(DhGroup::Null)));
        let raw = Raw::initialized(fixture.address).await;
        let connected = raw
            .connect(&Connect::new(0, 31, 5000), &connect_data(0xffff))
            .await;
        assert!(connected.status().is_success());
        let result = connected.result.get() as u32;
        assert_eq!(result & !0xffff, requirement::AUTHENTICATE);
        let plain =
            |opcode: AdminOpcode| SubmissionEntry::new(opcode.0, 0, SglDescriptor::transport(4096));
        let read = ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096));
        for entry in [
            *Property::get(PropertyOffset::CAPABILITIES, true).entry(),
            *Property::set(PropertyOffset::CONFIGURATION, 1).entry(),
            *Disconnect::new().entry(),
            plain(AdminOpcode::IDENTIFY),
            plain(AdminOpcode::GET_LOG_PAGE),
            plain(AdminOpcode::ASYNC_EVENT_REQUEST),
            plain(AdminOpcode::KEEP_ALIVE),
            *read.entry(),
        ] {
            let refused = raw.command(&entry, &[]).await.status();
            assert_eq!(refused.code(), Status::AUTHENTICATION_REQUIRED);
        }
        // Diffie-Hellman takes a slow host longer than its keep alive timeout.
        reactor::sleep(Duration::from_secs(30)).await;
        let mut unknown = Authentication::receive(4096);
        unknown.protocol = 0;
        let refused = raw.command(unknown.entry(), &[]).await.status();
        assert_eq!(refused.code(), Status::INVALID_FIELD);
        // Nothing to fetch yet, and no room for what comes next.
        let offer = Negotiate::new(1, &[1], &[0]);
        let refused = raw
            .command(Authentication::receive(4096).entry(), &[])
            .await;
        assert_eq!(refused.status().code(), Status::COMMAND_SEQUENCE_ERROR);
        let mut send = Authentication::send(size_of::<Negotiate>() as u32);
        send.data = SglDescriptor::in_capsule(size_of::<Negotiate>() as u32);
        let taken = raw.command(send.entry(), offer.as_bytes()).await;
        assert!(taken.status().is_success());
        let refused = raw.command(Authentication::receive(40).entry(), &[]).await;
        assert_eq!(refused.status().code(), Status::COMMAND_SEQUENCE_ERROR);
        // And nobody waits for ever.
        assert!(raw.closes_within(Duration::from_secs(90)).await);
        assert_eq!(fixture.target.counters().controllers, 0);
    });
}

/// A new secret ends sessions that did not prove it; the same one again does not.
#[test]
fn changing_a_secret_disconnects_its_host_alone() {
    simulate(63, async {
        let keys = keys(DhGroup::Null);
        let fixture = fixture(Some(&keys));
        let other = "nqn.2024-01.io.example:other";
        let controller = fixture.connect(with(&keys.host, None)).await;
        let stays = fixture.connect(ConnectOptions::new(other)).await;
        fixture.target.set_host_keys(&nqn(HOST), Some(keys.clone()));
        reactor::sleep(Duration::from_secs(3)).await;
        assert!(controller.active_namespaces().await.is_ok());
        let new = self::keys(DhGroup::Null);
        fixture.target.set_host_keys(&nqn(HOST), Some(new.clone()));
        reactor::sleep(Duration::from_secs(3)).await;
        assert!(controller.active_namespaces().await.is_err());
        assert!(stays.active_namespaces().await.is_ok());
        let gone = fixture.target.take_events().into_iter().any(|event| {
            matches!(event, TargetEvent::HostDisconnected { reason, .. }
                if reason == CloseReason::Controller)
        });
        assert!(gone);
        assert!(matches!(
            refusal(&fixture, with(&keys.host, None)).await,
            Error::Authentication { .. }
        ));
        fixture.connect(with(&new.host, None)).await;
    });
}

/// Keys of a tenant's host count on the tenant's subsystems, for discovery, and where a list names
/// the host; not on another subsystem that is open to any.
#[test]
fn keys_of_a_tenants_host_count_on_what_is_the_tenants() {
    simulate(66, async {
        let keys = keys(DhGroup::Null);
        let fixture = fixture(None);
        let [own, listed] =
            ["own", "listed"].map(|name| format!("nqn.2024-01.io.flashyard:{name}"));
        let only = AllowedHosts::list([nqn(HOST)]);
        for (name, allowed, tenant) in [
            (&own, AllowedHosts::Any, Some("acme")),
            (&listed, only, Some("rival")),
        ] {
            let settings = SubsystemSettings {
                tenant: tenant.map(Into::into),
                ..subsystem(name, allowed)
            };
            fixture.target.add_subsystem(settings).unwrap();
        }
        let target = &fixture.target;
        target.set_host_tenant(&nqn(HOST), Some("acme".into()));
        let connect =
            async |to: &str, options| Controller::connect(fixture.address, to, options).await;
        let elsewhere = connect(SUBSYSTEM, options()).await.unwrap();
        let before = connect(&own, options()).await.unwrap();
        target.set_host_keys(&nqn(HOST), Some(keys.clone()));
        reactor::sleep(Duration::from_secs(3)).await;
        assert!(elsewhere.active_namespaces().await.is_ok());
        assert!(before.active_namespaces().await.is_err());
        for asking in [&own, &listed] {
            let unproven = connect(asking, options()).await;
            assert!(matches!(unproven, Err(Error::SecretRequired)));
            connect(asking, with(&keys.host, None)).await.unwrap();
        }
        let unproven = discover(fixture.address, &options()).await;
        assert!(matches!(unproven, Err(Error::SecretRequired)));
        connect(SUBSYSTEM, options()).await.unwrap();
    });
}

/// A host identifier is its host's who has proved who it is, not its who says it first; and then it
/// is nobody else's.
#[test]
fn an_identifier_is_taken_by_a_proof() {
    simulate(67, async {
        let keys = keys(DhGroup::Null);
        let fixture = fixture(Some(&keys));
        let mut other = ConnectOptions::new("nqn.2024-01.io.example:other");
        other.host_id = [1; 16];
        let own = ConnectOptions {
            host_id: [1; 16],
            ..with(&keys.host, None)
        };
        let stranger = Raw::initialized(fixture.address).await;
        let admitted = stranger
            .connect(&Connect::new(0, 31, 5000), &connect_data(0xffff))
            .await;
        assert!(admitted.status().is_success());
        fixture.connect(other.clone()).await.disconnect().await;
        reactor::sleep(Duration::from_secs(3)).await;
        let proven = fixture.connect(own.clone()).await;
        let refused = refusal(&fixture, other.clone()).await;
        assert!(
            matches!(refused, Error::Refused { queue_id: 0, .. }),
            "{refused:?}"
        );
        assert!(proven.active_namespaces().await.is_ok());
        proven.disconnect().await;
        reactor::sleep(Duration::from_secs(3)).await;
        let taken = fixture.connect(other.clone()).await;
        let proven = fixture.connect(own).await;
        assert!(taken.active_namespaces().await.is_ok());
        assert!(proven.active_namespaces().await.is_ok());
        refusal(&fixture, other).await;
        let told = |event: &TargetEvent| {
            matches!(event, TargetEvent::HostRefused { reason, .. }
            if *reason == RefusalReason::IdentifierTaken)
        };
        let events = fixture.target.take_events();
        assert_eq!(
            events.iter().filter(|event| told(event)).count(),
            1,
            "{events:?}"
        );
    });
}

/// Who connects and does not go on to prove its secret loses its place, with an event.
#[test]
fn a_proof_that_does_not_come_is_told() {
    simulate(68, async {
        let fixture = fixture(Some(&keys(DhGroup::Null)));
        let raw = Raw::initialized(fixture.address).await;
        let connected = raw
            .connect(&Connect::new(0, 31, 0), &connect_data(0xffff))
            .await;
        assert!(connected.status().is_success());
        assert!(raw.closes_within(Duration::from_secs(120)).await);
        let told = |event: &TargetEvent| {
            matches!(event, TargetEvent::HostRefused { reason, host_nqn, .. }
            if *reason == RefusalReason::ProofLate && *host_nqn == Some(nqn(HOST)))
        };
        let events = fixture.target.take_events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events.iter().all(told), "{events:?}");
    });
}

/// The secret opens nothing that the list of allowed hosts does not.
#[test]
fn a_secret_is_no_permission() {
    simulate(64, async {
        let keys = keys(DhGroup::Null);
        let fixture = fixture(Some(&keys));
        let nobody = AllowedHosts::list([]);
        fixture
            .target
            .set_allowed_hosts(&nqn(SUBSYSTEM), nobody)
            .unwrap();
        let refused = refusal(&fixture, with(&keys.host, None)).await;
        assert!(matches!(
            refused,
            Error::Refused { status, .. } if status.code() == Status::CONNECT_INVALID_HOST
        ));
        let options = with(&keys.host, None);
        let seen = discover(fixture.address, &options).await.unwrap();
        assert!(seen.iter().all(|record| record.subsystem_nqn != SUBSYSTEM));
    });
}
