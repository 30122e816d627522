//! One method per call of the interface.

use csi::proto::controller_client::ControllerClient;
use csi::proto::group_controller_client::GroupControllerClient;
use csi::proto::node_client::NodeClient;
use csi::proto::snapshot_metadata_client::SnapshotMetadataClient;
use csi::proto::*;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// Speaks to the driver: to a process of its for the controller, and to one on a host, which may be
/// the same.
pub struct Caller {
    runtime: Runtime,
    controller: Channel,
    node: Channel,
}

/// What a call gives.
pub type Answer<T> = Result<T, Status>;

macro_rules! calls {
    ($client:ident of $side:ident: $($call:ident: $request:ident -> $response:ident,)+) => {
        $(
        /// A call of that name in the interface, in `csi.proto`.
        ///
        /// # Errors
        /// The driver's status.
        pub fn $call(&self, request: $request) -> Answer<$response> {
            let mut client = $client::new(self.$side.clone());
            let answer = self.runtime.block_on(client.$call(request));
            answer.map(Response::into_inner)
        })+
    };
}

macro_rules! streams {
    ($client:ident of $side:ident: $($call:ident: $request:ident -> $response:ident,)+) => {
        $(
        /// A call of that name in the interface, in `csi.proto`.
        ///
        /// # Errors
        /// The driver's status.
        pub fn $call(&self, request: $request) -> Answer<Vec<$response>> {
            let mut client = $client::new(self.$side.clone());
            self.runtime.block_on(async {
                let mut messages = client.$call(request).await?.into_inner();
                let mut all = Vec::new();
                while let Some(message) = messages.message().await? {
                    all.push(message);
                }
                Ok(all)
            })
        })+
    };
}

impl Caller {
    /// By the URLs of their sockets; connects with the first call.
    ///
    /// # Panics
    /// One is no URL.
    pub fn new(controller: &str, node: &str) -> Caller {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let channel = |url: &str| {
            let _entered = runtime.enter();
            Endpoint::from_shared(url.to_owned())
                .unwrap()
                .connect_lazy()
        };
        let (controller, node) = (channel(controller), channel(node));
        Caller {
            runtime,
            controller,
            node,
        }
    }

    calls! { ControllerClient of controller:
        create_volume: CreateVolumeRequest -> CreateVolumeResponse,
        delete_volume: DeleteVolumeRequest -> DeleteVolumeResponse,
        controller_publish_volume: ControllerPublishVolumeRequest
            -> ControllerPublishVolumeResponse,
        controller_unpublish_volume: ControllerUnpublishVolumeRequest
            -> ControllerUnpublishVolumeResponse,
        controller_expand_volume: ControllerExpandVolumeRequest
            -> ControllerExpandVolumeResponse,
        controller_modify_volume: ControllerModifyVolumeRequest
            -> ControllerModifyVolumeResponse,
        controller_get_volume_health: ControllerGetVolumeHealthRequest
            -> ControllerGetVolumeHealthResponse,
        list_volumes: ListVolumesRequest -> ListVolumesResponse,
        list_snapshots: ListSnapshotsRequest -> ListSnapshotsResponse,
        create_snapshot: CreateSnapshotRequest -> CreateSnapshotResponse,
        delete_snapshot: DeleteSnapshotRequest -> DeleteSnapshotResponse,
    }
    calls! { GroupControllerClient of controller:
        create_volume_group_snapshot: CreateVolumeGroupSnapshotRequest
            -> CreateVolumeGroupSnapshotResponse,
        get_volume_group_snapshot: GetVolumeGroupSnapshotRequest
            -> GetVolumeGroupSnapshotResponse,
        delete_volume_group_snapshot: DeleteVolumeGroupSnapshotRequest
            -> DeleteVolumeGroupSnapshotResponse,
    }
    streams! { SnapshotMetadataClient of controller:
        get_metadata_allocated: GetMetadataAllocatedRequest -> GetMetadataAllocatedResponse,
        get_metadata_delta: GetMetadataDeltaRequest -> GetMetadataDeltaResponse,
    }
    calls! { NodeClient of node:
        node_stage_volume: NodeStageVolumeRequest -> NodeStageVolumeResponse,
        node_unstage_volume: NodeUnstageVolumeRequest -> NodeUnstageVolumeResponse,
        node_publish_volume: NodePublishVolumeRequest -> NodePublishVolumeResponse,
        node_unpublish_volume: NodeUnpublishVolumeRequest -> NodeUnpublishVolumeResponse,
        node_expand_volume: NodeExpandVolumeRequest -> NodeExpandVolumeResponse,
        node_get_volume_stats: NodeGetVolumeStatsRequest -> NodeGetVolumeStatsResponse,
        node_get_volume_health: NodeGetVolumeHealthRequest -> NodeGetVolumeHealthResponse,
        node_get_storage_health: NodeGetStorageHealthRequest -> NodeGetStorageHealthResponse,
    }
}
