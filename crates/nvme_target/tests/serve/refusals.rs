//! Each reason for which a host is refused, or its connection cut, is told once with who it was.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use access::AllowedHosts;
use access::chap::DhGroup;
use block::{BlockDevice, Buffer, Lba};
use initiator::ConnectOptions;
use nvme::authentication::{Authentication, Failure, Negotiate};
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::{Connect, ConnectData, Property, PropertyOffset};
use nvme::pdu::InitializeRequest;
use nvme::{FatalErrorStatus, SglDescriptor, Status};
use nvme_target::{Fault, Links, Loss, RefusalReason, Target, TargetEvent, TargetSettings};
use zerocopy::IntoBytes;

use crate::authentication::keys;
use crate::device::Memory;
use crate::io::geometry;
use crate::raw::{Raw, capsule, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, nqn, on, options, simulate, subsystem};

/// Every reason, each with one of its kind, and where it is seen that it is told: here, or in a
/// file that has these words. A new reason does not compile before it has a place.
macro_rules! reasons {
    ($($pattern:pat => $one:expr, $place:expr;)*) => {
        fn place(reason: RefusalReason) -> Place {
            match reason { $($pattern => $place,)* }
        }
        const REASONS: &[RefusalReason] = &[$($one,)*];
    };
}

/// Where it is seen that a reason is told.
#[derive(Debug, PartialEq)]
enum Place {
    Here,
    /// The text of a file, and words in it.
    In(&'static str, &'static str),
}
use Place::{Here, In};

const AUTHENTICATION: &str = include_str!("authentication.rs");
const SECURE: &str = include_str!("secure.rs");
/// Of the program: over sockets of the kernel, which can be reset.
const HOST_CONNECTIONS: &str = include_str!("../../../flashyard/tests/host_connections.rs");

reasons! {
    RefusalReason::NotAllowed => RefusalReason::NotAllowed, Here;
    RefusalReason::NotAuthenticated(_) => RefusalReason::NotAuthenticated(Failure::FAILED),
        In(AUTHENTICATION, "== RefusalReason::NotAuthenticated(Failure::FAILED)");
    RefusalReason::TlsRequired => RefusalReason::TlsRequired,
        In(SECURE, "refusals(), [RefusalReason::TlsRequired]");
    RefusalReason::TlsFailed => RefusalReason::TlsFailed,
        In(SECURE, "refusals(), [RefusalReason::TlsFailed]");
    RefusalReason::NoSecureChannel => RefusalReason::NoSecureChannel,
        In(SECURE, "contains(&RefusalReason::NoSecureChannel)");
    RefusalReason::Malformed(Fault::Missing) => RefusalReason::Malformed(Fault::Missing), Here;
    RefusalReason::Malformed(Fault::Repeated) => RefusalReason::Malformed(Fault::Repeated), Here;
    RefusalReason::Malformed(Fault::Data) => RefusalReason::Malformed(Fault::Data), Here;
    RefusalReason::Malformed(Fault::Format) => RefusalReason::Malformed(Fault::Format), Here;
    RefusalReason::Malformed(Fault::QueueSize) => RefusalReason::Malformed(Fault::QueueSize), Here;
    RefusalReason::Malformed(Fault::QueueId) => RefusalReason::Malformed(Fault::QueueId), Here;
    RefusalReason::Malformed(Fault::ControllerId) =>
        RefusalReason::Malformed(Fault::ControllerId), Here;
    RefusalReason::Malformed(Fault::SubsystemName) =>
        RefusalReason::Malformed(Fault::SubsystemName), Here;
    RefusalReason::Malformed(Fault::HostName) => RefusalReason::Malformed(Fault::HostName), Here;
    RefusalReason::NoName => RefusalReason::NoName,
        In(include_str!("names.rs"), "told, [(RefusalReason::NoName, who)]");
    RefusalReason::NoSubsystem => RefusalReason::NoSubsystem, Here;
    RefusalReason::NoController => RefusalReason::NoController, Here;
    RefusalReason::IdentifierTaken => RefusalReason::IdentifierTaken,
        In(AUTHENTICATION, "== RefusalReason::IdentifierTaken");
    RefusalReason::Stopping => RefusalReason::Stopping, Here;
    RefusalReason::TooManyControllers => RefusalReason::TooManyControllers, Here;
    RefusalReason::TooManyConnections => RefusalReason::TooManyConnections, Here;
    RefusalReason::TooManyProofs => RefusalReason::TooManyProofs, Here;
    RefusalReason::Late => RefusalReason::Late, Here;
    RefusalReason::ProofLate => RefusalReason::ProofLate,
        In(AUTHENTICATION, "== RefusalReason::ProofLate");
    RefusalReason::Protocol(_) => RefusalReason::Protocol(FatalErrorStatus::SEQUENCE_ERROR), Here;
    RefusalReason::TooManyCommands => RefusalReason::TooManyCommands, Here;
    RefusalReason::Lost(Loss::Broken) => RefusalReason::Lost(Loss::Broken),
        In(HOST_CONNECTIONS, "\"the connection broke\"");
    RefusalReason::Lost(Loss::MidCommand) => RefusalReason::Lost(Loss::MidCommand),
        In(HOST_CONNECTIONS, "\"it closed the connection in mid-command\"");
}

