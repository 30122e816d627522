//! [`NodeError`]: what a caller of a control operation can act on.

use access::Nqn;
use block::GeometryError;
use pool::{OfflineReason, PoolError};
use reactor::Scope;
use reactor::cores::CoreStopped;
use thiserror::Error;
use uuid::Uuid;

/// Why a control operation did not happen.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The reactors cannot run on this machine.
    #[error("the data path cannot start: {0}")]
    Start(#[from] reactor::StartError),
    /// A core should run on a CPU that this process may not use, or that does not exist.
    #[error("CPU {cpu} is not there for this process; allowed: {allowed}")]
    NoSuchCpu {
        /// What was asked for.
        cpu: usize,
        /// What there is.
        allowed: String,
    },
    /// A drive cannot be opened.
    #[error("{0}")]
    Open(#[from] drive::OpenError),
    /// A drive cannot be emulated, or its namespaces cannot be what was asked.
    #[error("{0}")]
    Emulated(#[from] drive::EmulatedError),
    /// A drive whose namespaces this program cannot manage.
    #[error(
        "drive {0} is not one whose namespaces can be managed here; those of emulated drives and \
         of this machine's NVMe drives are"
    )]
    Unmanaged(String),
    /// What only emulated drives can do here.
    #[error("drive {0} is not emulated: hosts cannot administer it, nor is its health known here")]
    NotEmulated(String),
    /// The namespaces of an emulated drive are not attached by the node.
    #[error(
        "drive {0} is emulated: its namespaces are there for the node by themselves, and hosts \
         attach them over NVMe/TCP"
    )]
    AttachedByHosts(String),
    /// The namespaces of an NVMe drive cannot be what was asked.
    #[error("{0}")]
    Nvme(#[from] drive::NvmeError),
    /// The size of a drive in memory is no size for a drive.
    #[error("drive of {bytes} bytes: {reason}")]
    Size {
        /// What was asked for.
        bytes: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A drive of that name is open.
    #[error("drive {0} is open already")]
    DriveExists(String),
    /// No drive of that name is open.
    #[error("drive {0} is not open")]
    UnknownDrive(String),
    /// Something stands on the drive.
    #[error("drive {drive} is used by {user}")]
    DriveInUse {
        /// The drive.
        drive: String,
        /// The volume or the pool on it.
        user: String,
    },
    /// The drive has not answered all that it was asked when it was used before.
    #[error(
        "drive {drive} still owes answers to {requests} requests from before, and what they write \
         could come over what is written from now on; try again once it has answered, or reset it, \
         switch it off and on, or use another"
    )]
    DriveOwes {
        /// The drive.
        drive: String,
        /// How many.
        requests: usize,
    },
    /// A host that was denied has commands under way.
    #[error(
        "commands of hosts that may no longer use {0} are still under way on a drive that is slow \
         to answer; ask again"
    )]
    Unfenced(Nqn),
    /// The write protection of a volume is not as its administrator wants it.
    #[error("write protection of {nqn}: {reason}")]
    Unprotected {
        /// The subsystem's name.
        nqn: Nqn,
        /// Why not.
        reason: nvme_target::rules::NotInForce,
    },
    /// The drive holds something that taking it would destroy.
    #[error(
        "drive {drive} carries {contents}: --force takes it all the same, and what it carries is \
         gone"
    )]
    Carries {
        /// The drive.
        drive: String,
        /// Its contents, in words.
        contents: String,
    },
    /// Nobody knows what taking the drive would destroy.
    #[error("contents of drive {drive} cannot be read: {error}; --force takes it all the same")]
    Unread {
        /// The drive.
        drive: String,
        /// How it failed.
        error: block::IoError,
    },
    /// The contents of the drive could not be wiped.
    #[error("drive {drive} could not be wiped: {error}; what it carried may be gone in part")]
    Wipe {
        /// The drive.
        drive: String,
        /// How it failed.
        error: block::IoError,
    },
    /// A drive was named twice.
    #[error("drive {0} is named twice")]
    DriveTwice(String),
    /// A pool of that name is open.
    #[error("pool {0} is open already")]
    PoolExists(String),
    /// No pool of that name is open.
    #[error("pool {0} is not open")]
    UnknownPool(String),
    /// A volume of the pool is served.
    #[error("pool {pool} is used by volume {volume}")]
    PoolInUse {
        /// The pool.
        pool: String,
        /// A volume of it.
        volume: String,
    },
    /// Something that takes long is under way on the pool.
    #[error("pool {pool} is busy with {with}; wait until that has ended")]
    PoolBusy {
        /// The pool.
        pool: String,
        /// What is under way.
        with: &'static str,
    },
    /// A pool refused or failed.
    #[error("{message}")]
    Pool {
        /// In terms of what can be done about it.
        error: PoolError,
        /// The same for people, with drives by their names.
        message: String,
    },
    /// A host has a namespace of the drive attached.
    #[error("namespace {nsid} of drive {drive} is attached to host {host}")]
    NamespaceAttached {
        /// The drive.
        drive: String,
        /// The namespace.
        nsid: u32,
        /// The host's NVMe Qualified Name.
        host: String,
    },
    /// A volume or pool uses the namespace.
    #[error("namespace {nsid} of drive {drive} is used by {user}")]
    NamespaceServed {
        /// The drive.
        drive: String,
        /// The namespace.
        nsid: u32,
        /// The volume or the pool on it.
        user: String,
    },
    /// Hosts administer the drive.
    #[error("drive {0} is administered by hosts")]
    Administered(String),
    /// The host does not administer the drive, or no longer.
    #[error("host {host} does not administer drive {drive}")]
    NotAdministrator {
        /// The drive.
        drive: String,
        /// The host's NVMe Qualified Name.
        host: String,
    },
    /// A volume of that name is served.
    #[error("volume {0} is served already")]
    VolumeExists(String),
    /// No volume of that name is served.
    #[error("volume {0} is not served")]
    UnknownVolume(String),
    /// The drive's blocks cannot make the volume's blocks.
    #[error(
        "blocks of {wanted} bytes on drive blocks of {drive} bytes; \
         allowed: the same, or 512 on 4096"
    )]
    BlockSize {
        /// What hosts should see.
        wanted: u32,
        /// What the drive has.
        drive: u32,
    },
    /// The target refused.
    #[error("{0}")]
    Target(#[from] nvme_target::TargetError),
    /// Data that was acknowledged could not be made durable while stopping.
    #[error("drive {drive} could not be flushed: {error}")]
    Flush {
        /// The drive.
        drive: String,
        /// How it failed.
        error: block::IoError,
    },
    /// The node has stopped, or is stopping.
    #[error("the node has stopped")]
    Stopped,
}

