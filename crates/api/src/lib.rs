//! The REST API's vocabulary: what goes over HTTP between a node and its clients.
//!
//! In this room: request and response types for drives, pools, volumes, snapshots, hosts,
//! sessions, events, jobs and the node's status, the validated words they are made of ([`Name`],
//! [`Size`], [`BlockSize`]), and the one error shape, [`ErrorBody`]. Not in this room: routes,
//! HTTP, any behaviour; the server answers with these types and the client asks with them, so that
//! both sides cannot disagree.
//!
//! Every create is a `PUT` under a name that the client chooses, and is idempotent: the same name
//! with the same specification succeeds again, with another specification it is a conflict.
//! Every list comes in pages ([`List`], [`PageQuery`]).

mod drive;
mod error;
mod event;
mod extent;
mod history;
mod host;
mod host_key;
mod job;
mod limits;
mod list;
mod metrics;
mod name;
mod namespace;
mod plain;
mod pool;
mod port;
mod profile;
mod replication;
mod schedule;
mod secret;
mod session;
mod settings;
mod size;
mod snapshot;
mod status;
mod tenant;
mod token;
mod volume;

pub use drive::{Administration, Drive, DriveSpec, WipeQuery};
pub use error::{ErrorBody, ErrorCode};
pub use event::{Event, Severity};
pub use extent::{EXTENTS_MAX, Extent, Extents, ExtentsQuery};
pub use history::{
    History, HistoryKind, HistoryMetric, HistoryQuery, HistorySeries, ObjectHistory,
};
pub use host::{Host, HostConnections, HostNamespace, HostRefusal, HostSession, HostSpec};
pub use host_key::{
    HostKey, HostKeyRequest, HostKeySpec, KeyGroup, KeyHash, NewHostKey, NewTlsKey, TlsHash,
    TlsKeyRequest, TlsKeySpec,
};
pub use job::{Job, JobKind, JobState};
pub use limits::{
    BURST_MS_MAX, LIMIT_BYTES_PER_SECOND_MIN, LIMIT_IOPS_MIN, LIMIT_MAX, Limit, Limits,
};
pub use list::{List, PAGE_ITEMS_MAX, PageQuery};
pub use metrics::{CoreMetrics, Flow, Metrics, MetricsPoint, MetricsQuery, VolumeMetrics};
pub use name::{ANY_HOST, Name, NameError};
pub use namespace::{DriveHealth, Namespace, NamespaceSpec, Namespaces};
pub use plain::plain;
pub use pool::{
    AddDriveQuery, CarriedLabel, ExportQuery, ImportablePool, Pool, PoolCounters, PoolImport,
    PoolLevel, PoolMap, PoolMember, PoolSegments, PoolSpec, PoolState, PoolUsage, SpaceUse,
};
pub use port::{PathState, Port, PortChange, PortTransport, host_and_port};
pub use profile::{AccessPattern, Curve, CurvePoint, CurveQuery, DriveProfile};
pub use replication::{REPLICATION_SECONDS_MAX, Replication, ReplicationSpec, ReplicationStanding};
pub use schedule::{Keep, SCHEDULE_KEEP_MAX, SCHEDULE_VOLUMES_MAX, Schedule, ScheduleSpec};
pub use secret::SecretText;
pub use session::Session;
pub use settings::{
    GRAPHITE_INTERVAL_SECONDS, GRAPHITE_PREFIX, GraphiteTarget, LogLevel, SCRUB_INTERVAL_DAYS,
    SCRUB_INTERVAL_DAYS_MAX, SHUTDOWN_SECONDS_MAX, Settings, SettingsChange, SyslogTarget,
    SyslogTransport,
};
pub use size::{Size, SizeError};
pub use snapshot::{
    NamedSnapshot, Snapshot, SnapshotGroup, SnapshotName, SnapshotNameError, SnapshotSpec,
};
pub use status::{Counts, Status, StatusQuery};
pub use tenant::{GRANT_COUNT_MAX, Grant, GrantUse, PoolGrant, Tenant};
pub use token::{AuditEntry, Caller, Role, Token, TokenSpec};
pub use volume::{
    BlockSize, BlockSizeError, DeleteQuery, ObjectState, Volume, VolumeProtect, VolumeRename,
    VolumeReserve, VolumeResize, VolumeRollback, VolumeSpec, WriteProtection,
};