thread_local! {
    /// What tests of this thread were told.
    static TOLD: RefCell<Vec<RefusalReason>> = const { RefCell::new(Vec::new()) };
}

/// Each reason that has its place here is told in a test here, and the others where they are said
/// to be.
#[test]
fn every_reason_is_told() {
    a_connect_that_is_refused_is_told_with_its_host();
    whatever_is_wrong_with_a_connect_is_told();
    a_proof_that_finds_no_place_is_told();
    a_connection_that_is_cut_is_told();
    a_target_that_is_full_or_slow_tells_so();
    let all_told = TOLD.take();
    for reason in REASONS {
        match place(*reason) {
            Here => assert!(all_told.contains(reason), "no test is told {reason:?}"),
            In(file, words) => assert!(file.contains(words), "{reason:?} is not where it is said"),
        }
    }
}

/// The refusals that were told, with the hosts.
fn told(target: &Target<Memory>) -> Vec<(RefusalReason, Option<String>)> {
    let refused = |event| match event {
        TargetEvent::HostRefused {
            reason, host_nqn, ..
        } => {
            assert_eq!(place(reason), Here, "{reason:?}");
            TOLD.with_borrow_mut(|told| told.push(reason));
            Some((reason, host_nqn.map(|nqn| nqn.to_string())))
        }
        _ => None,
    };
    target
        .take_events()
        .into_iter()
        .filter_map(refused)
        .collect()
}

/// That this was told, of [`HOST`], and nothing else.
fn of_the_host(target: &Target<Memory>, reason: RefusalReason) {
    assert_eq!(told(target), [(reason, Some(HOST.to_owned()))]);
}

#[test]
fn a_connect_that_is_refused_is_told_with_its_host() {
    simulate(80, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let target = &fixture.target;
        let closed = "nqn.2024-01.io.flashyard:closed";
        let nobody = AllowedHosts::list([nqn("nqn.2024-01.io.example:other")]);
        target.add_subsystem(subsystem(closed, nobody)).unwrap();
        let data = |subsystem: &str| ConnectData::new([1; 16], 0xffff, subsystem, HOST);
        let admin = Connect::new(0, 31, 0);
        for (connect, data, reason) in [
            (admin, data(closed), RefusalReason::NotAllowed),
            (
                admin,
                data("nqn.2024-01.io.flashyard:none"),
                RefusalReason::NoSubsystem,
            ),
            (
                Connect::new(2, 31, 0),
                connect_data(999),
                RefusalReason::NoController,
            ),
        ] {
            let raw = Raw::initialized(fixture.address).await;
            let refused = raw.connect(&connect, &data).await;
            assert!(!refused.status().is_success());
            of_the_host(target, reason);
        }
        let controller = fixture.connect(options()).await;
        let early = Raw::initialized(fixture.address).await;
        target.take_events();
        fixture.device.delay.set(Duration::from_secs(2));
        let queue = controller.queue(0).unwrap();
        let read = ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096));
        let data = initiator::Data::In(Buffer::new(4096));
        let read = reactor::spawn(async move { queue.submit(*read.entry(), data).await.1 });
        reactor::sleep(Duration::from_millis(100)).await;
        let stopping = target.clone();
        let stopping =
            reactor::spawn(async move { stopping.shutdown(Duration::from_secs(5)).await });
        reactor::sleep(Duration::from_millis(100)).await;
        let refused = early.connect(&admin, &connect_data(0xffff)).await;
        assert!(!refused.status().is_success());
        of_the_host(target, RefusalReason::Stopping);
        assert!(read.await.unwrap().status().is_success());
        assert!(stopping.await);
    });
}

