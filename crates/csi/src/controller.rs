//! The controller service: volumes and snapshots on nodes, and who may use them.

mod capabilities;
mod capacity;
mod create;
mod health;
mod list;
mod metadata;
mod proof;
mod publish;
mod snapshots;
mod source;

pub(crate) use self::health::wrong;
pub(crate) use self::snapshots::{delete, no_parameters, now, shown};

use api::SecretText;
use client::Client;

use crate::calls::calls;
use crate::lookup::Nodes;
use crate::proto::controller_server::Controller;
use crate::proto::*;
use crate::turns::Turns;

/// What a controller needs to know.
pub struct ControllerSettings {
    /// Clients of the nodes that volumes are made on.
    pub nodes: Vec<Client>,
    /// What hosts' secrets follow from; none: hosts prove nothing.
    pub host_secret: Option<SecretText>,
}

/// The work of the controller, call by call.
pub struct Work {
    pub(crate) nodes: Nodes,
    pub(crate) turns: Turns,
    host_secret: Option<SecretText>,
}

impl Work {
    /// With these settings.
    pub fn new(settings: ControllerSettings) -> Work {
        Work {
            nodes: Nodes::new(settings.nodes),
            turns: Turns::default(),
            host_secret: settings.host_secret,
        }
    }
}

calls! {
    Controller:
    create_volume: CreateVolumeRequest -> CreateVolumeResponse = Work::create_volume,
    delete_volume: DeleteVolumeRequest -> DeleteVolumeResponse = Work::delete_volume,
    controller_publish_volume: ControllerPublishVolumeRequest
        -> ControllerPublishVolumeResponse = Work::publish,
    controller_unpublish_volume: ControllerUnpublishVolumeRequest
        -> ControllerUnpublishVolumeResponse = Work::unpublish,
    validate_volume_capabilities: ValidateVolumeCapabilitiesRequest
        -> ValidateVolumeCapabilitiesResponse = Work::validate,
    list_volumes: ListVolumesRequest -> ListVolumesResponse = Work::list_volumes,
    controller_list_volume_health: ControllerListVolumeHealthRequest
        -> ControllerListVolumeHealthResponse = Work::list_health,
    controller_get_volume_health: ControllerGetVolumeHealthRequest
        -> ControllerGetVolumeHealthResponse = Work::health,
    get_capacity: GetCapacityRequest -> GetCapacityResponse = Work::capacity,
    controller_get_capabilities: ControllerGetCapabilitiesRequest
        -> ControllerGetCapabilitiesResponse = Work::capabilities,
    create_snapshot: CreateSnapshotRequest -> CreateSnapshotResponse = Work::create_snapshot,
    delete_snapshot: DeleteSnapshotRequest -> DeleteSnapshotResponse = Work::delete_snapshot,
    list_snapshots: ListSnapshotsRequest -> ListSnapshotsResponse = Work::list_snapshots,
    get_snapshot: GetSnapshotRequest -> GetSnapshotResponse = Work::snapshot,
    controller_expand_volume: ControllerExpandVolumeRequest
        -> ControllerExpandVolumeResponse = Work::expand,
    controller_get_volume: ControllerGetVolumeRequest
        -> ControllerGetVolumeResponse = Work::volume,
    controller_modify_volume: ControllerModifyVolumeRequest
        -> ControllerModifyVolumeResponse = Work::modify,
}
