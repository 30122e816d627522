//! How connections begin and end.

use std::time::Duration;

use access::AllowedHosts;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::{
    CONTROLLER_ID_DYNAMIC, Configuration, Connect, ConnectData, DISCOVERY_NQN, InvalidParameter,
    Property, PropertyOffset, connect_attributes, connect_offset, controller_status,
};
use nvme::identify::{Cns, Identify};
use nvme::pdu::{InitializeRequest, TerminateRequest};
use nvme::{FatalError, SglDescriptor, Status};
use nvme_target::{CloseReason, TargetEvent, TargetSettings};
use zerocopy::{FromBytes, IntoBytes};

use crate::io::geometry;
use crate::raw::{Raw, capsule, connect_data};
use crate::{Fixture, HOST, SUBSYSTEM, nqn, options, simulate, subsystem};

fn start() -> Fixture {
    Fixture::start(TargetSettings::default(), geometry(4096, 64))
}

/// Each wrong Connect is refused with the status and the parameter the specification names, and
/// a right one on the same connection still works.
#[test]
fn wrong_connects_are_refused_by_the_book() {
    simulate(30, async {
        let fixture = start();
        let closed = "nqn.2024-01.io.flashyard:closed";
        let nobody = AllowedHosts::list([nqn("nqn.2024-01.io.example:other")]);
        fixture
            .target
            .add_subsystem(subsystem(closed, nobody))
            .unwrap();
        let good = connect_data(0xffff);
        let data = |subsystem: &str, host: &str| ConnectData::new([1; 16], 0xffff, subsystem, host);
        let admin = Connect::new(0, 31, 0);
        let mut future_format = admin;
        future_format.record_format = 1.into();
        let mut endless = good;
        endless.subsystem_nqn = [b'n'; 256];
        let invalid = Status::CONNECT_INVALID_PARAMETERS;
        let in_data = |offset| {
            Some(InvalidParameter {
                offset,
                in_data: true,
            })
        };
        let in_command = |offset| {
            Some(InvalidParameter {
                offset,
                in_data: false,
            })
        };
        for (connect, data, status, parameter) in [
            (
                future_format,
                good,
                Status::CONNECT_INCOMPATIBLE_FORMAT,
                None,
            ),
            (
                Connect::new(0, 0, 0),
                good,
                invalid,
                in_command(connect_offset::QUEUE_SIZE),
            ),
            (
                Connect::new(0, 5000, 0),
                good,
                invalid,
                in_command(connect_offset::QUEUE_SIZE),
            ),
            (
                admin,
                connect_data(5),
                invalid,
                in_data(connect_offset::CONTROLLER_ID),
            ),
            (
                admin,
                endless,
                invalid,
                in_data(connect_offset::SUBSYSTEM_NQN),
            ),
            (
                admin,
                data("nqn.2024-01.io.flashyard:none", HOST),
                invalid,
                in_data(connect_offset::SUBSYSTEM_NQN),
            ),
            (
                admin,
                data(SUBSYSTEM, "me"),
                invalid,
                in_data(connect_offset::HOST_NQN),
            ),
            (
                admin,
                data(closed, HOST),
                Status::CONNECT_INVALID_HOST,
                None,
            ),
            (
                Connect::new(1, 31, 0),
                connect_data(999),
                invalid,
                in_data(connect_offset::CONTROLLER_ID),
            ),
            (
                Connect::new(500, 31, 0),
                connect_data(1),
                invalid,
                in_command(connect_offset::QUEUE_ID),
            ),
        ] {
            let raw = Raw::initialized(fixture.address).await;
            let completion = raw.connect(&connect, &data).await;
            assert_eq!(completion.status().code(), status, "{connect:?}");
            if let Some(parameter) = parameter {
                let result = completion.result.get() as u32;
                assert_eq!(InvalidParameter::from_result(result), parameter);
            }
            let completion = raw.connect(&admin, &good).await;
            assert!(completion.status().is_success());
        }
    });
}