/// Whatever is wrong with a Connect, an event says that, and of whom as far as that is known. So it
/// is where nothing of the Connect is looked at, for it came in a form that no command has.
#[test]
fn whatever_is_wrong_with_a_connect_is_told() {
    simulate(88, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let target = &fixture.target;
        let admin = Connect::new(0, 31, 0);
        let good = connect_data(0xffff);
        let with = |change: &dyn Fn(&mut Connect)| {
            let mut connect = admin;
            change(&mut connect);
            connect
        };
        let unnamed = ConnectData::new([1; 16], 0xffff, "volume", HOST);
        let stranger = ConnectData::new([1; 16], 0xffff, SUBSYSTEM, "me");
        let named = Some(HOST.to_owned());
        let (mut known, mut refusals) = (BTreeSet::new(), 0);
        for (connect, data, fault, who) in [
            (
                with(&|c| c.record_format = 1.into()),
                good,
                Fault::Format,
                &named,
            ),
            (Connect::new(0, 0, 0), good, Fault::QueueSize, &named),
            (
                Connect::new(500, 31, 0),
                connect_data(1),
                Fault::QueueId,
                &named,
            ),
            (admin, connect_data(5), Fault::ControllerId, &named),
            (admin, unnamed, Fault::SubsystemName, &named),
            (admin, stranger, Fault::HostName, &None),
            (
                with(&|c| c.data = SglDescriptor::transport(1024)),
                good,
                Fault::Data,
                &None,
            ),
            (with(&|c| c.data.kind = 0x40), good, Fault::Data, &None),
            (
                with(&|c| c.data.address = 8.into()),
                good,
                Fault::Data,
                &None,
            ),
            (with(&|c| c.flags = 0), good, Fault::Data, &None),
            (with(&|c| c.flags |= 2), good, Fault::Data, &None),
        ] {
            let raw = Raw::initialized(fixture.address).await;
            let refused = raw.connect(&connect, &data).await;
            assert!(!refused.status().is_success(), "{fault:?}");
            // An answer may leave before the event is there.
            reactor::sleep(Duration::from_millis(1)).await;
            let reason = RefusalReason::Malformed(fault);
            // The same of the same address is told once, and counted from then on.
            let expected = match known.insert(format!("{fault:?} {who:?}")) {
                true => vec![(reason, who.clone())],
                false => Vec::new(),
            };
            assert_eq!(told(target), expected, "{connect:?}");
            refusals += 1;
            assert_eq!(target.counters().hosts_refused, refusals, "{connect:?}");
        }
        let raw = Raw::initialized(fixture.address).await;
        let early = Property::get(PropertyOffset::STATUS, false);
        assert!(!raw.command(early.entry(), &[]).await.status().is_success());
        let missing = RefusalReason::Malformed(Fault::Missing);
        assert_eq!(told(target), [(missing, None)]);
        // Who is connected stays so, however often it connects.
        assert!(raw.connect(&admin, &good).await.status().is_success());
        for _ in 0..5 {
            let again = raw.connect(&admin, &good).await;
            assert_eq!(again.status().code(), Status::COMMAND_SEQUENCE_ERROR);
        }
        of_the_host(target, RefusalReason::Malformed(Fault::Repeated));
        assert!(raw.command(early.entry(), &[]).await.status().is_success());
    });
}

