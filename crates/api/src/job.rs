//! Jobs: what takes long, and how far it is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Checks everything in a pool, and repairs what can be.
    Scrub,
    /// Moves everything off a drive that is to leave a pool.
    RemoveDrive,
    /// Moves what lacks a drive to where none is lacking; starts by itself.
    Rebuild,
    /// Moves data to drives with more free space, such as one that joined; starts by itself.
    Rebalance,
    /// Brings the replica of a volume up to date; starts by itself.
    Replicate,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It is under way.
    Running,
    /// It ended well; `message` says with what.
    Done,
    /// It ended badly; `message` says how.
    Failed,
}

/// Something that takes long. The node keeps the latest ones in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Counts up from 1 since the node started.
    pub id: u64,
    /// What it does.
    pub kind: JobKind,
    /// What it is about, such as `pool/fast`.
    pub object: String,
    /// How it stands.
    pub state: JobState,
    /// When it began, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub started: String,
    /// When it ended, in UTC (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended: Option<String>,
    /// How far it is, in percent.
    pub percent: u8,
    /// What it found, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