/// Before Connect nothing else is executed; before the controller is enabled only Fabrics commands
/// are; after that everything is, once.
#[test]
fn commands_come_in_order() {
    simulate(31, async {
        let fixture = start();
        let sequence = Status::COMMAND_SEQUENCE_ERROR;
        let raw = Raw::initialized(fixture.address).await;
        let version = Property::get(PropertyOffset::VERSION, false);
        let identify = Identify::new(Cns::CONTROLLER, 0);
        assert_eq!(
            raw.command(version.entry(), &[]).await.status().code(),
            sequence
        );
        assert_eq!(
            raw.command(identify.entry(), &[]).await.status().code(),
            sequence
        );
        let connect = Connect::new(0, 31, 0);
        let connected = raw.connect(&connect, &connect_data(0xffff)).await;
        assert!(connected.status().is_success());
        let again = raw.connect(&connect, &connect_data(0xffff)).await;
        assert_eq!(again.status().code(), sequence);
        assert_eq!(
            raw.command(identify.entry(), &[]).await.status().code(),
            sequence
        );
        assert!(
            raw.command(version.entry(), &[])
                .await
                .status()
                .is_success()
        );

        // An I/O queue cannot join yet either.
        let controller_id = connected.result.get() as u16;
        let io = Raw::initialized(fixture.address).await;
        let queue = Connect::new(1, 31, 0);
        let early = io.connect(&queue, &connect_data(controller_id)).await;
        assert_eq!(early.status().code(), sequence);
        let status = Property::get(PropertyOffset::STATUS, false);
        let set = |configuration: Configuration| {
            *Property::set(PropertyOffset::CONFIGURATION, configuration.0).entry()
        };
        raw.command(&set(Configuration(1)), &[]).await;
        let csts = raw.command(status.entry(), &[]).await.result.get() as u32;
        assert_eq!(csts, controller_status::FATAL, "queue entry sizes of zero");
        raw.command(&set(Configuration(0)), &[]).await;
        raw.command(&set(Configuration::ENABLE), &[]).await;
        let csts = raw.command(status.entry(), &[]).await.result.get() as u32;
        assert_eq!(csts, controller_status::READY);
        assert!(
            io.connect(&queue, &connect_data(controller_id))
                .await
                .status()
                .is_success()
        );
        let twice = Raw::initialized(fixture.address).await;
        let refused = twice.connect(&queue, &connect_data(controller_id)).await;
        assert_eq!(refused.status().code(), sequence);
        let mut stranger = connect_data(controller_id);
        stranger.host_id = [9; 16];
        let refused = twice.connect(&Connect::new(2, 31, 0), &stranger).await;
        let parameter = InvalidParameter::from_result(refused.result.get() as u32);
        assert_eq!(parameter.offset, connect_offset::HOST_ID);

        // A controller reset takes the I/O queues with it and leaves the admin queue.
        assert_eq!(fixture.target.sessions()[0].io_queues, 1);
        raw.command(&set(Configuration(0)), &[]).await;
        assert!(io.closes_within(Duration::from_secs(1)).await);
        assert_eq!(fixture.target.sessions()[0].io_queues, 0);
        let shutdown = Configuration::ENABLE.with_shutdown(1);
        raw.command(&set(shutdown), &[]).await;
        let csts = raw.command(status.entry(), &[]).await.result.get() as u32;
        let expected = controller_status::READY | controller_status::SHUTDOWN_COMPLETE;
        assert_eq!(csts, expected);
    });
}

/// A host that asks for no flow control is told by FFFFh that it has it.
#[test]
fn flow_control_can_be_given_up() {
    simulate(32, async {
        let fixture = start();
        for (attributes, expected) in [(0, 1), (connect_attributes::DISABLE_FLOW_CONTROL, 0xffff)] {
            let raw = Raw::initialized(fixture.address).await;
            let mut connect = Connect::new(0, 31, 0);
            connect.attributes = attributes;
            let completion = raw.connect(&connect, &connect_data(0xffff)).await;
            assert!(completion.status().is_success());
            assert_eq!(completion.submission_head.get(), expected);
        }
    });
}

/// Who connects and says nothing, or says ICReq and no Connect, is shut out in time.
#[test]
fn silent_connections_are_closed() {
    simulate(33, async {
        let fixture = start();
        let nearly = Duration::from_secs(9);
        let silent = Raw::open(fixture.address).await;
        let half = Raw::initialized(fixture.address).await;
        assert!(!silent.closes_within(nearly).await);
        assert!(silent.closes_within(Duration::from_secs(3)).await);
        assert!(half.closes_within(Duration::from_secs(3)).await);
        assert_eq!(fixture.target.counters().connections, 0);
    });
}

/// Anybody may have a discovery controller, but has to be heard of, whatever it asks for; a host of
/// a subsystem need not.
#[test]
fn discovery_is_not_kept_for_whoever_is_silent() {
    simulate(37, async {
        let fixture = start();
        let address = fixture.address;
        let keeps = |keep_alive_ms: u32, subsystem: &'static str| async move {
            let raw = Raw::initialized(address).await;
            let data = ConnectData::new([1; 16], CONTROLLER_ID_DYNAMIC, subsystem, HOST);
            let connect = Connect::new(0, 31, keep_alive_ms);
            assert!(raw.connect(&connect, &data).await.status().is_success());
            raw.configure(Configuration::ENABLE).await;
            raw
        };
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let lasting = keeps(u32::MAX, DISCOVERY_NQN).await;
        let without = keeps(0, DISCOVERY_NQN).await;
        let host = keeps(u32::MAX, SUBSYSTEM).await;
        assert!(!without.closes_within(minutes(1)).await);
        assert!(without.closes_within(minutes(2)).await);
        assert!(!lasting.closes_within(minutes(6)).await);
        assert!(lasting.closes_within(minutes(3)).await);
        assert!(!host.closes_within(minutes(30)).await);
    });
}

