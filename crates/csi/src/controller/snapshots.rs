//! Snapshots of single volumes.

use std::time::{SystemTime, UNIX_EPOCH};

use api::{Snapshot, SnapshotSpec};
use client::Client;
use tonic::Status;
use uuid::Uuid;

use super::Work;
use super::capacity::signed;
use super::create::in_pool;
use super::list::page;
use crate::lookup::At;
use crate::names::{Taken, snapshot_id, snapshot_of};
use crate::proto;
use crate::proto::list_snapshots_response::Entry;
use crate::proto::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
};
use crate::refusal::{given, if_there, is_absent, status};

/// Seconds since 1970.
pub(crate) fn now() -> Result<u32, Status> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since
        .ok()
        .and_then(|since| u32::try_from(since.as_secs()).ok());
    seconds.ok_or_else(|| Status::internal("the clock is before 1970 or after 2105"))
}

/// No parameter changes what a snapshot is.
pub(crate) fn no_parameters(
    parameters: &std::collections::HashMap<String, String>,
) -> Result<(), Status> {
    let unknown = parameters
        .keys()
        .find(|key| !key.starts_with("csi.storage.k8s.io/"));
    match unknown {
        None => Ok(()),
        Some(key) => Err(Status::invalid_argument(format!(
            "parameter {key:?} of a snapshot class is unknown; allowed: none"
        ))),
    }
}

/// A snapshot as the orchestrator sees it.
pub(crate) fn shown(snapshot: &Snapshot, volumes: &[api::Volume]) -> proto::Snapshot {
    let taken = Taken::of(&snapshot.name);
    let of = |name: &api::Name| volumes.iter().find(|volume| volume.name == *name);
    let by_name = snapshot.volume.as_ref().and_then(of);
    let volume = taken.as_ref().map(|taken| taken.volume);
    let volume = volume.or(by_name.map(|volume| volume.uuid));
    proto::Snapshot {
        size_bytes: signed(snapshot.bytes),
        snapshot_id: snapshot_id(snapshot),
        source_volume_id: volume.unwrap_or_else(Uuid::nil).to_string(),
        creation_time: taken.as_ref().map(Taken::time),
        ready_to_use: true,
        group_snapshot_id: taken.and_then(|taken| taken.group()).unwrap_or_default(),
        accessible_topology: Vec::new(),
    }
}

impl Work {
    pub(super) fn create_snapshot(
        &self,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        let called = given("name", &request.name)?;
        let identifier = given("source_volume_id", &request.source_volume_id)?;
        no_parameters(&request.parameters)?;
        let _turn = self.turns.take(called)?;
        let prefix = Taken::prefix(called, false);
        let taken = match self.first_of(&prefix)? {
            Some(at) => at,
            None => {
                let volume = self.nodes.volume(identifier)?;
                let name = Taken::name(called, false, volume.found.uuid, now()?)?;
                let spec = SnapshotSpec {
                    volume: volume.found.name,
                    copy_of: None,
                };
                let taken = volume.client.create_snapshot(&name, &spec);
                taken.map_err(|error| status(&error))?;
                // Another process may have been as quick: the first one counts for both.
                let first = self.first_of(&prefix)?;
                first.ok_or_else(|| Status::unavailable("the snapshot was deleted meanwhile"))?
            }
        };
        let shown = shown(&taken.found, &[]);
        if shown.source_volume_id != identifier {
            return Err(Status::already_exists(format!(
                "snapshot {called:?} exists, and is of volume {}",
                shown.source_volume_id
            )));
        }
        Ok(CreateSnapshotResponse {
            snapshot: Some(shown),
        })
    }

    /// The oldest snapshot whose name begins so; later ones, which nobody was told of, go.
    fn first_of(&self, prefix: &str) -> Result<Option<At<Snapshot>>, Status> {
        let mut found = self.nodes.snapshots_of(prefix)?.into_iter();
        let first = found.next();
        for later in found {
            delete(&later)?;
        }
        Ok(first)
    }

    pub(super) fn delete_snapshot(
        &self,
        request: DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        let identifier = given("snapshot_id", &request.snapshot_id)?;
        let _turn = self.turns.take(identifier)?;
        if let Some(at) = if_there(self.nodes.snapshot(identifier))? {
            delete(&at)?;
        }
        Ok(DeleteSnapshotResponse {})
    }

    pub(super) fn snapshot(
        &self,
        request: GetSnapshotRequest,
    ) -> Result<GetSnapshotResponse, Status> {
        let identifier = given("snapshot_id", &request.snapshot_id)?;
        let at = self.nodes.snapshot(identifier)?;
        Ok(GetSnapshotResponse {
            snapshot: Some(shown(&at.found, &volumes(&at)?)),
        })
    }

    pub(super) fn list_snapshots(
        &self,
        request: ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse, Status> {
        let mut found = Vec::new();
        if request.snapshot_id.is_empty() {
            let asked = self.nodes.answering(|client| {
                let volumes = client.volumes()?.items;
                Ok((client.snapshots()?.items, volumes))
            })?;
            for at in asked {
                let (snapshots, volumes) = at.found;
                found.extend(snapshots.iter().map(|one| shown(one, &volumes)));
            }
        } else if let Some(at) = if_there(self.nodes.snapshot(&request.snapshot_id))? {
            found.push(shown(&at.found, &volumes(&at)?));
        }
        let of = request.source_volume_id.as_str();
        found.retain(|snapshot| of.is_empty() || snapshot.source_volume_id == of);
        let is_token = |token: &str| snapshot_of(token).is_some();
        let (found, next_token) = page(
            found,
            (&request.starting_token, request.max_entries),
            is_token,
            |snapshot| &snapshot.snapshot_id,
        )?;
        let entry = |snapshot| Entry {
            snapshot: Some(snapshot),
        };
        Ok(ListSnapshotsResponse {
            entries: found.into_iter().map(entry).collect(),
            next_token,
        })
    }
}

/// Volumes of the node, where a snapshot does not say by itself what it is of.
pub(crate) fn volumes(at: &At<Snapshot>) -> Result<Vec<api::Volume>, Status> {
    match Taken::of(&at.found.name) {
        Some(_) => Ok(Vec::new()),
        None => {
            let all = Client::volumes(&at.client);
            Ok(all.map_err(|error| status(&error))?.items)
        }
    }
}

/// Deletes a snapshot that may be gone.
pub(crate) fn delete(at: &At<Snapshot>) -> Result<(), Status> {
    match at.client.delete_snapshot(&in_pool(&at.found)?) {
        Err(error) if !is_absent(&error) => Err(status(&error)),
        _ => Ok(()),
    }
}
