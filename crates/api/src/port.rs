//! Ports: the addresses that serve NVMe/TCP or NVMe/RDMA.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Name;

/// How good a port is as a path to volumes, as hosts with several paths are told (ANA). The best
/// first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// As good as any.
    #[default]
    Optimized,
    /// To be used where no optimized path is left.
    NonOptimized,
    /// Between two others: I/O goes another way or waits. After 10 seconds it is inaccessible.
    Change,
    /// Not to be used: hosts keep their connections, and their I/O goes another way or waits.
    Inaccessible,
    /// As inaccessible, and for good. Hosts that were told so are disconnected when it ends.
    PersistentLoss,
}

impl PathState {
    /// As people read and write it.
    pub fn word(self) -> &'static str {
        match self {
            PathState::Optimized => "optimized",
            PathState::NonOptimized => "non-optimized",
            PathState::Change => "change",
            PathState::Inaccessible => "inaccessible",
            PathState::PersistentLoss => "persistent-loss",
        }
    }
}

/// How hosts come to a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortTransport {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

impl PortTransport {
    /// Every transport.
    pub const ALL: [PortTransport; 2] = [PortTransport::Tcp, PortTransport::Rdma];

    /// As people read and write it.
    pub fn word(self) -> &'static str {
        match self {
            PortTransport::Tcp => "tcp",
            PortTransport::Rdma => "rdma",
        }
    }
}

impl fmt::Display for PortTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

impl FromStr for PortTransport {
    type Err = String;

    fn from_str(text: &str) -> Result<PortTransport, String> {
        let found = PortTransport::ALL
            .into_iter()
            .find(|one| one.word() == text);
        found.ok_or_else(|| format!("transport {text:?}; allowed: tcp, rdma"))
    }
}

/// An address that serves NVMe/TCP or NVMe/RDMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Port {
    /// Its number: its place in the settings file, from 1; PORTID in the discovery log.
    pub id: u16,
    /// Address and port that it listens at.
    pub address: String,
    /// What discovery tells hosts to connect to, where that is not the address they asked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// How good a path it is.
    pub path: PathState,
    /// Pools to which it is another path than `path` says, or was said to be on its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<Name, PathState>,
    /// Hosts connect to it under TLS, or not at all.
    #[serde(default)]
    pub tls: bool,
    /// How hosts come: over TCP, unless it is said.
    #[serde(default)]
    pub transport: PortTransport,
    /// Why nobody can connect to it: its device is not there, for instance. It is tried again until
    /// it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// What to change; the body of `PATCH /v1/ports/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PortChange {
    /// How good a path it is from now on, to all volumes but those of pools with a state of their
    /// own. It is remembered. Without it that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathState>,
    /// States of their own that pools get. Other pools keep theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<Name, PathState>,
    /// Pools whose state is the port's again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub as_port: BTreeSet<Name>,
}

impl PortChange {
    /// Another state, and no other change.
    pub fn path(path: PathState) -> PortChange {
        PortChange {
            path: Some(path),
            ..PortChange::default()
        }
    }
}

/// The host, without brackets, and the port of an address.
pub fn host_and_port(address: &str) -> (&str, &str) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "4420"));
    (host.trim_matches(['[', ']']), port)
}
