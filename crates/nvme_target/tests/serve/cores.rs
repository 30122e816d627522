//! Several cores: a controller on one, its I/O queues anywhere.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use nvme::Status;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::{Connect, InvalidParameter, connect_offset};
use nvme::log::{ErrorEntry, GetLogPage, LogPage, SmartHealth};
use nvme::{AdminOpcode, SglDescriptor, SubmissionEntry};
use nvme_target::{Links, PortSettings, Target, TargetSettings};

use zerocopy::FromBytes;

use crate::device::Memory;
use crate::io::geometry;
use crate::raw::{Raw, capsule, connect_data};
use crate::{SUBSYSTEM, namespace, nqn, on, simulate, subsystem};

/// Targets of several cores, each with a port of its own so that a test can choose the core.
pub fn start(cores: usize) -> Vec<(Target<Memory>, SocketAddr, Rc<Memory>)> {
    let device = Rc::new(Memory::new(geometry(4096, 64)));
    let started = Links::connect(cores)
        .into_iter()
        .enumerate()
        .map(|(index, links)| {
            let target = Target::start(TargetSettings::default(), links);
            let port = PortSettings {
                id: 1,
                listen: SocketAddr::from(([127, 0, 0, 1], 4420 + index as u16)),
                advertise: None,
                reuse_port: true,
                tls: false,
                transport: nvme_target::Transport::Tcp,
            };
            let address = target.add_port(port).unwrap();
            target
                .add_subsystem(subsystem(SUBSYSTEM, AllowedHosts::Any))
                .unwrap();
            target
                .add_namespace(&nqn(SUBSYSTEM), namespace(1), Rc::clone(&device))
                .unwrap();
            (target, address, Rc::clone(&device))
        });
    started.collect()
}

fn read() -> SubmissionEntry {
    *ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096)).entry()
}

/// Queues join from every core, identifiers are unique across cores, I/O works, and closing the
/// admin connection closes all queues wherever they are.
#[test]
fn queues_join_from_any_core_and_go_with_their_controller() {
    simulate(40, async {
        let cores = start(3);
        let (admin, id) = Raw::enabled(cores[1].1, 0).await;
        let (_other, other_id) = Raw::enabled(cores[2].1, 0).await;
        assert_ne!(id, other_id);
        let mut queues = Vec::new();
        for (queue_id, (_, address, _)) in (1..).zip(&cores) {
            let queue = Raw::initialized(*address).await;
            let connected = queue
                .connect(&Connect::new(queue_id, 31, 0), &connect_data(id))
                .await;
            assert!(connected.status().is_success());
            queue.send(&capsule(&read(), &[])).await;
            assert_eq!(queue.receive(24 + 4096).await.unwrap()[0], 7);
            queues.push(queue);
        }
        assert_eq!(cores[1].0.sessions()[0].io_queues, 3);
        let twice = Raw::initialized(cores[0].1).await;
        let refused = twice
            .connect(&Connect::new(2, 31, 0), &connect_data(id))
            .await;
        assert_eq!(refused.status().code(), Status::COMMAND_SEQUENCE_ERROR);
        let refused = twice
            .connect(&Connect::new(9, 31, 0), &connect_data(id + 30))
            .await;
        let parameter = InvalidParameter::from_result(refused.result.get() as u32);
        assert_eq!(parameter.offset, connect_offset::CONTROLLER_ID);

        // A queue that goes away can come back on another core.
        drop(queues.remove(0));
        reactor::sleep(Duration::from_secs(3)).await;
        assert_eq!(cores[1].0.sessions()[0].io_queues, 2);
        let again = twice
            .connect(&Connect::new(1, 31, 0), &connect_data(id))
            .await;
        assert!(again.status().is_success());

        drop(admin);
        for queue in queues.iter().chain([&twice]) {
            assert!(queue.closes_within(Duration::from_secs(3)).await);
        }
        assert!(cores[1].0.sessions().is_empty());
        assert_eq!(
            cores[2].0.sessions().len(),
            1,
            "another controller is untouched"
        );
    });
}

