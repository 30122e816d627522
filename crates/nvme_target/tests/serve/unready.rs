//! Namespaces that are not ready: hosts come again after a while, and not for ever.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::IoError;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::Connect;
use nvme::feature::{Feature, Features, HostBehaviour};
use nvme::identify::{Cns, ControllerData, Identify};
use nvme::pdu::PduType;
use nvme::{AdminOpcode, SglDescriptor, Status, SubmissionEntry};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::cores::start;
use crate::raw::{Raw, capsule, connect_data};
use crate::{SUBSYSTEM, namespace, nqn, simulate};

/// Linux sends a command five times again.
const RETRIES: u32 = 5;

/// The host says whether it keeps to retry delays.
async fn say(admin: &Raw, keeps_delays: bool) {
    let mut behaviour = HostBehaviour::new_zeroed();
    behaviour.retry_delays = u8::from(keeps_delays);
    let sgl = SglDescriptor::in_capsule(512);
    let entry = SubmissionEntry::new(AdminOpcode::SET_FEATURES.0, 0, sgl);
    let mut set = *Features::of(&entry);
    set.feature = Feature::HOST_BEHAVIOUR;
    let said = admin.command(set.entry(), behaviour.as_bytes()).await;
    assert!(said.status().is_success());
}

/// CRDT1, in units of 100 ms.
async fn retry_delay(admin: &Raw) -> u16 {
    let identify = Identify::new(Cns::CONTROLLER, 0);
    admin.send(&capsule(identify.entry(), &[])).await;
    let answer = admin.receive(24 + 4096).await.unwrap();
    let (data, _) = ControllerData::ref_from_prefix(&answer[24..]).unwrap();
    data.retry_delays[0].get()
}

async fn read(queue: &Raw) -> Status {
    let read = ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096));
    queue.command(read.entry(), &[]).await.status()
}

/// An I/O queue of the controller `id`.
async fn queue(address: SocketAddr, id: u16) -> Raw {
    let queue = Raw::initialized(address).await;
    let connected = queue
        .connect(&Connect::new(1, 31, 0), &connect_data(id))
        .await;
    assert!(connected.status().is_success());
    queue
}

/// How long `command` takes.
async fn timed<T>(command: impl Future<Output = T>) -> (T, Duration) {
    let began = reactor::now();
    (command.await, reactor::now() - began)
}

/// A queue on another core than its controller, to a namespace that is not ready.
#[test]
fn a_host_that_keeps_to_delays_waits_for_a_namespace_that_is_not_ready() {
    simulate(60, async {
        let cores = start(2);
        let (admin, id) = Raw::enabled(cores[0].1, 0).await;
        let queue = queue(cores[1].1, id).await;
        let failing = &cores[0].2.failing;
        failing.set(Some(IoError::NotReady));
        assert_eq!(read(&queue).await, Status::NAMESPACE_NOT_READY, "unasked");
        say(&admin, true).await;
        let delay = Duration::from_millis(100 * u64::from(retry_delay(&admin).await));
        assert!(RETRIES * delay >= Duration::from_secs(10));
        let mut waited = Duration::ZERO;
        while waited < Duration::from_secs(25) {
            let status = read(&queue).await;
            assert_eq!(status.code(), Status::NAMESPACE_NOT_READY);
            assert_eq!(status.retry_delay(), 1, "after {waited:?}");
            assert!(!status.is_do_not_retry());
            reactor::sleep(delay).await;
            waited += delay;
        }
        reactor::sleep(delay + Duration::from_secs(1)).await;
        let status = read(&queue).await;
        assert_eq!(status, Status::NAMESPACE_NOT_READY, "it does not pass soon");
        // Other failures say nothing of delays, nor does this one to a host that has changed its
        // mind.
        failing.set(Some(IoError::DeviceGone));
        assert_eq!(read(&queue).await.retry_delay(), 0);
        failing.set(Some(IoError::NotReady));
        reactor::sleep(Duration::from_secs(60)).await;
        assert_eq!(read(&queue).await.retry_delay(), 1, "anew");
        say(&admin, false).await;
        assert_eq!(read(&queue).await, Status::NAMESPACE_NOT_READY);
    });
}

