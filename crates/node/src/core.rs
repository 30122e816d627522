//! [`Core`]: what one core of a node holds, and what is done on it.

mod administration;
mod hosts;
mod measure;
mod namespaces;
pub mod open_pools;
mod pools;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use access::{AllowedHosts, HostKeys, Nqn, TlsKey};
use block::{BlockDevice, Geometry};
use drive::{Drive, FileDrive, FileOptions, MemoryDrive, NullDrive, NvmeDrive};
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PathState, PortSet, PortSettings, SubsystemSettings,
    Target, TargetError, TargetSettings,
};
use pool::Settings;
use qos::Terms;

use self::hosts::tell;
use self::namespaces::Managed;
use crate::core::open_pools::Pools;
use crate::counts::DriveCounts;
use crate::error::NodeError;
use crate::managed;
use crate::spec::{Backing, DriveFacts, DriveSpec, EventSink, PortSpec, SessionFacts, VolumeSpec};
use crate::volume::remote::{Post, RemoteVolume, VolumeId, Wiring};
use crate::volume::watched::WatchedDrive;
use crate::volume::{Path, Volume};

/// Logical block size of drives that have no size of their own to ask for.
const DRIVE_BLOCK_BYTES: u32 = 4096;

/// What hosts see as the controllers' model number.
const MODEL: &str = "Flashyard";

/// Turns that answers wait for those that come from other cores: there and back takes two, or three
/// where the other core has just begun one. Measured: 1.2 to 1.4 times the random I/O of two cores
/// with three, less with fewer, no more with up to eight.
const ANSWERS_WAIT_TURNS: u32 = 3;

/// How long a port in use is tried for.
const PORT_PATIENCE: Duration = Duration::from_secs(3);

const PORT_RETRY_PERIOD: Duration = Duration::from_millis(50);

/// Names a core of a node in this process.
pub type CoreKey = (u64, usize);

thread_local! {
    static CORES: RefCell<HashMap<CoreKey, Rc<Core>>> = RefCell::default();
}

/// One core of a node, on its own thread.
pub struct Core {
    target: Target<Volume>,
    post: Rc<Post>,
    /// For drives that pools of other cores use: a request to a volume waits for requests to
    /// drives, so these must not queue behind those.
    drive_post: Rc<Post>,
    pools: Pools,
    drives: RefCell<BTreeMap<String, WatchedDrive>>,
    /// Own handles of other cores' drives, for shards of pools.
    guests: RefCell<BTreeMap<String, WatchedDrive>>,
    /// Drives whose namespaces can be managed; the one in use is among `drives`.
    managed: RefCell<BTreeMap<String, Managed>>,
    /// Namespaces that are attached to hosts.
    attached: RefCell<BTreeMap<VolumeId, WatchedDrive>>,
    subsystems: RefCell<BTreeMap<String, BTreeSet<u32>>>,
    events: EventSink,
    next_port: Cell<u16>,
}

impl Core {
    /// Starts the core `key` on the current reactor.
    pub fn start(
        key: CoreKey,
        links: Links,
        wirings: [Wiring; 2],
        events: EventSink,
        pools: Settings,
    ) {
        let settings = TargetSettings {
            answers_wait_turns: if links.cores() > 1 {
                ANSWERS_WAIT_TURNS
            } else {
                0
            },
            ..TargetSettings::default()
        };
        let target = Target::start(settings, links);
        drop(reactor::spawn(tell(target.clone(), Arc::clone(&events))));
        let [volumes, drives] = wirings;
        let core = Core {
            target,
            post: Post::start(volumes),
            drive_post: Post::start(drives),
            pools: Pools::new(Arc::clone(&events), pools),
            drives: RefCell::default(),
            guests: RefCell::default(),
            managed: RefCell::default(),
            attached: RefCell::default(),
            subsystems: RefCell::default(),
            events,
            next_port: Cell::new(1),
        };
        CORES.with_borrow_mut(|cores| cores.insert(key, Rc::new(core)));
    }

