//! The node's status.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::Name;

/// For whom the status is; the query of `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatusQuery {
    /// The volume to which the better paths come first, as its pool may have states of its own
    /// at ports. Without it, all volumes whose pool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Name>,
}

/// How many objects of a kind there are, and how many of them do not work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// All of them.
    pub total: u64,
    /// Those that are offline.
    pub offline: u64,
}

/// The node at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The node's name.
    pub name: Name,
    /// The node's identity; the same for the life of its state directory.
    #[schema(value_type = String, format = "uuid")]
    pub uuid: Uuid,
    /// Version of the program.
    pub version: String,
    /// When it started, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub started: String,
    /// Addresses and ports that serve NVMe/TCP, as whoever asks reaches them, the better paths
    /// first. A port that listens everywhere stands with the address at which it was asked, or, to
    /// somebody on the node's machine, with all that the machine has.
    pub nvme_addresses: Vec<String>,
    /// The addresses among them that serve hosts under TLS alone.
    #[serde(default)]
    pub nvme_tls_addresses: Vec<String>,
    /// Addresses and ports that serve NVMe/RDMA, likewise.
    #[serde(default)]
    pub nvme_rdma_addresses: Vec<String>,
    /// NVMe Qualified Name of discovery: no other node's. The well-known one works as well.
    pub discovery_nqn: String,
    /// CPU cores that run the data path.
    pub cores: Vec<u32>,
    /// Drives.
    pub drives: Counts,
    /// Volumes.
    pub volumes: Counts,
    /// Pools.
    pub pools: Counts,
    /// Connected sessions.
    pub sessions: u64,
    /// What is wrong now, one sentence each; empty when all is well.
    pub problems: Vec<String>,
}
