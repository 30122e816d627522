//! [`Namespaces`]: which namespaces a drive has, and which controllers they are attached to.
//!
//! Capacity is handed out in granules, wherever they are free, so that creating and deleting
//! never fragments it. NVMe Base 2.0 §8.11 (Namespace Management), §5.12 and §5.13.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Namespaces a drive can have (NN in Identify Controller).
pub const NAMESPACES_MAX: u32 = 128;

/// Why a namespace operation was refused; each has one NVMe status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The drive has not that much unallocated capacity.
    #[error("{requested} bytes asked for, {unallocated} are unallocated")]
    InsufficientCapacity {
        /// Bytes asked for, rounded up to the granularity.
        requested: u64,
        /// Bytes left.
        unallocated: u64,
    },
    /// Every namespace identifier is taken.
    #[error("all {NAMESPACES_MAX} namespace identifiers are in use")]
    NoIdentifier,
    /// There is no such namespace.
    #[error("there is no namespace {0}")]
    Unknown(u32),
    /// The namespace is attached to that controller already.
    #[error("namespace {0} is already attached to controller {1}")]
    AlreadyAttached(u32, u16),
    /// A private namespace has a controller already.
    #[error("namespace {0} is private and attached to another controller")]
    Private(u32),
    /// The namespace is not attached to that controller.
    #[error("namespace {0} is not attached to controller {1}")]
    NotAttached(u32, u16),
    /// Size and capacity differ; the model provisions no namespace thinly.
    #[error("size and capacity of a namespace have to be equal: no thin provisioning")]
    ThinProvisioning,
    /// An empty list, one too long, or a controller that does not exist.
    #[error("the controller list is empty, unordered or names a controller there is not")]
    ControllerList,
    /// No block format of that number.
    #[error("there is no block format {0}")]
    InvalidFormat(u8),
    /// A size of zero.
    #[error("a namespace of no blocks")]
    Empty,
    /// The size is not a whole number of 4 KiB pages.
    #[error("{0} bytes are not a whole number of 4096-byte pages")]
    Misaligned(u64),
    /// Something holds the namespace open.
    #[error("namespace {0} is in use")]
    InUse(u32),
    /// A range beyond the namespace.
    #[error("the range lies beyond the end of namespace {0}")]
    OutOfRange(u32),
}

impl NamespaceError {
    /// The NVMe status code type and status code (NVMe Base 2.0, figures 96 to 100).
    pub fn status(&self) -> (u8, u8) {
        match self {
            NamespaceError::InvalidFormat(_) => (1, 0x0a),
            NamespaceError::InsufficientCapacity { .. } => (1, 0x15),
            NamespaceError::NoIdentifier => (1, 0x16),
            NamespaceError::AlreadyAttached(..) => (1, 0x18),
            NamespaceError::Private(_) => (1, 0x19),
            NamespaceError::NotAttached(..) => (1, 0x1a),
            NamespaceError::ThinProvisioning => (1, 0x1b),
            NamespaceError::ControllerList => (1, 0x1c),
            NamespaceError::Empty | NamespaceError::Misaligned(_) => (0, 0x02),
            NamespaceError::Unknown(_) => (0, 0x0b),
            NamespaceError::InUse(_) => (0, 0x15),
            NamespaceError::OutOfRange(_) => (0, 0x80),
        }
    }
}

/// What Namespace Management's create asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceRequest {
    /// NSZE, in blocks of the format.
    pub size_blocks: u64,
    /// NCAP, in blocks of the format; equal to the size.
    pub capacity_blocks: u64,
    /// FLBAS: 0 for 4,096-byte blocks, 1 for 512-byte blocks.
    pub format: u8,
    /// NMIC bit 0: more than one controller may be attached.
    pub shared: bool,
}

impl NamespaceRequest {
    /// A private namespace of `bytes` bytes in 4,096-byte blocks.
    pub fn of_bytes(bytes: u64) -> NamespaceRequest {
        let blocks = bytes.div_ceil(4096);
        NamespaceRequest {
            size_blocks: blocks,
            capacity_blocks: blocks,
            format: 0,
            shared: false,
        }
    }

    /// Bytes in a block of the format.
    pub fn block_bytes(&self) -> Result<u32, NamespaceError> {
        match self.format {
            0 => Ok(4096),
            1 => Ok(512),
            format => Err(NamespaceError::InvalidFormat(format)),
        }
    }
}

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Bytes in a block: 4,096 or 512.
    pub block_bytes: u32,
    /// Size in pages of 4 KiB.
    pub pages: u64,
    /// More than one controller may be attached.
    pub shared: bool,
    /// Controllers it is attached to.
    pub controllers: BTreeSet<u16>,
    /// How many namespaces the drive had ever had when this was made, itself included: tells it
    /// from others that had its identifier.
    #[serde(default)]
    pub ordinal: u64,
    /// Its granules of the drive's logical space, in order.
    granules: Vec<u32>,
    /// How many users hold it open.
    #[serde(skip)]
    open: u32,
}

