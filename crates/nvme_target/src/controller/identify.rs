//! Identify (NVMe 2.0 §5.17).

use std::rc::Rc;

use block::{BlockDevice, Buffer, Geometry};
use nvme::Status;
use nvme::command::ALL_NAMESPACES;
use nvme::copy::CopyFormat;
use nvme::event::config;
use nvme::fabrics::VERSION_2_0;
use nvme::identify::{
    Cns, ControllerAttributes, ControllerData, IDENTIFY_BYTES, IdentifierType, Identify,
    IndependentNamespaceData, LbaFormat, NamespaceData, NvmControllerData, NvmNamespaceData,
    anacap, cmic, controller_type, dlfeat, fuses, lpa, nmic, nsattr, nsfeat, nwpc, oncs,
    push_descriptor, sgls,
};
use nvme::text::{padded, terminated};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

use super::cross_reset::CROSS_RESETS_MAX;
use super::event::{EVENT_REQUESTS_MAX, IO_EVENTS};
use super::{Controller, Kind};
use crate::copy::CopyLimits;
use crate::errors::ERROR_LOG_ENTRIES;
use crate::instance::QUIESCE_MS;
use crate::io::COMPARE_WRITE_BYTES_MAX;
use crate::namespace::Namespace;
use crate::paths::{AnaGroupId, GROUPS_MAX, Paths, TRANSITION};
use crate::per_core::Core;
use crate::settings::{NAMESPACE_ID_MAX, Transport};
use crate::transport::Reply;
use crate::unready::RETRY_DELAY_100MS;
use crate::view::View;

/// CSI of the NVM command set, the only one here.
const NVM_COMMAND_SET: u8 = 0;
/// Abort commands a host may have outstanding (ACL is one less).
const ABORT_LIMIT: u8 = 3;
/// KAS: the keep alive timer counts in units of 100 ms.
pub(crate) const KEEP_ALIVE_GRANULARITY_100MS: u16 = 10;
/// WCTEMP and CCTEMP, kelvin: a controller has both, though nothing here gets warm. They are what
/// drives have, and WCTEMP is what hosts read of the threshold before they set another.
pub(super) const TEMPERATURE_WARNING: u16 = 343;
const TEMPERATURE_CRITICAL: u16 = 373;
/// The firmware revision: the first eight characters of the version.
pub(crate) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

pub(super) type Outcome = Result<Reply, Status>;

