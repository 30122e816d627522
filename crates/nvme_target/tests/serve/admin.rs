//! Admin commands: what each answers, and with which status it refuses.

use std::cell::Cell;
use std::rc::Rc;

use block::Buffer;
use initiator::{Controller, Data};
use nvme::command::SubmissionEntry;
use nvme::event::config;
use nvme::fabrics::{DISCOVERY_NQN, Disconnect, Property, PropertyOffset};
use nvme::feature::{Feature, Features, HostBehaviour, QueueCount, Select, Timestamp};
use nvme::identify::{
    Cns, ControllerData, IdentifierType, Identify, IndependentNamespaceData, NamespaceData,
    descriptors, nsfeat,
};
use nvme::log::{
    AnaGroup, AnaHeader, AnaState, CommandEffects, DiscoveryHeader, ErrorEntry, FirmwareSlots,
    GetLogPage, LogPage, SmartHealth, SupportedPages, effects,
};
use nvme::text::{from_padded, from_terminated};
use nvme::{AdminOpcode, IoOpcode, SglDescriptor, Status};
use nvme_target::{TargetError, TargetSettings, UsedBlocks};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::io::geometry;
use crate::{Fixture, SUBSYSTEM, nqn, options, simulate};

/// The status a command ends with, without Do Not Retry.
pub(crate) async fn status(controller: &Controller, entry: &SubmissionEntry, data: Data) -> Status {
    controller
        .admin(*entry, data)
        .await
        .1
        .unwrap()
        .status()
        .code()
}

pub(crate) async fn page<T: FromBytes>(controller: &Controller, page: LogPage, nsid: u32) -> T {
    let bytes = controller
        .log_page(page, nsid, 0, size_of::<T>())
        .await
        .unwrap();
    T::read_from_bytes(&bytes).unwrap()
}

fn plain(opcode: AdminOpcode) -> SubmissionEntry {
    SubmissionEntry::new(opcode.0, 0, SglDescriptor::transport(0))
}

#[test]
fn identify_tells_what_is_there() {
    simulate(20, async {
        let mut device = geometry(512, 1000);
        device.optimal_write_blocks = 8;
        device.power_fail_atomic_blocks = 16;
        device.power_fail_atomic_boundary_blocks = 128;
        let fixture = Fixture::start(TargetSettings::default(), device);
        let controller = fixture.connect(options()).await;
        let identify = |cns, nsid| controller.identify_structure(cns, nsid);
        let bytes = identify(Cns::CONTROLLER, 0).await.unwrap();
        let data = ControllerData::read_from_bytes(&bytes).unwrap();
        assert_eq!(from_terminated(&data.subsystem_nqn), Some(SUBSYSTEM));
        assert_eq!(from_padded(&data.serial), "FY0001");
        assert_eq!(from_padded(&data.model), "Flashyard");
        assert_eq!(
            data.controller_id.get(),
            controller.controller_id().unwrap()
        );
        assert_eq!((data.controller_type, data.transfer_size_max), (1, 8));
        assert_eq!(data.command_capsule_units.get(), (64 + 8192) / 16);
        assert_eq!(
            (data.submission_entry_size, data.completion_entry_size),
            (0x66, 0x44)
        );

        let bytes = identify(Cns::NAMESPACE, 1).await.unwrap();
        let data = NamespaceData::read_from_bytes(&bytes).unwrap();
        assert_eq!(data.size_blocks.get(), 1000);
        assert_eq!(data.formats[0].block_shift, 9);
        assert_eq!(data.preferred_write_granularity.get(), 7);
        assert_eq!(data.atomic_power_fail.get(), 15);
        assert_eq!(data.atomic_boundary_power_fail.get(), 127);
        assert_eq!(data.deallocate, 0b1001);
        assert_eq!((data.nguid, data.eui64), ([1; 16], [1; 8]));
        assert_eq!(data.ana_group.get(), 1);

        let bytes = identify(Cns::NAMESPACE_DESCRIPTORS, 1).await.unwrap();
        let found: Vec<_> = descriptors(&bytes).collect();
        assert_eq!(found.len(), 4);
        assert!(found.contains(&(IdentifierType::UUID, &[101; 16][..])));
        assert!(found.contains(&(IdentifierType::COMMAND_SET, &[0][..])));
        let bytes = identify(Cns::INDEPENDENT_NAMESPACE, 1).await.unwrap();
        let data = IndependentNamespaceData::read_from_bytes(&bytes).unwrap();
        assert_eq!((data.status, data.multipath), (1, 1));
    });
}

