//! Who this is, and what it can do.

use tonic::{Request, Response, Status};

use crate::DRIVER;
use crate::proto::identity_server::Identity;
use crate::proto::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use crate::proto::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};

/// The identity service, of a process that has a controller or not.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// Volumes are made here.
    pub has_controller: bool,
}

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: DRIVER.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: Default::default(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let service = |kind: service::Type| {
            Type::Service(Service {
                r#type: kind.into(),
            })
        };
        let online = Type::VolumeExpansion(VolumeExpansion {
            r#type: volume_expansion::Type::Online.into(),
        });
        let mut types = vec![online];
        if self.has_controller {
            types.push(service(service::Type::ControllerService));
            types.push(service(service::Type::GroupControllerService));
            types.push(service(service::Type::SnapshotMetadataService));
        }
        let capability = |kind| PluginCapability { r#type: Some(kind) };
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: types.into_iter().map(capability).collect(),
        }))
    }

    /// A process that answers is ready. A storage node that does not answer is no reason to start
    /// the process again.
    async fn probe(
        &self,
        _request: Request<ProbeRequest>,
    ) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
