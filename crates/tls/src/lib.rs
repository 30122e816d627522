//! TLS 1.3 with pre-shared keys, as NVMe/TCP wants it (NVMe/TCP 1.1 §3.6).
//!
//! In this room: [`Session`], TLS as a machine without a socket, thin over s2n-tls; [`identities`],
//! which keys a host offers, so that whoever knows the keys can choose; and [`Stream`], a TCP
//! stream that is secured or not, for target and initiator alike. Not in this room: what a key is
//! made from, and who may have one (`access`).
#![forbid(unsafe_code)]

mod error;
mod hello;
mod session;
mod stream;

pub use error::TlsError;
pub use hello::identities;
pub use session::Session;
pub use stream::Stream;