/// THINP promises that NUSE follows what is deallocated (NVM 1.1 §4.1.5.1): what nobody counts for
/// is not thin, whatever it deallocates.
#[test]
fn a_thin_namespace_tells_what_is_in_use() {
    simulate(27, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 1000));
        let controller = fixture.connect(options()).await;
        let ask = async || -> NamespaceData {
            let bytes = controller.identify_structure(Cns::NAMESPACE, 1).await;
            let allocated = controller.identify_structure(Cns::ALLOCATED_NAMESPACE, 1);
            assert_eq!(allocated.await.unwrap()[..], bytes.as_ref().unwrap()[..]);
            let data = NamespaceData::read_from_bytes(&bytes.unwrap()).unwrap();
            assert_eq!(data.size_blocks.get(), 1000);
            assert_eq!(data.capacity_blocks.get(), 1000);
            data
        };
        let data = ask().await;
        assert_eq!(data.deallocate, 0b1001);
        assert_eq!(data.features & nsfeat::THIN, 0);
        assert_eq!(data.used_blocks.get(), 1000);

        let used = Rc::new(Cell::new(0));
        let counted = Rc::clone(&used);
        let used_blocks: UsedBlocks = Rc::new(move || counted.get());
        let (name, target) = (nqn(SUBSYSTEM), &fixture.target);
        target.set_thin(&name, 1, Rc::clone(&used_blocks)).unwrap();
        let unknown = target.set_thin(&name, 2, used_blocks);
        assert!(matches!(unknown, Err(TargetError::UnknownNamespace(2))));
        for (in_use, told) in [(0, 0), (7, 7), (1000, 1000), (1001, 1000), (3, 3)] {
            used.set(in_use);
            let data = ask().await;
            assert_eq!(data.used_blocks.get(), told);
            assert_eq!(data.features & nsfeat::THIN, nsfeat::THIN);
        }
    });
}

/// Every CNS that hosts send is answered, or refused with the status they expect.
#[test]
fn identify_refuses_by_the_book() {
    simulate(21, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let discovery = Controller::connect(fixture.address, DISCOVERY_NQN, options())
            .await
            .unwrap();
        let ok = Status::SUCCESS;
        let (field, namespace) = (Status::INVALID_FIELD, Status::INVALID_NAMESPACE);
        let command_set_status = Status::INVALID_COMMAND_SET;
        for (cns, nsid, command_set, expected) in [
            (Cns::NAMESPACE, 1, 0, ok),
            (Cns::NAMESPACE, 2, 0, ok),
            (Cns::NAMESPACE, 0, 0, namespace),
            (Cns::NAMESPACE, 50_000, 0, namespace),
            (Cns::NAMESPACE, u32::MAX, 0, ok),
            (Cns::ACTIVE_NAMESPACES, 0, 0, ok),
            (Cns::ACTIVE_NAMESPACES, u32::MAX - 1, 0, namespace),
            (Cns::ACTIVE_NAMESPACES, u32::MAX, 0, namespace),
            (Cns::NAMESPACE_DESCRIPTORS, 2, 0, namespace),
            (Cns::COMMAND_SET_NAMESPACE, 1, 0, ok),
            (Cns::COMMAND_SET_NAMESPACE, 1, 2, command_set_status),
            (Cns::COMMAND_SET_CONTROLLER, 0, 0, ok),
            (Cns::COMMAND_SET_CONTROLLER, 0, 2, ok),
            (Cns::COMMAND_SET_ACTIVE_NAMESPACES, 0, 0, ok),
            (Cns::INDEPENDENT_NAMESPACE, 1, 0, ok),
            (Cns::ALLOCATED_NAMESPACES, 0, 0, ok),
            (Cns::ALLOCATED_NAMESPACE, 1, 0, ok),
            (Cns::NAMESPACE_CONTROLLERS, 1, 0, ok),
            (Cns::NAMESPACE_CONTROLLERS, 50_000, 0, namespace),
            (Cns::CONTROLLERS, 0, 0, ok),
            (Cns::UUIDS, 0, 0, field),
            (Cns::NVM_SETS, 0, 0, field),
            (Cns::COMMAND_SETS, 0, 0, field),
            (Cns(0xee), 0, 0, field),
        ] {
            let mut identify = Identify::new(cns, nsid);
            identify.command_set = command_set;
            let data = || Data::In(Buffer::new(4096));
            let found = status(&controller, identify.entry(), data()).await;
            assert_eq!(
                found, expected,
                "{cns:?} of {nsid:#x}, command set {command_set}"
            );
            let expected = if cns == Cns::CONTROLLER { ok } else { field };
            assert_eq!(
                status(&discovery, identify.entry(), data()).await,
                expected,
                "{cns:?}"
            );
        }
    });
}

