//! How much of a volume is used.

use std::path::Path;

use rustix::fs::statvfs;
use tonic::Status;

use super::Work;
use super::stage::identifier;
use super::{block_device, mounts};
use crate::proto::volume_usage::Unit;
use crate::proto::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage};
use crate::refusal::given;

fn usage(unit: Unit, total: u64, free: u64, available: u64) -> VolumeUsage {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    VolumeUsage {
        available: signed(available),
        total: signed(total),
        used: signed(total.saturating_sub(free)),
        unit: unit.into(),
    }
}

impl Work {
    pub(super) fn stats(
        &self,
        request: NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let path = Path::new(given("volume_path", &request.volume_path)?);
        let volume = identifier(&request.volume_id)?;
        let absent = || {
            let message = format!("volume {volume} is not at {}", path.display());
            Status::not_found(message)
        };
        let attachment = self.attachment(volume)?.ok_or_else(absent)?;
        let device = block_device::number(&attachment.device).ok_or_else(absent)?;
        let mounted = mounts::at(path)?.ok_or_else(absent)?;
        if block_device::number(path) == Some(device) {
            let bytes = block_device::bytes(device)?;
            // Nobody but its user knows what of a raw device is in use.
            let usage = vec![usage(Unit::Bytes, bytes, 0, 0)];
            return Ok(NodeGetVolumeStatsResponse { usage });
        }
        if mounted.device != device {
            return Err(absent());
        }
        let found = statvfs(path);
        let found =
            found.map_err(|error| Status::internal(format!("{}: {error}", path.display())))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let [total, free, available] = [found.f_blocks, found.f_bfree, found.f_bavail].map(bytes);
        Ok(NodeGetVolumeStatsResponse {
            usage: vec![
                usage(Unit::Bytes, total, free, available),
                usage(Unit::Inodes, found.f_files, found.f_ffree, found.f_favail),
            ],
        })
    }
}
