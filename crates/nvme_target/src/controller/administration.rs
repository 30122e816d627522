//! Admin commands that a subsystem answers when it is a drive (NVMe 2.0 §5.16, §5.17, §5.22,
//! §5.23): the drive is asked each time, because any host may have changed it.

use std::rc::Rc;

use block::BlockDevice;
use nvme::command::{ALL_NAMESPACES, SubmissionEntry};
use nvme::identify::{
    Attachment, Cns, ControllerAttributes, ControllerList, Granularity, GranularityList, Identify,
    LbaFormat, Management, NamespaceAttachment, NamespaceData, NamespaceManagement, dlfeat, lpa,
    nmic, oacs, oncs,
};
use nvme::log::{EnduranceGroup, GetLogPage, SmartHealth};
use nvme::{AdminOpcode, Status};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::Controller;
use super::identify::{Outcome, hide_capacity, independent_data, namespace_data, page};
use crate::administration::{
    Administration, DriveNamespace, DriveReport, FORMATS, NamespaceChange, Wear,
};
use crate::namespace::Namespace;
use crate::paths::AnaGroupId;
use crate::per_core::Core;
use crate::transport::{Command, Reply};

/// The one endurance group: the whole drive.
const ENDURANCE_GROUP: u16 = 1;
/// Percent of spare flash below which a drive warns.
const SPARE_THRESHOLD_PERCENT: u8 = 10;
/// FLBAS: index of the format. The other bits are for metadata and further formats.
const FORMAT_MASK: u8 = 0b1111;

/// What this controller administers, if it administers anything.
type Drive = Rc<dyn Administration>;

