//! [`RdmaError`].

use std::io;

/// Why there is no RDMA, or no more of it on one connection.
#[derive(Debug, thiserror::Error)]
pub enum RdmaError {
    /// A library is not installed, or not as it should be.
    #[error(
        "{library} cannot be loaded: {reason}; needed: librdmacm1, libibverbs1, ibverbs-providers"
    )]
    NoLibrary {
        /// Its file.
        library: &'static str,
        /// The loader's words.
        reason: String,
    },
    /// The machine has no device for RDMA, or its modules are not loaded.
    #[error(
        "no RDMA device: {0}; needed: a device, and the kernel's modules rdma_ucm and ib_uverbs"
    )]
    NoDevice(io::Error),
    /// An address is not one of a device, or is in use.
    #[error("{0}")]
    Address(io::Error),
    /// No device is on a network of the address.
    #[error(
        "no RDMA device reaches the address: {0}; needed: a device on a network of the address \
         (shown by rdma link), and the kernel's modules rdma_ucm and ib_uverbs"
    )]
    NoWay(io::Error),
    /// Nobody answers at the address.
    #[error("no answer over RDMA: {0}")]
    Unreachable(io::Error),
    /// The other end, or its machine, does not want this connection.
    #[error("refused over RDMA ({})", reason_text(*.reason))]
    Rejected {
        /// Its reason, as connection managers number them.
        reason: i32,
        /// What it says with it.
        private: Vec<u8>,
    },
    /// The process may not lock as much memory.
    #[error("{needed} bytes of memory cannot be locked; allowed are {allowed} (LimitMEMLOCK)")]
    MemoryLock {
        /// Bytes that one registration needs.
        needed: usize,
        /// Bytes that all registrations may have.
        allowed: u64,
    },
    /// A call failed.
    #[error("{call}: {source}")]
    Call {
        /// The function of the library.
        call: &'static str,
        /// What it left in errno.
        source: io::Error,
    },
    /// The other end is gone, or broke the rules of the transport.
    #[error("the connection has ended (status {0})")]
    Ended(u32),
}

/// Reasons of a connection manager (InfiniBand 1.4, 12.6.7.2) that mean something to a person.
fn reason_text(reason: i32) -> String {
    match reason {
        REASON_NOBODY_LISTENS => "nobody listens there".to_owned(),
        REASON_OF_LISTENER => "by who listens there".to_owned(),
        // iWARP has the system's errors.
        code if code < 0 => io::Error::from_raw_os_error(code.saturating_neg()).to_string(),
        other => format!("reason {other}"),
    }
}

/// Invalid service ID.
const REASON_NOBODY_LISTENS: i32 = 8;
/// Consumer reject: the private data says more.
const REASON_OF_LISTENER: i32 = 28;

impl RdmaError {
    /// A call that left its reason in errno.
    pub(crate) fn last(call: &'static str) -> RdmaError {
        RdmaError::Call {
            call,
            source: io::Error::last_os_error(),
        }
    }

    /// A call that returned its reason.
    pub(crate) fn returned(call: &'static str, code: i32) -> RdmaError {
        RdmaError::Call {
            call,
            source: io::Error::from_raw_os_error(code.abs()),
        }
    }
}

impl From<RdmaError> for io::Error {
    fn from(error: RdmaError) -> io::Error {
        let kind = match &error {
            RdmaError::Address(source)
            | RdmaError::NoDevice(source)
            | RdmaError::NoWay(source)
            | RdmaError::Unreachable(source) => source.kind(),
            RdmaError::Rejected { .. } => io::ErrorKind::ConnectionRefused,
            RdmaError::Call { source, .. } => source.kind(),
            RdmaError::NoLibrary { .. } => io::ErrorKind::Unsupported,
            RdmaError::MemoryLock { .. } => io::ErrorKind::OutOfMemory,
            RdmaError::Ended(_) => io::ErrorKind::ConnectionReset,
        };
        io::Error::new(kind, error)
    }
}
