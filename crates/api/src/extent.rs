//! Extents: which bytes of a snapshot hold something, or may differ from another snapshot's.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{ErrorBody, SnapshotName};

/// The most extents in one answer, and how many there are when the request does not say.
pub const EXTENTS_MAX: u32 = 10_000;

/// Which extents of a snapshot to give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExtentsQuery {
    /// Only what may differ from this snapshot, by its name or as POOL/NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<SnapshotName>,
    /// Only extents that reach beyond this byte: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// At most so many extents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
}

impl ExtentsQuery {
    /// How many extents are asked for.
    ///
    /// # Errors
    /// When `limit` is not what it can be.
    pub fn most(&self) -> Result<u32, ErrorBody> {
        let limit = self.limit.unwrap_or(EXTENTS_MAX);
        if (1..=EXTENTS_MAX).contains(&limit) {
            return Ok(limit);
        }
        let message = format!("limit {limit}; allowed: 1 to {EXTENTS_MAX}");
        Err(ErrorBody::invalid("limit", message))
    }
}

/// A run of bytes of a snapshot; whole blocks of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extent {
    /// The first byte.
    pub start: u64,
    /// How many bytes.
    pub bytes: u64,
    /// They read as zeroes: there is nothing to copy. Only of a difference.
    pub zeroes: bool,
}

/// Extents of a snapshot, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extents {
    /// The size of the snapshot.
    pub bytes: u64,
    /// As many as were asked for, or fewer; also none where more follow.
    pub extents: Vec<Extent>,
    /// More may follow: ask with this as `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_bounds() {
        let query = |limit| ExtentsQuery {
            limit,
            ..ExtentsQuery::default()
        };
        assert_eq!(query(None).most(), Ok(EXTENTS_MAX));
        for limit in [1, EXTENTS_MAX] {
            assert_eq!(query(Some(limit)).most(), Ok(limit));
        }
        for limit in [0, EXTENTS_MAX + 1] {
            let refused = query(Some(limit)).most().unwrap_err();
            assert_eq!(refused.field.as_deref(), Some("limit"));
        }
    }
}
