//! Hosts: who may connect.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{HostKey, Name};

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
