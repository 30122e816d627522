//! [`ClientError`]: the three ways an operation fails.

use api::ErrorBody;
use thiserror::Error;

/// Why an operation did not succeed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address itself is wrong.
    #[error("node address {url:?}: {reason}; allowed: http://HOST:PORT or https://HOST:PORT")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answered, or what answered does not speak the API.
    #[error("no node answers at {url}: {reason}")]
    Unreachable {
        /// Where the client looked.
        url: String,
        /// What it met there.
        reason: String,
    },
    /// The node answered and refused.
    #[error(transparent)]
    Refused(#[from] ErrorBody),
}