impl<D: BlockDevice + 'static> Controller<D> {
    pub(super) fn identify(&self, command: &Identify, core: &Core<D>) -> Outcome {
        let reservations = core.reservation_capabilities();
        if (command.data.length.get() as usize) < IDENTIFY_BYTES {
            return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        }
        let id = command.namespace_id.get();
        if command.cns == Cns::CONTROLLER {
            return page(self.controller_data(core).as_bytes());
        }
        let Kind::Io(subsystem) = &self.kind else {
            return Err(Status::INVALID_FIELD.do_not_retry());
        };
        let nvm = command.command_set == NVM_COMMAND_SET;
        match command.cns {
            Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => match subsystem.namespace(id) {
                Some(namespace) => {
                    page(namespace_data(&namespace, reservations, &self.paths).as_bytes())
                }
                None if id == ALL_NAMESPACES => page(common_namespace_data().as_bytes()),
                None => no_namespace(id),
            },
            Cns::ACTIVE_NAMESPACES | Cns::ALLOCATED_NAMESPACES => namespace_list(subsystem, id),
            Cns::COMMAND_SET_ACTIVE_NAMESPACES | Cns::COMMAND_SET_ALLOCATED_NAMESPACES if nvm => {
                namespace_list(subsystem, id)
            }
            Cns::NAMESPACE_DESCRIPTORS => match subsystem.namespace(id) {
                Some(namespace) => page(&descriptors(&namespace)),
                None => Err(Status::INVALID_NAMESPACE.do_not_retry()),
            },
            Cns::COMMAND_SET_NAMESPACE if nvm => match subsystem.namespace(id) {
                Some(_) => page(NvmNamespaceData::new_zeroed().as_bytes()),
                None => no_namespace(id),
            },
            Cns::COMMAND_SET_CONTROLLER if nvm => page(NvmControllerData::new_zeroed().as_bytes()),
            Cns::COMMAND_SET_NAMESPACE
            | Cns::COMMAND_SET_ACTIVE_NAMESPACES
            | Cns::COMMAND_SET_ALLOCATED_NAMESPACES => {
                Err(Status::INVALID_COMMAND_SET.do_not_retry())
            }
            // Other command sets are not supported; zeroes say so (NVMe 2.0 §5.17.2.7).
            Cns::COMMAND_SET_CONTROLLER => page(&[]),
            Cns::INDEPENDENT_NAMESPACE => match subsystem.namespace(id) {
                Some(namespace) => {
                    let data = namespace_data(&namespace, reservations, &self.paths);
                    page(independent_data(&data).as_bytes())
                }
                None => no_namespace(id),
            },
            Cns::NAMESPACE_CONTROLLERS if subsystem.namespace(id).is_none() => no_namespace(id),
            Cns::NAMESPACE_CONTROLLERS | Cns::CONTROLLERS => {
                self.controller_list(command.controller_id.get())
            }
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    pub(super) fn controller_data(&self, core: &Core<D>) -> ControllerData {
        let settings = &core.settings;
        let mut data = ControllerData::new_zeroed();
        let transfer_pages = settings.connection.transfer_bytes_max / 4096;
        data.firmware = padded(FIRMWARE);
        data.transfer_size_max = transfer_pages.max(1).ilog2() as u8;
        data.controller_id = U16::new(self.id);
        data.version = U32::new(VERSION_2_0);
        data.attributes = U32::new(
            ControllerAttributes::HOST_ID_128
                | ControllerAttributes::TRAFFIC_KEEP_ALIVE
                | ControllerAttributes::RESERVATIONS_NEED_HOST_ID,
        );
        data.event_request_limit = EVENT_REQUESTS_MAX as u8 - 1;
        data.log_attributes = lpa::EXTENDED;
        data.keep_alive_granularity = U16::new(KEEP_ALIVE_GRANULARITY_100MS);
        data.commands_max = U16::new(settings.queue_entries_max);
        data.sgl_support = U32::new(sgls::SUPPORTED | sgls::OFFSET | self.data_descriptor());
        data.subsystem_nqn = terminated(self.subsystem_nqn.as_str());
        data.command_capsule_units = U32::new((64 + settings.connection.in_capsule_bytes_max) / 16);
        data.response_capsule_units = U32::new(1);
        data.sgl_descriptors_max = 1;
        data.fabrics_commands = U16::new(1);
        match &self.kind {
            Kind::Io(subsystem) => self.io_controller_data(&mut data, subsystem),
            Kind::Discovery(name) => {
                data.controller_type = controller_type::DISCOVERY;
                data.subsystem_nqn = terminated(name.as_str());
                data.async_events = U32::new(config::DISCOVERY_CHANGE);
            }
        }
        if self.offers_protection(core) {
            data.write_protection = nwpc::WRITE_PROTECT;
        }
        data
    }

    /// The kind of descriptor for data outside of capsules.
    fn data_descriptor(&self) -> u32 {
        let admin = self.admin.upgrade();
        match admin.map(|session| session.origin.transport) {
            Some(Transport::Rdma) => sgls::KEYED,
            Some(Transport::Tcp) | None => sgls::TRANSPORT,
        }
    }

    fn io_controller_data(&self, data: &mut ControllerData, subsystem: &View<D>) {
        data.serial = padded(&subsystem.settings.serial);
        data.model = padded(&subsystem.settings.model);
        data.controller_type = controller_type::IO;
        data.multipath = cmic::PORTS | cmic::CONTROLLERS | cmic::ANA;
        data.async_events = U32::new(IO_EVENTS);
        let instance = self.instance.get();
        data.instance_uniquifier = instance.uniquifier;
        data.instance_random = instance.random.into();
        data.cross_resets_max = CROSS_RESETS_MAX;
        data.command_quiesce_ms = U16::new(QUIESCE_MS);
        data.retry_delays = [U16::new(RETRY_DELAY_100MS), U16::ZERO, U16::ZERO];
        data.abort_limit = ABORT_LIMIT;
        data.error_log_entries = ERROR_LOG_ENTRIES as u8 - 1;
        data.log_attributes |=
            lpa::COMMAND_EFFECTS | lpa::SMART_PER_NAMESPACE | lpa::SUPPORTED_PAGES;
        data.warning_temperature = U16::new(TEMPERATURE_WARNING);
        data.critical_temperature = U16::new(TEMPERATURE_CRITICAL);
        // Slot 1 is there and cannot be written.
        data.firmware_updates = 0b11;
        data.ana_transition_s = TRANSITION.as_secs() as u8;
        data.ana_capabilities = anacap::OPTIMIZED
            | anacap::NON_OPTIMIZED
            | anacap::INACCESSIBLE
            | anacap::PERSISTENT_LOSS
            | anacap::CHANGE
            | anacap::GROUP_FIXED;
        data.ana_group_max = U32::new(AnaGroupId::MAX.number());
        data.ana_groups = U32::new(GROUPS_MAX as u32);
        data.submission_entry_size = 6 << 4 | 6;
        data.completion_entry_size = 4 << 4 | 4;
        data.namespace_max = U32::new(NAMESPACE_ID_MAX);
        data.namespaces_allowed = U32::new(NAMESPACE_ID_MAX);
        data.io_commands = U16::new(
            oncs::COMPARE
                | oncs::DATASET_MANAGEMENT
                | oncs::WRITE_ZEROES
                | oncs::FEATURE_SELECT
                | oncs::RESERVATIONS
                | oncs::TIMESTAMP
                | oncs::VERIFY
                | oncs::COPY
                | oncs::COPY_SINGLE_ATOMICITY,
        );
        data.copy_formats = U16::new(1 << CopyFormat::OWN.0 | 1 << CopyFormat::NAMED.0);
        data.fused = U16::new(fuses::COMPARE_WRITE);
        // Flush takes NSID FFFFFFFFh (11b in bits 2:1).
        data.write_cache = 0b110 | u8::from(self.has_write_cache());
        if let Some(state) = data.power_state_descriptors.first_mut() {
            state.power_max = U16::new(2500);
        }
    }

    /// True when any namespace has a volatile write cache.
    pub(super) fn has_write_cache(&self) -> bool {
        self.subsystem().is_some_and(|subsystem| {
            let namespaces = subsystem.namespaces.borrow();
            namespaces
                .values()
                .any(|namespace| namespace.geometry().volatile_write_cache)
        })
    }

    /// Controllers of the subsystem from `first` on: each host sees the one it talks to.
    pub(super) fn controller_list(&self, first: u16) -> Outcome {
        if self.id < first {
            return page(&[]);
        }
        page([U16::new(1), U16::new(self.id)].as_bytes())
    }
}

pub(super) fn page(bytes: &[u8]) -> Outcome {
    let mut buffer = Buffer::zeroed(IDENTIFY_BYTES);
    let length = bytes.len().min(IDENTIFY_BYTES);
    if let (Some(into), Some(from)) = (buffer.get_mut(..length), bytes.get(..length)) {
        into.copy_from_slice(from);
    }
    Ok(Reply::data(buffer))
}

/// An inactive identifier gives zeroes, one that cannot exist is refused (NVMe 2.0 §5.17.2.1).
fn no_namespace(id: u32) -> Outcome {
    if (1..=NAMESPACE_ID_MAX).contains(&id) {
        page(&[])
    } else {
        Err(Status::INVALID_NAMESPACE.do_not_retry())
    }
}

/// Identifiers above `after`, rising.
fn namespace_list<D: BlockDevice>(subsystem: &View<D>, after: u32) -> Outcome {
    if after >= ALL_NAMESPACES - 1 {
        return Err(Status::INVALID_NAMESPACE.do_not_retry());
    }
    let namespaces = subsystem.namespaces.borrow();
    let list: Vec<U32> = namespaces
        .range(after + 1..)
        .take(IDENTIFY_BYTES / 4)
        .map(|(id, _)| U32::new(*id))
        .collect();
    page(list.as_bytes())
}

fn descriptors<D: BlockDevice>(namespace: &Rc<Namespace<D>>) -> Vec<u8> {
    let settings = &namespace.settings;
    let mut list = Vec::new();
    if let Some(eui64) = settings.eui64 {
        push_descriptor(&mut list, IdentifierType::EUI64, &eui64);
    }
    push_descriptor(&mut list, IdentifierType::NGUID, &settings.nguid);
    push_descriptor(&mut list, IdentifierType::UUID, &settings.uuid);
    push_descriptor(&mut list, IdentifierType::COMMAND_SET, &[NVM_COMMAND_SET]);
    list
}

fn zero_based(blocks: u32) -> U16 {
    U16::new(u16::try_from(blocks.saturating_sub(1)).unwrap_or(u16::MAX))
}

fn format_of(geometry: &Geometry) -> LbaFormat {
    LbaFormat {
        metadata_bytes: U16::ZERO,
        block_shift: geometry.block_bytes.ilog2() as u8,
        relative_performance: 0,
    }
}

pub(super) fn namespace_data<D: BlockDevice>(
    namespace: &Namespace<D>,
    reservations: u8,
    paths: &Paths,
) -> NamespaceData {
    let geometry = namespace.geometry();
    let mut data = NamespaceData::new_zeroed();
    data.size_blocks = geometry.block_count.into();
    data.capacity_blocks = geometry.block_count.into();
    let used_blocks = namespace.used_blocks();
    data.used_blocks = used_blocks.unwrap_or(geometry.block_count).into();
    data.features = nsfeat::ATOMICS | nsfeat::PREFERRED_SIZES;
    if used_blocks.is_some() {
        // It says that NUSE tells of what is deallocated, which it does nowhere else.
        data.features |= nsfeat::THIN;
    }
    data.multipath = nmic::SHARED;
    data.reservations = reservations;
    if geometry.deallocates {
        data.deallocate = dlfeat::READS_ZEROES | dlfeat::WRITE_ZEROES_DEALLOCATES;
    }
    data.atomic_normal = zero_based(geometry.power_fail_atomic_blocks);
    data.atomic_power_fail = zero_based(geometry.power_fail_atomic_blocks);
    data.atomic_compare_write = zero_based(COMPARE_WRITE_BYTES_MAX / geometry.block_bytes);
    if geometry.power_fail_atomic_boundary_blocks > 0 {
        data.atomic_boundary_normal = zero_based(geometry.power_fail_atomic_boundary_blocks);
        data.atomic_boundary_power_fail = zero_based(geometry.power_fail_atomic_boundary_blocks);
    }
    data.capacity_bytes = u128::from(geometry.capacity_bytes()).into();
    let preferred = zero_based(geometry.optimal_write_blocks);
    data.preferred_write_granularity = preferred;
    data.preferred_write_alignment = preferred;
    data.preferred_deallocate_granularity = preferred;
    data.preferred_deallocate_alignment = preferred;
    data.optimal_write_size = preferred;
    let copy = CopyLimits::of(&geometry);
    data.copy_range_blocks_max = copy.range_blocks.into();
    data.copy_blocks_max = copy.blocks.into();
    data.copy_ranges_max = copy.ranges_minus_one;
    data.ana_group = U32::new(namespace.settings.group.number());
    if namespace.is_protected() {
        data.attributes = nsattr::WRITE_PROTECTED;
    }
    hide_capacity(&mut data, namespace, paths);
    data.nguid = namespace.settings.nguid;
    data.eui64 = namespace.settings.eui64.unwrap_or_default();
    if let Some(format) = data.formats.first_mut() {
        *format = format_of(&geometry);
    }
    data
}

/// On a path where a namespace cannot be used it is not told how much is in it (NVM Command Set 1.1
/// §4.1.5.1, NUSE and NVMCAP).
pub(super) fn hide_capacity<D>(data: &mut NamespaceData, of: &Namespace<D>, paths: &Paths) {
    if paths.state_of(of.settings.group).hides_capacity() {
        data.used_blocks = 0.into();
        data.capacity_bytes = 0.into();
    }
}

/// What NSID FFFFFFFFh asks for: what all namespaces have in common.
fn common_namespace_data() -> NamespaceData {
    let mut data = NamespaceData::new_zeroed();
    for (format, block_shift) in data.formats.iter_mut().zip([12, 9]) {
        format.block_shift = block_shift;
    }
    data.lba_formats = 1;
    data
}

/// What of a namespace does not depend on its command set (CNS 08h).
pub(super) fn independent_data(of: &NamespaceData) -> IndependentNamespaceData {
    let mut data = IndependentNamespaceData::new_zeroed();
    data.reservations = of.reservations;
    data.multipath = of.multipath;
    data.ana_group = of.ana_group;
    data.attributes = of.attributes;
    data.endurance_group = of.endurance_group;
    data.status = 1;
    data
}
