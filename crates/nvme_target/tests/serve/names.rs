//! What hosts call themselves: odd names that are names, no name at all, and names and identifiers
//! that do not go together.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::{BlockDevice, Buffer, Lba};
use initiator::{ConnectOptions, Controller, Error};
use nvme::command::IoOpcode;
use nvme::fabrics::{
    Configuration, Connect, ConnectData, DISCOVERY_NQN, InvalidParameter, connect_offset,
};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use nvme_target::{RefusalReason, Target, TargetEvent, TargetSettings};

use crate::device::Memory;
use crate::io::geometry;
use crate::raw::{Raw, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, namespace, nqn, simulate, subsystem};

const CLOSED: &str = "nqn.2024-01.io.flashyard:closed";
const ID: [u8; 16] = 0xf81d_4fae_7dec_11d0_a765_00a0_c91e_6bf6_u128.to_be_bytes();

fn start() -> Fixture {
    Fixture::start(TargetSettings::default(), geometry(4096, 64))
}

/// A host that gives this name and this identifier.
fn calling_itself(name: &str, host_id: [u8; 16]) -> ConnectOptions {
    let mut options = ConnectOptions::new(name);
    options.host_id = host_id;
    options
}

/// That it reads what is there over an I/O queue.
async fn works(controller: &Controller) {
    let namespace = controller.namespace(1).await.unwrap();
    assert_eq!(namespace.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
}

/// Connects to a subsystem without a name, and has an I/O queue and a command of it executed.
async fn nameless(fixture: &Fixture, to: &str) -> [Raw; 2] {
    let admin = Raw::initialized(fixture.address).await;
    let data = ConnectData::new(ID, 0xffff, to, "");
    let connected = admin.connect(&Connect::new(0, 31, 0), &data).await;
    assert!(connected.status().is_success(), "{:?}", connected.status());
    admin.configure(Configuration::ENABLE).await;
    let io = Raw::initialized(fixture.address).await;
    let data = ConnectData::new(ID, connected.result.get() as u16, to, "");
    let connected = io.connect(&Connect::new(1, 31, 0), &data).await;
    assert!(connected.status().is_success(), "{:?}", connected.status());
    let flush = SubmissionEntry::new(IoOpcode::FLUSH.0, 1, SglDescriptor::transport(0));
    assert!(io.command(&flush, &[]).await.status().is_success());
    [admin, io]
}

fn refusals(target: &Target<Memory>) -> Vec<(RefusalReason, Option<Nqn>)> {
    let refused = |event| match event {
        TargetEvent::HostRefused {
            reason, host_nqn, ..
        } => Some((reason, host_nqn)),
        _ => None,
    };
    let events = target.take_events().into_iter();
    events.filter_map(refused).collect()
}

/// The parameter that a refused Connect names, and whether it says Do Not Retry.
async fn refused(fixture: &Fixture, data: &ConnectData) -> (InvalidParameter, bool) {
    let raw = Raw::initialized(fixture.address).await;
    let answer = raw.connect(&Connect::new(0, 31, 0), data).await;
    let status = answer.status();
    assert_eq!(status.code(), Status::CONNECT_INVALID_PARAMETERS);
    let parameter = InvalidParameter::from_result(answer.result.get() as u32);
    (parameter, status.is_do_not_retry())
}

fn in_data(offset: u16) -> InvalidParameter {
    InvalidParameter {
        offset,
        in_data: true,
    }
}

/// SPDK's perf gives no host NQN unless it is told to. Where any host may come, it is let in, and
/// has the name that the specification has for its identifier.
#[test]
fn a_host_without_a_name_is_let_in_where_any_host_is() {
    simulate(110, async {
        let fixture = start();
        let target = &fixture.target;
        let mut open = vec![nameless(&fixture, SUBSYSTEM).await];
        let sessions = target.sessions();
        assert_eq!(sessions[0].host_nqn, nqn(HOST));
        assert_eq!(sessions[0].io_queues, 1);
        // One namespace for any host is enough, as it is for hosts with names.
        let nobody = AllowedHosts::list([]);
        target.add_subsystem(subsystem(CLOSED, nobody)).unwrap();
        let device = Rc::clone(&fixture.device);
        target
            .add_namespace(&nqn(CLOSED), namespace(1), device)
            .unwrap();
        target
            .set_namespace_hosts(&nqn(CLOSED), 1, AllowedHosts::Any)
            .unwrap();
        open.push(nameless(&fixture, CLOSED).await);
        let data = ConnectData::new(ID, 0xffff, DISCOVERY_NQN, "");
        let discovery = Raw::initialized(fixture.address).await;
        let answer = discovery.connect(&Connect::new(0, 31, 0), &data).await;
        assert!(answer.status().is_success());
        assert_eq!(refusals(target), []);
    });
}

/// A list of hosts means none that gives no name, whatever its identifier: not even one that
/// follows from a name in the list. An event says who it was. A host with neither name nor
/// identifier is refused anywhere.
#[test]
fn a_host_without_a_name_is_refused_where_hosts_are_listed() {
    simulate(111, async {
        let fixture = start();
        let only = AllowedHosts::list([nqn(HOST)]);
        fixture
            .target
            .add_subsystem(subsystem(CLOSED, only))
            .unwrap();
        let nobody = in_data(connect_offset::HOST_NQN);
        for (data, who) in [
            (ConnectData::new(ID, 0xffff, CLOSED, ""), Some(nqn(HOST))),
            (ConnectData::new([0; 16], 0xffff, CLOSED, ""), None),
            (ConnectData::new([0; 16], 0xffff, SUBSYSTEM, ""), None),
        ] {
            assert_eq!(refused(&fixture, &data).await, (nobody, true));
            let told = refusals(&fixture.target);
            assert_eq!(told, [(RefusalReason::NoName, who)]);
        }
        // What is not there may come, with or without a name.
        let none = ConnectData::new(ID, 0xffff, "nqn.2024-01.io.flashyard:none", "");
        let absent = in_data(connect_offset::SUBSYSTEM_NQN);
        assert_eq!(refused(&fixture, &none).await, (absent, false));
        let told = refusals(&fixture.target);
        assert_eq!(told, [(RefusalReason::NoSubsystem, Some(nqn(HOST)))]);
    });
}

/// Names without dashes, without a suffix and of the greatest length are names: their hosts connect
/// and work, each under its own name to the last byte, and no other with it.
#[test]
fn odd_names_are_told_apart() {
    simulate(112, async {
        let fixture = start();
        let longest = |end| format!("nqn.2024-01.io.example:{}{end}", "x".repeat(199));
        assert_eq!(longest('a').len(), 223);
        for (name, other) in [
            (
                "nqn.2014-08.org.nvmexpress:uuid:07e4a0a641d54bff96b28a173dcfb6b5".to_owned(),
                "nqn.2014-08.org.nvmexpress:uuid:07e4a0a6-41d5-4bff-96b2-8a173dcfb6b5".to_owned(),
            ),
            (
                "nqn.2014-08.com.example".to_owned(),
                "nqn.2014-08.com.example.other".to_owned(),
            ),
            (longest('a'), longest('b')),
        ] {
            let only = AllowedHosts::list([nqn(&name)]);
            let target = &fixture.target;
            target.set_allowed_hosts(&nqn(SUBSYSTEM), only).unwrap();
            let controller = fixture.connect(ConnectOptions::new(&name)).await;
            works(&controller).await;
            assert_eq!(target.sessions()[0].host_nqn.as_str(), name);
            let options = ConnectOptions::new(&other);
            let refused = Controller::connect(fixture.address, SUBSYSTEM, options).await;
            assert!(matches!(
                refused.err(),
                Some(Error::Refused { status, .. })
                    if status.code() == Status::CONNECT_INVALID_HOST
            ));
            assert_eq!(
                refusals(target),
                [(RefusalReason::NotAllowed, Some(nqn(&other)))]
            );
        }
    });
}

/// A name of one byte more than the longest, and one that does not end, are none.
#[test]
fn names_that_are_too_long_are_refused() {
    simulate(113, async {
        let fixture = start();
        let name = format!("nqn.2024-01.io.example:{}", "x".repeat(201));
        let mut endless = connect_data(0xffff);
        endless.host_nqn = [b'x'; 256];
        endless.host_nqn[..name.len()].copy_from_slice(name.as_bytes());
        for data in [ConnectData::new(ID, 0xffff, SUBSYSTEM, &name), endless] {
            let wrong = (in_data(connect_offset::HOST_NQN), true);
            assert_eq!(refused(&fixture, &data).await, wrong);
        }
    });
}

/// A host name with a second identifier is a second host as far as reservations go: both are
/// served, and neither takes part in the other's controller.
#[test]
fn a_name_with_another_identifier_is_another_host() {
    simulate(114, async {
        let fixture = start();
        let one = fixture.connect(calling_itself(HOST, [1; 16])).await;
        let other = fixture.connect(calling_itself(HOST, [2; 16])).await;
        works(&one).await;
        works(&other).await;
        let sessions = fixture.target.sessions();
        let ids: BTreeSet<u16> = sessions
            .iter()
            .map(|session| session.controller_id)
            .collect();
        assert_eq!((sessions.len(), ids.len()), (2, 2));
        assert_eq!(refusals(&fixture.target), []);
        let mut data = connect_data(one.controller_id().unwrap());
        data.host_id = [2; 16];
        let raw = Raw::initialized(fixture.address).await;
        let answer = raw.connect(&Connect::new(120, 31, 0), &data).await;
        assert_eq!(answer.status().code(), Status::CONNECT_INVALID_PARAMETERS);
        let parameter = InvalidParameter::from_result(answer.result.get() as u32);
        assert_eq!(parameter, in_data(connect_offset::HOST_ID));
        assert_eq!(
            refusals(&fixture.target),
            [(RefusalReason::NoController, Some(nqn(HOST)))]
        );
    });
}

/// An identifier under a second name is refused with an event while the first host is there, and
/// the second may come again: reservations would take the two for one.
#[test]
fn an_identifier_under_another_name_is_refused() {
    simulate(115, async {
        let fixture = start();
        let other = "nqn.2024-01.io.example:other";
        let first = fixture.connect(calling_itself(HOST, [1; 16])).await;
        let data = ConnectData::new([1; 16], 0xffff, SUBSYSTEM, other);
        let taken = (in_data(connect_offset::HOST_ID), false);
        assert_eq!(refused(&fixture, &data).await, taken);
        assert_eq!(
            refusals(&fixture.target),
            [(RefusalReason::IdentifierTaken, Some(nqn(other)))]
        );
        works(&first).await;
        first.disconnect().await;
        reactor::sleep(Duration::from_secs(3)).await;
        works(&fixture.connect(calling_itself(other, [1; 16])).await).await;
        assert!(
            fixture
                .target
                .sessions()
                .iter()
                .all(|session| session.host_nqn == nqn(other))
        );
    });
}
