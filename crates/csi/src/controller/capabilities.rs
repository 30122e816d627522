//! What the controller can do, and what a volume can be used as.

use tonic::Status;

use super::Work;
use crate::access_mode::Use;
use crate::parameters::{Changes, Parameters};
use crate::proto::controller_service_capability::{Rpc, Type, rpc};
use crate::proto::validate_volume_capabilities_response::Confirmed;
use crate::proto::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerServiceCapability, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse,
};
use crate::refusal::given;

const CAPABILITIES: [rpc::Type; 15] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::PublishUnpublishVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::CloneVolume,
    rpc::Type::ExpandVolume,
    rpc::Type::ListVolumesPublishedNodes,
    rpc::Type::GetVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::ModifyVolume,
    rpc::Type::GetSnapshot,
    rpc::Type::GetVolumeHealth,
    rpc::Type::ListVolumeHealth,
];

impl Work {
    pub(super) fn capabilities(
        &self,
        _request: ControllerGetCapabilitiesRequest,
    ) -> Result<ControllerGetCapabilitiesResponse, Status> {
        let capability = |kind: rpc::Type| ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: kind.into(),
            })),
        };
        Ok(ControllerGetCapabilitiesResponse {
            capabilities: CAPABILITIES.into_iter().map(capability).collect(),
        })
    }

    pub(super) fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        let identifier = given("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities are missing"));
        }
        self.nodes.volume(identifier)?;
        let uses = Use::all(&request.volume_capabilities).map(drop);
        let parameters = Parameters::read(&request.parameters).map(drop);
        let changes = Changes::read(&request.mutable_parameters).map(drop);
        let valid = uses.and(parameters).and(changes);
        let message = match &valid {
            Ok(()) => String::new(),
            Err(refused) => refused.message().to_owned(),
        };
        let confirmed = valid.is_ok().then_some(Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        });
        Ok(ValidateVolumeCapabilitiesResponse { confirmed, message })
    }
}
