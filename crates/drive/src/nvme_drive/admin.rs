//! [`Controller`]: the admin commands that manage namespaces (NVMe 2.0 §5.17, §5.22, §5.23).

use std::path::{Path, PathBuf};

use nvme::command::ALL_NAMESPACES;
use nvme::identify::{
    Attachment, Cns, ControllerAttributes, ControllerData, ControllerList, GranularityList,
    IDENTIFY_BYTES, Identify, NamespaceAttachment, NamespaceData, NamespaceManagement, oacs,
};
use nvme::{Status, SubmissionEntry};
use reactor::file::{AdminCommand, File, OpenOptions};
use ssd::NamespaceError;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::error::NvmeError;
use crate::open_error::OpenError;

const IDENTIFY: &str = "Identify";
const MANAGEMENT: &str = "Namespace Management";
const ATTACHMENT: &str = "Namespace Attachment";

/// A controller, open for admin commands.
pub(super) struct Controller {
    file: File,
    path: PathBuf,
}

impl Controller {
    /// Opens the controller of this name.
    pub(super) async fn open(name: &str) -> Result<Controller, NvmeError> {
        let path = Path::new("/dev").join(name);
        match File::open(&path, &OpenOptions::default()).await {
            Ok(file) => Ok(Controller { file, path }),
            Err(error) => Err(OpenError::from_io(&path, error).into()),
        }
    }

    pub(super) async fn rescan(&self) -> Result<(), NvmeError> {
        let done = self.file.nvme_rescan().await;
        done.map_err(|error| OpenError::from_io(&self.path, error).into())
    }

    /// Sends a command with its data; gives dword 0 of the answer and the data, or the status that
    /// it was refused with.
    async fn send(
        &self,
        entry: &SubmissionEntry,
        data: Vec<u8>,
    ) -> Result<Result<(u32, Vec<u8>), Status>, NvmeError> {
        let command = AdminCommand {
            opcode: entry.opcode,
            namespace_id: entry.namespace_id.get(),
            dwords: entry.dword10.map(|dword| dword.get()),
            data,
        };
        let answered = self.file.nvme_admin(command).await;
        let answer = answered.map_err(|error| OpenError::from_io(&self.path, error))?;
        let status = Status(answer.status).code();
        Ok(if status.is_success() {
            Ok((answer.result, answer.data))
        } else {
            Err(status)
        })
    }

    /// What a refusal means that has no meaning of its own for the command.
    fn refused(&self, command: &'static str, status: Status) -> NvmeError {
        let path = self.path.clone();
        match status {
            Status::INVALID_OPCODE => NvmeError::Unsupported { path, command },
            status => NvmeError::Refused {
                path,
                command,
                status,
            },
        }
    }

    async fn identify<T: FromBytes>(
        &self,
        cns: Cns,
        nsid: u32,
    ) -> Result<Result<T, Status>, NvmeError> {
        let identify = Identify::new(cns, nsid);
        let sent = self.send(identify.entry(), vec![0; IDENTIFY_BYTES]).await?;
        Ok(sent.and_then(|(_, data)| {
            let found = T::read_from_prefix(&data);
            found
                .map(|(found, _)| found)
                .map_err(|_| Status::INTERNAL_ERROR)
        }))
    }

    pub(super) async fn identify_controller(&self) -> Result<ControllerData, NvmeError> {
        let found = self.identify(Cns::CONTROLLER, 0).await?;
        found.map_err(|status| self.refused(IDENTIFY, status))
    }

    /// Whether the drive has Namespace Management and Attachment.
    pub(super) fn manages(&self, data: &ControllerData) -> bool {
        data.admin_commands.get() & oacs::NAMESPACE_MANAGEMENT != 0
    }

    /// What the controller says of itself, if it manages namespaces.
    pub(super) async fn managing(&self) -> Result<ControllerData, NvmeError> {
        let data = self.identify_controller().await?;
        if self.manages(&data) {
            return Ok(data);
        }
        Err(self.refused(MANAGEMENT, Status::INVALID_OPCODE))
    }