/// A host that sends a command again at once, as SPDK does, and that so often.
#[test]
fn a_host_that_keeps_to_no_delay_is_answered_later() {
    simulate(61, async {
        let cores = start(1);
        let (_, address, device) = &cores[0];
        let (_admin, id) = Raw::enabled(*address, 0).await;
        let queue = queue(*address, id).await;
        device.failing.set(Some(IoError::NotReady));
        let tries = async {
            for _ in 0..4 {
                assert_eq!(read(&queue).await, Status::NAMESPACE_NOT_READY);
            }
        };
        let took = timed(tries).await.1;
        assert!(took >= Duration::from_secs(10), "{took:?}");
        // Neither what comes behind nor the room for data waits with it.
        let sgl = SglDescriptor::transport(4096);
        let mut entry = *ReadWrite::new(IoOpcode::READ, 1, 0, 1, sgl).entry();
        for id in 0..30 {
            entry.command_id = id.into();
            queue.send(&capsule(&entry, &[])).await;
        }
        reactor::sleep(Duration::from_millis(10)).await;
        device.failing.set(None);
        let (answer, took) = timed(async {
            queue.send(&capsule(&entry, &[])).await;
            queue.receive(24 + 4096).await.unwrap()
        })
        .await;
        assert_eq!(answer[0], PduType::CONTROLLER_DATA.0);
        assert!(took < Duration::from_millis(100), "{took:?}");
        for _ in 0..30 {
            assert_eq!(
                queue.receive(24).await.unwrap()[0],
                PduType::RESPONSE_CAPSULE.0
            );
        }
        // What is not ready for long is not waited for.
        device.failing.set(Some(IoError::NotReady));
        for _ in 0..10 {
            read(&queue).await;
        }
        let took = timed(read(&queue)).await.1;
        assert!(took < Duration::from_millis(100), "{took:?}");
    });
}

/// A command whose answer is to come later, in each way that this may end before.
#[test]
fn an_answer_that_is_to_come_later_holds_nothing_up() {
    simulate(62, async {
        let cores = start(1);
        let (target, address, device) = &cores[0];
        let name = nqn(SUBSYSTEM);
        let soon = Duration::from_millis(100);
        let (admin, id) = Raw::enabled(*address, 0).await;
        let first = queue(*address, id).await;
        let waits = async |queue: &Raw| {
            let sgl = SglDescriptor::transport(4096);
            let entry = *ReadWrite::new(IoOpcode::READ, 1, 0, 1, sgl).entry();
            queue.send(&capsule(&entry, &[])).await;
            reactor::sleep(Duration::from_secs(1)).await;
        };
        let answered = async |queue: &Raw| timed(queue.receive(24)).await;

        target.restore_rules(&name, 1, None).unwrap();
        waits(&first).await;
        target
            .restore_rules(&name, 1, Some(&Arc::default()))
            .unwrap();
        let (answer, took) = answered(&first).await;
        assert!(answer.is_some() && took < soon, "opened: {took:?}");

        device.failing.set(Some(IoError::NotReady));
        waits(&first).await;
        let (removed, took) = timed(target.remove_namespace(&name, 1)).await;
        assert_eq!((removed.is_ok(), took), (true, Duration::ZERO), "removed");
        let (answer, took) = answered(&first).await;
        assert!(answer.is_some() && took < soon, "removed: {took:?}");

        target
            .add_namespace(&name, namespace(1), Rc::clone(device))
            .unwrap();
        waits(&first).await;
        drop(first);
        let second = queue(*address, id).await;
        waits(&second).await;
        let (quiet, took) = timed(target.shutdown(Duration::from_secs(10))).await;
        assert!(quiet && took < Duration::from_secs(2), "stopped: {took:?}");
        drop(admin);
    });
}