/// A broken rule ends its own connection, after the last word, and no other.
#[test]
fn breaking_the_protocol_harms_nobody_else() {
    simulate(34, async {
        let fixture = start();
        let bystander = fixture.connect(options()).await;
        let raw = Raw::initialized(fixture.address).await;
        raw.send(InitializeRequest::new(0, 0, 0).as_bytes()).await;
        let said = raw.receive(24).await.unwrap();
        let (request, _) = TerminateRequest::read_from_prefix(&said).unwrap();
        assert_eq!(request.error(), FatalError::sequence());
        assert!(raw.closes_within(Duration::from_secs(5)).await);
        assert_eq!(fixture.target.counters().protocol_errors, 1);
        assert_eq!(bystander.active_namespaces().await.unwrap(), [1]);
    });
}

/// Too many commands outstanding cost the host its controller, all queues included.
#[test]
fn an_overfull_queue_ends_the_association() {
    simulate(35, async {
        let fixture = start();
        let (admin, id) = Raw::enabled(fixture.address, 0).await;
        let io = Raw::initialized(fixture.address).await;
        let data = connect_data(id);
        assert!(
            io.connect(&Connect::new(1, 3, 0), &data)
                .await
                .status()
                .is_success()
        );
        fixture.device.delay.set(Duration::from_secs(1));
        let read = ReadWrite::new(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(4096));
        for _ in 0..5 {
            io.send(&capsule(read.entry(), &[])).await;
        }
        let said = io.receive(24).await.unwrap();
        let (request, _) = TerminateRequest::read_from_prefix(&said).unwrap();
        assert_eq!(request.error(), FatalError::sequence());
        assert!(io.closes_within(Duration::from_secs(5)).await);
        assert!(admin.closes_within(Duration::from_secs(5)).await);
        assert!(fixture.target.sessions().is_empty());
        let ended = fixture.target.take_events().into_iter().any(|event| {
            matches!(
                event,
                TargetEvent::HostDisconnected {
                    reason: CloseReason::Protocol,
                    ..
                }
            )
        });
        assert!(ended);
    });
}

/// A host that asks for much and reads nothing is kept within bounds, and gets all of it when it
/// reads at last.
#[test]
fn a_host_that_stops_reading_costs_bounded_memory() {
    let of_connection = TargetSettings {
        read_bytes_max: 256 << 10,
        ..TargetSettings::default()
    };
    // Of all connections of the core together.
    let of_core = TargetSettings {
        data_bytes_max: 0,
        ..TargetSettings::default()
    };
    for settings in [of_connection, of_core] {
        stop_reading(settings);
    }
}

fn stop_reading(settings: TargetSettings) {
    simulate(36, async move {
        let fixture = Fixture::start(settings, geometry(4096, 1024));
        let (_admin, id) = Raw::enabled(fixture.address, 0).await;
        let io = Raw::initialized(fixture.address).await;
        let mut connect = Connect::new(1, 127, 0);
        connect.attributes = connect_attributes::DISABLE_FLOW_CONTROL;
        let data = connect_data(id);
        assert!(io.connect(&connect, &data).await.status().is_success());
        let bytes = 64 << 10;
        let read = ReadWrite::new(IoOpcode::READ, 1, 0, 16, SglDescriptor::transport(bytes));
        for _ in 0..100 {
            io.send(&capsule(read.entry(), &[])).await;
        }
        reactor::sleep(Duration::from_secs(2)).await;
        let executed = fixture.target.counters().namespaces[0].reads;
        assert!(
            executed < 12,
            "{executed} reads executed for a host that reads nothing"
        );
        for _ in 0..100 {
            let pdu = io.receive(24 + bytes as usize).await.unwrap();
            assert_eq!(pdu[0], 7);
        }
        assert_eq!(fixture.target.counters().namespaces[0].reads, 100);
    });
}

/// Shutting down answers what is in flight, closes what is open and leaves nothing.
#[test]
fn shutdown_finishes_what_is_in_flight() {
    use block::{BlockDevice, Buffer, Lba};
    simulate(37, async {
        let fixture = start();
        let controller = fixture.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        fixture.device.delay.set(Duration::from_millis(500));
        let read = reactor::spawn(async move { namespace.read(Lba(0), Buffer::new(4096)).await.1 });
        reactor::sleep(Duration::from_millis(100)).await;
        assert!(fixture.target.shutdown(Duration::from_secs(5)).await);
        assert_eq!(
            std::rc::Rc::strong_count(&fixture.device),
            2,
            "no command has the device"
        );
        assert_eq!(read.await, Ok(()));
        let counters = fixture.target.counters();
        assert_eq!((counters.connections, counters.controllers), (0, 0));
        let options = options();
        assert!(
            initiator::Controller::connect(fixture.address, SUBSYSTEM, options)
                .await
                .is_err()
        );
    });
}