    /// What serves hosts on this core.
    pub fn target(&self) -> &Target<Volume> {
        &self.target
    }

    /// What this core did to each open drive that it has a handle of.
    pub fn drive_counts(&self) -> Vec<(String, DriveCounts)> {
        let (drives, guests) = (self.drives.borrow(), self.guests.borrow());
        let counts = drives.iter().chain(guests.iter());
        counts
            .map(|(name, drive)| (name.clone(), drive.counts()))
            .collect()
    }

    /// The core `key`, which must be one of this thread's.
    pub fn of(key: CoreKey) -> Result<Rc<Core>, NodeError> {
        CORES
            .with_borrow(|cores| cores.get(&key).cloned())
            .ok_or(NodeError::Stopped)
    }

    /// Takes a port's address and gives it; nobody listens there yet. A port in use is tried for a
    /// while: the kernel may still be closing the sockets of a node that was killed here a moment
    /// ago.
    pub async fn reserve_port(
        &self,
        port: PortSpec,
        shared: bool,
    ) -> Result<SocketAddr, NodeError> {
        let settings = self.settings_of(port, shared);
        let id = settings.id;
        let bound = self.reserve(settings).await?;
        // Nobody has been accepted yet.
        self.target.set_path_state(id, port.path)?;
        Ok(bound)
    }

    /// The same for a port that the node can do without: gives why its address cannot be taken, if
    /// so, and knows the port.
    pub async fn reserve_or_know_port(
        &self,
        port: PortSpec,
    ) -> Result<(SocketAddr, Option<NodeError>), NodeError> {
        let settings = self.settings_of(port, false);
        let id = settings.id;
        let reserved = match self.reserve(settings.clone()).await {
            Ok(bound) => (bound, None),
            Err(fault) => {
                self.target.know_port(settings)?;
                (port.listen, Some(fault))
            }
        };
        self.target.set_path_state(id, port.path)?;
        Ok(reserved)
    }

    async fn reserve(&self, settings: PortSettings) -> Result<SocketAddr, NodeError> {
        let deadline = reactor::now() + PORT_PATIENCE;
        loop {
            match self.target.reserve_port(settings.clone()) {
                Err(error) if address_in_use(&error) && reactor::now() < deadline => {
                    reactor::sleep(PORT_RETRY_PERIOD).await;
                }
                reserved => return Ok(reserved?),
            }
        }
    }

    /// Knows a port whose connections another core takes, or whose address cannot be taken yet.
    pub fn know_port(&self, port: PortSpec) -> Result<(), NodeError> {
        let settings = self.settings_of(port, false);
        let id = settings.id;
        self.target.know_port(settings)?;
        Ok(self.target.set_path_state(id, port.path)?)
    }

    /// Takes the address of a port that was only known, and listens there.
    pub fn open_known_port(&self, index: usize) -> Result<(), NodeError> {
        let id = u16::try_from(index + 1).unwrap_or(0);
        Ok(self.target.open_known_port(id)?)
    }

    fn settings_of(&self, port: PortSpec, shared: bool) -> PortSettings {
        let id = self.next_port.get();
        self.next_port.set(id + 1);
        PortSettings {
            id,
            listen: port.listen,
            advertise: port.advertise,
            reuse_port: shared,
            tls: port.tls,
            transport: port.transport,
        }
    }

    /// Listens at the ports whose addresses were taken.
    pub fn open_ports(&self) -> Result<(), NodeError> {
        Ok(self.target.open_ports()?)
    }

    /// Makes the port that was added as the `index`th a better or a worse path.
    pub fn set_path_state(&self, index: usize, state: PathState) -> Result<(), NodeError> {
        let id = u16::try_from(index + 1).unwrap_or(0);
        Ok(self.target.set_path_state(id, state)?)
    }

