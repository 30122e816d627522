//! [`List`]: the envelope of every collection.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A collection, ordered by name or, for events, by time. An object rather than a bare array, so
/// that a page marker can join it without breaking clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The objects.
    pub items: Vec<T>,
}
