//! Hosts: who may connect.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{HostKey, Name, PathState};

/// What a host is known by; the body of `PUT /v1/hosts/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Its NVMe Qualified Name: `/etc/nvme/hostnqn` on a Linux host.
    #[schema(examples("nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa"))]
    pub nqn: String,
    /// The tenant it belongs to; none: nobody's in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
}

/// A host as the node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// The host's name.
    pub name: Name,
    /// Its NVMe Qualified Name.
    pub nqn: String,
    /// What it has to prove before it is served; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<HostKey>,
    /// It has a key for TLS, and connects under TLS alone.
    #[serde(default)]
    pub tls: bool,
    /// The tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// Volumes that name it in their list of allowed hosts.
    pub volumes: Vec<Name>,
}

/// How a host is connected now, what it may see, and how it connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostConnections {
    /// The host.
    pub host: Host,
    /// Its sessions. With several of one subsystem the host has as many paths to its volumes.
    pub sessions: Vec<HostSession>,
    /// What it may see.
    pub namespaces: Vec<HostNamespace>,
    /// When and why it was last refused since the node started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<HostRefusal>,
    /// What connects it to all that it may see, by each address, as a shell and systemd take it.
    /// A host with a key has its secret in the variable `DHCHAP_SECRET`, and the node's in
    /// `DHCHAP_CTRL_SECRET`.
    pub commands: Vec<String>,
}

/// A host's association with one controller, and the path that it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostSession {
    /// NVMe Qualified Name of the subsystem.
    pub nqn: String,
    /// Controller identifier.
    pub controller_id: u16,
    /// Address and port that the admin queue came from.
    pub remote: String,
    /// The port that it came through.
    pub port: u16,
    /// How good a path that is.
    pub path: PathState,
    /// Connected I/O queues.
    pub queues: u16,
    /// How long the host may keep silent, in milliseconds; 0: for ever.
    pub keep_alive_ms: u32,
    /// Since when it is there: UTC as RFC 3339.
    pub connected: String,
}

/// A namespace that a host may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostNamespace {
    /// The volume.
    pub volume: Name,
    /// NVMe Qualified Name of its subsystem.
    pub nqn: String,
    /// Its identifier there.
    pub nsid: u32,
    /// Its size in bytes.
    pub capacity_bytes: u64,
    /// Sessions of the host that it is seen through now.
    pub paths: u32,
}

/// That a host was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostRefusal {
    /// When it was last told: UTC as RFC 3339.
    pub time: String,
    /// Address and port that it came from.
    pub remote: String,
    /// NVMe Qualified Name of the subsystem that it wanted, if it said that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nqn: Option<String>,
    /// Why, in words.
    pub reason: String,
}