/// While a host is at work, the arithmetic for strangers waits; who finds no place to wait is told.
#[test]
fn a_proof_that_finds_no_place_is_told() {
    simulate(87, async {
        let settings = TargetSettings {
            connections_max: 16 << 10,
            ..TargetSettings::default()
        };
        let fixture = Fixture::start(settings, geometry(4096, 64));
        let target = &fixture.target;
        let other = ConnectOptions::new("nqn.2024-01.io.example:other");
        let controller = fixture.connect(other).await;
        let namespace = controller.namespace(1).await.unwrap();
        target.set_host_keys(&nqn(HOST), Some(keys(DhGroup::Null)));
        let mut strangers = Vec::new();
        for _ in 0..300 {
            let raw = Raw::initialized(fixture.address).await;
            let admin = Connect::new(0, 31, 0);
            let admitted = raw.connect(&admin, &connect_data(0xffff)).await;
            assert!(admitted.status().is_success());
            strangers.push(raw);
        }
        fixture.device.delay.set(Duration::from_micros(100));
        let working = reactor::spawn(async move {
            loop {
                namespace.read(Lba(0), Buffer::new(4096)).await.1.unwrap();
            }
        });
        reactor::sleep(Duration::from_millis(50)).await;
        target.take_events();
        let offer = Negotiate::new(1, &[1], &[0]);
        let bytes = offer.as_bytes().len() as u32;
        let mut send = Authentication::send(bytes);
        send.data = SglDescriptor::in_capsule(bytes);
        for raw in &strangers {
            raw.send(&capsule(send.entry(), offer.as_bytes())).await;
        }
        reactor::sleep(Duration::from_secs(2)).await;
        of_the_host(target, RefusalReason::TooManyProofs);
        drop(working.cancel_on_drop());
    });
}

#[test]
fn a_connection_that_is_cut_is_told() {
    simulate(81, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let raw = Raw::initialized(fixture.address).await;
        raw.send(InitializeRequest::new(0, 0, 0).as_bytes()).await;
        assert!(raw.closes_within(Duration::from_secs(5)).await);
        let wrong = RefusalReason::Protocol(FatalErrorStatus::SEQUENCE_ERROR);
        assert_eq!(told(&fixture.target), [(wrong, None)]);

        let (_admin, id) = Raw::enabled(fixture.address, 0).await;
        let io = Raw::initialized(fixture.address).await;
        let data = connect_data(id);
        let connected = io.connect(&Connect::new(1, 3, 0), &data).await;
        assert!(connected.status().is_success());
        fixture.device.delay.set(Duration::from_secs(1));
        let read = ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096));
        for _ in 0..5 {
            io.send(&capsule(read.entry(), &[])).await;
        }
        assert!(io.closes_within(Duration::from_secs(5)).await);
        of_the_host(&fixture.target, RefusalReason::TooManyCommands);
    });
}

#[test]
fn a_target_that_is_full_or_slow_tells_so() {
    let connect = async |address| {
        let raw = Raw::initialized(address).await;
        let (connect, data) = (Connect::new(0, 31, 0), connect_data(0xffff));
        let is_refused = !raw.connect(&connect, &data).await.status().is_success();
        (raw, is_refused)
    };
    simulate(82, async {
        // So many cores leave few identifiers for each.
        let links = Links::connect(1024).swap_remove(0);
        let (target, address) = on(links, TargetSettings::default());
        let mut open = Vec::new();
        loop {
            let (raw, is_refused) = connect(address).await;
            open.push(raw);
            if is_refused {
                break;
            }
        }
        of_the_host(&target, RefusalReason::TooManyControllers);
    });
    simulate(83, async {
        let settings = TargetSettings {
            connections_max: 4,
            ..TargetSettings::default()
        };
        let (target, address) = on(Links::connect(1).swap_remove(0), settings);
        // Hosts that are connected keep their places.
        let mut open = Vec::new();
        let told = loop {
            let raw = Raw::open(address).await;
            reactor::sleep(Duration::from_millis(10)).await;
            let told = told(&target);
            if !told.is_empty() {
                break told;
            }
            let raw = raw.initialize().await;
            let (connect, data) = (Connect::new(0, 31, 0), connect_data(0xffff));
            assert!(raw.connect(&connect, &data).await.status().is_success());
            open.push(raw);
        };
        assert_eq!(told, [(RefusalReason::TooManyConnections, None)]);
    });
    simulate(84, async {
        let mut links = Links::connect(2);
        // The second core is there, and takes no message.
        let _silent = links.pop();
        let (target, address) = on(links.swap_remove(0), TargetSettings::default());
        let queue = Raw::initialized(address).await;
        let (connect, data) = (Connect::new(1, 31, 0), connect_data(2));
        let refused = queue.connect(&connect, &data).await;
        assert!(!refused.status().is_success());
        of_the_host(&target, RefusalReason::Late);
    });
}