impl Namespace {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages * 4096
    }
}

/// Total and unallocated capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// TNVMCAP.
    pub total_bytes: u64,
    /// UNVMCAP.
    pub unallocated_bytes: u64,
    /// What sizes are rounded up to.
    pub granularity_bytes: u64,
}

/// The namespaces of one drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    granule_pages: u32,
    free_granules: BTreeSet<u32>,
    total_granules: u32,
    controllers: BTreeSet<u16>,
    table: BTreeMap<u32, Namespace>,
    /// Namespaces ever created.
    #[serde(default)]
    created: u64,
    /// Hosts with a controller of their own.
    #[serde(default)]
    hosts: BTreeMap<String, u16>,
}

impl Namespaces {
    /// A drive of `logical_pages`, all unallocated, handed out `granule_pages` at a time; both at
    /// least 1. What does not fill a granule is never handed out.
    pub fn new(logical_pages: u32, granule_pages: u32) -> Namespaces {
        let granule_pages = granule_pages.clamp(1, logical_pages.max(1));
        let total_granules = logical_pages / granule_pages;
        Namespaces {
            granule_pages,
            free_granules: (0..total_granules).collect(),
            total_granules,
            controllers: BTreeSet::new(),
            table: BTreeMap::new(),
            created: 0,
            hosts: BTreeMap::new(),
        }
    }

    /// Makes a controller known, so that namespaces can be attached to it.
    pub fn add_controller(&mut self, controller: u16) {
        self.controllers.insert(controller);
    }

    /// Forgets a controller; what was attached to it is detached.
    pub fn remove_controller(&mut self, controller: u16) {
        self.controllers.remove(&controller);
        for namespace in self.table.values_mut() {
            namespace.controllers.remove(&controller);
        }
    }

    /// The controller of a host, made known when it is new: what a host attached belongs to its
    /// name and outlives its connections.
    pub fn controller_of(&mut self, host: &str) -> Result<u16, NamespaceError> {
        if let Some(controller) = self.hosts.get(host) {
            return Ok(*controller);
        }
        let free = (1..u16::MAX).find(|controller| !self.controllers.contains(controller));
        let controller = free.ok_or(NamespaceError::ControllerList)?;
        self.controllers.insert(controller);
        self.hosts.insert(host.to_owned(), controller);
        Ok(controller)
    }

    /// Forgets a host; what was attached to it is detached.
    pub fn forget_host(&mut self, host: &str) {
        if let Some(controller) = self.hosts.remove(host) {
            self.remove_controller(controller);
        }
    }

    /// The hosts that have a namespace attached.
    pub fn hosts_of(&self, nsid: u32) -> Vec<String> {
        let Some(namespace) = self.table.get(&nsid) else {
            return Vec::new();
        };
        let attached = |entry: &(&String, &u16)| namespace.controllers.contains(entry.1);
        let attached = self.hosts.iter().filter(attached);
        attached.map(|(host, _)| host.clone()).collect()
    }

    /// The capacity counters.
    pub fn capacity(&self) -> Capacity {
        let granularity_bytes = u64::from(self.granule_pages) * 4096;
        Capacity {
            total_bytes: u64::from(self.total_granules) * granularity_bytes,
            unallocated_bytes: self.free_granules.len() as u64 * granularity_bytes,
            granularity_bytes,
        }
    }

