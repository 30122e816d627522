//! What the specification asks for and no host that is common happens to need.

use block::Buffer;
use initiator::{Controller, Data};
use nvme::event::config;
use nvme::fabrics::{Configuration, DISCOVERY_NQN, Property, PropertyOffset};
use nvme::feature::{Feature, HostBehaviour};
use nvme::identify::{Cns, ControllerData, lpa};
use nvme::log::{GetLogPage, LogPage, SupportedPages};
use nvme::{AdminOpcode, SglDescriptor, Status, SubmissionEntry};
use nvme_target::TargetSettings;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::admin::{features, page, status};
use crate::io::geometry;
use crate::raw::Raw;
use crate::{Fixture, options, simulate};

fn start() -> Fixture {
    Fixture::start(TargetSettings::default(), geometry(4096, 64))
}

async fn discovery(fixture: &Fixture) -> Controller {
    let connected = Controller::connect(fixture.address, DISCOVERY_NQN, options()).await;
    connected.unwrap()
}

/// A command that carries no data is executed whatever its data pointer says (Base 2.0 4.3.2): some
/// hosts leave it zero. One that needs data is refused for the lack of it.
#[test]
fn a_command_without_data_needs_no_data_pointer() {
    simulate(120, async {
        let fixture = start();
        let (raw, _) = Raw::enabled(fixture.address, 0).await;
        for (opcode, feature, value) in [
            (
                AdminOpcode::SET_FEATURES,
                Feature::ASYNC_EVENT_CONFIGURATION,
                0,
            ),
            (
                AdminOpcode::SET_FEATURES,
                Feature::NUMBER_OF_QUEUES,
                0x1_0001,
            ),
            (AdminOpcode::SET_FEATURES, Feature::KEEP_ALIVE_TIMER, 5000),
            (AdminOpcode::GET_FEATURES, Feature::NUMBER_OF_QUEUES, 0),
        ] {
            for flags in [0, 0x40] {
                let mut entry = *features(opcode, feature, value, 0).entry();
                entry.data = SglDescriptor::new_zeroed();
                entry.flags = flags;
                let answer = raw.command(&entry, &[]).await;
                assert_eq!(answer.status(), Status::SUCCESS, "{feature:?}");
            }
        }
        let mut stamp = *features(AdminOpcode::SET_FEATURES, Feature::TIMESTAMP, 0, 0).entry();
        stamp.data = SglDescriptor::new_zeroed();
        let answer = raw.command(&stamp, &[]).await.status();
        assert_eq!(answer.code(), Status::DATA_SGL_LENGTH_INVALID);
    });
}

/// From version 2.0 on a controller states how long it takes to be ready (CAP.CRMS, CRTO).
#[test]
fn a_controller_says_when_it_is_ready() {
    simulate(121, async {
        let fixture = start();
        let (raw, _) = Raw::enabled(fixture.address, 0).await;
        let get = async |offset, wide| {
            let property = Property::get(offset, wide);
            raw.command(property.entry(), &[]).await.result.get()
        };
        let capabilities = get(PropertyOffset::CAPABILITIES, true).await;
        assert_eq!(get(PropertyOffset::VERSION, false).await, 0x2_0000);
        assert_eq!(capabilities >> 59 & 0b11, 1);
        let timeouts = get(PropertyOffset::READY_TIMEOUTS, false).await;
        assert_eq!(timeouts, capabilities >> 24 & 0xff);
    });
}

/// A keep alive timeout counts in whole units of KAS, rounded up, and that of Connect counts again
/// after a reset of the controller.
#[test]
fn a_keep_alive_timeout_is_rounded_up_and_reset() {
    simulate(122, async {
        let fixture = start();
        let (raw, _) = Raw::enabled(fixture.address, 5500).await;
        let ask = async |opcode, value| {
            let asked = features(opcode, Feature::KEEP_ALIVE_TIMER, value, 0);
            let answer = raw.command(asked.entry(), &[]).await;
            assert!(answer.status().is_success());
            answer.result.get()
        };
        assert_eq!(ask(AdminOpcode::GET_FEATURES, 0).await, 6000);
        for (said, counts) in [(1, 1000), (1500, 2000), (30_000, 30_000)] {
            ask(AdminOpcode::SET_FEATURES, said).await;
            assert_eq!(ask(AdminOpcode::GET_FEATURES, 0).await, counts);
        }
        raw.configure(Configuration(0)).await;
        raw.configure(Configuration::ENABLE).await;
        assert_eq!(ask(AdminOpcode::GET_FEATURES, 0).await, 6000);
    });
}

