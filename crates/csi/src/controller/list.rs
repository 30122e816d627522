//! Volumes as they are, one or all, with who has them.

use api::{Host, List, Volume};
use client::{Client, ClientError};
use tonic::Status;
use uuid::Uuid;

use super::Work;
use super::capacity::signed;
use crate::proto;
use crate::proto::list_volumes_response::{Entry, VolumeStatus};
use crate::proto::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ListVolumesRequest,
    ListVolumesResponse, controller_get_volume_response,
};
use crate::refusal::{given, status};

/// Part of a list, by identifier: what comes after a token, and the token of what comes next.
///
/// # Errors
/// `ABORTED` for a token that was never given, `INVALID_ARGUMENT` for fewer entries than none.
pub(crate) fn page<T>(
    mut items: Vec<T>,
    (token, entries): (&str, i32),
    is_token: impl Fn(&str) -> bool,
    key: impl Fn(&T) -> &String,
) -> Result<(Vec<T>, String), Status> {
    if !token.is_empty() && !is_token(token) {
        let token = token.chars().take(64).collect::<String>();
        let message = format!("starting_token {token:?} is none that was given: begin anew");
        return Err(Status::aborted(message));
    }
    let most = usize::try_from(entries)
        .map_err(|_| Status::invalid_argument(format!("max_entries {entries} is below zero")))?;
    items.sort_unstable_by(|one, other| key(one).cmp(key(other)));
    items.retain(|item| key(item).as_str() > token);
    let more = most > 0 && items.len() > most;
    if more {
        items.truncate(most);
    }
    let last = items.last().filter(|_| more);
    let next = last.map_or(String::new(), |last| key(last).clone());
    Ok((items, next))
}

/// A volume, with the hosts that have it, by their NQNs.
pub(super) fn shown(volume: &Volume, hosts: &[Host]) -> (proto::Volume, Vec<String>) {
    let shown = proto::Volume {
        capacity_bytes: signed(volume.capacity_bytes),
        volume_id: volume.uuid.to_string(),
        ..proto::Volume::default()
    };
    let nqn = |name: &api::Name| {
        let host = hosts.iter().find(|host| host.name == *name);
        host.map(|host| host.nqn.clone())
    };
    (shown, volume.hosts.iter().filter_map(nqn).collect())
}

/// Every volume of a node that has an identity.
fn identified(client: &Client) -> Result<Vec<Volume>, ClientError> {
    let List { mut items, .. } = client.volumes()?;
    items.retain(|volume| volume.uuid != Uuid::nil());
    Ok(items)
}

impl Work {
    pub(super) fn list_volumes(
        &self,
        request: ListVolumesRequest,
    ) -> Result<ListVolumesResponse, Status> {
        // Who is told that a volume is published nowhere detaches it, so all nodes have to answer.
        let asked = self.nodes.all(|client| {
            let volumes = identified(client)?;
            Ok((volumes, client.hosts()?.items))
        })?;
        let mut found = Vec::new();
        for at in asked {
            let (volumes, hosts) = at.found;
            found.extend(volumes.iter().map(|volume| shown(volume, &hosts)));
        }
        let (found, next_token) = page(
            found,
            (&request.starting_token, request.max_entries),
            |token| Uuid::try_parse(token).is_ok(),
            |(volume, _)| &volume.volume_id,
        )?;
        let entry = |(volume, published_node_ids)| Entry {
            volume: Some(volume),
            status: Some(VolumeStatus { published_node_ids }),
        };
        Ok(ListVolumesResponse {
            entries: found.into_iter().map(entry).collect(),
            next_token,
        })
    }

    pub(super) fn volume(
        &self,
        request: ControllerGetVolumeRequest,
    ) -> Result<ControllerGetVolumeResponse, Status> {
        let at = self.nodes.volume(given("volume_id", &request.volume_id)?)?;
        let hosts = at.client.hosts().map_err(|error| status(&error))?;
        let (volume, published_node_ids) = shown(&at.found, &hosts.items);
        Ok(ControllerGetVolumeResponse {
            volume: Some(volume),
            status: Some(controller_get_volume_response::VolumeStatus { published_node_ids }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_one_another_by_identifier() {
        let items = || ["c", "a", "b"].map(str::to_owned).to_vec();
        let ask = |token: &str, most| page(items(), (token, most), |t| t.len() == 1, |item| item);
        assert_eq!(ask("", 0).unwrap().0, ["a", "b", "c"]);
        assert_eq!(
            ask("", 2).unwrap(),
            (vec!["a".into(), "b".into()], "b".into())
        );
        assert_eq!(ask("b", 2).unwrap(), (vec!["c".into()], String::new()));
        assert_eq!(ask("bad", 1).unwrap_err().code(), tonic::Code::Aborted);
        assert_eq!(
            ask("", -1).unwrap_err().code(),
            tonic::Code::InvalidArgument
        );
    }
}
