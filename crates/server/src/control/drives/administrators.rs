//! Hosts that manage a drive's namespaces over NVMe.

use std::collections::BTreeSet;

use api::{Drive, ErrorBody, ErrorCode, Name, Severity};
use node::{NQN_PREFIX, NamespaceChange, Nqn};

use crate::control::hosts::{check_owner, nqn_of};
use crate::control::words::{not_found, parsed, refused};

use crate::control::{Control, Objects};
use crate::state::{DriveRecord, Kind};

impl Control {
    /// Lets `host` manage the namespaces of a drive.
    pub async fn grant(&self, drive: &Name, host: &Name) -> Result<Drive, ErrorBody> {
        self.change_administrators(drive, |objects, administrators| {
            if !objects.hosts.contains_key(host) {
                let message = format!("no host is named {host}; allowed: a host that was added");
                return Err(ErrorBody::invalid("host", message));
            }
            check_owner(objects, ("host", host), None)?;
            administrators.insert(host.clone());
            Ok(())
        })
        .await?;
        self.drive(drive).await
    }

    /// No longer lets `host` manage the namespaces of a drive: its sessions with it end, and what
    /// it attached is detached.
    pub async fn revoke(&self, drive: &Name, host: &Name) -> Result<Drive, ErrorBody> {
        self.change_administrators(drive, |_, administrators| {
            administrators.remove(host);
            Ok(())
        })
        .await?;
        self.drive(drive).await
    }

    async fn change_administrators(
        &self,
        drive: &Name,
        change: impl FnOnce(&Objects, &mut BTreeSet<Name>) -> Result<(), ErrorBody>,
    ) -> Result<(), ErrorBody> {
        let mut objects = self.objects.change().await;
        let entry = objects.drives.get(drive);
        let entry = entry.ok_or_else(|| not_found("drive", drive))?;
        if let Some(reason) = &entry.offline {
            let message = format!("drive {drive} is offline: {reason}");
            return Err(ErrorBody::new(ErrorCode::NotReady, message));
        }
        let before = entry.record.clone();
        let mut record = before.clone();
        change(&objects, &mut record.administrators)?;
        if record == before {
            return Ok(());
        }
        self.apply_administrators(&objects, drive, &record).await?;
        if let Err(error) = self.remember(Kind::Drive, drive, record.clone()).await {
            // What could be applied before can be again; the error to report is the first.
            let _ = self.apply_administrators(&objects, drive, &before).await;
            return Err(error);
        }
        let names: Vec<&str> = record.administrators.iter().map(Name::as_str).collect();
        let message = match names.as_slice() {
            [] => "administered by no host".to_owned(),
            names => format!("administered by: {}", names.join(", ")),
        };
        self.events
            .record(Severity::Info, &format!("drive/{drive}"), &message);
        if let Some(entry) = objects.drives.get_mut(drive) {
            entry.record = record;
        }
        Ok(())
    }

    async fn apply_administrators(
        &self,
        objects: &Objects,
        drive: &Name,
        record: &DriveRecord,
    ) -> Result<(), ErrorBody> {
        let mut hosts = BTreeSet::new();
        for name in &record.administrators {
            let spec = objects.hosts.get(name);
            let spec = spec.ok_or_else(|| not_found("host", name))?;
            let nqn = nqn_of(spec);
            hosts.insert(nqn.map_err(|problem| ErrorBody::invalid("host", problem))?);
        }
        let nqn = self.administration_nqn(drive)?;
        let set = self.node.set_administrators(drive.as_str(), &nqn, hosts);
        set.await.map_err(|error| refused(&error))
    }

    /// The subsystem as which a drive's administrators see it. No volume can have this name.
    fn administration_nqn(&self, drive: &Name) -> Result<Nqn, ErrorBody> {
        parsed(&self.administration_name(drive))
    }

    pub(in crate::control) fn administration_name(&self, drive: &Name) -> String {
        format!("{NQN_PREFIX}:{}:drive:{drive}", self.identity.name)
    }

    /// Lets hosts administer a drive that has come back as they could before.
    pub(in crate::control) async fn restore_administrators(&self, objects: &Objects, drive: &Name) {
        let Some(entry) = objects.drives.get(drive) else {
            return;
        };
        if entry.offline.is_some() || entry.record.administrators.is_empty() {
            return;
        }
        if let Err(error) = self
            .apply_administrators(objects, drive, &entry.record)
            .await
        {
            let message = format!("its hosts cannot administer it: {}", error.message);
            self.events
                .record(Severity::Error, &format!("drive/{drive}"), &message);
        }
    }

    /// The same for every drive, when the node starts.
    pub(in crate::control) async fn restore_all_administrators(&self) {
        let objects = self.objects.change().await;
        for drive in objects.drives.keys() {
            self.restore_administrators(&objects, drive).await;
        }
    }
}

/// A drive that `host` administers.
pub(in crate::control) fn administered_by<'a>(
    objects: &'a Objects,
    host: &Name,
) -> Option<&'a Name> {
    let mut drives = objects.drives.iter();
    drives
        .find(|(_, entry)| entry.record.administrators.contains(host))
        .map(|(name, _)| name)
}

/// What a host did, in words.
pub(in crate::control) fn change_in_words(change: NamespaceChange, nsid: u32) -> String {
    let namespace = match nsid {
        u32::MAX => "all namespaces".to_owned(),
        nsid => format!("namespace {nsid}"),
    };
    match change {
        NamespaceChange::Create { .. } => format!("created {namespace}"),
        NamespaceChange::Delete(_) => format!("deleted {namespace}"),
        NamespaceChange::Attach(_) => format!("attached {namespace}"),
        NamespaceChange::Detach(_) => format!("detached {namespace}"),
    }
}
