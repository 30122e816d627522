//! Calls of an orchestrator.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use csi::proto::controller_client::ControllerClient;
use csi::proto::group_controller_client::GroupControllerClient;
use csi::proto::node_client::NodeClient;
use csi::proto::snapshot_metadata_client::SnapshotMetadataClient;
use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi::proto::*;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::cluster::{Plugin, nqn};

/// Speaks to a process of the driver.
pub struct Caller {
    runtime: Runtime,
    channel: Channel,
}

/// What a call gives.
pub type Answer<T> = Result<T, Status>;

macro_rules! calls {
    ($client:ident: $($call:ident: $request:ident -> $response:ident,)+) => {
        $(pub fn $call(&self, request: $request) -> Answer<$response> {
            let mut client = $client::new(self.channel.clone());
            let answer = self.runtime.block_on(client.$call(request));
            answer.map(Response::into_inner)
        })+
    };
}

macro_rules! streams {
    ($client:ident: $($call:ident: $request:ident -> $response:ident,)+) => {
        $(pub fn $call(&self, request: $request) -> Answer<Vec<$response>> {
            let mut client = $client::new(self.channel.clone());
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
    pub fn new(plugin: &Plugin) -> Caller {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let endpoint = Endpoint::from_shared(plugin.endpoint()).unwrap();
        let channel = {
            let _entered = runtime.enter();
            endpoint.connect_lazy()
        };
        Caller { runtime, channel }
    }

    calls! { ControllerClient:
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
    calls! { GroupControllerClient:
        create_volume_group_snapshot: CreateVolumeGroupSnapshotRequest
            -> CreateVolumeGroupSnapshotResponse,
        get_volume_group_snapshot: GetVolumeGroupSnapshotRequest
            -> GetVolumeGroupSnapshotResponse,
        delete_volume_group_snapshot: DeleteVolumeGroupSnapshotRequest
            -> DeleteVolumeGroupSnapshotResponse,
    }
    streams! { SnapshotMetadataClient:
        get_metadata_allocated: GetMetadataAllocatedRequest -> GetMetadataAllocatedResponse,
        get_metadata_delta: GetMetadataDeltaRequest -> GetMetadataDeltaResponse,
    }
    calls! { NodeClient:
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

pub fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A use of a volume: with a file system of this kind, or as a raw device.
pub fn capability(mode: Mode, file_system: Option<&str>) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(match file_system {
            None => AccessType::Block(BlockVolume {}),
            Some(kind) => AccessType::Mount(MountVolume {
                fs_type: kind.to_owned(),
                ..MountVolume::default()
            }),
        }),
    }
}

/// A volume on its way to a workload.
#[derive(Clone)]
pub struct Claim {
    pub create: CreateVolumeRequest,
    pub volume: Volume,
    pub published: HashMap<String, String>,
    pub staging: PathBuf,
    pub target: PathBuf,
}

impl Claim {
    /// A volume called `name` of `mib`, which appears below `directory`.
    pub fn new(name: &str, mib: i64, capability: VolumeCapability, directory: &Path) -> Claim {
        Claim {
            create: CreateVolumeRequest {
                name: name.to_owned(),
                capacity_range: Some(CapacityRange {
                    required_bytes: mib << 20,
                    limit_bytes: 0,
                }),
                volume_capabilities: vec![capability],
                ..CreateVolumeRequest::default()
            },
            volume: Volume::default(),
            published: HashMap::new(),
            staging: directory.join(format!("{name}.staging")),
            target: directory.join(format!("{name}.target")),
        }
    }

    pub fn id(&self) -> String {
        self.volume.volume_id.clone()
    }

    fn capability(&self) -> Option<VolumeCapability> {
        self.create.volume_capabilities.first().cloned()
    }

    fn path(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    pub fn created(&mut self, caller: &Caller) -> Answer<()> {
        let made = caller.create_volume(self.create.clone())?;
        self.volume = made.volume.unwrap();
        Ok(())
    }

    pub fn publish_to(&mut self, caller: &Caller, host: &str) -> Answer<()> {
        let published = caller.controller_publish_volume(ControllerPublishVolumeRequest {
            volume_id: self.id(),
            node_id: nqn(host),
            volume_capability: self.capability(),
            volume_context: self.volume.volume_context.clone(),
            ..ControllerPublishVolumeRequest::default()
        })?;
        self.published = published.publish_context;
        Ok(())
    }

    pub fn stage(&self, caller: &Caller) -> Answer<()> {
        let staged = caller.node_stage_volume(NodeStageVolumeRequest {
            volume_id: self.id(),
            publish_context: self.published.clone(),
            staging_target_path: Claim::path(&self.staging),
            volume_capability: self.capability(),
            volume_context: self.volume.volume_context.clone(),
            ..NodeStageVolumeRequest::default()
        });
        staged.map(drop)
    }

    pub fn node_publish(&self, caller: &Caller, readonly: bool) -> Answer<()> {
        let published = caller.node_publish_volume(NodePublishVolumeRequest {
            volume_id: self.id(),
            publish_context: self.published.clone(),
            staging_target_path: Claim::path(&self.staging),
            target_path: Claim::path(&self.target),
            volume_capability: self.capability(),
            readonly,
            ..NodePublishVolumeRequest::default()
        });
        published.map(drop)
    }

    pub fn expand(&self, caller: &Caller, mib: i64) -> Answer<()> {
        let range = Some(CapacityRange {
            required_bytes: mib << 20,
            limit_bytes: 0,
        });
        let grown = caller.controller_expand_volume(ControllerExpandVolumeRequest {
            volume_id: self.id(),
            capacity_range: range,
            volume_capability: self.capability(),
            ..ControllerExpandVolumeRequest::default()
        });
        grown.map(drop)
    }

    pub fn node_expand(&self, caller: &Caller, mib: i64) -> Answer<()> {
        let grown = caller.node_expand_volume(NodeExpandVolumeRequest {
            volume_id: self.id(),
            volume_path: Claim::path(&self.target),
            capacity_range: Some(CapacityRange {
                required_bytes: mib << 20,
                limit_bytes: 0,
            }),
            ..NodeExpandVolumeRequest::default()
        });
        grown.map(drop)
    }

    pub fn snapshot(&self, caller: &Caller, name: &str) -> Answer<Snapshot> {
        let taken = caller.create_snapshot(CreateSnapshotRequest {
            source_volume_id: self.id(),
            name: name.to_owned(),
            ..CreateSnapshotRequest::default()
        })?;
        Ok(taken.snapshot.unwrap())
    }

    pub fn node_unpublish(&self, caller: &Caller) -> Answer<()> {
        let gone = caller.node_unpublish_volume(NodeUnpublishVolumeRequest {
            volume_id: self.id(),
            target_path: Claim::path(&self.target),
        });
        gone.map(drop)
    }

    pub fn unstage(&self, caller: &Caller) -> Answer<()> {
        let gone = caller.node_unstage_volume(NodeUnstageVolumeRequest {
            volume_id: self.id(),
            staging_target_path: Claim::path(&self.staging),
        });
        gone.map(drop)
    }

    pub fn unpublish_from(&self, caller: &Caller, host: &str) -> Answer<()> {
        let gone = caller.controller_unpublish_volume(ControllerUnpublishVolumeRequest {
            volume_id: self.id(),
            node_id: nqn(host),
            ..ControllerUnpublishVolumeRequest::default()
        });
        gone.map(drop)
    }

    pub fn delete(&self, caller: &Caller) -> Answer<()> {
        let gone = caller.delete_volume(DeleteVolumeRequest {
            volume_id: self.id(),
            ..DeleteVolumeRequest::default()
        });
        gone.map(drop)
    }

    /// From its creation to a workload on the host called `host`.
    pub fn bring(&mut self, caller: &Caller, host: &str) -> Answer<()> {
        self.created(caller)?;
        self.publish_to(caller, host)?;
        self.stage(caller)?;
        self.node_publish(caller, false)
    }

    /// And back again.
    pub fn take(&self, caller: &Caller, host: &str) -> Answer<()> {
        self.node_unpublish(caller)?;
        self.unstage(caller)?;
        self.unpublish_from(caller, host)?;
        self.delete(caller)
    }
}
