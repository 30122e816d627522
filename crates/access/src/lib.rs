//! Who may connect.
//!
//! In this room: [`Nqn`], the validated name of a host or subsystem, and [`AllowedHosts`], the list
//! that decides which hosts may see and use a subsystem. Not in this room: connections, and any
//! knowledge of where lists are kept.
#![forbid(unsafe_code)]

mod allowed;
mod nqn;

pub use allowed::AllowedHosts;
pub use nqn::{NQN_BYTES_MAX, Nqn, NqnError};
