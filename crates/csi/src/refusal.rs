//! A node's refusals as the statuses that the interface names.

use api::ErrorCode;
use client::ClientError;
use tonic::Status;

/// What an orchestrator is told of an error.
pub fn status(error: &ClientError) -> Status {
    match error {
        ClientError::Address { .. } => Status::failed_precondition(error.to_string()),
        ClientError::Unreachable { .. } => Status::unavailable(error.to_string()),
        ClientError::Refused(body) => {
            let message = match &body.field {
                Some(field) => format!("{field}: {body}"),
                None => body.to_string(),
            };
            Status::new(code(body.code), message)
        }
    }
}

fn code(code: ErrorCode) -> tonic::Code {
    match code {
        ErrorCode::InvalidArgument => tonic::Code::InvalidArgument,
        ErrorCode::Unauthenticated => tonic::Code::Unauthenticated,
        ErrorCode::Forbidden => tonic::Code::PermissionDenied,
        ErrorCode::NotFound => tonic::Code::NotFound,
        ErrorCode::AlreadyExists => tonic::Code::AlreadyExists,
        ErrorCode::InUse => tonic::Code::FailedPrecondition,
        ErrorCode::OutOfSpace => tonic::Code::ResourceExhausted,
        ErrorCode::NotReady | ErrorCode::TooManyRequests | ErrorCode::Timeout => {
            tonic::Code::Unavailable
        }
        ErrorCode::PreconditionFailed => tonic::Code::Aborted,
        ErrorCode::MethodNotAllowed
        | ErrorCode::BodyTooLarge
        | ErrorCode::UriTooLong
        | ErrorCode::HeadersTooLarge
        | ErrorCode::Internal => tonic::Code::Internal,
    }
}

/// Whether a node said that there is no such object.
pub fn is_absent(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(body) if body.code == ErrorCode::NotFound)
}

/// What was asked for, or none where no node has it.
///
/// # Errors
/// Those of `asked` but `NOT_FOUND`.
pub fn if_there<T>(asked: Result<T, Status>) -> Result<Option<T>, Status> {
    match asked {
        Err(absent) if absent.code() == tonic::Code::NotFound => Ok(None),
        asked => asked.map(Some),
    }
}

/// A field of a request that must not be empty.
///
/// # Errors
/// `INVALID_ARGUMENT` that names it.
pub fn given<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    match value {
        "" => Err(Status::invalid_argument(format!(
            "{field} is missing; it is required"
        ))),
        value => Ok(value),
    }
}
