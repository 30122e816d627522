//! Growth on a host: the device follows its volume by itself, the file system is told.

use std::path::Path;
use std::time::{Duration, Instant};

use tonic::Status;

use super::Work;
use super::file_system::{Kind, content};
use super::stage::identifier;
use super::{block_device, mounts};
use crate::proto::volume_capability::MountVolume;
use crate::proto::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};
use crate::refusal::given;

/// Longer than a host takes to see that its volume has grown.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

impl Work {
    pub(super) fn expand(
        &self,
        request: NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let path = Path::new(given("volume_path", &request.volume_path)?);
        let volume = identifier(&request.volume_id)?;
        let _turn = self.turns.take(volume)?;
        let absent = || {
            let message = format!("volume {volume} is not at {}", path.display());
            Status::not_found(message)
        };
        let attachment = self.attachment(volume)?.ok_or_else(absent)?;
        let device = block_device::required(&attachment.device)?;
        let mounted = mounts::at(path)?;
        let required = request
            .capacity_range
            .map_or(0, |range| range.required_bytes);
        let bytes = grown(device, u64::try_from(required).unwrap_or(0))?;
        let is_device = block_device::number(path) == Some(device);
        match mounted {
            Some(mount) if mount.device == device => {
                let found = content(&attachment.device)?.unwrap_or_default();
                let kind = MountVolume {
                    fs_type: found,
                    ..MountVolume::default()
                };
                Kind::of(&kind, None)?.grow(&attachment.device, path)?;
            }
            _ if is_device => {}
            _ => return Err(absent()),
        }
        Ok(NodeExpandVolumeResponse {
            capacity_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        })
    }
}

/// Waits until the device has `required` bytes; gives how many it has.
fn grown(device: (u32, u32), required: u64) -> Result<u64, Status> {
    let started = Instant::now();
    loop {
        let bytes = block_device::bytes(device)?;
        if bytes >= required {
            return Ok(bytes);
        }
        if started.elapsed() > SEEN_WITHIN {
            return Err(Status::unavailable(format!(
                "the device has {bytes} bytes, not {required}: is its node connected?"
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
