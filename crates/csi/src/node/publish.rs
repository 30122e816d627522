//! Publishing on a host: a staged volume appears where a workload looks for it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use tonic::Status;

use super::Work;
use super::stage::identifier;
use super::{block_device, mounts};
use crate::access_mode::Use;
use crate::proto::volume_capability::access_mode::Mode;
use crate::proto::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};
use crate::refusal::given;

/// What a kubelet says of a volume that a pod has inline (its CSI documentation).
const INLINE: &str = "csi.storage.k8s.io/ephemeral";

/// Refuses a volume that a pod has inline: to make it, every host would need a login of every node.
fn not_inline(context: &HashMap<String, String>) -> Result<(), Status> {
    match context.get(INLINE).map(String::as_str) {
        Some("true") => Err(Status::invalid_argument(
            "the volume is inline in its pod, and hosts make no volumes; allowed: a generic \
             ephemeral volume (ephemeral.volumeClaimTemplate), or a claim",
        )),
        _ => Ok(()),
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Status {
    move |error| Status::internal(format!("{}: {error}", path.display()))
}

impl Work {
    pub(super) fn publish(
        &self,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let target = Path::new(given("target_path", &request.target_path)?);
        let asked = Use::of(request.volume_capability.as_ref())?;
        not_inline(&request.volume_context)?;
        let staging = match request.staging_target_path.as_str() {
            "" => {
                let message = "staging_target_path is missing: stage the volume first";
                return Err(Status::failed_precondition(message));
            }
            staging => Path::new(staging),
        };
        let volume = identifier(&request.volume_id)?;
        let _turn = self.turns.take(volume)?;
        let not_staged = || Status::failed_precondition("the volume is not staged");
        let attachment = self.attachment(volume)?.ok_or_else(not_staged)?;
        let device = block_device::required(&attachment.device)?;
        if asked.mode == Mode::SingleNodeSingleWriter
            && let Some(other) = mounts::elsewhere(device, &[staging, target])?
        {
            return Err(Status::failed_precondition(format!(
                "the volume is published at {}, and its access mode allows one place",
                other.display()
            )));
        }
        let read_only = request.readonly || asked.is_read_only();
        if asked.mount.is_none() {
            if read_only {
                let message = "a raw block volume cannot be protected from writes; allowed: \
                               readonly false";
                return Err(Status::invalid_argument(message));
            }
            show_device(&attachment.device, device, target)?;
        } else {
            let staged = mounts::at(staging)?.filter(|mount| mount.device == device);
            staged.ok_or_else(not_staged)?;
            show_files(staging, device, target, read_only)?;
        }
        Ok(NodePublishVolumeResponse {})
    }

    pub(super) fn unpublish(
        &self,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let target = Path::new(given("target_path", &request.target_path)?);
        let volume = identifier(&request.volume_id)?;
        let _turn = self.turns.take(volume)?;
        mounts::unmount(target)?;
        let removed = match fs::symlink_metadata(target) {
            // Empty, or it is not ours.
            Ok(found) if found.is_dir() => fs::remove_dir(target),
            Ok(_) => fs::remove_file(target),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(target)(error)),
            _ => Ok(NodeUnpublishVolumeResponse {}),
        }
    }
}

/// Has the files that are mounted at `staging` appear at `target` as well.
fn show_files(
    staging: &Path,
    device: (u32, u32),
    target: &Path,
    read_only: bool,
) -> Result<(), Status> {
    let there = match mounts::at(target)? {
        Some(there) if there.device != device => return Err(occupied(target)),
        Some(there) => there,
        None => {
            fs::create_dir_all(target).map_err(failed(target))?;
            mounts::bind(staging, target)?;
            let made = mounts::at(target)?;
            made.ok_or_else(|| Status::internal(format!("{} is not mounted", target.display())))?
        }
    };
    match read_only && !there.read_only {
        true => mounts::protect(target),
        false => Ok(()),
    }
}

/// Has the device appear as the file `target`.
fn show_device(path: &Path, device: (u32, u32), target: &Path) -> Result<(), Status> {
    if mounts::at(target)?.is_some() {
        return match block_device::number(target) == Some(device) {
            true => Ok(()),
            false => Err(occupied(target)),
        };
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(failed(parent))?;
    }
    let file = File::options().create(true).append(true).open(target);
    file.map_err(failed(target))?;
    mounts::bind(path, target)
}

fn occupied(target: &Path) -> Status {
    let message = format!("something else is mounted at {}", target.display());
    Status::already_exists(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_is_inline_is_refused_with_what_is_there_instead() {
        let context = |value: &str| HashMap::from([(INLINE.to_owned(), value.to_owned())]);
        let refused = not_inline(&context("true")).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(
            refused.message().contains("volumeClaimTemplate"),
            "{refused}"
        );
        assert!(not_inline(&context("false")).is_ok());
        assert!(not_inline(&HashMap::new()).is_ok());
    }
}
