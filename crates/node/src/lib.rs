//! A whole storage node: the one crate that sees every layer of the data path.
//!
//! In this room: [`Node`], a handle that any thread may hold, whose methods are every control
//! operation there is; what it is built from ([`NodeSpec`]) and what is added to it
//! ([`DriveSpec`], [`VolumeSpec`]); and [`Volume`], what a namespace stands on. Not in this room:
//! what the node remembers between starts, and any interface to people or other programs.
//!
//! Every core runs one reactor with its own target. A drive, and the volume on it, lives on one
//! core; the other cores hold a proxy of the volume that sends each request there and takes the
//! buffer back, so that a connection may be served by any core. The layout of the node (which
//! thing is on which core) is kept on the first core, where control operations run one at a time.
//! A pool has a shard on every core, each with its slices of all volumes, which other cores reach
//! by proxies too, and with its own handles of files, block devices and memory; drives that only
//! one core can use, models for instance, shards elsewhere reach by proxies. All of a pool runs in
//! a scope, which a panic ends on every core.
//!
//! The rooms lie in this order, and import downwards only: what a caller says and is told (`spec`,
//! `counts`, `error`), the devices of one core (`volume`, `managed`, `taking`), one core (`core`),
//! what is on which core (`layout`), the handle (`node`). A noun, such as pools or hosts, has a
//! file in each of the last three, since the fields of [`Node`] and of what is below it are
//! private.

mod core;
mod counts;
mod error;
mod layout;
mod managed;
mod node;
mod spec;
mod taking;
mod volume;

pub use self::core::open_pools::{PoolOpening, PoolSpec};
pub use access::chap::{ChapHash, DhGroup};
pub use access::{AllowedHosts, HostKeys, NQN_TAG_BYTES, Nqn, NqnTag, PskHash, Secret, TlsKey};
pub use block::{BlockRange, Lba};
pub use counts::{CoreMeasure, DriveCounts, DriveTally, Measures, VolumeCounts};
pub use drive::{EmulatedError, NamespaceState, NvmeError, OpenError};
pub use error::NodeError;
pub use layout::RulesKeeper;
pub use node::{CORE_THREAD_NAME, Node, check_machine};
pub use nvme::reservation::ReservationType;
pub use nvme_target::reservation::{Held, NO_HOST, Reservations};
pub use nvme_target::rules::{NotInForce, Protection, Rules, Unkept};
pub use nvme_target::{
    AnaGroupId, Asker, CONNECTIONS_MAX, ControllerIds, Latency, NAMESPACE_ID_MAX, NamespaceChange,
    PathState, TRANSITION, TargetError, TargetSettings, Transport, address_for,
};
pub use pool::{
    ATTRIBUTES_BYTES_MAX, AbsentMember, Accounting, Counters, DamagedLabel, DriveChange,
    DriveHealth, DriveId, DriveStatus, Extent, Extents, Holder, HostId, Label, Level, Lost,
    LostNode, MayLack, NewerFormat, Occupancy, OfflineReason, PoolError, PoolEvent, PoolId,
    PoolState, PoolStatus, ScrubReport, SnapshotId, SnapshotInfo, SpaceUse, UnknownLevel, VolumeId,
    VolumeInfo, VolumeOptions,
};
pub use qos::{Limiter, Part, Rate, Rates, Room, Share, Terms};
pub use reactor::net::{display_address, parse_address};
pub use reactor::{Usage, in_scope};
pub use spec::{
    Backing, DriveFacts, DriveLabel, DriveSpec, EmulatedSpec, EventSink, MAP_CACHE_BYTES,
    ManagedFacts, NQN_PREFIX, NamespaceFacts, NamespacesFacts, NodeEvent, NodeSpec, PoolFacts,
    PortSpec, SessionFacts, VolumeSpec, discovery_nqn,
};
pub use taking::Taking;
pub use volume::Volume;
