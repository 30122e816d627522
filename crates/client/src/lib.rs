//! The typed client of a node's REST API.
//!
//! In this room: [`Client`], one method per operation, blocking, over one kept-alive connection
//! pool; and [`ClientError`], which tells an unreachable node from a refusal. Not in this room:
//! the types themselves (`api`), and how anything is shown to people (the command line).

mod error;
mod http;
mod operations;
mod pools;

pub use error::ClientError;
pub use http::{Client, DEFAULT_NODE};
