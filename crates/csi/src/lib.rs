//! The CSI driver: volumes of nodes for Kubernetes and other orchestrators.
//!
//! In this room: the services of the Container Storage Interface 1.13 ([`serve`]), which turn an
//! orchestrator's calls into requests of the nodes' REST API, and on a host into block devices,
//! file systems and mounts. Nothing is kept here: what a call has to know again is in the name of
//! an object, in the node, or in the kernel's tables. So a call that is repeated, by whichever
//! process, finds what an earlier one did. Not in this room: the API's client, and how a volume
//! becomes a block device, which is the work of `flashyard attach`.
#![forbid(unsafe_code)]

mod access_mode;
mod calls;
mod controller;
mod group;
mod identity;
mod lookup;
mod names;
mod node;
mod parameters;
pub mod proto;
mod refusal;
mod server;
mod turns;

pub use controller::ControllerSettings;
pub use node::{NodeSettings, is_mount_point};
pub use server::{Endpoint, EndpointError, Services, serve};

/// What the driver is called: in storage classes, and in the sockets' paths.
pub const DRIVER: &str = "csi.flashyard.example";
