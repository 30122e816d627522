//! Who is sent away, and whether for good: Connects that are refused, targets that start and stop,
//! and what is told of all that.

use std::time::Duration;

use access::AllowedHosts;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::{Connect, ConnectData, DISCOVERY_NQN};
use nvme::pdu::InitializeRequest;
use nvme::{FatalErrorStatus, SglDescriptor, Status};
use nvme_target::{Links, PortSettings, RefusalReason, TargetEvent, TargetSettings};
use zerocopy::IntoBytes;

use crate::io::geometry;
use crate::raw::{Raw, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, nqn, on, options, simulate, subsystem};

fn start() -> Fixture {
    Fixture::start(TargetSettings::default(), geometry(4096, 64))
}

/// Do Not Retry makes hosts give up for good, so nothing says it that may pass: a volume that is
/// not served now, a controller that was lost while its queues were connected.
#[test]
fn only_what_lasts_says_do_not_retry() {
    simulate(38, async {
        let fixture = start();
        let closed = "nqn.2024-01.io.flashyard:closed";
        let nobody = AllowedHosts::list([nqn("nqn.2024-01.io.example:other")]);
        let target = &fixture.target;
        target.add_subsystem(subsystem(closed, nobody)).unwrap();
        let data = |subsystem: &str, host: &str| ConnectData::new([1; 16], 0xffff, subsystem, host);
        let good = connect_data(0xffff);
        let admin = Connect::new(0, 31, 0);
        let mut future_format = admin;
        future_format.record_format = 1.into();
        let controller = fixture.connect(options()).await;
        let id = controller.controller_id().unwrap();
        let mut of_another = connect_data(id);
        of_another.host_id = [9; 16];
        let unknown = data("nqn.2024-01.io.flashyard:none", HOST);
        let elsewhere = ConnectData::new([1; 16], id, "nqn.2024-01.io.flashyard:none", HOST);
        let io = |queue_id| Connect::new(queue_id, 31, 0);
        for (connect, data, lasts) in [
            (future_format, good, true),
            (Connect::new(0, 5000, 0), good, true),
            (admin, connect_data(5), true),
            (admin, data("volume", HOST), true),
            (admin, data(SUBSYSTEM, "me"), true),
            (admin, data(closed, HOST), true),
            (io(500), connect_data(id), true),
            (admin, unknown, false),
            (io(2), elsewhere, false),
            (io(2), connect_data(999), false),
            (io(2), of_another, false),
            (io(1), connect_data(id), false),
        ] {
            let raw = Raw::initialized(fixture.address).await;
            let status = raw.connect(&connect, &data).await.status();
            assert!(!status.is_success());
            assert_eq!(status.is_do_not_retry(), lasts, "{status:?} to {connect:?}");
        }
    });
}

/// Controller identifiers that are all in use are given back some time.
#[test]
fn a_target_without_free_controllers_is_busy() {
    simulate(39, async {
        // So many cores leave few identifiers for each.
        let links = Links::connect(1024).swap_remove(0);
        let (_target, address) = on(links, TargetSettings::default());
        let mut open = Vec::new();
        let refused = loop {
            let raw = Raw::initialized(address).await;
            let connect = Connect::new(0, 31, 0);
            let status = raw.connect(&connect, &connect_data(0xffff)).await.status();
            if !status.is_success() {
                break status;
            }
            open.push(raw);
        };
        assert_eq!(refused, Status::CONNECT_CONTROLLER_BUSY);
        assert!(open.len() > 60, "{}", open.len());
    });
}

