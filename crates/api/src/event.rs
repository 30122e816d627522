//! Events: what happened that somebody may want to know.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much an event matters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For the record.
    Info,
    /// Something works worse than it should.
    Warning,
    /// Something does not work.
    Error,
}

/// One thing that happened. The node keeps the latest ones in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts up from 1 since the node started.
    pub id: u64,
    /// When, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub time: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, such as `drive/d0`.
    pub object: String,
    /// What happened, for people.
    pub message: String,
}
