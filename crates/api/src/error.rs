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
    /// The object is not what `If-Match` names, for somebody changed it meanwhile; or it is what
    /// `If-None-Match` names.
    PreconditionFailed,
    /// The body is larger than any request needs.
    BodyTooLarge,
    /// The path with its query is longer than any request needs.
    UriTooLong,
    /// There are more headers, or longer ones, than any request needs.
    HeadersTooLarge,
    /// Too many requests that failed; the `Retry-After` header says when to try again.
    TooManyRequests,
    /// An object of that name exists with another specification.
    AlreadyExists,
    /// The object is used by another one, which the message names.
    InUse,
    /// The pool, or what a tenant was granted of it, has no room for it.
    OutOfSpace,
    /// What the object stands on is offline, damaged or not ready; trying again later may work.
    NotReady,
    /// The node failed, which is a fault of its own; its log says more.
    Internal,
}

/// A longer message is cut: some of it is what the request said.
const MESSAGE_CHARS_MAX: usize = 1024;

/// The same of the name of a field, which the request may have made up.
const FIELD_CHARS_MAX: usize = 256;

impl ErrorCode {
    /// Every code.
    pub const ALL: [ErrorCode; 16] = [
        ErrorCode::InvalidArgument,
        ErrorCode::Unauthenticated,
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::Timeout,
        ErrorCode::AlreadyExists,
        ErrorCode::InUse,
        ErrorCode::OutOfSpace,
        ErrorCode::NotReady,
        ErrorCode::PreconditionFailed,
        ErrorCode::BodyTooLarge,
        ErrorCode::UriTooLong,
        ErrorCode::TooManyRequests,
        ErrorCode::HeadersTooLarge,
        ErrorCode::Internal,
    ];

    /// The HTTP status that carries this code. Only a fault of the node is a 5xx: whatever a client
    /// can mend, by another request or by something done to its objects first, is a 4xx.
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
            ErrorCode::UriTooLong => 414,
            ErrorCode::TooManyRequests => 429,
            ErrorCode::HeadersTooLarge => 431,
            ErrorCode::AlreadyExists
            | ErrorCode::InUse
            | ErrorCode::OutOfSpace
            | ErrorCode::NotReady => 409,
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

    /// The same refusal, no longer than a person reads.
    #[must_use]
    pub fn shortened(self) -> ErrorBody {
        let cut = |text: String, first: usize, last: usize| {
            let count = text.chars().count();
            if count <= first + last {
                return text;
            }
            let head: String = text.chars().take(first).collect();
            let tail: String = text.chars().skip(count - last).collect();
            format!("{head}...{tail}")
        };
        ErrorBody {
            code: self.code,
            // What is allowed is said last.
            message: cut(self.message, MESSAGE_CHARS_MAX / 2, MESSAGE_CHARS_MAX / 2),
            field: self.field.map(|field| cut(field, FIELD_CHARS_MAX, 0)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_of_the_node_is_a_5xx() {
        for code in ErrorCode::ALL {
            let status = code.http_status();
            assert_eq!(status >= 500, code == ErrorCode::Internal, "{code:?}");
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_all_that_a_request_said() {
        let long = ErrorBody::invalid("\u{e9}".repeat(4000), "\u{e9}".repeat(4000)).shortened();
        assert_eq!(long.message.chars().count(), MESSAGE_CHARS_MAX + 3);
        assert_eq!(long.field.unwrap().chars().count(), FIELD_CHARS_MAX + 3);
        let short = ErrorBody::invalid("name", "found and allowed");
        assert_eq!(short.clone().shortened(), short);
    }
}
