//! What is done on one core for drives whose hosts manage their namespaces.

use std::rc::Rc;

use access::{AllowedHosts, Nqn};
use block::{BlockDevice, Geometry};
use drive::Drive;
use nvme_target::{
    Administration, AnaGroupId, NamespaceChange, NamespaceSettings, PortSet, SubsystemSettings,
};

use super::{Core, MODEL, serial};
use crate::error::NodeError;
use crate::spec::{DriveFacts, NodeEvent};
use crate::volume::remote::VolumeId;
use crate::volume::watched::WatchedDrive;
use crate::volume::{Path, Volume};

/// The longest model that a controller can report.
const MODEL_BYTES_MAX: usize = 40;

impl Core {
    /// Shows a drive to the hosts that administer it.
    pub fn add_administration(
        &self,
        nqn: Nqn,
        model: &str,
        allowed: AllowedHosts,
        drive: Rc<dyn Administration>,
    ) -> Result<(), NodeError> {
        let fits = model.len() <= MODEL_BYTES_MAX && model.bytes().all(|byte| byte.is_ascii());
        let settings = SubsystemSettings {
            serial: serial(nqn.as_str()),
            model: if fits { model } else { MODEL }.to_owned(),
            nqn,
            allowed,
            ports: PortSet::All,
            tenant: None,
        };
        Ok(self.target.add_drive(settings, drive)?)
    }

    /// Hides a drive again.
    pub async fn remove_administration(&self, nqn: &Nqn) -> Result<(), NodeError> {
        Ok(self.target.remove_subsystem(nqn).await?)
    }

    /// Opens a namespace of a drive of this core for hosts, as the volume `id`.
    pub fn open_namespace(
        &self,
        id: VolumeId,
        drive: &str,
        nsid: u32,
    ) -> Result<Geometry, NodeError> {
        let namespace = Drive::from(self.managed(drive)?.namespace(nsid)?);
        let geometry = namespace.geometry();
        let watched = WatchedDrive::new(drive.to_owned(), namespace, self.events.clone());
        let path = Path::to_drive(watched.clone(), geometry.block_bytes)?;
        self.attached.borrow_mut().insert(id, watched);
        self.post.insert(id, Volume::new(path));
        Ok(geometry)
    }

    /// Lets a host use a namespace through this core.
    pub fn attach_namespace(
        &self,
        id: VolumeId,
        (nqn, host): (&Nqn, &Nqn),
        nsid: u32,
        identity: [u8; 16],
    ) -> Result<(), NodeError> {
        let volume = self.post.volume(id);
        let volume = volume.ok_or_else(|| NodeError::UnknownVolume(nqn.to_string()))?;
        let settings = NamespaceSettings {
            nsid,
            nguid: identity,
            uuid: identity,
            eui64: None,
            group: AnaGroupId::POOLLESS,
        };
        Ok(self.target.attach_namespace(nqn, host, settings, volume)?)
    }

    /// Takes a namespace from a host, after its I/O in flight.
    pub async fn detach_namespace(
        &self,
        nqn: &Nqn,
        host: &Nqn,
        nsid: u32,
    ) -> Result<(), NodeError> {
        self.target.detach_namespace(nqn, host, nsid).await?;
        Ok(())
    }

    /// Makes durable what a namespace acknowledged, and lets go of it.
    pub async fn close_namespace(&self, id: VolumeId, drive: &str) -> Result<(), NodeError> {
        self.post.remove(id);
        let attached = self.attached.borrow_mut().remove(&id);
        match attached {
            Some(watched) => super::flush(drive, &watched).await,
            None => Ok(()),
        }
    }

    /// Enters into the books of a drive of this core that a namespace is attached to a host.
    pub fn book_attachment(&self, drive: &str, nsid: u32, host: &Nqn) -> Result<(), NodeError> {
        Ok(self.managed(drive)?.attach(nsid, host.as_str())?)
    }

    /// Takes an attachment out of the books.
    pub fn book_detachment(&self, drive: &str, nsid: u32, host: &Nqn) -> Result<(), NodeError> {
        Ok(self.managed(drive)?.detach(nsid, host.as_str())?)
    }

    /// Takes every attachment of a host out of the books.
    pub fn forget_host(&self, drive: &str, host: &str) -> Result<(), NodeError> {
        Ok(self.managed(drive)?.forget_host(host)?)
    }

    /// Tells what a host did to a drive of this core.
    pub fn tell_change(&self, drive: String, host: &Nqn, change: NamespaceChange, nsid: u32) {
        let geometry = self.drives.borrow().get(&drive).map(BlockDevice::geometry);
        let facts = DriveFacts {
            capacity_bytes: geometry.map_or(0, |geometry| geometry.capacity_bytes()),
            block_bytes: geometry.map_or(super::DRIVE_BLOCK_BYTES, |found| found.block_bytes),
        };
        (self.events)(NodeEvent::NamespacesChanged {
            drive,
            facts,
            host: host.to_string(),
            change,
            nsid,
        });
    }
}
