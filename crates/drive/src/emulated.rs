//! [`EmulatedDrive`]: a modelled drive that holds real data and takes the time the model says.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use block::Geometry;
use reactor::Instant;
use ssd::{
    Capacity, Device, DeviceOptions, EnduranceLog, FlashCounters, Health, NamespaceError,
    NamespaceRequest, Precondition, Profile, ProfileError,
};

use crate::emulated_namespace::EmulatedNamespace;
use crate::emulated_store::{Directory, Store};
use crate::open_error::OpenError;

/// How often counters are kept while there is work: what a kill may lose of them.
const COUNTERS_PERIOD: Duration = Duration::from_secs(1);

/// Where an emulated drive keeps what is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// In memory; lost with the process.
    Memory,
    /// In sparse files in this directory, with the drive's namespaces and counters beside them.
    Directory(PathBuf),
}

/// What to emulate.
#[derive(Clone, Debug)]
pub struct EmulatedOptions {
    /// The drive.
    pub profile: Profile,
    /// Capacity factor, above 0 and at most 1; speed is not scaled.
    pub scale: f64,
    /// Everything takes this many times as long as on the drive: for hosts and transports that
    /// are slower than it. At least 0.001.
    pub dilation: f64,
    /// Where the data is.
    pub payload: Payload,
    /// State of the flash after opening, with all namespaces mapped.
    pub precondition: Precondition,
    /// What is random follows from this.
    pub seed: u64,
}

impl EmulatedOptions {
    /// The drive of `profile` at `scale`, in memory, in real time, in the steady state of random
    /// writes.
    pub fn new(profile: Profile, scale: f64) -> EmulatedOptions {
        EmulatedOptions {
            profile,
            scale,
            dilation: 1.0,
            payload: Payload::Memory,
            precondition: Precondition::SteadyRandom,
            seed: 1,
        }
    }
}

/// Why a drive cannot be emulated, or does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EmulatedError {
    /// The profile or the scale describes no drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The namespace cannot be had.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The files of the payload cannot be used.
    #[error(transparent)]
    Payload(#[from] OpenError),
    /// What was kept beside the payload is not what this program writes.
    #[error("{}: {reason}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Time does not pass that slowly, or that fast.
    #[error("dilation of {0}; it has to be from 0.001 to 100000")]
    Dilation(f64),
}

/// How requests were completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Punctuality {
    /// Requests completed.
    pub completed: u64,
    /// Those of them that took a tenth longer than the model says, or more. Where these are many,
    /// a measurement says more about the host than about the drive: raise the dilation.
    pub late: u64,
}

/// A namespace of an emulated drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceState {
    /// Its identifier.
    pub nsid: u32,
    /// Its size.
    pub bytes: u64,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// More than one host may attach it.
    pub shared: bool,
    /// Tells it from others that had its identifier.
    pub ordinal: u64,
    /// The hosts it is attached to.
    pub hosts: Vec<String>,
}

/// A handle to an emulated drive; namespaces are opened from it.
#[derive(Clone)]
pub struct EmulatedDrive(pub(crate) Rc<Emulated>);

pub(crate) struct Emulated {
    pub(crate) device: RefCell<Device>,
    stores: RefCell<BTreeMap<u32, Rc<Store>>>,
    directory: Option<Directory>,
    started: Instant,
    dilation: f64,
    pub(crate) punctuality: Cell<Punctuality>,
    /// When the counters were last kept, and whether they are being kept now.
    counters_kept: Cell<Instant>,
    keeping_counters: Rc<Cell<bool>>,
}

impl EmulatedDrive {
    /// Opens the drive; a new one has a single namespace of its whole capacity, as drives are
    /// delivered.
    ///
    /// # Panics
    /// Outside a reactor.
    pub async fn open(options: EmulatedOptions) -> Result<EmulatedDrive, EmulatedError> {
        let new = match &options.payload {
            Payload::Directory(path) if !path.exists() => Some(path.clone()),
            _ => None,
        };
        let opened = EmulatedDrive::open_there(options).await;
        if let (Err(_), Some(path)) = (&opened, new) {
            // A directory that cannot be removed stays: the first error is the one to tell.
            drop(std::fs::remove_dir_all(path));
        }
        opened
    }

