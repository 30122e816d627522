//! What goes wrong when a volume is attached or detached.

use std::io;
use std::path::PathBuf;

use client::ClientError;

use super::bridge::BridgeError;

/// Why a volume is not attached, or not detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    #[error(transparent)]
    Address(#[from] initiator::AddressError),
    #[error("'{0}' is neither a volume's name nor an address")]
    Name(String),
    #[error("{0} and {1} are no paths to one volume; allowed: several addresses of one namespace")]
    Paths(String, String),
    #[error("the node serves no address that this host could use{0}")]
    NoAddress(&'static str),
    #[error("{host}: {source}")]
    Resolve { host: String, source: io::Error },
    #[error("{}: {reason}", path.display())]
    Identity { path: PathBuf, reason: String },
    #[error("a secret cannot be used: {0}")]
    Secret(String),
    #[error(
        "this kernel's NVMe/TCP host has no TLS (Linux 6.7 or later, CONFIG_NVME_TCP_TLS); \
         allowed: --method fuse"
    )]
    KernelTls,
    #[error(
        "--method kernel takes no --dhchap-group-min and no --dhchap-hash-min: the kernel's host \
         takes what the node demands; allowed: --method fuse"
    )]
    KernelMinimum,
    #[error("the kernel's host refused to connect to {address}: {source}; its log says more")]
    Kernel { address: String, source: io::Error },
    #[error("{name} is attached as {}{said}", device.display())]
    AlreadyAttached {
        name: String,
        device: PathBuf,
        said: String,
    },
    #[error("{0} is not attached")]
    NotAttached(String),
    #[error("this kernel has no NVMe/TCP host (module nvme-tcp); --method fuse needs none")]
    NoKernelHost,
    #[error("this kernel has no NVMe/RDMA host (module nvme-rdma); addresses over TCP need none")]
    NoRdmaHost,
    #[error("{0}: only the kernel's host connects over RDMA, without {1}")]
    RdmaByKernel(String, &'static str),
    #[error("{program} is not installed; on Debian and Ubuntu: apt-get install {package}")]
    Missing {
        program: &'static str,
        package: &'static str,
    },
    #[error("{command}: {said}")]
    Tool { command: String, said: String },
    #[error("{}: {source}", path.display())]
    Path { path: PathBuf, source: io::Error },
    #[error("{} is mounted on {at}; first: umount {at}", device.display())]
    Mounted { device: PathBuf, at: String },
    #[error("{} is in use by another program", .0.display())]
    Used(PathBuf),
    #[error("no block device appeared for namespace {1} of {0}")]
    NoDevice(String, u32),
    #[error("the serving process ended at its start:\n{0}")]
    Ended(String),
}
