//! Staging: a published volume becomes a block device of this host, and is mounted once.

use std::fs;
use std::path::Path;

use tonic::Status;
use uuid::Uuid;

use super::Work;
use super::connection::Connection;
use super::file_system::Kind;
use super::{block_device, mounts};
use crate::access_mode::Use;
use crate::proto::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse,
};
use crate::refusal::given;

/// A volume's identifier, which is part of file names here.
pub(super) fn identifier(field: &str) -> Result<&str, Status> {
    let given = given("volume_id", field)?;
    match Uuid::try_parse(given) {
        Ok(_) => Ok(given),
        Err(_) => Err(Status::not_found(format!("no volume is called {given:?}"))),
    }
}

impl Work {
    pub(super) fn stage(
        &self,
        request: NodeStageVolumeRequest,
    ) -> Result<NodeStageVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let staging = Path::new(given("staging_target_path", &request.staging_target_path)?);
        let asked = Use::of(request.volume_capability.as_ref())?;
        let volume = identifier(&request.volume_id)?;
        let connection = Connection::of(&request.publish_context, &request.volume_context)?;
        let class = request.volume_context.get("fsType");
        let kind = asked
            .mount
            .as_ref()
            .map(|mount| Kind::of(mount, class))
            .transpose()?;
        let _turn = self.turns.take(volume)?;
        let device = self.attach(volume, &connection)?;
        let (Some(kind), Some(mount)) = (kind, &asked.mount) else {
            return Ok(NodeStageVolumeResponse {});
        };
        if let Some(there) = mounts::at(staging)? {
            return match there.device == block_device::required(&device)? {
                true => Ok(NodeStageVolumeResponse {}),
                false => Err(Status::already_exists(format!(
                    "something else is mounted at {}",
                    staging.display()
                ))),
            };
        }
        let read_only = asked.is_read_only();
        kind.prepare(&device, read_only)?;
        let made = fs::create_dir_all(staging);
        made.map_err(|error| Status::internal(format!("{}: {error}", staging.display())))?;
        kind.mount(&device, staging, &mount.mount_flags, read_only)?;
        if !read_only {
            // A clone may be larger than what it was cloned from.
            kind.grow(&device, staging)?;
        }
        Ok(NodeStageVolumeResponse {})
    }

    pub(super) fn unstage(
        &self,
        request: NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let staging = Path::new(given("staging_target_path", &request.staging_target_path)?);
        let volume = identifier(&request.volume_id)?;
        let _turn = self.turns.take(volume)?;
        mounts::unmount(staging)?;
        self.detach(volume)?;
        Ok(NodeUnstageVolumeResponse {})
    }
}
