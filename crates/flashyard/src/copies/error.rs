//! [`CopyError`]: why there is no copy.

use std::io;

use api::{ErrorBody, ErrorCode};
use block::IoError;
use client::ClientError;
use initiator::LossReason;
use stream::StreamError;

use super::object::StoreError;

/// Why a snapshot is not sent, or a volume does not receive.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Start(#[from] reactor::StartError),
    #[error(transparent)]
    Address(#[from] initiator::AddressError),
    /// The node, the volume or the stream is not as it has to be.
    #[error("{0}")]
    Refused(String),
    #[error("a secret cannot be used: {0}")]
    Secret(String),
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error("standard input: {0}")]
    Input(io::Error),
    #[error("{object}: {error}")]
    Store { object: String, error: StoreError },
    #[error("{address}: {source}")]
    Target {
        address: String,
        source: initiator::Error,
    },
    #[error("{verb} {bytes} bytes at {start}: {error}")]
    Io {
        verb: &'static str,
        bytes: u64,
        start: u64,
        error: IoError,
    },
    #[error("the connection to the node is lost: {0}")]
    Lost(LossReason),
    #[error("interrupted")]
    Interrupted,
}

impl From<CopyError> for ClientError {
    /// Exit codes are those of every other verb: 3 where no node answers, else 1.
    fn from(error: CopyError) -> ClientError {
        match error {
            CopyError::Client(error) => error,
            CopyError::Target {
                address,
                source: initiator::Error::Unreachable { source, .. },
            } => ClientError::Unreachable {
                url: address,
                reason: source.to_string(),
            },
            error => ErrorBody::new(ErrorCode::InvalidArgument, error.to_string()).into(),
        }
    }
}
