//! Namespaces of drives, and what a drive says of its health.

use api::{
    DriveHealth, ErrorBody, ErrorCode, Name, Namespace, NamespaceSpec, Namespaces, Severity,
};
use node::{DriveFacts, NamespaceFacts};
use ssd::NamespaceRequest;

use crate::control::words::{not_found, refused};
use crate::control::{Control, Objects};
use crate::state::Kind;

impl Control {
    /// The namespaces of a drive.
    pub async fn namespaces(&self, drive: &Name) -> Result<Namespaces, ErrorBody> {
        open(&self.objects.seen(), drive)?;
        let facts = self.node.namespaces(drive.as_str()).await;
        let facts = facts.map_err(|error| refused(&error))?;
        Ok(Namespaces {
            total_bytes: facts.capacity.total_bytes,
            unallocated_bytes: facts.capacity.unallocated_bytes,
            granularity_bytes: facts.capacity.granularity_bytes,
            namespaces: facts.namespaces.iter().map(shown).collect(),
        })
    }

    /// Creates a namespace on a drive that no volume uses.
    pub async fn create_namespace(
        &self,
        drive: &Name,
        spec: &NamespaceSpec,
    ) -> Result<Namespace, ErrorBody> {
        let request = request(spec)?;
        let mut objects = self.objects.change().await;
        open(&objects, drive)?;
        let created = self.node.create_namespace(drive.as_str(), request).await;
        let (nsid, facts) = created.map_err(|error| refused(&error))?;
        self.changed(&mut objects, drive, facts).await?;
        let message = format!("namespace {nsid} of {} created", spec.size);
        self.events
            .record(Severity::Info, &format!("drive/{drive}"), &message);
        self.namespace(drive, nsid).await
    }

    /// Attaches a namespace of an NVMe drive that no volume uses to the node's machine.
    pub async fn attach_namespace(&self, drive: &Name, nsid: u32) -> Result<Namespace, ErrorBody> {
        self.set_attached(drive, nsid, true).await?;
        self.namespace(drive, nsid).await
    }

    /// Detaches a namespace of an NVMe drive that no volume uses from the node's machine.
    pub async fn detach_namespace(&self, drive: &Name, nsid: u32) -> Result<(), ErrorBody> {
        self.set_attached(drive, nsid, false).await
    }

    async fn set_attached(&self, drive: &Name, nsid: u32, to: bool) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        open(&objects, drive)?;
        let node = &self.node;
        let done = node.set_namespace_attached(drive.as_str(), nsid, to).await;
        let facts = done.map_err(|error| refused(&error))?;
        self.changed(&mut objects, drive, facts).await?;
        let message = format!(
            "namespace {nsid} {}",
            if to { "attached" } else { "detached" }
        );
        self.events
            .record(Severity::Info, &format!("drive/{drive}"), &message);
        Ok(())
    }

    async fn namespace(&self, drive: &Name, nsid: u32) -> Result<Namespace, ErrorBody> {
        let facts = self.node.namespaces(drive.as_str()).await;
        let facts = facts.map_err(|error| refused(&error))?;
        let mut namespaces = facts.namespaces.iter();
        let found = namespaces.find(|namespace| namespace.nsid == nsid);
        found
            .map(shown)
            .ok_or_else(|| ErrorBody::new(ErrorCode::Internal, "the namespace has gone"))
    }

    /// Deletes a namespace, with its data, of a drive that no volume uses.
    pub async fn delete_namespace(&self, drive: &Name, nsid: u32) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        open(&objects, drive)?;
        let deleted = self.node.delete_namespace(drive.as_str(), nsid).await;
        let facts = deleted.map_err(|error| refused(&error))?;
        self.changed(&mut objects, drive, facts).await?;
        let message = format!("namespace {nsid} deleted");
        self.events
            .record(Severity::Info, &format!("drive/{drive}"), &message);
        Ok(())
    }

    /// What a drive says of its health.
    pub async fn drive_health(&self, drive: &Name) -> Result<DriveHealth, ErrorBody> {
        open(&self.objects.seen(), drive)?;
        let facts = self.node.managed_facts(drive.as_str()).await;
        let facts = facts.map_err(|error| refused(&error))?;
        Ok(DriveHealth {
            model: facts.model,
            available_spare_percent: facts.health.available_spare_percent,
            percentage_used: facts.health.percentage_used,
            data_units_read: facts.health.data_units_read,
            data_units_written: facts.health.data_units_written,
            host_read_commands: facts.health.host_read_commands,
            host_write_commands: facts.health.host_write_commands,
            endurance_estimate_billions: facts.endurance.endurance_estimate_billions,
            media_written_billions: facts.endurance.media_written_billions,
            write_amplification_thousandths: facts.health.write_amplification_thousandths,
            completed: facts.punctuality.completed,
            completed_late: facts.punctuality.late,
        })
    }

    /// Remembers what a drive is after its namespaces changed.
    async fn changed(
        &self,
        objects: &mut Objects,
        drive: &Name,
        facts: DriveFacts,
    ) -> Result<(), ErrorBody> {
        let Some(entry) = objects.drives.get_mut(drive) else {
            return Err(not_found("drive", drive));
        };
        entry.record.capacity_bytes = facts.capacity_bytes;
        entry.record.block_bytes = facts.block_bytes;
        self.remember(Kind::Drive, drive, entry.record.clone())
            .await
    }
}

/// Refuses a drive that is unknown or offline.
fn open(objects: &Objects, drive: &Name) -> Result<(), ErrorBody> {
    let entry = objects.drives.get(drive);
    let entry = entry.ok_or_else(|| not_found("drive", drive))?;
    match &entry.offline {
        None => Ok(()),
        Some(reason) => {
            let message = format!("drive {drive} is offline: {reason}");
            Err(ErrorBody::new(ErrorCode::NotReady, message))
        }
    }
}

fn request(spec: &NamespaceSpec) -> Result<NamespaceRequest, ErrorBody> {
    let block_bytes = u64::from(spec.block_bytes.bytes());
    let bytes = spec.size.bytes();
    if bytes == 0 || !bytes.is_multiple_of(block_bytes) {
        let message = format!("{bytes} bytes; allowed: one or more blocks of {block_bytes} bytes");
        return Err(ErrorBody::invalid("size", message));
    }
    let blocks = bytes / block_bytes;
    Ok(NamespaceRequest {
        size_blocks: blocks,
        capacity_blocks: blocks,
        format: u8::from(block_bytes == 512),
        shared: false,
    })
}

fn shown(namespace: &NamespaceFacts) -> Namespace {
    Namespace {
        nsid: namespace.nsid,
        bytes: namespace.bytes,
        block_bytes: namespace.block_bytes,
        attached: namespace.attached,
        used_as_drive: namespace.used_as_drive,
    }
}
