//! Two ports to one subsystem: how good a path each is, and what hosts learn and get of it.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Lba};
use initiator::{Controller, Data};
use nvme::event::AsyncEvent;
use nvme::log::{AnaGroup, AnaHeader, AnaState, LogPage};
use nvme::{Status, SubmissionEntry};
use nvme_target::{PathState, PortSettings, TargetError, TargetSettings};
use zerocopy::{FromBytes, FromZeros};

use crate::io::geometry;
use crate::{Fixture, SUBSYSTEM, namespace, nqn, options, simulate};

const OTHER_PORT: u16 = 2;

async fn state(controller: &Controller) -> (u64, AnaState) {
    let log = controller.log_page(LogPage::ANA, 0, 0, 52).await.unwrap();
    let (header, rest) = AnaHeader::read_from_prefix(&log).unwrap();
    let (group, _) = AnaGroup::read_from_prefix(rest).unwrap();
    (header.change_count.get(), group.state)
}

/// The status of a Flush.
async fn flush(controller: &Controller) -> Status {
    let mut entry = SubmissionEntry::new_zeroed();
    entry.namespace_id = 1.into();
    let queue = controller.queue(0).unwrap();
    queue.submit(entry, Data::None).await.1.unwrap().status()
}

/// A host is told on the path concerned and on no other; through an inaccessible path I/O is
/// refused so that the host tries elsewhere, and the admin queue works on.
#[test]
fn a_port_is_as_good_a_path_as_it_is_said_to_be() {
    simulate(81, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let port = PortSettings {
            id: OTHER_PORT,
            listen: "127.0.0.1:4421".parse().unwrap(),
            advertise: None,
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        let other_address = fixture.target.add_port(port).unwrap();
        let first = fixture.connect(options()).await;
        let other = Controller::connect(other_address, SUBSYSTEM, options())
            .await
            .unwrap();
        let (before, told) = state(&other).await;
        assert_eq!(told, AnaState::OPTIMIZED);
        let states = [
            (PathState::Inaccessible, AnaState::INACCESSIBLE),
            (PathState::NonOptimized, AnaState::NON_OPTIMIZED),
            (PathState::Optimized, AnaState::OPTIMIZED),
        ];
        for (changes, (set, told)) in (1..).zip(states) {
            fixture.target.set_path_state(OTHER_PORT, set).unwrap();
            // Saying it again is no change.
            fixture.target.set_path_state(OTHER_PORT, set).unwrap();
            assert_eq!(other.next_event().await, Some(AsyncEvent::ANA_CHANGED));
            assert_eq!(state(&other).await, (before + changes, told));
            assert_eq!(state(&first).await.1, AnaState::OPTIMIZED);
            let expected = match set {
                PathState::Inaccessible => Status::ANA_INACCESSIBLE,
                _ => Status::SUCCESS,
            };
            assert_eq!(flush(&other).await, expected, "{set:?}");
            assert_eq!(flush(&first).await, Status::SUCCESS);
        }
        let unknown = fixture.target.set_path_state(9, PathState::Optimized);
        assert!(matches!(unknown, Err(TargetError::UnknownPort(9))));
    });
}

/// The change count of the ANA log counts changes of the list of namespaces as well.
#[test]
fn a_namespace_that_comes_or_goes_changes_the_ana_log() {
    simulate(83, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let (before, _) = state(&controller).await;
        let (target, nqn) = (&fixture.target, nqn(SUBSYSTEM));
        let device = Rc::clone(&fixture.device);
        target.add_namespace(&nqn, namespace(2), device).unwrap();
        assert_eq!(state(&controller).await.0, before + 1);
        target.namespace_resized(&nqn, 2).unwrap();
        assert_eq!(state(&controller).await.0, before + 1);
        target.remove_namespace(&nqn, 2).await.unwrap();
        assert_eq!(state(&controller).await.0, before + 2);
    });
}

/// Compare and Write is refused whole, and the write is not done.
#[test]
fn fused_commands_are_refused_through_an_inaccessible_port() {
    simulate(82, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        fixture
            .target
            .set_path_state(1, PathState::Inaccessible)
            .unwrap();
        let mut ones = Buffer::new(4096);
        ones.fill(1);
        let refused = namespace
            .compare_and_write(Lba(3), Buffer::zeroed(4096), ones)
            .await;
        assert!(refused.2.is_err());
        fixture
            .target
            .set_path_state(1, PathState::Optimized)
            .unwrap();
        let (found, read) = namespace.read(Lba(3), Buffer::new(4096)).await;
        read.unwrap();
        assert_eq!(found[..], [0; 4096]);
    });
}