/// An offset beyond a log page, or one that is no whole dword, is refused; one at its end is not.
#[test]
fn a_log_page_is_read_within_its_length() {
    simulate(123, async {
        let fixture = start();
        let controller = fixture.connect(options()).await;
        let ok = Status::SUCCESS;
        for (log, offset, expected) in [
            (LogPage::SMART, 508, ok),
            (LogPage::SMART, 512, ok),
            (LogPage::SMART, 516, Status::INVALID_FIELD),
            (LogPage::SMART, 4096, Status::INVALID_FIELD),
            (LogPage::SMART, 2, Status::INVALID_FIELD),
            (LogPage::SMART, 3, Status::INVALID_FIELD),
            (LogPage::ANA, 4000, Status::INVALID_FIELD),
            (LogPage::CHANGED_NAMESPACES, 4092, ok),
        ] {
            let command = GetLogPage::new(log, u32::MAX, offset, 512);
            let data = Data::In(Buffer::new(512));
            let found = status(&controller, command.entry(), data).await;
            assert_eq!(found, expected, "{log:?} from {offset}");
        }
        // Of a log that may become shorter while it is read, zeroes are read.
        let command = GetLogPage::new(LogPage::DISCOVERY, 0, 8192, 512);
        let data = Data::In(Buffer::new(512));
        let discovery = discovery(&fixture).await;
        assert_eq!(status(&discovery, command.entry(), data).await, ok);
    });
}

/// LPA promises no log page that is not there, on either kind of controller.
#[test]
fn log_pages_are_as_advertised() {
    simulate(124, async {
        let fixture = start();
        let controller = fixture.connect(options()).await;
        let advertised = async |of: &Controller| {
            let bytes = of.identify_structure(Cns::CONTROLLER, 0).await.unwrap();
            ControllerData::read_from_bytes(&bytes)
                .unwrap()
                .log_attributes
        };
        assert_ne!(advertised(&controller).await & lpa::SUPPORTED_PAGES, 0);
        let pages: SupportedPages = page(&controller, LogPage::SUPPORTED, 0).await;
        for log in [0x00, 0x12, 0x13] {
            assert_eq!(pages.pages[log].get() & 1, 1, "{log:#x}");
            let read = controller.log_page(LogPage(log as u8), 0, 0, 1024).await;
            assert!(read.is_ok(), "{log:#x}");
        }
        let discovery = discovery(&fixture).await;
        let of_discovery = advertised(&discovery).await;
        assert_eq!(of_discovery, lpa::EXTENDED);
    });
}

/// A feature of the controller is not set for a namespace, and none is set for a namespace that is
/// not there (Base 2.0 5.27).
#[test]
fn a_feature_is_set_in_its_own_scope() {
    simulate(125, async {
        let controller = start().connect(options()).await;
        let not_of_namespace = Status::FEATURE_NOT_NAMESPACE_SPECIFIC;
        for (feature, nsid, expected) in [
            (Feature::ASYNC_EVENT_CONFIGURATION, 0, Status::SUCCESS),
            (
                Feature::ASYNC_EVENT_CONFIGURATION,
                u32::MAX,
                Status::SUCCESS,
            ),
            (Feature::ASYNC_EVENT_CONFIGURATION, 1, not_of_namespace),
            (Feature::ARBITRATION, 77_777, Status::INVALID_NAMESPACE),
            (Feature::ARBITRATION, 2, Status::INVALID_NAMESPACE),
            (Feature::ERROR_RECOVERY, 1, Status::SUCCESS),
        ] {
            let mut set = features(AdminOpcode::SET_FEATURES, feature, 0, 0);
            set.namespace_id = nsid.into();
            let found = status(&controller, set.entry(), Data::None).await;
            assert_eq!(found, expected, "{feature:?} of {nsid}");
        }
    });
}

/// What a host enables and the controller does not have is not echoed as if it had.
#[test]
fn nothing_is_enabled_that_is_not_there() {
    simulate(126, async {
        let fixture = start();
        let mut quiet = options();
        quiet.async_events = false;
        let controller = fixture.connect(quiet).await;
        let events = Feature::ASYNC_EVENT_CONFIGURATION;
        controller.set_feature(events, u32::MAX).await.unwrap();
        let enabled = controller.get_feature(events, 0).await.unwrap();
        let own = config::SMART_MASK
            | config::NAMESPACE_ATTRIBUTE
            | config::ANA_CHANGE
            | config::CROSS_RESET;
        assert_eq!(enabled, own);
        let discovery = discovery(&fixture).await;
        discovery.set_feature(events, u32::MAX).await.unwrap();
        let enabled = discovery.get_feature(events, 0).await.unwrap();
        assert_eq!(enabled, config::DISCOVERY_CHANGE);

        let mut behaviour = HostBehaviour::new_zeroed();
        behaviour.retry_delays = 7;
        behaviour.extended_telemetry = 1;
        behaviour.extended_lba_formats = 1;
        let ask = |opcode| *features(opcode, Feature::HOST_BEHAVIOUR, 0, 512).entry();
        let set: SubmissionEntry = ask(AdminOpcode::SET_FEATURES);
        let data = Data::Out(Buffer::copy_of(behaviour.as_bytes()));
        assert_eq!(status(&controller, &set, data).await, Status::SUCCESS);
        let get = ask(AdminOpcode::GET_FEATURES);
        let (data, _) = controller.admin(get, Data::In(Buffer::zeroed(512))).await;
        assert_eq!(data.into_buffer().unwrap()[..3], [1, 0, 0]);
    });
}
