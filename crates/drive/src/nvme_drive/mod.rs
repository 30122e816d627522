//! [`NvmeDrive`]: an NVMe drive that this machine's kernel drives, and its namespaces.

mod admin;
mod error;
mod system;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nvme::identify::{Cns, NamespaceData, nmic};
use reactor::file::{File, OpenOptions};
use ssd::{Capacity, NamespaceError, NamespaceRequest};
use zerocopy::FromZeros;

use self::admin::{Controller, block_bytes_of, formats};
pub use self::error::NvmeError;
use self::system::{Found, block_device, find};
use crate::open_error::OpenError;

/// How long the kernel gets to show or remove a block device.
const SHOWN_TIMEOUT: Duration = Duration::from_secs(10);

const SHOWN_PERIOD: Duration = Duration::from_millis(50);

/// A namespace of a drive, attached or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmeNamespace {
    /// Its identifier.
    pub nsid: u32,
    /// Its size.
    pub bytes: u64,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// It is attached to this machine's controller: only then there is a block device.
    pub attached: bool,
}

/// An NVMe drive, by the path of its controller (`/dev/nvme0`) or of one of its namespaces
/// (`/dev/nvme0n1`). Nothing is open between calls.
#[derive(Clone, Debug)]
pub struct NvmeDrive {
    /// The controller's name in the kernel, as `nvme0`.
    controller: String,
    /// The namespace that the path named; none if it named the controller.
    given: Option<PathBuf>,
}

impl NvmeDrive {
    /// The drive behind `path`; `None` if that is anything else, or a partition.
    pub async fn at(path: &Path) -> Option<NvmeDrive> {
        let asked = path.to_owned();
        let found = reactor::blocking(move || find(&asked)).await?;
        Some(match found {
            Found::Controller(controller) => NvmeDrive {
                controller,
                given: None,
            },
            Found::Namespace { controller } => NvmeDrive {
                controller,
                given: Some(path.to_owned()),
            },
        })
    }

    /// The block device that stands for the drive: the namespace that was named, or the attached
    /// one with the lowest identifier; `None` while there is none.
    pub async fn block_device(&self) -> Option<PathBuf> {
        let (controller, given) = (self.controller.clone(), self.given.clone());
        let look = move || match given {
            Some(path) => path.exists().then_some(path),
            None => system::lowest(&controller),
        };
        reactor::blocking(look).await
    }

    /// The identifier of that namespace.
    pub async fn nsid(&self) -> Option<u32> {
        let path = self.block_device().await?;
        reactor::blocking(move || system::nsid_of(&path)).await
    }

    /// Every namespace by identifier, and the capacity in all and unallocated.
    ///
    /// # Errors
    /// The controller cannot be asked, or refuses.
    pub async fn namespaces(&self) -> Result<(Capacity, Vec<NvmeNamespace>), NvmeError> {
        let controller = Controller::open(&self.controller).await?;
        let data = controller.identify_controller().await?;
        let attached = controller.list(Cns::ACTIVE_NAMESPACES).await?;
        let all = if controller.manages(&data) {
            controller.list(Cns::ALLOCATED_NAMESPACES).await?
        } else {
            attached.clone()
        };
        let mut namespaces = Vec::with_capacity(all.len());
        for nsid in all {
            let attached = attached.contains(&nsid);
            let found = controller.namespace(nsid, attached).await?;
            let block_bytes = block_bytes_of(&found);
            namespaces.push(NvmeNamespace {
                nsid,
                bytes: found.size_blocks.get().saturating_mul(block_bytes.into()),
                block_bytes,
                attached,
            });
        }
        let used = namespaces.iter().map(|namespace| namespace.bytes).sum();
        let unallocated = bytes(data.unallocated_capacity.get());
        let capacity = Capacity {
            // Drives without namespace management may leave the field empty.
            total_bytes: bytes(data.total_capacity.get()).max(used),
            unallocated_bytes: unallocated,
            granularity_bytes: controller.granularity_bytes(&data).await?,
        };
        Ok((capacity, namespaces))
    }

