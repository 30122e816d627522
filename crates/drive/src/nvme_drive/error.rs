//! [`NvmeError`]: why the namespaces of a drive could not be managed.

use std::path::PathBuf;

use nvme::Status;
use ssd::NamespaceError;

use crate::open_error::OpenError;

/// Why the namespaces of a drive could not be managed.
#[derive(Debug, thiserror::Error)]
pub enum NvmeError {
    /// What any drive would refuse, a modelled one too.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A device cannot be opened, or is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The drive does not know the command.
    #[error("{}: the drive has no {command}", path.display())]
    Unsupported {
        /// The controller.
        path: PathBuf,
        /// The command, as the specification calls it.
        command: &'static str,
    },
    /// The drive refused the command.
    #[error("{}: {command} was refused: {status:?}", path.display())]
    Refused {
        /// The controller.
        path: PathBuf,
        /// The command, as the specification calls it.
        command: &'static str,
        /// Why.
        status: Status,
    },
    /// The drive has no format of that block size.
    #[error("blocks of {block_bytes} bytes; the drive's formats without metadata have: {there}")]
    BlockBytes {
        /// What was asked for.
        block_bytes: u32,
        /// What there is, in bytes.
        there: String,
    },
    /// Other controllers of the drive have the namespace, and with them perhaps other machines.
    #[error(
        "namespace {nsid} is in use: it is attached to other controllers of the drive: \
         {controllers:?}"
    )]
    AttachedElsewhere {
        /// The namespace.
        nsid: u32,
        /// Their identifiers (CNTLID).
        controllers: Vec<u16>,
    },
    /// The drive did as it was told, but the kernel does not show it.
    #[error(
        "namespace {nsid} was changed, but its block device does not show it after {seconds} s"
    )]
    NotShown {
        /// The namespace.
        nsid: u32,
        /// How long it was waited for.
        seconds: u64,
    },
}
