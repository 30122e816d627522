//! The typed client of a node's REST API.
//!
//! In this room: [`Client`], one method per operation, blocking, over one kept-alive connection
//! pool; [`ClientError`], which tells an unreachable node from a refusal; and [`Login`], what lets
//! a client in, with the place where a user's are kept. Not in this room: the types themselves
//! (`api`), and how anything is shown to people (the command line).

mod error;
mod http;
mod login;
mod operations;
mod pools;
mod tls;

pub use error::ClientError;
pub use http::{Client, DEFAULT_NODE};
pub use login::{Login, Logins};
pub use tls::Fingerprint;