#[test]
fn log_pages_say_what_they_should() {
    simulate(22, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let supported: SupportedPages = page(&controller, LogPage::SUPPORTED, 0).await;
        let pages: Vec<usize> = (0..256)
            .filter(|index| supported.pages[*index].get() & 1 != 0)
            .collect();
        assert_eq!(pages, [0, 1, 2, 3, 4, 5, 0x0c, 0x12, 0x13, 0x1e, 0x80]);
        for index in pages {
            let log = controller
                .log_page(LogPage(index as u8), u32::MAX, 0, 64)
                .await;
            assert!(log.is_ok(), "supported page {index:#x}");
        }
        let commands: CommandEffects = page(&controller, LogPage::COMMAND_EFFECTS, 0).await;
        let write = commands.io[usize::from(IoOpcode::WRITE.0)].get();
        let changes = effects::SUPPORTED | effects::CONTENT_CHANGE;
        assert_eq!(write, changes | effects::OF_NAMESPACE);
        let lacking = usize::from(IoOpcode::WRITE_UNCORRECTABLE.0);
        assert_eq!(commands.io[lacking].get(), 0);
        let read = commands.admin[usize::from(AdminOpcode::IDENTIFY.0)].get();
        assert_eq!(read, effects::SUPPORTED | effects::OF_CONTROLLER);
        let reset = AdminOpcode::CROSS_CONTROLLER_RESET.0;
        let reset = commands.admin[usize::from(reset)].get();
        assert_eq!(reset, effects::SUPPORTED | effects::OF_SUBSYSTEM);
        let features: SupportedPages = page(&controller, LogPage::FEATURE_EFFECTS, 0).await;
        let said = |feature: Feature| features.pages[usize::from(feature.0)].get();
        let of_namespace = effects::SUPPORTED | effects::OF_NAMESPACE;
        assert_eq!(said(Feature::RESERVATION_MASK), of_namespace);
        assert_eq!(said(Feature::VOLATILE_WRITE_CACHE), 0, "nothing caches");
        let slots: FirmwareSlots = page(&controller, LogPage::FIRMWARE, 0).await;
        assert_eq!(from_padded(&slots.revisions[0]), env!("CARGO_PKG_VERSION"));

        let namespace = controller.namespace(1).await.unwrap();
        use block::{BlockDevice, Durability, IoError, Lba};
        for _ in 0..3 {
            namespace.read(Lba(0), Buffer::new(4096)).await.1.unwrap();
        }
        namespace
            .write(Lba(9), Buffer::zeroed(8192), Durability::Cached)
            .await
            .1
            .unwrap();
        fixture.device.failing.set(Some(IoError::UnrecoveredRead));
        namespace
            .read(Lba(7), Buffer::new(4096))
            .await
            .1
            .unwrap_err();
        let smart: SmartHealth = page(&controller, LogPage::SMART, u32::MAX).await;
        assert_eq!(
            (smart.read_commands.get(), smart.write_commands.get()),
            (4, 1)
        );
        assert_eq!(
            (smart.data_units_read.get(), smart.media_errors.get()),
            (1, 1)
        );
        // Neither as cold as nothing is, nor warm enough for a monitor to warn.
        let bytes = controller
            .identify_structure(Cns::CONTROLLER, 0)
            .await
            .unwrap();
        let data = ControllerData::read_from_bytes(&bytes).unwrap();
        let (warning, critical) = (data.warning_temperature, data.critical_temperature);
        assert!((274..warning.get()).contains(&smart.temperature.get()));
        assert!(warning.get() < critical.get());
        let error: ErrorEntry = page(&controller, LogPage::ERROR, u32::MAX).await;
        assert_eq!((error.error_count.get(), error.lba.get()), (1, 7));
        let read_error = Status::from_wire(error.status.get());
        assert_eq!(read_error.code(), Status::UNRECOVERED_READ_ERROR);

        let ana = controller.log_page(LogPage::ANA, 0, 0, 52).await.unwrap();
        let (header, rest) = AnaHeader::read_from_prefix(&ana).unwrap();
        let (group, rest) = AnaGroup::read_from_prefix(rest).unwrap();
        assert_eq!((header.groups.get(), group.namespaces.get()), (1, 1));
        assert_eq!(
            (group.state, rest),
            (AnaState::OPTIMIZED, &[1, 0, 0, 0][..])
        );
    });
}

