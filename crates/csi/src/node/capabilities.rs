//! What a host can do with volumes, and who it is.

use tonic::Status;

use super::Work;
use crate::proto::node_service_capability::{Rpc, Type, rpc};
use crate::proto::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodeServiceCapability,
};

const CAPABILITIES: [rpc::Type; 6] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::GetVolumeHealth,
    rpc::Type::GetStorageHealth,
];

impl Work {
    pub(super) fn capabilities(
        &self,
        _request: NodeGetCapabilitiesRequest,
    ) -> Result<NodeGetCapabilitiesResponse, Status> {
        let capability = |kind: rpc::Type| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: kind.into(),
            })),
        };
        Ok(NodeGetCapabilitiesResponse {
            capabilities: CAPABILITIES.into_iter().map(capability).collect(),
        })
    }

    /// A host is called by its NQN, which nodes let in.
    pub(super) fn information(
        &self,
        _request: NodeGetInfoRequest,
    ) -> Result<NodeGetInfoResponse, Status> {
        Ok(NodeGetInfoResponse {
            node_id: self.settings.host_nqn.as_str().to_owned(),
            max_volumes_per_node: 0,
            accessible_topology: None,
        })
    }
}
