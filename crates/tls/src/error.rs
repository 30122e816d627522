//! [`TlsError`].

use std::io;

/// Why there is no secure channel, or no longer one. Whatever the reason, the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The first bytes are no TLS that offers pre-shared keys.
    #[error("what came first is no TLS with pre-shared keys")]
    Hello,
    /// None of the keys that the peer offers is known.
    #[error("no key is known by an identity that was offered")]
    UnknownIdentity,
    /// The peer closed the connection before both ends had agreed.
    #[error("the connection was closed during the TLS handshake: the key may be a wrong one")]
    Closed,
    /// The network failed during the handshake.
    #[error("the network failed during the TLS handshake: {0}")]
    Network(io::ErrorKind),
    /// The peer has another key, or does not keep to the protocol.
    #[error("TLS failed: {0}")]
    Failed(&'static str),
}

impl From<s2n_tls::error::Error> for TlsError {
    fn from(error: s2n_tls::error::Error) -> TlsError {
        TlsError::Failed(error.message())
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}