impl<D: BlockDevice + 'static> Controller<D> {
    /// The drive that this controller's hosts administer.
    pub(super) fn drive(&self) -> Option<Drive> {
        self.subsystem()?.drive.clone()
    }

    pub(super) async fn identify_drive(
        &self,
        command: &Identify,
        core: &Core<D>,
        drive: &Drive,
    ) -> Outcome {
        let report = drive.report().await?;
        let id = command.namespace_id.get();
        let of_namespace = matches!(
            command.cns,
            Cns::NAMESPACE
                | Cns::ALLOCATED_NAMESPACE
                | Cns::NAMESPACE_DESCRIPTORS
                | Cns::COMMAND_SET_NAMESPACE
                | Cns::INDEPENDENT_NAMESPACE
                | Cns::NAMESPACE_CONTROLLERS
        );
        if of_namespace && id > report.namespace_id_max && id != ALL_NAMESPACES {
            return Err(Status::INVALID_NAMESPACE.do_not_retry());
        }
        let found = report.namespaces.iter().find(|one| one.nsid == id);
        let own = self.subsystem();
        let attached = own.is_some_and(|own| own.namespace(id).is_some());
        match command.cns {
            Cns::CONTROLLER => page(self.drive_controller_data(core, &report).as_bytes()),
            Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => {
                let served = self.subsystem().and_then(|own| own.namespace(id));
                let data = match (served, found) {
                    (Some(served), Some(found)) => self.attached_data(&served, found),
                    (None, Some(found)) if command.cns == Cns::ALLOCATED_NAMESPACE => {
                        completed(NamespaceData::new_zeroed(), found)
                    }
                    _ => return self.identify(command, core),
                };
                page(data.as_bytes())
            }
            Cns::INDEPENDENT_NAMESPACE => {
                let served = self.subsystem().and_then(|own| own.namespace(id));
                match served.zip(found) {
                    Some((served, found)) => {
                        let data = self.attached_data(&served, found);
                        page(independent_data(&data).as_bytes())
                    }
                    None => self.identify(command, core),
                }
            }
            Cns::ALLOCATED_NAMESPACES | Cns::COMMAND_SET_ALLOCATED_NAMESPACES => {
                allocated_list(&report, id)
            }
            // The other hosts' controllers are their business.
            Cns::NAMESPACE_CONTROLLERS if found.is_some() && attached => {
                self.controller_list(command.controller_id.get())
            }
            Cns::NAMESPACE_CONTROLLERS if found.is_some() => page(&[]),
            Cns::NAMESPACE_GRANULARITY => page(granularity_list(&report).as_bytes()),
            Cns::ENDURANCE_GROUPS => page([U16::new(1), U16::new(ENDURANCE_GROUP)].as_bytes()),
            _ => self.identify(command, core),
        }
    }

    fn attached_data(&self, served: &Namespace<D>, found: &DriveNamespace) -> NamespaceData {
        let mut data = completed(namespace_data(served, 0, &self.paths), found);
        hide_capacity(&mut data, served, &self.paths);
        data
    }

    fn drive_controller_data(
        &self,
        core: &Core<D>,
        report: &DriveReport,
    ) -> nvme::identify::ControllerData {
        let mut data = self.controller_data(core);
        let more =
            ControllerAttributes::ENDURANCE_GROUPS | ControllerAttributes::NAMESPACE_GRANULARITY;
        data.attributes = U32::new(data.attributes.get() | more);
        data.admin_commands = U16::new(oacs::NAMESPACE_MANAGEMENT);
        data.total_capacity = u128::from(report.total_bytes).into();
        data.unallocated_capacity = u128::from(report.unallocated_bytes).into();
        data.endurance_group_max = U16::new(ENDURANCE_GROUP);
        data.ana_group_max = U32::new(AnaGroupId::POOLLESS.number());
        data.ana_groups = U32::new(1);
        data.endurance_group_capacity = u128::from(report.total_bytes).into();
        data.namespace_max = U32::new(report.namespace_id_max);
        data.namespaces_allowed = U32::new(report.namespace_id_max);
        let io_commands = data.io_commands.get() & !oncs::RESERVATIONS;
        data.io_commands = U16::new(io_commands);
        // What the drive counts, it counts for all of it.
        data.log_attributes &= !lpa::SMART_PER_NAMESPACE;
        data
    }

    /// The SMART log: the drive's own counts where it has them.
    pub(super) async fn drive_smart(&self, node: SmartHealth) -> Result<SmartHealth, Status> {
        match self.drive() {
            Some(drive) => Ok(worn(node, &drive.report().await?.wear)),
            None => Ok(node),
        }
    }

    /// The endurance group log of the one group there is: the drive.
    pub(super) async fn endurance_group(
        &self,
        command: &GetLogPage,
        node: SmartHealth,
    ) -> Result<EnduranceGroup, Status> {
        let drive = self.drive();
        let drive = drive.ok_or(Status::INVALID_LOG_PAGE.do_not_retry())?;
        if command.specific_id.get() != ENDURANCE_GROUP {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        Ok(endurance(&drive.report().await?, &node))
    }

    /// Namespace Management and Namespace Attachment.
    pub(super) async fn change_namespaces(&self, command: &Command, drive: &Drive) -> Outcome {
        let entry = &command.entry;
        let data = command.data.as_deref().unwrap_or_default();
        let change = if AdminOpcode(entry.opcode) == AdminOpcode::NAMESPACE_MANAGEMENT {
            management(entry, data)
        } else {
            self.attachment(entry, data)
        };
        let nsid = drive.change(&self.host_nqn, change?).await?;
        Ok(Reply::result(u64::from(nsid)))
    }

    /// A host attaches namespaces to itself: its list names the controller it asks through.
    fn attachment(&self, entry: &SubmissionEntry, data: &[u8]) -> Result<NamespaceChange, Status> {
        let command = NamespaceAttachment::of(entry);
        let nsid = command.namespace_id.get();
        let change = match Attachment(command.select.0 & 0xf) {
            Attachment::ATTACH => NamespaceChange::Attach(nsid),
            Attachment::DETACH => NamespaceChange::Detach(nsid),
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        };
        let (list, _) = ControllerList::ref_from_prefix(data)
            .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
        if list.count.get() != 1 || list.controllers[0].get() != self.id {
            return Err(Status::CONTROLLER_LIST_INVALID.do_not_retry());
        }
        Ok(change)
    }
}

