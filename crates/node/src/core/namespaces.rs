//! What is done on one core for drives whose namespaces can be managed: emulated ones, and NVMe
//! drives of this machine.

use drive::{EmulatedDrive, NvmeDrive};
use ssd::NamespaceRequest;

use super::{Core, DRIVE_BLOCK_BYTES, open_path};
use crate::error::NodeError;
use crate::managed;
use crate::spec::{DriveFacts, ManagedFacts, NamespaceFacts, NamespacesFacts};

/// A drive whose namespaces can be managed.
#[derive(Clone)]
pub(super) enum Managed {
    Emulated(EmulatedDrive),
    Nvme(NvmeDrive),
}

impl Core {
    /// The drive `name`, whose namespaces can be managed.
    fn any_managed(&self, name: &str) -> Result<Managed, NodeError> {
        let found = self.managed.borrow().get(name).cloned();
        found.ok_or_else(|| NodeError::Unmanaged(name.to_owned()))
    }

    /// The emulated drive `name`.
    pub(super) fn managed(&self, name: &str) -> Result<EmulatedDrive, NodeError> {
        match self.managed.borrow().get(name) {
            Some(Managed::Emulated(drive)) => Ok(drive.clone()),
            _ => Err(NodeError::NotEmulated(name.to_owned())),
        }
    }

    /// Takes a drive whose namespaces can be managed, and uses one of them.
    pub(super) async fn open_managed(
        &self,
        name: &str,
        drive: Managed,
    ) -> Result<DriveFacts, NodeError> {
        self.managed.borrow_mut().insert(name.to_owned(), drive);
        let used = self.use_namespace(name).await;
        if used.is_err() {
            self.managed.borrow_mut().remove(name);
        }
        used
    }

    /// Makes a namespace the drive `name`: the one that an NVMe drive was added by, otherwise that
    /// with the lowest identifier. Without one the drive is there to get one, and has no capacity.
    async fn use_namespace(&self, name: &str) -> Result<DriveFacts, NodeError> {
        let drive = match self.any_managed(name)? {
            Managed::Emulated(drive) => match drive.geometries().first() {
                Some((nsid, _)) => Some(drive.namespace(*nsid)?.into()),
                None => None,
            },
            Managed::Nvme(drive) => match drive.block_device().await {
                Some(path) => Some(open_path(&path, None).await?.into()),
                None => None,
            },
        };
        Ok(match drive {
            Some(drive) => self.watch(name, drive),
            None => DriveFacts {
                capacity_bytes: 0,
                block_bytes: DRIVE_BLOCK_BYTES,
            },
        })
    }

    /// The namespaces of a drive, and its health, if it is emulated.
    pub fn managed_facts(&self, name: &str) -> Result<ManagedFacts, NodeError> {
        Ok(managed::facts(&self.managed(name)?))
    }

    /// The namespaces of a drive.
    pub async fn namespaces(&self, name: &str) -> Result<NamespacesFacts, NodeError> {
        match self.any_managed(name)? {
            Managed::Emulated(drive) => {
                let namespaces = drive.namespaces();
                let first = namespaces.first().map(|namespace| namespace.nsid);
                let namespaces = namespaces.iter().map(|namespace| NamespaceFacts {
                    nsid: namespace.nsid,
                    bytes: namespace.bytes,
                    block_bytes: namespace.block_bytes,
                    attached: true,
                    used_as_drive: first == Some(namespace.nsid),
                });
                Ok(NamespacesFacts {
                    capacity: drive.capacity(),
                    namespaces: namespaces.collect(),
                })
            }
            Managed::Nvme(drive) => {
                let (capacity, namespaces) = drive.namespaces().await?;
                let used = drive.nsid().await;
                let namespaces = namespaces.iter().map(|namespace| NamespaceFacts {
                    nsid: namespace.nsid,
                    bytes: namespace.bytes,
                    block_bytes: namespace.block_bytes,
                    attached: namespace.attached,
                    used_as_drive: used == Some(namespace.nsid),
                });
                Ok(NamespacesFacts {
                    capacity,
                    namespaces: namespaces.collect(),
                })
            }
        }
    }

    /// Creates a namespace on a drive of this core that no volume uses.
    pub async fn create_namespace(
        &self,
        name: &str,
        request: NamespaceRequest,
    ) -> Result<(u32, DriveFacts), NodeError> {
        let nsid = match self.any_managed(name)? {
            Managed::Emulated(drive) => drive.create_namespace(request).await?,
            Managed::Nvme(drive) => drive.create_namespace(request).await?,
        };
        self.drives.borrow_mut().remove(name);
        Ok((nsid, self.use_namespace(name).await?))
    }

    /// Deletes a namespace of a drive of this core that no volume uses.
    pub async fn delete_namespace(&self, name: &str, nsid: u32) -> Result<DriveFacts, NodeError> {
        let managed = self.any_managed(name)?;
        self.drives.borrow_mut().remove(name);
        let deleted = match managed {
            Managed::Emulated(drive) => drive.delete_namespace(nsid).map_err(NodeError::from),
            Managed::Nvme(drive) => drive.delete_namespace(nsid).await.map_err(NodeError::from),
        };
        let facts = self.use_namespace(name).await?;
        deleted?;
        Ok(facts)
    }

    /// Attaches a namespace of an NVMe drive of this core, which no volume uses, to this machine,
    /// or detaches it.
    pub async fn set_attached(
        &self,
        name: &str,
        nsid: u32,
        attached: bool,
    ) -> Result<DriveFacts, NodeError> {
        let Managed::Nvme(drive) = self.any_managed(name)? else {
            return Err(NodeError::AttachedByHosts(name.to_owned()));
        };
        self.drives.borrow_mut().remove(name);
        let done = if attached {
            drive.attach(nsid).await
        } else {
            drive.detach(nsid).await
        };
        let facts = self.use_namespace(name).await?;
        done?;
        Ok(facts)
    }
}
