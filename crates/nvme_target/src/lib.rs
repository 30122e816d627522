//! The NVMe/TCP and NVMe/RDMA target: serves block devices to hosts.
//!
//! In this room: connections as machines without sockets ([`transport`]), controllers and
//! everything a host may ask of them, subsystems, namespaces, discovery, who may connect and how
//! hosts prove who they are ([`authentication`]), rules of namespaces ([`rules`]), and the control
//! interface ([`Target`]) through which a node changes all of it while hosts are connected. Not in
//! this room: where data is kept (it sees only [`block::BlockDevice`]), what the wire formats look
//! like (`nvme`), how hosts and volumes are configured (`node`).
//!
//! ```text
//!   socket -> tcp::receive -> transport::Connection -> Session::dispatch -> slot tasks
//!                                                        Connect | Controller | IoQueue -> device
//!   socket <- tcp::transmit <- Outbox <- Connection::respond <- Session::respond <---'
//!   (over RDMA: capsules and data of a queue pair, by `rdma_port`)
//! ```
//!
//! One target per core; a connection lives on one core, a controller where its admin queue is.
#![forbid(unsafe_code)]

mod abort;
mod administration;
mod arrival;
pub mod authentication;
mod connect;
mod controller;
mod copy;
mod credentials;
mod discovery;
mod error;
mod errors;
mod gate;
mod guests;
mod home;
mod identities;
mod in_flight;
mod instance;
mod io;
mod joining;
mod latency;
mod lock;
mod namespace;
mod pace;
mod paths;
mod per_core;
mod port;
mod portions;
mod proofs;
mod rdma_port;
mod reach;
mod refusals;
mod report;
pub mod reservation;
mod room;
pub mod rules;
mod secure;
mod session;
mod settings;
mod strangers;
mod subsystem;
mod subsystem_reset;
mod tally;
mod target;
mod tcp;
pub mod transport;
mod unready;
mod view;

pub use administration::{
    Administration, Answer, DriveNamespace, DriveReport, FORMATS, NamespaceChange, Wear,
};
pub use error::TargetError;
pub use home::{ControllerIds, Links, NodeIdentity};
pub use latency::Latency;
pub use namespace::UsedBlocks;
pub use paths::{AnaGroupId, GROUPS_MAX, PathState, TRANSITION};
pub use reach::{Asker, address_for};
pub use report::{
    CloseReason, Counters, Fault, Loss, NamespaceCounters, RefusalReason, SessionInfo, TargetEvent,
};
pub use settings::{
    CONNECTIONS_MAX, NAMESPACE_ID_MAX, NamespaceSettings, PortSet, PortSettings, SubsystemSettings,
    TargetSettings, Transport,
};
pub use tally::Tally;
pub use target::Target;
