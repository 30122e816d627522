//! What a node remembers of a replication, and what it has done by whoever copies: the command
//! line's way to send and receive, since data goes over NVMe/TCP.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{Name, ReplicationSpec, SecretText};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The longest pause after copies that failed.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// A replication as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicationRecord {
    /// What was asked for, with the token.
    pub spec: ReplicationSpec,
    /// The volume's identity: it may get another name.
    pub volume: Uuid,
    /// The snapshots of the volume that were taken for this, oldest first. Each is noted before it
    /// is taken, so that none is forgotten if the node dies in between.
    #[serde(default)]
    pub snapshots: Vec<Name>,
    /// As when the replica is, in seconds since 1970; nothing before it is complete.
    #[serde(default)]
    pub copied: Option<u64>,
}

/// How a node is reached, and who asks.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Its REST API.
    pub url: String,
    /// SHA-256 of its certificate, for `https`.
    pub certificate: Option<String>,
    /// The secret of a token.
    pub token: SecretText,
}

/// One copy that is to be made.
#[derive(Clone, Debug)]
pub struct Order {
    /// This node.
    pub own: Reach,
    /// The node that has the replica.
    pub target: Reach,
    /// The volume's name now.
    pub volume: Name,
    /// What was asked for, and what was done so far.
    pub record: ReplicationRecord,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The snapshots that are there for the replication, oldest first.
    pub snapshots: Vec<Name>,
    /// As when the replica is, in seconds since 1970.
    pub at: u64,
}

/// Makes a copy; blocks, on a thread of its own. An error is in words for people.
pub type Replicator = fn(&Order, &Watch) -> Result<Copied, String>;

/// Notes which snapshots are there for the replication; durable when it returns.
type Note = dyn Fn(&[Name]) -> Result<(), String> + Send + Sync;

/// The node's side of a copy that is being made.
#[derive(Clone)]
pub struct Watch {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) at: Arc<dyn Fn(f64) + Send + Sync>,
    pub(crate) note: Arc<Note>,
}

impl Watch {
    /// Whether the copy is to end early.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Says how far it is, 0 to 1.
    pub fn at(&self, share: f64) {
        (self.at)(share);
    }

    /// Notes which snapshots are there for the replication, with one before it is taken.
    ///
    /// # Errors
    /// They cannot be remembered, or the replication is gone: none may be taken.
    pub fn note(&self, snapshots: &[Name]) -> Result<(), String> {
        (self.note)(snapshots)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Watch")
            .field("is_stopped", &self.is_stopped())
            .finish_non_exhaustive()
    }
}

/// How long to wait after so many copies that failed one after the other.
pub(crate) fn pause(failures: u32) -> Duration {
    let seconds = 1_u64 << failures.saturating_sub(1).min(16);
    Duration::from_secs(seconds).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_five_minutes() {
        let seconds: Vec<u64> = (1..12).map(|count| pause(count).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
