//! The CSI driver against real nodes: csi-sanity, what the interface's own suite leaves out, and
//! processes that are killed. Volumes are attached by FUSE and loop devices. Needs root, as
//! attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod cluster;
#[cfg(feature = "long")]
mod control_plane;
#[cfg(feature = "long")]
mod density;
mod encrypted;
#[cfg(feature = "long")]
#[path = "../support/helm.rs"]
mod helm;
mod kills;
mod losses;
#[cfg(feature = "long")]
#[path = "../support/network.rs"]
mod network;
#[path = "../support/raid6.rs"]
mod raid6;
mod rules;
mod sanity;
#[cfg(feature = "long")]
mod sidecars;
#[path = "../support/mod.rs"]
mod support;
