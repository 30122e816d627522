//! [`ErrorBody`]: the one shape of every refusal.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

/// What kind of refusal it is: stable words that programs may compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request itself is wrong; `field` names where.
    InvalidArgument,
    /// The request carries no token, or one that is unknown or has expired.
    Unauthenticated,
    /// The token may not do this.
    Forbidden,
    /// No object has that name, or no route that path.
    NotFound,
    /// The route exists, the method does not.
    MethodNotAllowed,
    /// The request did not arrive whole in time.
    Timeout,
    /// The object is not what `If-Match` names: somebody changed it meanwhile.
    PreconditionFailed,
    /// The body is larger than any request needs.
    BodyTooLarge,
    /// Too many requests that failed; the `Retry-After` header says when to try again.
    TooManyRequests,
    /// An object of that name exists with another specification.
    AlreadyExists,
    /// The object is used by another one, which the message names.
    InUse,
    /// The pool, or what a tenant was granted of it, has no room for it.
    OutOfSpace,
    /// What the object stands on is offline or not ready; trying again later may work.
    NotReady,
    /// The node failed; its log says more.
    Internal,
}

impl ErrorCode {
    /// The HTTP status that carries this code.
    pub fn http_status(self) -> u16 {
        match self {
            ErrorCode::InvalidArgument => 400,
            ErrorCode::Unauthenticated => 401,
            ErrorCode::Forbidden => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::Timeout => 408,
            ErrorCode::PreconditionFailed => 412,
            ErrorCode::BodyTooLarge => 413,
            ErrorCode::TooManyRequests => 429,
            ErrorCode::AlreadyExists | ErrorCode::InUse => 409,
            ErrorCode::NotReady => 503,
            ErrorCode::OutOfSpace => 507,
            ErrorCode::Internal => 500,
        }
    }
}

/// The body of every response that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize, ToSchema)]
#[error("{message}")]
pub struct ErrorBody {
    /// The kind of refusal.
    pub code: ErrorCode,
    /// One sentence for people: what was found, and what is allowed.
    pub message: String,
    /// The field of the request that is at fault, as a path such as `hosts[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl ErrorBody {
    /// A refusal that no single field explains.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ErrorBody {
        ErrorBody {
            code,
            message: message.into(),
            field: None,
        }
    }

    /// The same refusal, with the `field` that is at fault.
    #[must_use]
    pub fn at(self, field: String) -> ErrorBody {
        ErrorBody {
            field: Some(field),
            ..self
        }
    }

    /// A request with a wrong `field`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> ErrorBody {
        ErrorBody {
            code: ErrorCode::InvalidArgument,
            message: message.into(),
            field: Some(field.into()),
        }
    }
}