/// Offsets, lengths and pages that are not there.
#[test]
fn log_pages_are_read_in_parts_and_refused_by_the_book() {
    simulate(23, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let discovery = Controller::connect(fixture.address, DISCOVERY_NQN, options())
            .await
            .unwrap();
        let whole = discovery
            .log_page(LogPage::DISCOVERY, 0, 0, 3072)
            .await
            .unwrap();
        let (header, _) = DiscoveryHeader::read_from_prefix(&whole).unwrap();
        assert_eq!(header.records.get(), 2);
        let mut parts = Vec::new();
        for offset in (0..3072).step_by(512) {
            let part = discovery
                .log_page(LogPage::DISCOVERY, 0, offset, 512)
                .await
                .unwrap();
            parts.extend_from_slice(&part);
        }
        assert_eq!(parts, whole[..]);

        let log = |page, offset| GetLogPage::new(page, 0, offset, 512);
        let mut indexed = log(LogPage::SMART, 0);
        indexed.offset_type = 0x80;
        let mut longer = log(LogPage::SMART, 0);
        longer.dwords_low = 1000.into();
        for (who, command, expected) in [
            (
                &controller,
                log(LogPage::DISCOVERY, 0),
                Status::INVALID_LOG_PAGE,
            ),
            (&controller, log(LogPage(0xc0), 0), Status::INVALID_LOG_PAGE),
            (
                &controller,
                log(LogPage::SMART, 1 << 40),
                Status::INVALID_FIELD,
            ),
            (&controller, indexed, Status::INVALID_FIELD),
            (&controller, longer, Status::DATA_SGL_LENGTH_INVALID),
            (&discovery, log(LogPage::SMART, 0), Status::INVALID_LOG_PAGE),
            (&discovery, log(LogPage::SUPPORTED, 0), Status::SUCCESS),
        ] {
            let data = Data::In(Buffer::new(512));
            assert_eq!(
                status(who, command.entry(), data).await,
                expected,
                "{command:?}"
            );
        }
    });
}

pub(crate) fn features(opcode: AdminOpcode, feature: Feature, value: u32, bytes: u32) -> Features {
    let entry = SubmissionEntry::new(opcode.0, 0, SglDescriptor::transport(bytes));
    let mut command = *Features::of(&entry);
    command.feature = feature;
    command.value = value.into();
    command
}

#[test]
fn features_keep_what_hosts_set() {
    simulate(24, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let mut options = options();
        options.async_events = false;
        let controller = fixture.connect(options).await;
        let queues = controller
            .get_feature(Feature::NUMBER_OF_QUEUES, 0)
            .await
            .unwrap();
        assert_eq!(QueueCount::from_value(queues).submission.get(), 127);
        for (feature, value) in [
            (
                Feature::ASYNC_EVENT_CONFIGURATION,
                config::NAMESPACE_ATTRIBUTE,
            ),
            (Feature::KEEP_ALIVE_TIMER, 30_000),
            (Feature::ARBITRATION, 7),
            (Feature::ERROR_RECOVERY, 9),
            (Feature::WRITE_ATOMICITY, 1),
            (Feature::TEMPERATURE_THRESHOLD, 400),
        ] {
            controller.set_feature(feature, value).await.unwrap();
            let selector = if feature == Feature::TEMPERATURE_THRESHOLD {
                0
            } else {
                value
            };
            let found = controller.get_feature(feature, selector).await.unwrap();
            assert_eq!(found, value, "{feature:?}");
        }
        let set = features(AdminOpcode::SET_FEATURES, Feature::TIMESTAMP, 0, 8);
        let stamp = Buffer::copy_of(Timestamp::new(1_000_000, 0).as_bytes());
        assert_eq!(
            status(&controller, set.entry(), Data::Out(stamp)).await,
            Status::SUCCESS
        );
        reactor::sleep(std::time::Duration::from_secs(5)).await;
        let get = features(AdminOpcode::GET_FEATURES, Feature::TIMESTAMP, 0, 8);
        let (data, _) = controller
            .admin(*get.entry(), Data::In(Buffer::zeroed(8)))
            .await;
        let stamp = Timestamp::read_from_bytes(&data.into_buffer().unwrap()).unwrap();
        assert!(
            (1_005_000..1_005_100).contains(&stamp.milliseconds()),
            "{stamp:?}"
        );
        let mut behaviour = HostBehaviour::new_zeroed();
        behaviour.retry_delays = 1;
        let set = features(AdminOpcode::SET_FEATURES, Feature::HOST_BEHAVIOUR, 0, 512);
        let data = Data::Out(Buffer::copy_of(behaviour.as_bytes()));
        assert_eq!(
            status(&controller, set.entry(), data).await,
            Status::SUCCESS
        );
        let get = features(AdminOpcode::GET_FEATURES, Feature::HOST_BEHAVIOUR, 0, 512);
        let (data, _) = controller
            .admin(*get.entry(), Data::In(Buffer::zeroed(512)))
            .await;
        assert_eq!(data.into_buffer().unwrap()[..2], [1, 0]);
    });
}