    /// Identifiers of namespaces, from one of the lists of them.
    pub(super) async fn list(&self, cns: Cns) -> Result<Vec<u32>, NvmeError> {
        let found = self
            .identify::<[[u8; 4]; IDENTIFY_BYTES / 4]>(cns, 0)
            .await?;
        let list = found.map_err(|status| self.refused(IDENTIFY, status))?;
        let identifiers = list.into_iter().map(u32::from_le_bytes);
        Ok(identifiers.take_while(|nsid| *nsid != 0).collect())
    }

    /// Refuses a namespace that does not exist.
    pub(super) async fn allocated(&self, nsid: u32) -> Result<(), NvmeError> {
        let all = self.list(Cns::ALLOCATED_NAMESPACES).await?;
        if all.contains(&nsid) {
            return Ok(());
        }
        Err(NamespaceError::Unknown(nsid).into())
    }

    /// One namespace, attached or not.
    pub(super) async fn namespace(
        &self,
        nsid: u32,
        attached: bool,
    ) -> Result<NamespaceData, NvmeError> {
        let cns = if attached {
            Cns::NAMESPACE
        } else {
            Cns::ALLOCATED_NAMESPACE
        };
        let found = self.identify(cns, nsid).await?;
        found.map_err(|status| self.refused(IDENTIFY, status))
    }

    /// What all namespaces have in common, the formats among it.
    pub(super) async fn any_namespace(&self) -> Result<NamespaceData, NvmeError> {
        let common = self.identify(Cns::NAMESPACE, ALL_NAMESPACES).await?;
        match (common, self.list(Cns::ALLOCATED_NAMESPACES).await?.first()) {
            (Ok(common), _) => Ok(common),
            // Not every drive answers that: one of its namespaces says it as well.
            (Err(_), Some(nsid)) => self.namespace(*nsid, false).await,
            (Err(status), None) => Err(self.refused(IDENTIFY, status)),
        }
    }

    /// The controllers that a namespace is attached to.
    pub(super) async fn attached_to(&self, nsid: u32) -> Result<Vec<u16>, NvmeError> {
        let found = self.identify::<ControllerList>(Cns::NAMESPACE_CONTROLLERS, nsid);
        let list = found
            .await?
            .map_err(|status| self.refused(IDENTIFY, status))?;
        let count = usize::from(list.count.get());
        Ok(list
            .controllers
            .iter()
            .take(count)
            .map(|id| id.get())
            .collect())
    }

    /// What sizes are rounded up to.
    pub(super) async fn granularity_bytes(&self, data: &ControllerData) -> Result<u64, NvmeError> {
        if data.attributes.get() & ControllerAttributes::NAMESPACE_GRANULARITY == 0 {
            return Ok(1);
        }
        let found = self.identify::<GranularityList>(Cns::NAMESPACE_GRANULARITY, 0);
        let list = found
            .await?
            .map_err(|status| self.refused(IDENTIFY, status))?;
        let first = list.descriptors.first();
        Ok(first.map_or(1, |first| first.size_bytes.get().max(1)))
    }

    /// Creates a namespace; `short` is what a lack of capacity means.
    pub(super) async fn create(
        &self,
        wanted: &NamespaceData,
        short: NamespaceError,
    ) -> Result<u32, NvmeError> {
        let command = NamespaceManagement::create();
        let sent = self
            .send(command.entry(), wanted.as_bytes().to_vec())
            .await?;
        let (nsid, _) = sent.map_err(|status| match status {
            Status::NAMESPACE_INSUFFICIENT_CAPACITY => short.into(),
            Status::THIN_PROVISIONING_NOT_SUPPORTED => NamespaceError::ThinProvisioning.into(),
            status => self.refused(MANAGEMENT, status),
        })?;
        Ok(nsid)
    }

