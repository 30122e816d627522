//! How well volumes are, as this host sees them.

use tonic::Status;

use super::Work;
use super::attachment::Attachment;
use super::stage::identifier;
use crate::controller::wrong;
use crate::proto::node_get_storage_health_response::StorageBackendHealth;
use crate::proto::{
    NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse, StorageHealthErrorType, VolumeHealth, VolumeHealthErrorType,
};
use crate::refusal::given;

impl Attachment {
    /// What is wrong with it: the kind, a word, and a sentence.
    fn trouble(&self) -> Option<(VolumeHealthErrorType, &'static str, String)> {
        let (kind, reason, message) = match self.condition.as_str() {
            "connected" | "unknown" => return None,
            "degraded" => (
                VolumeHealthErrorType::Degraded,
                "PathLost",
                "some paths to the node are lost",
            ),
            "reconnecting" | "not_ready" => (
                VolumeHealthErrorType::Inaccessible,
                "Reconnecting",
                "I/O waits for the node",
            ),
            _ => (
                VolumeHealthErrorType::Inaccessible,
                "ConnectionLost",
                "I/O fails",
            ),
        };
        let message = match &self.why {
            Some(why) => format!("{message}: {why}"),
            None => message.to_owned(),
        };
        Some((kind, reason, message))
    }
}

impl Work {
    pub(super) fn health(
        &self,
        request: NodeGetVolumeHealthRequest,
    ) -> Result<NodeGetVolumeHealthResponse, Status> {
        given("volume_id", &request.volume_id)?;
        let volume = identifier(&request.volume_id)?;
        let absent = || Status::not_found(format!("volume {volume} is not attached here"));
        let attachment = self.attachment(volume)?.ok_or_else(absent)?;
        let trouble = attachment.trouble().into_iter();
        let entries = trouble.map(|(kind, reason, message)| wrong(kind, reason, message));
        Ok(NodeGetVolumeHealthResponse {
            volume_health: Some(VolumeHealth {
                volume_id: volume.to_owned(),
                health_statuses: entries.collect(),
            }),
        })
    }

    /// Of all that is attached: nothing is wrong, something is, or everything.
    pub(super) fn storage_health(
        &self,
        _request: NodeGetStorageHealthRequest,
    ) -> Result<NodeGetStorageHealthResponse, Status> {
        let all = self.attachments()?;
        let lost = all.iter().filter_map(Attachment::trouble);
        let lost: Vec<_> = lost.collect();
        let inaccessible = |(kind, ..): &&(VolumeHealthErrorType, &str, String)| {
            *kind == VolumeHealthErrorType::Inaccessible
        };
        let status = match lost.iter().filter(inaccessible).count() {
            count if count > 0 && count == all.len() => StorageHealthErrorType::StorageUnreachable,
            _ => StorageHealthErrorType::StorageDegraded,
        };
        let health = lost
            .first()
            .map(|(_, reason, message)| StorageBackendHealth {
                status: status.into(),
                reason: (*reason).to_owned(),
                message: format!("{} of {} volumes: {message}", lost.len(), all.len()),
                volume_capability: None,
            });
        Ok(NodeGetStorageHealthResponse {
            backend_health: health.into_iter().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_path_is_degraded_and_a_lost_node_inaccessible() {
        let trouble = |condition: &str| {
            let attachment = Attachment {
                name: "v".into(),
                device: "/dev/loop0".into(),
                condition: condition.into(),
                why: Some("why".into()),
            };
            attachment.trouble().map(|(kind, ..)| kind)
        };
        assert_eq!(trouble("connected"), None);
        assert_eq!(trouble("degraded"), Some(VolumeHealthErrorType::Degraded));
        for lost in ["reconnecting", "not_ready", "gave_up", "gone"] {
            assert_eq!(trouble(lost), Some(VolumeHealthErrorType::Inaccessible));
        }
    }
}