#[test]
fn features_refuse_by_the_book() {
    simulate(25, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let set = |feature, value| features(AdminOpcode::SET_FEATURES, feature, value, 0);
        let get = |feature, select: Select| {
            let mut command = features(AdminOpcode::GET_FEATURES, feature, 0, 0);
            command.select = select.0;
            command
        };
        let mut saved = set(Feature::ERROR_RECOVERY, 1);
        saved.save = 0x80;
        for (command, expected) in [
            (saved, Status::FEATURE_NOT_SAVEABLE),
            (set(Feature(0xd0), 1), Status::INVALID_FIELD),
            (set(Feature::RESERVATION_MASK, 1), Status::INVALID_NAMESPACE),
            (set(Feature::POWER_MANAGEMENT, 3), Status::INVALID_FIELD),
            (
                set(Feature::NUMBER_OF_QUEUES, 0xffff),
                Status::INVALID_FIELD,
            ),
            (
                set(Feature::NUMBER_OF_QUEUES, 0x10001),
                Status::COMMAND_SEQUENCE_ERROR,
            ),
            (set(Feature::VOLATILE_WRITE_CACHE, 1), Status::INVALID_FIELD),
            (
                set(Feature::HOST_IDENTIFIER, 1),
                Status::COMMAND_SEQUENCE_ERROR,
            ),
            (
                get(Feature::ERROR_RECOVERY, Select::DEFAULT),
                Status::SUCCESS,
            ),
            (
                get(Feature::ERROR_RECOVERY, Select::CAPABILITIES),
                Status::SUCCESS,
            ),
            (
                get(Feature::ERROR_RECOVERY, Select(5)),
                Status::INVALID_FIELD,
            ),
            (get(Feature(0xd0), Select::CURRENT), Status::INVALID_FIELD),
        ] {
            let found = status(&controller, command.entry(), Data::None).await;
            assert_eq!(found, expected, "{command:?}");
        }
    });
}

/// Commands that have no place on an admin queue, or no place here.
#[test]
fn other_admin_commands_refuse_by_the_book() {
    simulate(26, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let property = |offset| *Property::get(offset, false).entry();
        let wide = |offset| *Property::get(offset, true).entry();
        let fused = SubmissionEntry {
            flags: 0x40 | 0b11,
            ..plain(AdminOpcode::KEEP_ALIVE)
        };
        for (entry, expected) in [
            (plain(AdminOpcode::KEEP_ALIVE), Status::SUCCESS),
            (plain(AdminOpcode::ABORT), Status::SUCCESS),
            (fused, Status::INVALID_FIELD),
            (plain(AdminOpcode::FORMAT_NVM), Status::INVALID_OPCODE),
            (plain(AdminOpcode(0xc0)), Status::INVALID_OPCODE),
            (*Disconnect::new().entry(), Status::INVALID_QUEUE_TYPE),
            (property(PropertyOffset::VERSION), Status::SUCCESS),
            (
                property(PropertyOffset::CAPABILITIES),
                Status::INVALID_FIELD,
            ),
            (wide(PropertyOffset::CAPABILITIES), Status::SUCCESS),
            (wide(PropertyOffset::STATUS), Status::INVALID_FIELD),
            (property(PropertyOffset(0x1000)), Status::INVALID_FIELD),
            (
                *Property::set(PropertyOffset::VERSION, 1).entry(),
                Status::INVALID_FIELD,
            ),
            (
                *Property::set(PropertyOffset::SUBSYSTEM_RESET, 1).entry(),
                Status::SUCCESS,
            ),
        ] {
            let found = status(&controller, &entry, Data::None).await;
            assert_eq!(found, expected, "{entry:?}");
        }
    });
}