fn management(entry: &SubmissionEntry, data: &[u8]) -> Result<NamespaceChange, Status> {
    let command = NamespaceManagement::of(entry);
    match Management(command.select.0 & 0xf) {
        Management::DELETE => Ok(NamespaceChange::Delete(command.namespace_id.get())),
        Management::CREATE => {
            let (wanted, _) = NamespaceData::ref_from_prefix(data)
                .map_err(|_| Status::DATA_SGL_LENGTH_INVALID.do_not_retry())?;
            let plain = command.command_set == 0
                && command.namespace_id.get() == 0
                && wanted.protection == 0
                && wanted.nvm_set.get() == 0
                && wanted.endurance_group.get() <= ENDURANCE_GROUP
                && wanted.ana_group.get() <= AnaGroupId::POOLLESS.number();
            if !plain {
                return Err(Status::INVALID_FIELD.do_not_retry());
            }
            if wanted.format & !FORMAT_MASK != 0 {
                return Err(Status::INVALID_FORMAT.do_not_retry());
            }
            Ok(NamespaceChange::Create {
                size_blocks: wanted.size_blocks.get(),
                capacity_blocks: wanted.capacity_blocks.get(),
                format: wanted.format,
                shared: wanted.multipath & nmic::SHARED != 0,
            })
        }
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}

/// `data` of a namespace as it is served, or zeroes, with what the drive says of it.
fn completed(mut data: NamespaceData, namespace: &DriveNamespace) -> NamespaceData {
    data.size_blocks = namespace.blocks.into();
    data.capacity_blocks = namespace.blocks.into();
    data.used_blocks = namespace.blocks.into();
    data.multipath = if namespace.shared { nmic::SHARED } else { 0 };
    data.deallocate = dlfeat::READS_ZEROES | dlfeat::WRITE_ZEROES_DEALLOCATES;
    let bytes = u128::from(namespace.blocks) * u128::from(namespace.block_bytes);
    data.capacity_bytes = bytes.into();
    data.endurance_group = U16::new(ENDURANCE_GROUP);
    data.ana_group = U32::new(AnaGroupId::POOLLESS.number());
    data.nguid = namespace.identity;
    data.lba_formats = FORMATS.len() as u8 - 1;
    let format = FORMATS
        .iter()
        .position(|bytes| *bytes == namespace.block_bytes);
    data.format = format.unwrap_or_default() as u8;
    for (into, block_bytes) in data.formats.iter_mut().zip(FORMATS) {
        *into = LbaFormat {
            metadata_bytes: U16::ZERO,
            block_shift: block_bytes.ilog2() as u8,
            relative_performance: 0,
        };
    }
    data
}

/// Identifiers above `after`, rising, attached or not.
fn allocated_list(report: &DriveReport, after: u32) -> Outcome {
    if after >= ALL_NAMESPACES - 1 {
        return Err(Status::INVALID_NAMESPACE.do_not_retry());
    }
    let all = report.namespaces.iter().map(|namespace| namespace.nsid);
    let list: Vec<U32> = all.filter(|nsid| *nsid > after).map(U32::new).collect();
    page(list.as_bytes())
}

fn granularity_list(report: &DriveReport) -> GranularityList {
    let mut list = GranularityList::new_zeroed();
    list.descriptors[0] = Granularity {
        size_bytes: report.granularity_bytes.into(),
        capacity_bytes: report.granularity_bytes.into(),
    };
    list
}

/// `smart` with the drive's own counts in place of the node's.
fn worn(mut smart: SmartHealth, wear: &Wear) -> SmartHealth {
    smart.spare = wear.available_spare_percent;
    smart.percentage_used = wear.percentage_used;
    smart.data_units_read = u128::from(wear.data_units_read).into();
    smart.data_units_written = u128::from(wear.data_units_written).into();
    smart.read_commands = u128::from(wear.read_commands).into();
    smart.write_commands = u128::from(wear.write_commands).into();
    smart
}

fn endurance(report: &DriveReport, smart: &SmartHealth) -> EnduranceGroup {
    let wear = &report.wear;
    let mut log = EnduranceGroup::new_zeroed();
    log.spare = wear.available_spare_percent;
    log.spare_threshold = SPARE_THRESHOLD_PERCENT;
    log.percentage_used = wear.percentage_used;
    log.endurance_estimate = u128::from(wear.endurance_estimate_billions).into();
    log.data_units_read = u128::from(wear.data_read_billions).into();
    log.data_units_written = u128::from(wear.data_written_billions).into();
    log.media_units_written = u128::from(wear.media_written_billions).into();
    log.read_commands = u128::from(wear.read_commands).into();
    log.write_commands = u128::from(wear.write_commands).into();
    log.media_errors = smart.media_errors;
    log.error_entries = smart.error_entries;
    log.total_capacity = u128::from(report.total_bytes).into();
    log.unallocated_capacity = u128::from(report.unallocated_bytes).into();
    log
}