    /// Creates a namespace and attaches it to this machine; gives its identifier.
    ///
    /// # Errors
    /// The drive refuses, or cannot do that.
    pub async fn create_namespace(&self, request: NamespaceRequest) -> Result<u32, NvmeError> {
        let block_bytes = request.block_bytes()?;
        if request.size_blocks == 0 {
            return Err(NamespaceError::Empty.into());
        }
        let controller = Controller::open(&self.controller).await?;
        let data = controller.managing().await?;
        let (any, there) = formats(&controller.any_namespace().await?, block_bytes);
        let format = any.ok_or(NvmeError::BlockBytes { block_bytes, there })?;
        let mut wanted = NamespaceData::new_zeroed();
        wanted.size_blocks = request.size_blocks.into();
        wanted.capacity_blocks = request.capacity_blocks.into();
        // Bits 3:0 are the low bits of the format, bits 6:5 its high ones.
        wanted.format = (format & 0xf) | (format & 0x30) << 1;
        wanted.multipath = if request.shared { nmic::SHARED } else { 0 };
        let short = NamespaceError::InsufficientCapacity {
            requested: request.size_blocks.saturating_mul(block_bytes.into()),
            unallocated: bytes(data.unallocated_capacity.get()),
        };
        let nsid = controller.create(&wanted, short).await?;
        if let Err(error) = controller.attach(nsid, &data).await {
            // A namespace that nobody can use is worth less than the reason why.
            drop(controller.delete(nsid).await);
            return Err(error);
        }
        self.wait_until_shown(&controller, nsid, true).await?;
        Ok(nsid)
    }

    /// Deletes a namespace that nothing uses, with its data.
    ///
    /// # Errors
    /// It is in use here or attached elsewhere; the drive refuses, or cannot do that.
    pub async fn delete_namespace(&self, nsid: u32) -> Result<(), NvmeError> {
        let controller = Controller::open(&self.controller).await?;
        let data = controller.managing().await?;
        controller.allocated(nsid).await?;
        let own = data.controller_id.get();
        let mut others = controller.attached_to(nsid).await?;
        others.retain(|id| *id != own);
        if !others.is_empty() {
            return Err(NvmeError::AttachedElsewhere {
                nsid,
                controllers: others,
            });
        }
        let claimed = self.claim(nsid).await?;
        controller.delete(nsid).await?;
        drop(claimed);
        self.wait_until_shown(&controller, nsid, false).await
    }

    /// Attaches a namespace to this machine.
    ///
    /// # Errors
    /// The drive refuses, or cannot do that.
    pub async fn attach(&self, nsid: u32) -> Result<(), NvmeError> {
        let controller = Controller::open(&self.controller).await?;
        let data = controller.managing().await?;
        controller.allocated(nsid).await?;
        controller.attach(nsid, &data).await?;
        self.wait_until_shown(&controller, nsid, true).await
    }

    /// Detaches a namespace that nothing uses from this machine; its data stays.
    ///
    /// # Errors
    /// It is in use; the drive refuses, or cannot do that.
    pub async fn detach(&self, nsid: u32) -> Result<(), NvmeError> {
        let controller = Controller::open(&self.controller).await?;
        let data = controller.managing().await?;
        controller.allocated(nsid).await?;
        let claimed = self.claim(nsid).await?;
        controller.detach(nsid, &data).await?;
        drop(claimed);
        self.wait_until_shown(&controller, nsid, false).await
    }

    /// Makes sure that nobody uses a namespace, and that nobody begins to while this is open.
    async fn claim(&self, nsid: u32) -> Result<Option<File>, NvmeError> {
        let name = self.controller.clone();
        let Some(path) = reactor::blocking(move || block_device(&name, nsid)).await else {
            return Ok(None);
        };
        let options = OpenOptions {
            write: true,
            claim: true,
            ..OpenOptions::default()
        };
        let failed = |error| NvmeError::from(OpenError::from_io(&path, error));
        let file = File::open(&path, &options).await.map_err(failed)?;
        if !file.try_lock_exclusive().map_err(failed)? {
            return Err(OpenError::InUse(path).into());
        }
        Ok(Some(file))
    }

    async fn wait_until_shown(
        &self,
        controller: &Controller,
        nsid: u32,
        shown: bool,
    ) -> Result<(), NvmeError> {
        controller.rescan().await?;
        let deadline = reactor::now() + SHOWN_TIMEOUT;
        loop {
            let name = self.controller.clone();
            let found = reactor::blocking(move || block_device(&name, nsid)).await;
            if found.is_some() == shown {
                return Ok(());
            }
            if reactor::now() > deadline {
                let seconds = SHOWN_TIMEOUT.as_secs();
                return Err(NvmeError::NotShown { nsid, seconds });
            }
            reactor::sleep(SHOWN_PERIOD).await;
        }
    }
}

/// A count of the specification's 128 bits; no drive is that large.
fn bytes(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