    /// Gives an ANA group a state of its own at that port, or the port's again.
    pub fn set_group_path_state(
        &self,
        index: usize,
        group: AnaGroupId,
        state: Option<PathState>,
    ) -> Result<(), NodeError> {
        let id = u16::try_from(index + 1).unwrap_or(0);
        Ok(self.target.set_group_path_state(id, group, state)?)
    }

    /// Opens a drive on this core.
    pub async fn open_drive(&self, name: &str, spec: &DriveSpec) -> Result<DriveFacts, NodeError> {
        let drive = match spec {
            DriveSpec::Path { path, create_bytes } => match NvmeDrive::at(path).await {
                Some(drive) => return self.open_managed(name, Managed::Nvme(drive)).await,
                None => open_path(path, *create_bytes).await?.into(),
            },
            DriveSpec::Memory { bytes } => MemoryDrive::new(geometry(*bytes)?).into(),
            DriveSpec::Null { bytes } => NullDrive::new(geometry(*bytes)?).into(),
            DriveSpec::Emulated(emulated) => {
                let drive = managed::open(emulated).await?;
                return self.open_managed(name, Managed::Emulated(drive)).await;
            }
        };
        Ok(self.watch(name, drive))
    }

    fn watch(&self, name: &str, drive: Drive) -> DriveFacts {
        let geometry = drive.geometry();
        let drive = WatchedDrive::new(name.to_owned(), drive, self.events.clone());
        self.drives.borrow_mut().insert(name.to_owned(), drive);
        DriveFacts {
            capacity_bytes: geometry.capacity_bytes(),
            block_bytes: geometry.block_bytes,
        }
    }

    /// Closes a drive of this core once its last operation has ended.
    pub async fn close_drive(&self, name: &str) -> Result<(), NodeError> {
        let drive = self.drives.borrow_mut().remove(name);
        let managed = self.managed.borrow_mut().remove(name);
        match drive {
            Some(drive) => flush(name, &drive).await,
            None if managed.is_some() => Ok(()),
            None => Err(NodeError::UnknownDrive(name.to_owned())),
        }
    }

    /// Puts a volume of this core on a drive; gives its geometry.
    pub fn stand_on_drive(
        &self,
        id: VolumeId,
        drive: &str,
        block_bytes: u32,
    ) -> Result<Geometry, NodeError> {
        let path = Path::to_drive(self.drive(drive)?, block_bytes)?;
        self.post.stand_on(id, path);
        self.volume_geometry(id)
    }

    /// Leaves a volume of this core with nothing under it for now; gives its geometry.
    pub fn stand_on_nothing(
        &self,
        id: VolumeId,
        capacity_bytes: u64,
        block_bytes: u32,
    ) -> Result<Geometry, NodeError> {
        let blocks = capacity_bytes / u64::from(block_bytes.max(1));
        let geometry = Geometry::new(block_bytes, blocks)
            .map_err(|error| NodeError::size(capacity_bytes, error))?;
        self.post.stand_on(id, Path::Offline(geometry));
        Ok(geometry)
    }

    /// Makes this core's proxy of a volume of the core `home`.
    pub fn make_proxy(&self, id: VolumeId, home: usize, geometry: Geometry) {
        let remote = RemoteVolume::new(Rc::clone(&self.post), home, id, geometry);
        self.post.stand_on(id, Path::Remote(remote));
    }

    /// Tells connected hosts that a volume may have another capacity.
    pub fn announce_size(&self, spec: &VolumeSpec) -> Result<(), NodeError> {
        Ok(self.target.namespace_resized(&spec.subsystem, spec.nsid)?)
    }

    /// Forgets a volume that is no longer served.
    pub fn drop_volume(&self, id: VolumeId) {
        self.post.remove(id);
    }

