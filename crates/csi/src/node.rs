//! The node service: volumes on a host, as block devices and as mounted file systems.

mod attachment;
mod block_device;
mod capabilities;
pub mod connection;
mod file_system;
mod grow;
mod handed;
mod health;
mod mounts;
mod program;
mod publish;
mod stage;
mod stats;

pub use self::mounts::is_mount_point;

use std::path::PathBuf;

use access::Nqn;

use crate::calls::calls;
use crate::proto::node_server::Node;
use crate::proto::*;
use crate::turns::Turns;

/// What the service of a host needs to know.
pub struct NodeSettings {
    /// The host's name, which nodes know it by.
    pub host_nqn: Nqn,
    /// `flashyard`, which attaches volumes.
    pub program: PathBuf,
    /// Where it remembers what is attached.
    pub attached: PathBuf,
}

/// The work of the service, call by call.
pub struct Work {
    settings: NodeSettings,
    turns: Turns,
}

impl Work {
    /// With these settings.
    pub fn new(settings: NodeSettings) -> Work {
        Work {
            settings,
            turns: Turns::default(),
        }
    }
}

calls! {
    Node:
    node_stage_volume: NodeStageVolumeRequest -> NodeStageVolumeResponse = Work::stage,
    node_unstage_volume: NodeUnstageVolumeRequest -> NodeUnstageVolumeResponse = Work::unstage,
    node_publish_volume: NodePublishVolumeRequest -> NodePublishVolumeResponse = Work::publish,
    node_unpublish_volume: NodeUnpublishVolumeRequest
        -> NodeUnpublishVolumeResponse = Work::unpublish,
    node_get_volume_stats: NodeGetVolumeStatsRequest -> NodeGetVolumeStatsResponse = Work::stats,
    node_get_volume_health: NodeGetVolumeHealthRequest
        -> NodeGetVolumeHealthResponse = Work::health,
    node_get_storage_health: NodeGetStorageHealthRequest
        -> NodeGetStorageHealthResponse = Work::storage_health,
    node_expand_volume: NodeExpandVolumeRequest -> NodeExpandVolumeResponse = Work::expand,
    node_get_capabilities: NodeGetCapabilitiesRequest
        -> NodeGetCapabilitiesResponse = Work::capabilities,
    node_get_info: NodeGetInfoRequest -> NodeGetInfoResponse = Work::information,
}
