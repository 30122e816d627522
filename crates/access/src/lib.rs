//! Who may connect.
//!
//! In this room: [`Nqn`], the validated name of a host or subsystem; [`AllowedHosts`], the list
//! that decides which hosts may see and use a subsystem; [`Secret`] and [`HostKeys`], what a host
//! has to prove; [`Places`], how many connections each address may have; [`chap`], what both ends
//! of DH-HMAC-CHAP compute; and [`TlsKey`], from which the keys of TLS follow. Not in this room:
//! connections and messages, and any knowledge of where lists and secrets are kept.
#![forbid(unsafe_code)]

mod allowed;
pub mod chap;
mod interchange;
mod nqn;
mod places;
mod secret;
mod tls_key;

pub use allowed::AllowedHosts;
pub use nqn::{NQN_BYTES_MAX, NQN_TAG_BYTES, Nqn, NqnError, NqnTag};
pub use places::{Places, Shares, origin};
pub use secret::{HostKeys, Secret, SecretError};
pub use tls_key::{PskHash, TlsKey, TlsKeyError, TlsPsk};
