//! [`StoreError`]: why a store does not take an object, or give it.

use std::error::Error;

/// What a store, or the way to it, refused.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no such object, or no such bucket")]
    NotFound,
    #[error("the object is there already; allowed: another key, or --overwrite")]
    Exists,
    #[error("the store refuses these credentials: {0}")]
    Credentials(String),
    #[error("{0} is not encrypted; allowed: https, or AWS_ALLOW_HTTP=true in the environment")]
    InTheClear(String),
    #[error("the object is not the one any more whose beginning was read")]
    Changed,
    #[error("the stream has more than {parts_max} parts of {part_bytes} bytes")]
    TooLong { parts_max: u64, part_bytes: u64 },
    #[error("{0}")]
    Other(String),
}

impl From<object_store::Error> for StoreError {
    fn from(error: object_store::Error) -> StoreError {
        use object_store::Error as Of;
        match error {
            Of::NotFound { .. } => StoreError::NotFound,
            Of::AlreadyExists { .. } => StoreError::Exists,
            Of::Precondition { .. } => StoreError::Changed,
            Of::PermissionDenied { source, .. } | Of::Unauthenticated { source, .. } => {
                StoreError::Credentials(innermost(&*source))
            }
            Of::Generic { source, .. } => StoreError::Other(innermost(&*source)),
            error => StoreError::Other(innermost(&error)),
        }
    }
}

/// What an error says, and of those under it what it does not say itself, on one line.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut under = error.source();
    while let Some(error) = under {
        let more = error.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        under = error.source();
    }
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}