/// A core that does not answer in time is busy, which passes: the host is to come again.
#[test]
fn a_core_that_does_not_answer_in_time_is_busy() {
    simulate(43, async {
        let mut links = Links::connect(2);
        // The second core is there, and takes no message.
        let _silent = links.pop();
        let (_target, address) = on(links.pop().unwrap(), TargetSettings::default());
        let queue = Raw::initialized(address).await;
        let refused = queue
            .connect(&Connect::new(1, 31, 0), &connect_data(2))
            .await;
        assert_eq!(refused.status(), Status::CONNECT_CONTROLLER_BUSY);
    });
}

/// Traffic on a queue of another core keeps a controller alive; when it stops, the controller goes.
#[test]
fn traffic_on_another_core_counts_as_life() {
    simulate(41, async {
        let cores = start(2);
        let (admin, id) = Raw::enabled(cores[0].1, 3000).await;
        let queue = Raw::initialized(cores[1].1).await;
        queue
            .connect(&Connect::new(1, 31, 0), &connect_data(id))
            .await;
        for _ in 0..20 {
            reactor::sleep(Duration::from_secs(1)).await;
            queue.send(&capsule(&read(), &[])).await;
            assert!(queue.receive(24 + 4096).await.is_some());
        }
        assert_eq!(cores[0].0.sessions().len(), 1);
        assert!(queue.closes_within(Duration::from_secs(8)).await);
        assert!(admin.closes_within(Duration::from_secs(3)).await);
        assert_eq!(cores[0].0.counters().keep_alive_expirations, 1);
    });
}

/// An admin command that keeps a controller alive by itself: Keep Alive.
#[test]
fn keep_alive_keeps_alive() {
    simulate(42, async {
        let cores = start(1);
        let (admin, _) = Raw::enabled(cores[0].1, 2000).await;
        let sgl = SglDescriptor::transport(0);
        let keep_alive = SubmissionEntry::new(AdminOpcode::KEEP_ALIVE.0, 0, sgl);
        for _ in 0..10 {
            reactor::sleep(Duration::from_millis(1900)).await;
            assert!(admin.command(&keep_alive, &[]).await.status().is_success());
        }
        assert!(admin.closes_within(Duration::from_secs(6)).await);
    });
}

/// The SMART and error logs count what hosts did on every core.
#[test]
fn logs_account_for_all_cores() {
    simulate(43, async {
        let cores = start(3);
        let (admin, id) = Raw::enabled(cores[0].1, 0).await;
        for (queue_id, (_, address, _)) in (1..).zip(&cores) {
            let queue = Raw::initialized(*address).await;
            queue
                .connect(&Connect::new(queue_id, 31, 0), &connect_data(id))
                .await;
            queue.send(&capsule(&read(), &[])).await;
            assert!(queue.receive(24 + 4096).await.is_some());
            cores[0]
                .2
                .failing
                .set(Some(block::IoError::UnrecoveredRead));
            assert!(!queue.command(&read(), &[]).await.status().is_success());
            cores[0].2.failing.set(None);
        }
        let log = async |page| {
            let command = GetLogPage::new(page, u32::MAX, 0, 512);
            admin.send(&capsule(command.entry(), &[])).await;
            admin.receive(24 + 512).await.unwrap()[24..].to_vec()
        };
        let smart = SmartHealth::read_from_bytes(&log(LogPage::SMART).await).unwrap();
        assert_eq!(
            (smart.read_commands.get(), smart.media_errors.get()),
            (6, 3)
        );
        let errors = log(LogPage::ERROR).await;
        let entry = |number: usize| {
            let bytes = &errors[number * 64..number * 64 + 64];
            ErrorEntry::read_from_bytes(bytes)
                .unwrap()
                .error_count
                .get()
        };
        assert_eq!([entry(0), entry(1), entry(2), entry(3)], [3, 2, 1, 0]);
    });
}
