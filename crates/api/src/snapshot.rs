//! Snapshots: what a volume was at one instant.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use crate::Name;

/// A snapshot by its name, or by its pool's and its own: `monday`, `fast/monday`. An import may
/// bring a second snapshot of a name; then only the pool tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotName {
    /// The pool that holds it; none: whichever it is.
    pub pool: Option<Name>,
    /// Its name.
    pub name: Name,
}

/// Why a text is no [`SnapshotName`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("snapshot {0:?}; allowed: NAME or POOL/NAME, each 1 to 63 of a-z, 0-9, '-', '_' and '.'")]
pub struct SnapshotNameError(String);

impl FromStr for SnapshotName {
    type Err = SnapshotNameError;

    fn from_str(text: &str) -> Result<SnapshotName, SnapshotNameError> {
        let parse = |part: &str| {
            let wrong = |_| SnapshotNameError(text.chars().take(128).collect());
            part.parse::<Name>().map_err(wrong)
        };
        Ok(match text.split_once('/') {
            Some((pool, name)) => SnapshotName {
                pool: Some(parse(pool)?),
                name: parse(name)?,
            },
            None => parse(text)?.into(),
        })
    }
}

impl TryFrom<String> for SnapshotName {
    type Error = SnapshotNameError;

    fn try_from(text: String) -> Result<SnapshotName, SnapshotNameError> {
        text.parse()
    }
}

impl From<Name> for SnapshotName {
    fn from(name: Name) -> SnapshotName {
        SnapshotName { pool: None, name }
    }
}

impl From<SnapshotName> for String {
    fn from(name: SnapshotName) -> String {
        name.to_string()
    }
}

impl PartialSchema for SnapshotName {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(
                "^([a-z0-9][a-z0-9._-]{0,62}/)?[a-z0-9][a-z0-9._-]{0,62}$",
            ))
            .description(Some(
                "A snapshot by its name, or by its pool's and its own, such as fast/monday",
            ))
            .into()
    }
}

impl ToSchema for SnapshotName {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("SnapshotName")
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pool {
            Some(pool) => write!(formatter, "{pool}/{}", self.name),
            None => self.name.fmt(formatter),
        }
    }
}

/// What a snapshot is of; the body of `PUT /v1/snapshots/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSpec {
    /// The volume.
    pub volume: Name,
    /// Identity of the snapshot that the volume is a copy of now; the new one has it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub copy_of: Option<Uuid>,
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
    /// When it was taken, in UTC (RFC 3339); nothing of one that an earlier version took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub taken: Option<String>,
    /// Its identity, the same wherever its pool is imported. A copy that `volume receive` took has
    /// that of its original.
    #[serde(default)]
    #[schema(value_type = String, format = "uuid")]
    pub uuid: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_with_its_pool_or_without() {
        for text in ["monday", "fast/monday"] {
            let name: SnapshotName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(name.pool.is_some(), text.contains('/'));
        }
        for bad in ["", "/", "a/", "/a", "a/b/c", "A/b", "a b"] {
            assert!(bad.parse::<SnapshotName>().is_err(), "{bad:?}");
        }
    }
}
