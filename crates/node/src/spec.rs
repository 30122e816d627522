//! What a node is built from, and what it tells about itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::IoError;
use nvme_target::reservation::HostId;
use nvme_target::rules::Rules;
use nvme_target::{AnaGroupId, ControllerIds, PathState, Transport};
use pool::{Counters, DamagedLabel, DriveId, Label, NewerFormat, PoolEvent, PoolStatus, VolumeId};
use uuid::Uuid;

/// Every NQN that a node makes begins with this.
pub const NQN_PREFIX: &str = "nqn.2026-11.example.flashyard";

/// NQN of a node's discovery subsystem: the same for the life of its identity, and none of another
/// node, nor of a volume or a drive, whose names have the node's behind the prefix.
pub fn discovery_nqn(uuid: Uuid) -> Nqn {
    let name = format!("{NQN_PREFIX}.discovery:{uuid}");
    name.parse().expect("a UUID may follow a domain")
}

/// What a node is built from; drives and volumes are added to the running node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The node's identity.
    pub uuid: Uuid,
    /// One reactor each, pinned to that CPU where one is named. At least one.
    pub cores: Vec<Option<usize>>,
    /// Addresses that serve NVMe/TCP.
    pub ports: Vec<PortSpec>,
    /// Memory of each pool for its map, on all cores together.
    pub map_cache_bytes: usize,
    /// Identifiers of hosts' controllers, at least one for each core.
    pub controller_ids: ControllerIds,
}

/// [`NodeSpec::map_cache_bytes`] unless there is a reason for another: the map of some 15 GiB, be
/// that all of a pool or what of it is in use.
pub const MAP_CACHE_BYTES: usize = 64 << 20;

/// An address that serves NVMe/TCP or NVMe/RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What discovery tells hosts to connect to, if not the address they asked at.
    pub advertise: Option<SocketAddr>,
    /// How good a path it is.
    pub path: PathState,
    /// Hosts connect under TLS, with a key of theirs, or not at all.
    pub tls: bool,
    /// How hosts come.
    pub transport: Transport,
}

/// What a drive is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveSpec {
    /// A block device or a regular file, which is made, sparse, if it is missing and
    /// `create_bytes` says how large.
    Path {
        /// Where it is.
        path: PathBuf,
        /// Size of a file to make; an existing file must have it.
        create_bytes: Option<u64>,
    },
    /// Memory of the node.
    Memory {
        /// Capacity.
        bytes: u64,
    },
    /// Takes every write and returns zeroes.
    Null {
        /// Capacity.
        bytes: u64,
    },
    /// A model with real data; the drive is its namespace with the lowest identifier.
    Emulated(EmulatedSpec),
}

/// What an emulated drive is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedSpec {
    /// A shipped profile's name, or the absolute path of another.
    pub profile: String,
    /// Capacity in millionths of the profile's.
    pub scale_ppm: u32,
    /// Time in percent of the profile's.
    pub dilation_percent: u32,
    /// Where the data is; memory without one.
    pub directory: Option<PathBuf>,
}

/// A namespace of a drive, as the node can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its identifier.
    pub nsid: u32,
    /// Its size.
    pub bytes: u64,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// It is attached to this machine.
    pub attached: bool,
    /// The node uses it as the drive.
    pub used_as_drive: bool,
}

/// The namespaces of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacesFacts {
    /// Capacity in all, and unallocated.
    pub capacity: ssd::Capacity,
    /// Each namespace, by identifier.
    pub namespaces: Vec<NamespaceFacts>,
}

/// The namespaces of an emulated drive, and its health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFacts {
    /// The drive's model.
    pub model: String,
    /// Capacity in all, and unallocated.
    pub capacity: ssd::Capacity,
    /// Each namespace, by identifier.
    pub namespaces: Vec<drive::NamespaceState>,
    /// The SMART log.
    pub health: ssd::Health,
    /// The endurance group log.
    pub endurance: ssd::EnduranceLog,
    /// Requests completed, and completed late.
    pub punctuality: drive::Punctuality,
}

/// What an open drive turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveFacts {
    /// Capacity.
    pub capacity_bytes: u64,
    /// Logical block size.
    pub block_bytes: u32,
}

/// What a drive carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveLabel {
    /// No pool.
    Blank,
    /// It belongs to a pool, or did.
    Pool(Label),
    /// It belongs to a pool of a newer format.
    Newer(NewerFormat),
    /// It belongs to a pool, or did; its label is damaged, and nothing in it is certain.
    Damaged(DamagedLabel),
    /// It cannot be read; why.
    Unreadable(String),
}

/// A pool as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFacts {
    /// What the pool says of itself.
    pub status: PoolStatus,
    /// Running totals since it was opened.
    pub counters: Counters,
    /// What its members are called in this node.
    pub names: BTreeMap<DriveId, String>,
    /// What takes long and is under way.
    pub busy: Option<&'static str>,
    /// The panic that ended it, if one has: the rest is as it was seen last.
    pub fault: Option<String>,
}

