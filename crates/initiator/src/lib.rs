//! An NVMe/TCP and NVMe/RDMA host as a library.
//!
//! In this room: the host's side of one queue pair as a state machine: [`Connection`] without a
//! socket (commands in, bytes out; bytes in, completions out), and [`KeyedConnection`] without a
//! device (commands in, capsules and buffers out; responses in); [`QueuePair`], one of them on its
//! socket or its device; [`Controller`], which connects, keeps alive, collects events and
//! reconnects if asked to; [`Prover`], the host's side of authentication; [`Namespace`], which is a
//! [`block::BlockDevice`]; and [`discover`]. Everything belongs to the core that made it. Not in
//! this room: wire formats (`nvme`), load generation (`lab`).

mod address;
mod authentication;
mod connection;
mod controller;
mod discovery;
mod error;
mod establish;
mod fence;
mod namespace;
mod options;
mod queue;
mod supervise;

pub use access::TlsKey;
pub use address::{AddressError, Endpoint, TargetAddress, TargetName, Transport};
pub use authentication::{Credentials, Prover, Refusal};
pub use connection::{
    ADMIN_CAPSULE_BYTES, CommandId, Connection, Data, Device, KeyedConnection, KeyedSettings,
    Memory, Outcome, Outlet, Settings,
};
pub use controller::{Controller, State};
pub use discovery::{DiscoveryRecord, discover};
pub use error::{Error, LossReason};
pub use namespace::{CopySource, Namespace};
pub use options::{ConnectOptions, Reconnect};
pub use queue::QueuePair;
