//! The group controller service: snapshots of several volumes at one instant.

use std::collections::BTreeSet;

use api::{NamedSnapshot, Snapshot, SnapshotGroup};
use tonic::Status;

use crate::calls::calls;
use crate::controller::Work;
use crate::controller::{delete, no_parameters, now, shown};
use crate::lookup::At;
use crate::names::{Taken, group_prefix};
use crate::proto::group_controller_server::GroupController;
use crate::proto::group_controller_service_capability::{Rpc, Type, rpc};
use crate::proto::*;
use crate::refusal::{given, status};

calls! {
    GroupController:
    group_controller_get_capabilities: GroupControllerGetCapabilitiesRequest
        -> GroupControllerGetCapabilitiesResponse = Work::group_capabilities,
    create_volume_group_snapshot: CreateVolumeGroupSnapshotRequest
        -> CreateVolumeGroupSnapshotResponse = Work::create_group,
    delete_volume_group_snapshot: DeleteVolumeGroupSnapshotRequest
        -> DeleteVolumeGroupSnapshotResponse = Work::delete_group,
    get_volume_group_snapshot: GetVolumeGroupSnapshotRequest
        -> GetVolumeGroupSnapshotResponse = Work::group,
}

/// A group of snapshots as the orchestrator sees it; none without members.
fn shown_group(members: &[At<Snapshot>]) -> Option<VolumeGroupSnapshot> {
    let taken = Taken::of(&members.first()?.found.name)?;
    Some(VolumeGroupSnapshot {
        group_snapshot_id: taken.group()?,
        snapshots: members.iter().map(|at| shown(&at.found, &[])).collect(),
        creation_time: Some(taken.time()),
        ready_to_use: true,
    })
}

impl Work {
    fn group_capabilities(
        &self,
        _request: GroupControllerGetCapabilitiesRequest,
    ) -> Result<GroupControllerGetCapabilitiesResponse, Status> {
        let kind = rpc::Type::CreateDeleteGetVolumeGroupSnapshot;
        let capability = GroupControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: kind.into(),
            })),
        };
        Ok(GroupControllerGetCapabilitiesResponse {
            capabilities: vec![capability],
        })
    }

    fn create_group(
        &self,
        request: CreateVolumeGroupSnapshotRequest,
    ) -> Result<CreateVolumeGroupSnapshotResponse, Status> {
        let called = given("name", &request.name)?;
        no_parameters(&request.parameters)?;
        let asked: BTreeSet<&str> = request
            .source_volume_ids
            .iter()
            .map(String::as_str)
            .collect();
        if asked.is_empty() {
            return Err(Status::invalid_argument("source_volume_ids are missing"));
        }
        let _turn = self.turns.take(called)?;
        let prefix = Taken::prefix(called, true);
        let mut members = self.first_group(&prefix)?;
        if members.is_empty() {
            self.take_group(called, &asked)?;
            // Another process may have been as quick: the first group counts for both.
            members = self.first_group(&prefix)?;
        }
        let group = shown_group(&members);
        let group = group.ok_or_else(|| Status::unavailable("the group was deleted meanwhile"))?;
        let of = group.snapshots.iter();
        let of: BTreeSet<&str> = of.map(|one| one.source_volume_id.as_str()).collect();
        if of != asked {
            return Err(Status::already_exists(format!(
                "group snapshot {called:?} exists, and is of other volumes"
            )));
        }
        Ok(CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(group),
        })
    }

    fn take_group(&self, called: &str, asked: &BTreeSet<&str>) -> Result<(), Status> {
        let volumes = asked.iter().map(|id| self.nodes.volume(id));
        let volumes = volumes.collect::<Result<Vec<_>, Status>>()?;
        let Some(first) = volumes.first() else {
            return Ok(());
        };
        let together = |at: &At<api::Volume>| {
            at.client.url() == first.client.url() && at.found.pool == first.found.pool
        };
        if !volumes.iter().all(together) {
            return Err(Status::invalid_argument(
                "the volumes are in several pools; allowed: volumes of one pool, which has one \
                 instant",
            ));
        }
        let seconds = now()?;
        let snapshots = volumes.iter().map(|at| {
            Ok(NamedSnapshot {
                name: Taken::name(called, true, at.found.uuid, seconds)?,
                volume: at.found.name.clone(),
            })
        });
        let snapshots = snapshots.collect::<Result<Vec<_>, Status>>()?;
        let taken = first.client.create_snapshots(&SnapshotGroup { snapshots });
        taken.map(drop).map_err(|error| status(&error))
    }

    /// Members of the oldest group whose names begin so; later ones, which nobody was told of, go.
    fn first_group(&self, prefix: &str) -> Result<Vec<At<Snapshot>>, Status> {
        let found = self.nodes.snapshots_of(prefix)?;
        let seconds = |at: &At<Snapshot>| Taken::of(&at.found.name).map(|taken| taken.seconds);
        let oldest = found.first().and_then(seconds);
        let (first, later): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|at| seconds(at) == oldest);
        later.iter().try_for_each(delete)?;
        Ok(first)
    }

    /// Members of the group with this identifier.
    fn members(&self, identifier: &str) -> Result<Vec<At<Snapshot>>, Status> {
        let Some((prefix, seconds)) = group_prefix(identifier) else {
            return Ok(Vec::new());
        };
        let mut found = self.nodes.snapshots_of(&prefix)?;
        found.retain(|at| Taken::of(&at.found.name).is_some_and(|own| own.seconds == seconds));
        Ok(found)
    }

    fn delete_group(
        &self,
        request: DeleteVolumeGroupSnapshotRequest,
    ) -> Result<DeleteVolumeGroupSnapshotResponse, Status> {
        let identifier = given("group_snapshot_id", &request.group_snapshot_id)?;
        let _turn = self.turns.take(identifier)?;
        check_members(identifier, &request.snapshot_ids)?;
        let members = self.members(identifier)?;
        members.iter().try_for_each(delete)?;
        Ok(DeleteVolumeGroupSnapshotResponse {})
    }

    fn group(
        &self,
        request: GetVolumeGroupSnapshotRequest,
    ) -> Result<GetVolumeGroupSnapshotResponse, Status> {
        let identifier = given("group_snapshot_id", &request.group_snapshot_id)?;
        check_members(identifier, &request.snapshot_ids)?;
        let members = self.members(identifier)?;
        let group = shown_group(&members);
        let absent = || Status::not_found(format!("no node has group snapshot {identifier:?}"));
        Ok(GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(group.ok_or_else(absent)?),
        })
    }
}

/// Whether snapshots that a caller names are, or were, of the group with this identifier.
fn check_members(group: &str, named: &[String]) -> Result<(), Status> {
    let of = |snapshot: &String| Taken::of(snapshot).and_then(|taken| taken.group());
    match named.iter().find(|one| of(one).as_deref() != Some(group)) {
        None => Ok(()),
        Some(other) => Err(Status::invalid_argument(format!(
            "snapshot {other:?} is not of group {group:?}"
        ))),
    }
}
