//! What is remembered of ports.

use api::PathState;
use serde::{Deserialize, Serialize};

/// What an operator made of a port. It counts as long as the settings file has that address there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRecord {
    /// The address, as the settings file says it.
    pub listen: String,
    /// How good it is as a path to what is behind it.
    pub path: PathState,
}
