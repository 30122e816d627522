//! An NVMe/TCP host as a library.
//!
//! In this room: [`Connection`], the host's side of one queue pair as a state machine without a
//! socket (commands in, bytes out; bytes in, completions out).
//! Not in this room: wire formats (`nvme`), load generation (`lab`).

mod address;
mod connection;
mod error;
mod options;

pub use address::{AddressError, TargetAddress};
pub use connection::{CommandId, Connection, Data, Outlet, Settings};
pub use error::{Error, LossReason};
pub use options::{ConnectOptions, Reconnect};