    async fn open_there(options: EmulatedOptions) -> Result<EmulatedDrive, EmulatedError> {
        if !(0.001..=100_000.0).contains(&options.dilation) {
            return Err(EmulatedError::Dilation(options.dilation));
        }
        let mut device = Device::new(&options.profile, options.scale, DeviceOptions::default())?;
        let directory = match options.payload {
            Payload::Memory => None,
            Payload::Directory(path) => Some(Directory::open(path)?),
        };
        let kept = match &directory {
            Some(directory) => directory.load()?,
            None => None,
        };
        match kept {
            Some(state) => {
                device.restore(state)?;
                let counters = directory.as_ref().map(Directory::load_counters);
                if let Some(counters) = counters.transpose()?.flatten() {
                    device.restore_counters(counters);
                }
            }
            None => {
                let bytes = device.capacity().total_bytes;
                device.create(NamespaceRequest::of_bytes(bytes))?;
            }
        }
        device.precondition(options.precondition, options.seed);
        let drive = EmulatedDrive(Rc::new(Emulated {
            device: RefCell::new(device),
            stores: RefCell::default(),
            directory,
            started: reactor::now(),
            dilation: options.dilation,
            punctuality: Cell::default(),
            counters_kept: Cell::new(reactor::now()),
            keeping_counters: Rc::default(),
        }));
        for (nsid, geometry) in drive.geometries() {
            drive.0.open_store(nsid, geometry).await?;
        }
        drive.0.save()?;
        Ok(drive)
    }

    /// The namespaces and their geometries, by identifier.
    pub fn geometries(&self) -> Vec<(u32, Geometry)> {
        let device = self.0.device.borrow();
        let namespaces = device.namespaces().iter();
        let found = namespaces.map(|(nsid, namespace)| {
            let blocks = namespace.bytes() / u64::from(namespace.block_bytes);
            (nsid, Geometry::new(namespace.block_bytes, blocks))
        });
        found
            .filter_map(|(nsid, geometry)| Some((nsid, geometry.ok()?)))
            .collect()
    }

    /// Opens a namespace; it cannot be deleted while this exists.
    pub fn namespace(&self, nsid: u32) -> Result<EmulatedNamespace, EmulatedError> {
        let store = self.0.stores.borrow().get(&nsid).cloned();
        let store = store.ok_or(NamespaceError::Unknown(nsid))?;
        EmulatedNamespace::open(self.clone(), nsid, store).map_err(EmulatedError::from)
    }

    /// Creates a namespace, which reads as zeroes; gives its identifier.
    pub async fn create_namespace(&self, request: NamespaceRequest) -> Result<u32, EmulatedError> {
        let nsid = self.0.device.borrow_mut().create(request)?;
        let geometry = self
            .geometries()
            .into_iter()
            .find(|(found, _)| *found == nsid);
        let opened = match geometry {
            Some((_, geometry)) => self.0.open_store(nsid, geometry).await,
            None => Ok(()),
        };
        if let Err(error) = opened {
            // Without a place for its data there is no namespace. It is new: nothing holds it.
            self.0.device.borrow_mut().delete(nsid)?;
            return Err(error.into());
        }
        self.0.save()?;
        Ok(nsid)
    }

    /// Deletes a namespace that is not open, and its data; its space becomes spare flash.
    pub fn delete_namespace(&self, nsid: u32) -> Result<(), EmulatedError> {
        self.0.device.borrow_mut().delete(nsid)?;
        self.0.stores.borrow_mut().remove(&nsid);
        if let Some(directory) = &self.0.directory {
            directory.remove(nsid)?;
        }
        self.0.save()
    }

    /// Every namespace, by identifier.
    pub fn namespaces(&self) -> Vec<NamespaceState> {
        let device = self.0.device.borrow();
        let namespaces = device.namespaces();
        let all = namespaces.iter().map(|(nsid, namespace)| NamespaceState {
            nsid,
            bytes: namespace.bytes(),
            block_bytes: namespace.block_bytes,
            shared: namespace.shared,
            ordinal: namespace.ordinal,
            hosts: namespaces.hosts_of(nsid),
        });
        all.collect()
    }