    pub(super) async fn delete(&self, nsid: u32) -> Result<(), NvmeError> {
        let command = NamespaceManagement::delete(nsid);
        let sent = self.send(command.entry(), Vec::new()).await?;
        sent.map(|_| ()).map_err(|status| match status {
            Status::INVALID_NAMESPACE => NamespaceError::Unknown(nsid).into(),
            status => self.refused(MANAGEMENT, status),
        })
    }

    /// Attaches a namespace to this controller.
    pub(super) async fn attach(&self, nsid: u32, own: &ControllerData) -> Result<(), NvmeError> {
        self.place(Attachment::ATTACH, nsid, own).await
    }

    /// Detaches a namespace from this controller.
    pub(super) async fn detach(&self, nsid: u32, own: &ControllerData) -> Result<(), NvmeError> {
        self.place(Attachment::DETACH, nsid, own).await
    }

    async fn place(
        &self,
        select: Attachment,
        nsid: u32,
        own: &ControllerData,
    ) -> Result<(), NvmeError> {
        let mut list = ControllerList::new_zeroed();
        list.count = 1.into();
        if let Some(first) = list.controllers.first_mut() {
            *first = own.controller_id;
        }
        let command = NamespaceAttachment::new(select, nsid);
        let sent = self.send(command.entry(), list.as_bytes().to_vec()).await?;
        let id = own.controller_id.get();
        sent.map(|_| ()).map_err(|status| match status {
            Status::INVALID_NAMESPACE => NamespaceError::Unknown(nsid).into(),
            Status::NAMESPACE_ALREADY_ATTACHED => NamespaceError::AlreadyAttached(nsid, id).into(),
            Status::NAMESPACE_IS_PRIVATE => NamespaceError::Private(nsid).into(),
            Status::NAMESPACE_NOT_ATTACHED => NamespaceError::NotAttached(nsid, id).into(),
            status => self.refused(ATTACHMENT, status),
        })
    }
}

/// Bytes in a block of a namespace.
pub(super) fn block_bytes_of(namespace: &NamespaceData) -> u32 {
    let format = (namespace.format & 0xf) | (namespace.format >> 1 & 0x30);
    let shift = namespace.formats[usize::from(format)].block_shift;
    1_u32.checked_shl(shift.into()).unwrap_or(0)
}

/// The format with blocks of `block_bytes` and no metadata, and the block sizes of all of those
/// without.
pub(super) fn formats(namespace: &NamespaceData, block_bytes: u32) -> (Option<u8>, String) {
    let count = usize::from(namespace.lba_formats) + 1;
    let plain = namespace.formats.iter().take(count).enumerate();
    let plain = plain.filter(|(_, format)| format.metadata_bytes.get() == 0);
    let sizes: Vec<(u8, u32)> = plain
        .filter_map(|(index, format)| {
            let bytes = 1_u32.checked_shl(format.block_shift.into())?;
            // A format of no size is one that is not there.
            (bytes >= 512).then_some((u8::try_from(index).ok()?, bytes))
        })
        .collect();
    let found = sizes.iter().find(|(_, bytes)| *bytes == block_bytes);
    let there: Vec<String> = sizes.iter().map(|(_, bytes)| bytes.to_string()).collect();
    (found.map(|(index, _)| *index), there.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_without_metadata_are_found_by_their_block_size() {
        let mut data = NamespaceData::new_zeroed();
        data.lba_formats = 17;
        for (index, shift, metadata) in [(0, 9, 8), (1, 9, 0), (2, 12, 64), (17, 12, 0)] {
            data.formats[index].block_shift = shift;
            data.formats[index].metadata_bytes = metadata.into();
        }
        assert_eq!(formats(&data, 512), (Some(1), "512, 4096".to_owned()));
        assert_eq!(formats(&data, 4096).0, Some(17));
        assert_eq!(formats(&data, 1024).0, None);
        // Format 17 is 1 in the low bits and 1 in the high ones.
        data.format = 0x21;
        assert_eq!(block_bytes_of(&data), 4096);
        data.format = 1;
        assert_eq!(block_bytes_of(&data), 512);
        data.formats[1].block_shift = 200;
        assert_eq!(block_bytes_of(&data), 0);
    }
}
