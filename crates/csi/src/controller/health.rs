//! How well volumes are, as their nodes see it.

use api::{ObjectState, Pool, PoolState, Volume};
use tonic::Status;

use super::Work;
use super::list::page;
use crate::proto::volume_health::VolumeHealthEntry;
use crate::proto::{
    ControllerGetVolumeHealthRequest, ControllerGetVolumeHealthResponse,
    ControllerListVolumeHealthRequest, ControllerListVolumeHealthResponse, VolumeHealth,
    VolumeHealthErrorType,
};
use crate::refusal::{given, status};

/// What is wrong with a volume, if something is.
pub(crate) fn wrong(
    kind: VolumeHealthErrorType,
    reason: &str,
    message: String,
) -> VolumeHealthEntry {
    VolumeHealthEntry {
        status: kind.into(),
        reason: reason.to_owned(),
        message,
    }
}

fn health(volume: &Volume, pools: &[Pool]) -> VolumeHealth {
    let mut health_statuses = Vec::new();
    let inaccessible = VolumeHealthErrorType::Inaccessible;
    if volume.state == ObjectState::Offline {
        let why = volume.reason.clone().unwrap_or_default();
        health_statuses.push(wrong(inaccessible, "VolumeOffline", why));
    }
    if volume.lost_blocks > 0 {
        let message = format!(
            "{} blocks of 4 KiB are lost, as the last scrub of its pool found",
            volume.lost_blocks
        );
        let data_loss = VolumeHealthErrorType::DataLoss;
        health_statuses.push(wrong(data_loss, "BlocksLost", message));
    }
    let pool = pools
        .iter()
        .find(|pool| Some(&pool.name) == volume.pool.as_ref());
    match pool.map(|pool| (pool.state, pool)) {
        Some((PoolState::Degraded, pool)) => {
            let lacking = pool.members.iter().filter(|member| !member.active).count();
            let message = format!(
                "pool {} lacks {lacking} of {} drives, and can lose {} more",
                pool.name,
                pool.members.len(),
                pool.drives_to_spare.unwrap_or(0)
            );
            let degraded = VolumeHealthErrorType::Degraded;
            health_statuses.push(wrong(degraded, "PoolDegraded", message));
        }
        Some((PoolState::Offline, pool)) => {
            let why = pool.reason.clone().unwrap_or_default();
            let message = format!("pool {} is offline: {why}", pool.name);
            health_statuses.push(wrong(inaccessible, "PoolOffline", message));
        }
        Some((PoolState::Online, _)) | None => {}
    }
    VolumeHealth {
        volume_id: volume.uuid.to_string(),
        health_statuses,
    }
}

impl Work {
    pub(super) fn health(
        &self,
        request: ControllerGetVolumeHealthRequest,
    ) -> Result<ControllerGetVolumeHealthResponse, Status> {
        let at = self.nodes.volume(given("volume_id", &request.volume_id)?)?;
        let pools = at.client.pools().map_err(|error| status(&error))?;
        Ok(ControllerGetVolumeHealthResponse {
            volume_health: Some(health(&at.found, &pools.items)),
        })
    }

    /// The health of every volume of nodes that answer.
    pub(super) fn list_health(
        &self,
        request: ControllerListVolumeHealthRequest,
    ) -> Result<ControllerListVolumeHealthResponse, Status> {
        let asked = self.nodes.answering(|client| {
            let volumes = client.volumes()?.items;
            Ok((volumes, client.pools()?.items))
        })?;
        let mut found = Vec::new();
        for at in asked {
            let (volumes, pools) = at.found;
            found.extend(volumes.iter().map(|volume| health(volume, &pools)));
        }
        found.retain(|health| health.volume_id != uuid::Uuid::nil().to_string());
        let (entries, next_token) = page(
            found,
            (&request.starting_token, request.max_entries),
            |token| uuid::Uuid::try_parse(token).is_ok(),
            |health| &health.volume_id,
        )?;
        Ok(ControllerListVolumeHealthResponse {
            entries,
            next_token,
        })
    }
}