/// Nobody connects through a port before it is opened, and discovery then has everything.
#[test]
fn a_reserved_port_refuses_connections_until_it_is_opened() {
    simulate(44, async {
        let fixture = start();
        let port = PortSettings {
            id: 2,
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        let address = fixture.target.reserve_port(port).unwrap();
        let nobody = initiator::Controller::connect(address, SUBSYSTEM, options()).await;
        let error = nobody.err().unwrap();
        assert!(matches!(error, initiator::Error::Unreachable { .. }));
        fixture.target.open_ports().unwrap();
        let served = initiator::Controller::connect(address, SUBSYSTEM, options()).await;
        assert_eq!(served.unwrap().active_namespaces().await.unwrap(), [1]);
    });
}

/// A target that stops answers what is under way, sends hosts that come now away to come again, and
/// leaves nothing out of discovery: hosts would forget it.
#[test]
fn a_stopping_target_says_nothing_that_lasts() {
    simulate(45, async {
        let fixture = start();
        let controller = fixture.connect(options()).await;
        let discovery =
            initiator::Controller::connect(fixture.address, DISCOVERY_NQN, options()).await;
        let discovery = discovery.unwrap();
        let before = discovery.discovery_log().await.unwrap();
        let early = Raw::initialized(fixture.address).await;
        fixture.device.delay.set(Duration::from_secs(2));
        let queue = controller.queue(0).unwrap();
        let read = ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096));
        let data = initiator::Data::In(block::Buffer::new(4096));
        let read = reactor::spawn(async move { queue.submit(*read.entry(), data).await.1 });
        reactor::sleep(Duration::from_millis(100)).await;
        let target = fixture.target.clone();
        let stopping = reactor::spawn(async move { target.shutdown(Duration::from_secs(5)).await });
        reactor::sleep(Duration::from_millis(100)).await;
        let refused = early
            .connect(&Connect::new(0, 31, 0), &connect_data(0xffff))
            .await;
        assert_eq!(refused.status(), Status::CONNECT_CONTROLLER_BUSY);
        assert_eq!(discovery.discovery_log().await.unwrap(), before);
        assert!(read.await.unwrap().status().is_success());
        assert!(stopping.await);
    });
}

/// A host that is refused again and again loses its connection, and whoever does that for ever
/// leaves room for other events.
#[test]
fn refusals_are_told_without_drowning_the_rest() {
    simulate(46, async {
        let fixture = start();
        let unknown = "nqn.2024-01.io.flashyard:none";
        let data = ConnectData::new([1; 16], 0xffff, unknown, HOST);
        let connect = Connect::new(0, 31, 0);
        for _ in 0..100 {
            let raw = Raw::initialized(fixture.address).await;
            for _ in 0..3 {
                assert!(!raw.connect(&connect, &data).await.status().is_success());
            }
            assert!(raw.closes_within(Duration::from_secs(3)).await);
        }
        for _ in 0..100 {
            let raw = Raw::initialized(fixture.address).await;
            raw.send(InitializeRequest::new(0, 0, 0).as_bytes()).await;
            assert!(raw.closes_within(Duration::from_secs(5)).await);
        }
        reactor::sleep(Duration::from_secs(900)).await;
        let mut counts = [(0, 0); 2];
        for event in fixture.target.take_events() {
            let TargetEvent::HostRefused {
                host_nqn,
                subsystem_nqn,
                reason,
                times,
                ..
            } = event
            else {
                panic!("{event:?}");
            };
            let (events, all) = match reason {
                RefusalReason::NoSubsystem => {
                    assert_eq!(host_nqn, Some(nqn(HOST)));
                    assert_eq!(subsystem_nqn, Some(nqn(unknown)));
                    &mut counts[0]
                }
                RefusalReason::Protocol(FatalErrorStatus::SEQUENCE_ERROR) => {
                    assert_eq!((host_nqn, subsystem_nqn), (None, None));
                    &mut counts[1]
                }
                other => panic!("{other:?}"),
            };
            *events += 1;
            *all += times;
        }
        let [(refusals, refused), (offences, offended)] = counts;
        assert_eq!((refused, offended), (300, 100));
        assert!(refusals < 12 && offences < 12, "{counts:?}");
    });
}