    /// Every namespace, by identifier.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.table
            .iter()
            .map(|(nsid, namespace)| (*nsid, namespace))
    }

    /// One namespace.
    pub fn get(&self, nsid: u32) -> Result<&Namespace, NamespaceError> {
        self.table.get(&nsid).ok_or(NamespaceError::Unknown(nsid))
    }

    fn get_mut(&mut self, nsid: u32) -> Result<&mut Namespace, NamespaceError> {
        self.table
            .get_mut(&nsid)
            .ok_or(NamespaceError::Unknown(nsid))
    }

    /// Creates a namespace, attached to no controller, and returns its identifier.
    pub fn create(&mut self, request: NamespaceRequest) -> Result<u32, NamespaceError> {
        let block_bytes = request.block_bytes()?;
        if request.size_blocks == 0 {
            return Err(NamespaceError::Empty);
        }
        if request.size_blocks != request.capacity_blocks {
            return Err(NamespaceError::ThinProvisioning);
        }
        let unallocated = self.capacity().unallocated_bytes;
        let bytes = request
            .size_blocks
            .checked_mul(u64::from(block_bytes))
            .ok_or({
                NamespaceError::InsufficientCapacity {
                    requested: u64::MAX,
                    unallocated,
                }
            })?;
        if !bytes.is_multiple_of(4096) {
            return Err(NamespaceError::Misaligned(bytes));
        }
        let pages = bytes / 4096;
        let wanted = pages.div_ceil(u64::from(self.granule_pages));
        if wanted > self.free_granules.len() as u64 {
            let requested = wanted.saturating_mul(self.capacity().granularity_bytes);
            return Err(NamespaceError::InsufficientCapacity {
                requested,
                unallocated,
            });
        }
        let nsid = (1..=NAMESPACES_MAX).find(|nsid| !self.table.contains_key(nsid));
        let nsid = nsid.ok_or(NamespaceError::NoIdentifier)?;
        let granules: Vec<u32> = self
            .free_granules
            .iter()
            .copied()
            .take(wanted as usize)
            .collect();
        for granule in &granules {
            self.free_granules.remove(granule);
        }
        let shared = request.shared;
        let controllers = BTreeSet::new();
        self.created += 1;
        self.table.insert(
            nsid,
            Namespace {
                block_bytes,
                pages,
                shared,
                controllers,
                ordinal: self.created,
                granules,
                open: 0,
            },
        );
        Ok(nsid)
    }

    /// Deletes a namespace that nothing holds open; it is detached from every controller, as the
    /// specification has it. Returns it, for its pages to be deallocated.
    pub fn delete(&mut self, nsid: u32) -> Result<Namespace, NamespaceError> {
        if self.get(nsid)?.open > 0 {
            return Err(NamespaceError::InUse(nsid));
        }
        let namespace = self
            .table
            .remove(&nsid)
            .ok_or(NamespaceError::Unknown(nsid))?;
        self.free_granules
            .extend(namespace.granules.iter().copied());
        Ok(namespace)
    }

    /// Attaches a namespace to every controller of the list, or to none.
    pub fn attach(&mut self, nsid: u32, controllers: &[u16]) -> Result<(), NamespaceError> {
        self.check_list(controllers)?;
        let namespace = self.get_mut(nsid)?;
        for controller in controllers {
            if namespace.controllers.contains(controller) {
                return Err(NamespaceError::AlreadyAttached(nsid, *controller));
            }
        }
        if !namespace.shared && namespace.controllers.len() + controllers.len() > 1 {
            return Err(NamespaceError::Private(nsid));
        }
        namespace.controllers.extend(controllers);
        Ok(())
    }

    /// Detaches a namespace from every controller of the list, or from none.
    pub fn detach(&mut self, nsid: u32, controllers: &[u16]) -> Result<(), NamespaceError> {
        self.check_list(controllers)?;
        let namespace = self.get_mut(nsid)?;
        for controller in controllers {
            if !namespace.controllers.contains(controller) {
                return Err(NamespaceError::NotAttached(nsid, *controller));
            }
        }
        namespace
            .controllers
            .retain(|controller| !controllers.contains(controller));
        Ok(())
    }

    fn check_list(&self, controllers: &[u16]) -> Result<(), NamespaceError> {
        let ordered = controllers.windows(2).all(|pair| pair[0] < pair[1]);
        let known = controllers
            .iter()
            .all(|controller| self.controllers.contains(controller));
        if controllers.is_empty() || !ordered || !known {
            return Err(NamespaceError::ControllerList);
        }
        Ok(())
    }

    /// Marks a namespace as held open, until [`Namespaces::close`].
    pub fn open(&mut self, nsid: u32) -> Result<(), NamespaceError> {
        self.get_mut(nsid)?.open += 1;
        Ok(())
    }

    /// Undoes one [`Namespaces::open`].
    pub fn close(&mut self, nsid: u32) {
        if let Ok(namespace) = self.get_mut(nsid) {
            namespace.open = namespace.open.saturating_sub(1);
        }
    }

    /// The logical pages of the drive behind a run of pages of a namespace.
    pub fn pages(
        &self,
        nsid: u32,
        first: u64,
        count: u64,
    ) -> Result<impl Iterator<Item = u32> + Clone + '_, NamespaceError> {
        let namespace = self.get(nsid)?;
        let end = first
            .checked_add(count)
            .filter(|end| *end <= namespace.pages);
        let end = end.ok_or(NamespaceError::OutOfRange(nsid))?;
        let granule_pages = u64::from(self.granule_pages);
        Ok((first..end).map(move |page| {
            let granule = namespace.granules[(page / granule_pages) as usize];
            granule * self.granule_pages + (page % granule_pages) as u32
        }))
    }

    /// Every logical page of a namespace that has been deleted.
    pub(crate) fn pages_of(&self, namespace: &Namespace) -> impl Iterator<Item = u32> + use<> {
        let granule_pages = self.granule_pages;
        let granules = namespace.granules.clone();
        granules.into_iter().flat_map(move |granule| {
            let first = granule * granule_pages;
            first..first + granule_pages
        })
    }
}

#[cfg(test)]
#[path = "namespaces_tests.rs"]
mod tests;