    /// Serves a volume to hosts, and makes its subsystem if it is the first there; or leaves
    /// everything as it was.
    pub async fn publish(&self, id: VolumeId, spec: &VolumeSpec) -> Result<(), NodeError> {
        let volume = self
            .post
            .volume(id)
            .ok_or_else(|| NodeError::UnknownVolume(spec.name.clone()))?;
        let nqn = spec.subsystem.as_str();
        let first = !self.subsystems.borrow().contains_key(nqn);
        if first {
            self.target.add_subsystem(SubsystemSettings {
                nqn: spec.subsystem.clone(),
                serial: serial(nqn),
                model: MODEL.to_owned(),
                // Each volume has its own list.
                allowed: AllowedHosts::list([]),
                ports: PortSet::All,
                tenant: spec.tenant.clone(),
            })?;
            self.subsystems
                .borrow_mut()
                .insert(nqn.to_owned(), BTreeSet::new());
        }
        let identity = *spec.uuid.as_bytes();
        let settings = NamespaceSettings {
            nsid: spec.nsid,
            nguid: identity,
            uuid: identity,
            eui64: None,
            group: spec.group,
        };
        let counted = Rc::clone(&volume);
        let added = self.target.add_namespace(&spec.subsystem, settings, volume);
        if let Err(error) = added {
            if first {
                self.subsystems.borrow_mut().remove(nqn);
                self.target.remove_subsystem(&spec.subsystem).await?;
            }
            return Err(error.into());
        }
        if let Backing::Pool { .. } = spec.backing {
            let used_blocks = Rc::new(move || counted.used_blocks());
            self.target
                .set_thin(&spec.subsystem, spec.nsid, used_blocks)?;
        }
        let known = spec.rules.as_ref();
        self.target
            .restore_rules(&spec.subsystem, spec.nsid, known)?;
        self.set_allowed_hosts(&spec.subsystem, spec.nsid, spec.allowed.clone())?;
        if let Some(namespaces) = self.subsystems.borrow_mut().get_mut(nqn) {
            namespaces.insert(spec.nsid);
        }
        Ok(())
    }

    /// Stops serving a volume, and its subsystem if it was the last there; waits for I/O in
    /// flight.
    pub async fn withdraw(&self, spec: &VolumeSpec) -> Result<(), NodeError> {
        let nqn = spec.subsystem.as_str();
        let left = {
            let mut subsystems = self.subsystems.borrow_mut();
            let Some(namespaces) = subsystems.get_mut(nqn) else {
                return Ok(());
            };
            namespaces.remove(&spec.nsid);
            namespaces.len()
        };
        if left == 0 {
            self.subsystems.borrow_mut().remove(nqn);
            self.target.remove_subsystem(&spec.subsystem).await?;
        } else {
            self.target
                .remove_namespace(&spec.subsystem, spec.nsid)
                .await?;
        }
        Ok(())
    }

    /// Changes what a host has to prove before it is served.
    pub fn set_host_keys(&self, host: &Nqn, keys: Option<HostKeys>) {
        self.target.set_host_keys(host, keys);
    }

    /// Which tenant a host belongs to.
    pub fn set_host_tenant(&self, host: &Nqn, tenant: Option<Arc<str>>) {
        self.target.set_host_tenant(host, tenant);
    }

    /// These terms hold for a volume on this core.
    pub fn set_terms(&self, nqn: &Nqn, nsid: u32, terms: &Arc<Terms>) -> Result<(), NodeError> {
        Ok(self.target.set_terms(nqn, nsid, terms)?)
    }

    /// Changes a host's key for TLS.
    pub fn set_tls_key(&self, host: &Nqn, key: Option<TlsKey>) {
        self.target.set_tls_key(host, key);
    }

    /// Changes who may see a volume.
    pub fn set_allowed_hosts(
        &self,
        nqn: &Nqn,
        nsid: u32,
        allowed: AllowedHosts,
    ) -> Result<(), NodeError> {
        Ok(self.target.set_namespace_hosts(nqn, nsid, allowed)?)
    }

    /// Whether hosts that may not see a volume have nothing under way on it here, within `limit`.
    /// One that is not served is used by nobody.
    pub async fn is_fenced(&self, nqn: &Nqn, nsid: u32, limit: Duration) -> bool {
        let fenced = self.target.is_fenced(nqn, nsid, limit).await;
        fenced.unwrap_or(true)
    }

