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
            RdmaError::Address(source) | RdmaError::NoDevice(source) => source.kind(),
            RdmaError::Call { source, .. } => source.kind(),
            RdmaError::NoLibrary { .. } => io::ErrorKind::Unsupported,
            RdmaError::MemoryLock { .. } => io::ErrorKind::OutOfMemory,
            RdmaError::Ended(_) => io::ErrorKind::ConnectionReset,
        };
        io::Error::new(kind, error)
    }
}
