//! Tenants: whoever volumes, hosts and tokens are said to belong to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Limits, Name, Size};

/// Volumes that a tenant may have in a pool, unless told otherwise.
const VOLUMES: u32 = 100;

/// Snapshots of those, unless told otherwise.
const SNAPSHOTS: u32 = 1000;

/// The most volumes, or snapshots, that a grant may be for.
pub const GRANT_COUNT_MAX: u32 = 1_000_000;

/// What a tenant's operators may make of a pool; the body of
/// `PUT /v1/tenants/{name}/grants/{pool}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// What volumes and snapshots may come to, each counted with its whole size.
    pub size: Size,
    /// Volumes.
    #[serde(default = "volumes")]
    #[schema(maximum = 1000000)]
    pub volumes: u32,
    /// Snapshots of them.
    #[serde(default = "snapshots")]
    #[schema(maximum = 1000000)]
    pub snapshots: u32,
}

fn volumes() -> u32 {
    VOLUMES
}

fn snapshots() -> u32 {
    SNAPSHOTS
}

impl Grant {
    /// So many bytes, and the usual numbers of volumes and snapshots.
    pub fn of(size: Size) -> Grant {
        Grant {
            size,
            volumes: VOLUMES,
            snapshots: SNAPSHOTS,
        }
    }
}

/// What a tenant has of a pool, whoever made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantUse {
    /// Bytes of volumes and snapshots, each counted with its whole size.
    pub bytes: u64,
    /// Volumes.
    pub volumes: u32,
    /// Snapshots of them.
    pub snapshots: u32,
}

/// A tenant's grant in a pool, and what it has there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolGrant {
    /// The pool.
    pub pool: Name,
    /// What it may have.
    pub grant: Grant,
    /// What it has; nothing while the pool is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<GrantUse>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// The tenant's name.
    pub name: Name,
    /// What its volumes may do together.
    #[serde(default, skip_serializing_if = "Limits::is_unlimited")]
    pub limits: Limits,
    /// What its operators may make, by pool; where nothing is granted, nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<PoolGrant>,
    /// Names of its volumes.
    pub volumes: Vec<Name>,
}
