//! Snapshots: what a volume was at one instant.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Name;

/// What a snapshot is of; the body of `PUT /v1/snapshots/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSpec {
    /// The volume.
    pub volume: Name,
}

/// Snapshots of several volumes of one pool, of one instant; the body of `POST /v1/snapshots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotGroup {
    /// One for each volume.
    pub snapshots: Vec<NamedSnapshot>,
}

/// A snapshot to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedSnapshot {
    /// What to call it.
    pub name: Name,
    /// The volume.
    pub volume: Name,
}

/// A snapshot as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The pool that holds it.
    pub pool: Name,
    /// The volume it was taken of; nothing if that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Name>,
    /// The size that the volume had.
    pub bytes: u64,
}
