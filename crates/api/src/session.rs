//! Sessions: who is connected now.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Name;

/// A host's association with one controller of a subsystem: an admin queue and its I/O queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The host's NVMe Qualified Name.
    pub host_nqn: String,
    /// The name of the host object with that NQN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// Address and port that the admin queue came from.
    pub remote: String,
    /// NVMe Qualified Name of the subsystem.
    pub nqn: String,
    /// Controller identifier.
    pub controller_id: u16,
    /// Connected I/O queues.
    pub queues: u16,
}

impl Session {
    /// What tells it from every other session, and orders them.
    pub fn key(&self) -> String {
        format!("{} {:05} {}", self.nqn, self.controller_id, self.remote)
    }
}