impl From<ssd::NamespaceError> for NodeError {
    fn from(error: ssd::NamespaceError) -> NodeError {
        NodeError::Emulated(error.into())
    }
}

impl From<CoreStopped> for NodeError {
    fn from(_: CoreStopped) -> NodeError {
        NodeError::Stopped
    }
}

impl NodeError {
    /// True when a drive is used by somebody else, which may pass.
    pub fn is_in_use(&self) -> bool {
        use drive::{EmulatedError, OpenError};
        matches!(
            self,
            NodeError::Open(OpenError::InUse(_))
                | NodeError::Emulated(EmulatedError::Payload(OpenError::InUse(_)))
        )
    }

    /// What a pool refused, said with the names of the drives that it was given.
    pub(crate) fn pool(pool: &str, error: PoolError, drives: &[String]) -> NodeError {
        let name = |index: usize| drives.get(index).map_or("?", String::as_str);
        let said = match &error {
            PoolError::DriveInUse { index, pool } => format!(
                "drive {} belongs to pool {pool:?}: import that, or wipe the drive if its \
                 contents are not needed",
                name(*index)
            ),
            PoolError::LabelDamaged { index, label } => format!(
                "the label of drive {} is damaged{}: it names pool {:?}, member {}; wipe the \
                 drive if its contents are not needed",
                name(*index),
                label.why(),
                label.pool_name,
                label.index
            ),
            PoolError::DriveTooSmall { index, found, min } => {
                format!(
                    "drive {} has {} bytes; at least {} are needed",
                    name(*index),
                    found * 4096,
                    min * 4096
                )
            }
            PoolError::SplitBrain {
                left,
                left_drives,
                right,
                right_drives,
            } => {
                let named = |drives: &[usize]| {
                    let names: Vec<&str> = drives.iter().map(|drive| name(*drive)).collect();
                    names.join(", ")
                };
                format!(
                    "the drives were used apart: {} as epoch {left}, {} as epoch {right}, and \
                     neither knows the other; import the pool with only the set that is to be \
                     kept (--drives), and what the other set was given since is lost",
                    named(left_drives),
                    named(right_drives)
                )
            }
            PoolError::DriveShrank {
                index,
                found,
                before,
            } => format!(
                "drive {} has {} bytes and had {} when it joined the pool: give it its size back, \
                 or remove it to open the pool without it",
                name(*index),
                found * 4096,
                before * 4096
            ),
            PoolError::NoPool => {
                format!("no pool is on any of the drives: {}", drives.join(", "))
            }
            other => without_all(other, name),
        };
        let message = if pool.is_empty() {
            said
        } else {
            format!("pool {pool}: {said}")
        };
        NodeError::Pool { error, message }
    }