    /// Sessions whose admin queue is on this core.
    pub fn sessions(&self) -> Vec<SessionFacts> {
        let sessions = self.target.sessions().into_iter();
        sessions
            .filter(|session| !session.discovery)
            .map(|session| SessionFacts {
                host_nqn: session.host_nqn.to_string(),
                remote: session.host_address,
                subsystem_nqn: session.subsystem_nqn.to_string(),
                controller_id: session.controller_id,
                queues: session.io_queues,
                port: session.port_id,
                keep_alive_ms: session.keep_alive_ms,
                connected_for: session.connected_for,
            })
            .collect()
    }

    /// Stops accepting, lets I/O in flight end for at most `grace`, closes every connection.
    pub async fn stop_serving(&self, grace: Duration) {
        self.target.shutdown(grace).await;
    }

    /// Makes durable what the drives of this core acknowledged, and lets go of everything.
    pub async fn finish(&self, key: CoreKey) -> Result<(), NodeError> {
        let flushing: Vec<_> = std::mem::take(&mut *self.drives.borrow_mut())
            .into_iter()
            .chain(
                std::mem::take(&mut *self.attached.borrow_mut())
                    .into_values()
                    .map(|drive| (drive.name().to_owned(), drive)),
            )
            .map(|(name, drive)| reactor::spawn(async move { flush(&name, &drive).await }))
            .collect();
        let mut first_failure = Ok(());
        for flushed in flushing {
            first_failure = first_failure.and(flushed.await);
        }
        self.pools.leave_all();
        self.post.remove_all();
        self.drive_post.remove_all();
        CORES.with_borrow_mut(|cores| cores.remove(&key));
        first_failure
    }
}

fn address_in_use(error: &TargetError) -> bool {
    let TargetError::Bind { source, .. } = error else {
        return false;
    };
    source.kind() == std::io::ErrorKind::AddrInUse
}

async fn open_path(
    path: &std::path::Path,
    create_bytes: Option<u64>,
) -> Result<FileDrive, NodeError> {
    let Some(bytes) = create_bytes else {
        return Ok(FileDrive::open(path, &FileOptions::default()).await?);
    };
    let wanted = geometry(bytes)?.capacity_bytes();
    let options = FileOptions {
        create_bytes,
        ..FileOptions::default()
    };
    let drive = FileDrive::open(path, &options).await?;
    let found = drive.geometry().capacity_bytes();
    if found != wanted {
        let reason = format!("{} exists with {found} bytes", path.display());
        return Err(NodeError::Size { bytes, reason });
    }
    Ok(drive)
}

/// The largest drive that is made of nothing: as large as the largest volume. What it takes to find
/// its pieces in memory is some megabytes.
const MADE_BYTES_MAX: u64 = 4 << 50;

/// A drive of exactly `bytes`.
fn geometry(bytes: u64) -> Result<Geometry, NodeError> {
    let block_bytes = u64::from(DRIVE_BLOCK_BYTES);
    if bytes == 0 || !bytes.is_multiple_of(block_bytes) || bytes > MADE_BYTES_MAX {
        let reason = format!("allowed: one or more blocks of {block_bytes} bytes, up to 4 PiB");
        return Err(NodeError::Size { bytes, reason });
    }
    Geometry::new(DRIVE_BLOCK_BYTES, bytes / block_bytes)
        .map_err(|error| NodeError::size(bytes, error))
}

async fn flush(name: &str, drive: &WatchedDrive) -> Result<(), NodeError> {
    let flushed = drive.flush().await;
    flushed.map_err(|error| NodeError::Flush {
        drive: name.to_owned(),
        error,
    })
}

/// A serial number of 18 characters that is always the same for a subsystem (FNV-1a, 64 bits).
fn serial(nqn: &str) -> String {
    let hash = nqn.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("FY{hash:016X}")
}
