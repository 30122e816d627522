//! Namespaces that are not ready: hosts come again after a while, and not for ever.

use std::time::Duration;

use block::IoError;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::Connect;
use nvme::feature::{Feature, Features, HostBehaviour};
use nvme::identify::{Cns, ControllerData, Identify};
use nvme::{AdminOpcode, SglDescriptor, Status, SubmissionEntry};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::cores::{controller, start};
use crate::raw::{Raw, capsule, connect_data};
use crate::simulate;

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

/// A queue on another core than its controller, to a namespace that is not ready.
#[test]
fn a_host_that_keeps_to_delays_waits_for_a_namespace_that_is_not_ready() {
    simulate(60, async {
        let cores = start(2);
        let (admin, id) = controller(cores[0].1, 0).await;
        let queue = Raw::initialized(cores[1].1).await;
        let connected = queue
            .connect(&Connect::new(1, 31, 0), &connect_data(id))
            .await;
        assert!(connected.status().is_success());
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