    /// A panic ended the scope of a pool.
    pub(crate) fn panicked(pool: &str, scope: &Scope) -> NodeError {
        let error = PoolError::Offline(OfflineReason::InternalError);
        let fault = scope.failure().map(ToString::to_string);
        let fault = fault.unwrap_or_default();
        let said = format!("{}: {fault}", OfflineReason::InternalError);
        let message = match pool.is_empty() {
            true => said,
            false => format!("pool {pool}: {said}"),
        };
        NodeError::Pool { error, message }
    }

    /// The same, of what failed after it had wiped the drives that it was to take.
    pub(crate) fn after_wiping(self) -> NodeError {
        match self {
            NodeError::Pool { error, message } => NodeError::Pool {
                error,
                message: format!("{message}; what the drives carried is wiped all the same"),
            },
            other => other,
        }
    }

    pub(crate) fn size(bytes: u64, error: GeometryError) -> NodeError {
        NodeError::Size {
            bytes,
            reason: error.to_string(),
        }
    }
}

/// Why a pool was not opened that could be by somebody who accepts what that costs.
fn without_all<'a>(error: &PoolError, name: impl Fn(usize) -> &'a str) -> String {
    match error {
        PoolError::LabelUnreadable { index } => format!(
            "a label of drive {} cannot be read, and it may be what the pool was last: see to \
             that drive and try again; or import the pool without that drive (--drives), or \
             with --accept-loss, and what was written last may be lost",
            name(*index)
        ),
        PoolError::LatestLabelDamaged { index, older, lost } => format!(
            "the latest label of drive {}, number {lost}, is damaged, and the one before is number \
             {older}: volumes and snapshots that were made or changed last, and what was written \
             to them, would be missing or old; import the pool with the drives that have the \
             latest label, or with --accept-loss as it was before",
            name(*index)
        ),
        PoolError::RolledBack { opened, found } => format!(
            "the latest label of the drives is number {opened}, and the log was written after \
             number {found}: volumes and snapshots that were made or changed between the two, and \
             what was written to them, would be missing or old; import the pool with the drives \
             that have the latest label, or with --accept-loss as it was before"
        ),
        PoolError::LogUnreadable { drives } => format!(
            "{drives} drives cannot be read where the log ends, and it may go on there: see to \
             them and try again, or import the pool with --accept-loss, and what was written \
             last may be lost"
        ),
        PoolError::Held { holder } => format!(
            "host {} holds the pool; export it there, or import it with --force if that host is \
             off",
            dashed(holder)
        ),
        PoolError::StillInUse { holder } => format!(
            "host {} goes on using the pool although it has been claimed; stop that host",
            dashed(holder)
        ),
        other => other.to_string(),
    }
}

/// A host's identity as nodes show their own.
fn dashed(host: &str) -> String {
    let parsed = Uuid::parse_str(host);
    parsed.map_or_else(|_| host.to_owned(), |uuid| uuid.to_string())
}
