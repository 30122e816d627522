//! [`TargetError`]: why a control operation was refused.

use std::net::SocketAddr;

use access::Nqn;

use crate::paths::GROUPS_MAX;
use crate::settings::NAMESPACE_ID_MAX;

/// Why a control operation was refused; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A port with this identifier exists.
    #[error("port {0} exists already")]
    PortExists(u16),
    /// No port has this identifier.
    #[error("there is no port {0}")]
    UnknownPort(u16),
    /// A subsystem with this name exists, or the name is the discovery subsystem's.
    #[error("subsystem {0} exists already")]
    SubsystemExists(Nqn),
    /// No subsystem has this name.
    #[error("there is no subsystem {0}")]
    UnknownSubsystem(Nqn),
    /// Serial number or model is too long, or not printable ASCII.
    #[error("{field} {value:?} is longer than {limit} characters or not printable ASCII")]
    Text {
        /// Which of them.
        field: &'static str,
        /// What it was.
        value: String,
        /// The longest allowed.
        limit: usize,
    },
    /// A namespace with this identifier exists in the subsystem.
    #[error("namespace {0} exists already")]
    NamespaceExists(u32),
    /// The subsystem would have namespaces of more pools than hosts make room for.
    #[error("subsystem {0} has volumes of {GROUPS_MAX} pools, which is the most")]
    TooManyGroups(Nqn),
    /// The subsystem has no such namespace.
    #[error("there is no namespace {0}")]
    UnknownNamespace(u32),
    /// The namespace identifier is out of range.
    #[error("namespace identifier {0}; allowed: 1 to {NAMESPACE_ID_MAX}")]
    NamespaceId(u32),
}