/// A volume to serve.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    /// Its name, unique in the node.
    pub name: String,
    /// What holds its data.
    pub backing: Backing,
    /// Logical block size as hosts see it: 512 or 4096.
    pub block_bytes: u32,
    /// The subsystem it is a namespace of, made with the first volume that names it.
    pub subsystem: Nqn,
    /// Namespace identifier, unique in the subsystem.
    pub nsid: u32,
    /// Namespace identity.
    pub uuid: Uuid,
    /// Its ANA group: of the pool that holds it, be that open or not.
    pub group: AnaGroupId,
    /// Who may see it, and connect to its subsystem for that.
    pub allowed: AllowedHosts,
    /// The tenant that the subsystem belongs to, if to one; counts for the first volume that names
    /// it.
    pub tenant: Option<Arc<str>>,
    /// The rules that it has from before: reservations and write protection. `None`: nobody knows
    /// them yet, and until somebody does the volume is not ready.
    pub rules: Option<Arc<Rules>>,
}

/// What holds a volume's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// All of an open drive.
    Drive(String),
    /// A volume of an open pool.
    Pool {
        /// The pool's name.
        pool: String,
        /// Which of its volumes.
        volume: VolumeId,
    },
    /// Nothing for now: the volume is served, and every command answered with Namespace Not
    /// Ready, so that hosts keep their sessions and retry.
    Offline {
        /// Capacity that hosts knew it with.
        capacity_bytes: u64,
    },
}

/// One host's association with one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// The host's NVMe Qualified Name.
    pub host_nqn: String,
    /// Where its admin queue came from.
    pub remote: SocketAddr,
    /// The subsystem's NVMe Qualified Name.
    pub subsystem_nqn: String,
    /// Controller identifier.
    pub controller_id: u16,
    /// Connected I/O queues.
    pub queues: u16,
    /// The port that it came through, by its number.
    pub port: u16,
    /// KATO in milliseconds; 0 is none.
    pub keep_alive_ms: u32,
    /// Since when.
    pub connected_for: Duration,
}

/// Something that happened by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Nobody can connect through a port, or hosts can again.
    Port {
        /// Its place in the specification.
        index: usize,
        /// Why not.
        fault: Option<String>,
    },
    /// A drive failed an operation. Each core tells of the first failure that it meets, and
    /// whenever their number has doubled.
    DriveFailed {
        /// The drive.
        drive: String,
        /// How the latest operation failed.
        error: IoError,
        /// Failures since the drive was opened, of those that this core met.
        failures: u64,
    },
    /// Something happened to a pool.
    Pool {
        /// The pool.
        pool: String,
        /// What the drive that it is about is called here, if it is about one that is here.
        drive: Option<String>,
        /// What happened.
        event: PoolEvent,
    },
    /// A panic in the code of a pool ended it on every core. Other pools, drives and hosts go on.
    PoolFailed {
        /// The pool.
        pool: String,
        /// The message of the panic, and its place.
        fault: String,
    },
    /// An emulated drive completed requests late. Told for the first, and then at most once a
    /// minute.
    DriveLate {
        /// The drive.
        drive: String,
        /// Requests it completed late since it was opened.
        late: u64,
        /// Requests it completed since it was opened.
        completed: u64,
    },
    /// A host changed the namespaces of a drive it administers.
    NamespacesChanged {
        /// The drive.
        drive: String,
        /// What the drive is now.
        facts: DriveFacts,
        /// The host's NVMe Qualified Name.
        host: String,
        /// What it did.
        change: nvme_target::NamespaceChange,
        /// The namespace concerned.
        nsid: u32,
    },
    /// A host has had a volume write protected, or had that lifted.
    ProtectionChanged {
        /// The host's NVMe Qualified Name.
        host: String,
        /// The subsystem's NVMe Qualified Name.
        subsystem: String,
        /// The namespace.
        nsid: u32,
        /// Nobody writes to it any more; otherwise everybody may.
        protected: bool,
    },
    /// A host connected to a subsystem.
    HostConnected {
        /// The host's NVMe Qualified Name.
        host: String,
        /// Its identifier, by which reservations know it.
        host_id: HostId,
        /// Where it came from.
        address: SocketAddr,
        /// The subsystem's NVMe Qualified Name.
        subsystem: String,
    },
    /// A host's session ended.
    HostDisconnected {
        /// The host's NVMe Qualified Name.
        host: String,
        /// The subsystem's NVMe Qualified Name.
        subsystem: String,
        /// Why, in words.
        reason: &'static str,
    },
    /// A host was refused, or its connection cut.
    HostRefused {
        /// The host's NVMe Qualified Name, if it said that.
        host: Option<String>,
        /// Where it came from.
        address: SocketAddr,
        /// The NVMe Qualified Name of the subsystem that it wanted, if it said that.
        subsystem: Option<String>,
        /// It was served until then: it lost a connection of its I/O queues.
        served: bool,
        /// Why, in words.
        reason: &'static str,
        /// How often from that address since it was last told of; the names are the latest.
        times: u64,
    },
}

/// Where a node tells its events; called on the data path's threads, so it must not block long.
pub type EventSink = Arc<dyn Fn(NodeEvent) + Send + Sync>;
