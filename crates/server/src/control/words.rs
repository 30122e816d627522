//! How [`Control`](super::Control) says what is found and what is refused.

use api::{ErrorBody, ErrorCode, Name};
use node::{
    EmulatedError, NodeError, NotInForce, Nqn, NvmeError, OpenError, PoolError, TargetError, Unkept,
};
use ssd::{NamespaceError, ProfileError};

/// Something is not done since what it is done to has users.
pub(in crate::control) fn in_use(message: String) -> ErrorBody {
    ErrorBody::new(ErrorCode::InUse, message)
}

/// A name that was checked when it was given.
pub(in crate::control) fn parsed(nqn: &str) -> Result<Nqn, ErrorBody> {
    let wrong = |error| ErrorBody::new(ErrorCode::Internal, format!("NQN {nqn:?}: {error}"));
    nqn.parse().map_err(wrong)
}

/// Names as people list them.
pub(in crate::control) fn list(names: &[Name]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names
            .iter()
            .map(Name::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Nothing of that kind has that name.
pub fn not_found(kind: &str, name: &Name) -> ErrorBody {
    ErrorBody::new(ErrorCode::NotFound, format!("no {kind} is named {name}"))
}

/// What a client is told when the data path refuses.
pub(in crate::control) fn refused(error: &NodeError) -> ErrorBody {
    let code = match error {
        NodeError::Stopped | NodeError::Unfenced(_) => ErrorCode::NotReady,
        NodeError::DriveInUse { .. }
        | NodeError::DriveOwes { .. }
        | NodeError::Carries { .. }
        | NodeError::Unread { .. }
        | NodeError::PoolInUse { .. }
        | NodeError::PoolBusy { .. }
        | NodeError::NamespaceAttached { .. }
        | NodeError::NamespaceServed { .. }
        | NodeError::Administered(_) => ErrorCode::InUse,
        NodeError::DriveTwice(_) => return ErrorBody::invalid("drives", error.to_string()),
        // It went while this was on its way.
        NodeError::UnknownPool(_)
        | NodeError::UnknownDrive(_)
        | NodeError::UnknownVolume(_)
        | NodeError::NotAdministrator { .. } => ErrorCode::NotFound,
        NodeError::PoolExists(_) | NodeError::VolumeExists(_) | NodeError::DriveExists(_) => {
            ErrorCode::AlreadyExists
        }
        NodeError::Flush { .. } => ErrorCode::NotReady,
        NodeError::Unprotected { reason, .. } => unprotected(reason),
        NodeError::Target(TargetError::TooManyGroups(_)) => ErrorCode::OutOfSpace,
        NodeError::Pool { error, message } => return pool_refused(error, message),
        NodeError::Open { .. } => return ErrorBody::invalid("path", error.to_string()),
        NodeError::Size { .. } => return ErrorBody::invalid("size", error.to_string()),
        NodeError::BlockSize { .. } => return ErrorBody::invalid("block_bytes", error.to_string()),
        NodeError::Emulated(error) => return emulated_refused(error),
        NodeError::Nvme(error) => return nvme_refused(error),
        NodeError::Unmanaged(_) | NodeError::NotEmulated(_) | NodeError::AttachedByHosts(_) => {
            return ErrorBody::invalid("name", error.to_string());
        }
        _ => ErrorCode::Internal,
    };
    ErrorBody::new(code, error.to_string())
}

/// Why the write protection of a volume is not what it should be.
fn unprotected(reason: &NotInForce) -> ErrorCode {
    match reason {
        NotInForce::Unserved => ErrorCode::NotFound,
        NotInForce::Unkept(Unkept::NoRoom) => ErrorCode::OutOfSpace,
        NotInForce::Refused(_)
        | NotInForce::Unkept(Unkept::Failed(_))
        | NotInForce::Late
        | NotInForce::Unflushed(_) => ErrorCode::NotReady,
    }
}

fn pool_refused(error: &PoolError, message: &str) -> ErrorBody {
    let code = match error {
        PoolError::DriveCount { .. }
        | PoolError::DriveTooSmall { .. }
        | PoolError::MixedPools(..)
        | PoolError::DuplicateDrive(_) => return ErrorBody::invalid("drives", message),
        PoolError::Width { .. } => return ErrorBody::invalid("width", message),
        PoolError::Invalid(_) | PoolError::NewerFormat(_) => ErrorCode::InvalidArgument,
        PoolError::DriveInUse { .. }
        | PoolError::LabelDamaged { .. }
        | PoolError::Held { .. }
        | PoolError::StillInUse { .. } => ErrorCode::InUse,
        PoolError::NoPool | PoolError::NotFound(_) => ErrorCode::NotFound,
        PoolError::NameTaken(_) => ErrorCode::AlreadyExists,
        PoolError::NoSpace | PoolError::TablesFull { .. } | PoolError::IdsUsedUp => {
            ErrorCode::OutOfSpace
        }
        PoolError::ScrubStopped | PoolError::Indispensable { .. } | PoolError::BlocksUnreadable => {
            ErrorCode::InUse
        }
        PoolError::MembersMissing { .. }
        | PoolError::MembersAbsent { .. }
        | PoolError::DriveShrank { .. }
        | PoolError::LabelUnreadable { .. }
        | PoolError::LatestLabelDamaged { .. }
        | PoolError::RolledBack { .. }
        | PoolError::LogUnreadable { .. }
        | PoolError::SplitBrain { .. }
        | PoolError::Offline(_)
        | PoolError::Damaged(_)
        | PoolError::Implausible(_)
        | PoolError::LogDamaged(_)
        | PoolError::DriveFailed
        | PoolError::Io(_) => ErrorCode::NotReady,
        PoolError::Entropy => ErrorCode::Internal,
    };
    ErrorBody::new(code, message)
}

fn emulated_refused(error: &EmulatedError) -> ErrorBody {
    let field = match error {
        EmulatedError::Profile(ProfileError::Scale { .. }) => "scale_ppm",
        EmulatedError::Profile(_) => "profile",
        EmulatedError::Dilation(_) => "dilation_percent",
        EmulatedError::Payload(_) | EmulatedError::State { .. } => "directory",
        EmulatedError::Namespace(error) => return namespace_refused(error),
    };
    ErrorBody::invalid(field, error.to_string())
}

fn nvme_refused(error: &NvmeError) -> ErrorBody {
    let code = match error {
        NvmeError::Namespace(error) => return namespace_refused(error),
        NvmeError::Open(OpenError::InUse(_)) | NvmeError::AttachedElsewhere { .. } => {
            ErrorCode::InUse
        }
        NvmeError::BlockBytes { .. } => {
            return ErrorBody::invalid("block_bytes", error.to_string());
        }
        NvmeError::Unsupported { .. } => return ErrorBody::invalid("name", error.to_string()),
        _ => ErrorCode::NotReady,
    };
    ErrorBody::new(code, error.to_string())
}

fn namespace_refused(error: &NamespaceError) -> ErrorBody {
    let code = match error {
        NamespaceError::Unknown(_) => ErrorCode::NotFound,
        NamespaceError::InUse(_) | NamespaceError::Private(_) => ErrorCode::InUse,
        NamespaceError::AlreadyAttached(..) => ErrorCode::AlreadyExists,
        NamespaceError::NotAttached(..) => return ErrorBody::invalid("nsid", error.to_string()),
        _ => return ErrorBody::invalid("size", error.to_string()),
    };
    ErrorBody::new(code, error.to_string())
}