    /// Attaches a namespace to a host, for as long as the host is not forgotten.
    pub fn attach(&self, nsid: u32, host: &str) -> Result<(), EmulatedError> {
        {
            let mut device = self.0.device.borrow_mut();
            let namespaces = device.namespaces_mut();
            namespaces.get(nsid)?;
            let controller = namespaces.controller_of(host)?;
            namespaces.attach(nsid, &[controller])?;
        }
        self.0.save()
    }

    /// Detaches a namespace from a host.
    pub fn detach(&self, nsid: u32, host: &str) -> Result<(), EmulatedError> {
        {
            let mut device = self.0.device.borrow_mut();
            let namespaces = device.namespaces_mut();
            let controller = namespaces.controller_of(host)?;
            namespaces.detach(nsid, &[controller])?;
        }
        self.0.save()
    }

    /// Detaches everything from a host.
    pub fn forget_host(&self, host: &str) -> Result<(), EmulatedError> {
        self.0
            .device
            .borrow_mut()
            .namespaces_mut()
            .forget_host(host);
        self.0.save()
    }

    /// Capacity in all, and unallocated.
    pub fn capacity(&self) -> Capacity {
        self.0.device.borrow().capacity()
    }

    /// The profile's name, as the drive's model.
    pub fn model(&self) -> String {
        self.0.device.borrow().profile().drive.name.clone()
    }

    /// Pages written by the host and copied by the drive, over its life.
    pub fn flash_counters(&self) -> FlashCounters {
        self.0.device.borrow().flash_counters()
    }

    /// The values of the SMART log.
    pub fn health(&self) -> Health {
        self.0.device.borrow().health()
    }

    /// The values of the endurance group log.
    pub fn endurance_log(&self) -> EnduranceLog {
        self.0.device.borrow().endurance_log()
    }

    /// How many requests were completed, and how many of them late.
    pub fn punctuality(&self) -> Punctuality {
        self.0.punctuality.get()
    }
}

impl Emulated {
    async fn open_store(&self, nsid: u32, geometry: Geometry) -> Result<(), OpenError> {
        let store = Store::open(self.directory.as_ref(), nsid, geometry).await?;
        self.stores.borrow_mut().insert(nsid, Rc::new(store));
        Ok(())
    }

    fn save(&self) -> Result<(), EmulatedError> {
        match &self.directory {
            Some(directory) => directory.save(&self.device.borrow().state()),
            None => Ok(()),
        }
    }

    /// Now, on the drive's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        let elapsed = (reactor::now() - self.started).as_nanos() as f64;
        (elapsed / self.dilation) as u64
    }

    /// When `device_ns` is, on ours.
    pub(crate) fn due(&self, device_ns: u64) -> Instant {
        let elapsed = device_ns as f64 * self.dilation;
        self.started + Duration::from_nanos(elapsed as u64)
    }

    /// Counts a completion that was due, for a request that began, and is done now.
    pub(crate) fn count(&self, began: Instant, due: Instant, now: Instant) {
        let allowed = (due - began) / 10;
        let mut count = self.punctuality.get();
        count.completed += 1;
        count.late += u64::from(now > due + allowed);
        self.punctuality.set(count);
        if now - self.counters_kept.get() >= COUNTERS_PERIOD {
            self.keep_counters(now);
        }
    }

    /// Keeps the counters, on a helper thread.
    fn keep_counters(&self, now: Instant) {
        let Some(directory) = &self.directory else {
            return;
        };
        if self.keeping_counters.replace(true) {
            return;
        }
        self.counters_kept.set(now);
        let job = directory.save_counters(&self.device.borrow().counters());
        let keeping = Keeping(Rc::clone(&self.keeping_counters));
        drop(reactor::spawn(async move {
            // A second later there is another try, with newer counters.
            drop(reactor::blocking(job).await);
            drop(keeping);
        }));
    }
}

/// Counters are being kept until it is dropped, be it with the scope of the request that began it.
struct Keeping(Rc<Cell<bool>>);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Drop for Emulated {
    /// Keeps the counters. A drive that is killed loses at most what it counted in the
    /// [`COUNTERS_PERIOD`] after it last kept them.
    fn drop(&mut self) {
        // There is nobody left to tell; the payload does not depend on it.
        drop(self.save());
    }
}
