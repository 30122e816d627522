//! `/v1/snapshots`, and what volumes of pools can do that others cannot

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use api::{
    Caller, ErrorBody, Extents, ExtentsQuery, List, Name, PageQuery, Snapshot, SnapshotGroup,
    SnapshotSpec, Volume, VolumeRename, VolumeReserve, VolumeResize, VolumeRollback,
};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::extract::{Body, Named, NamedInPool, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every snapshot, by name
#[utoipa::path(get, path = "/v1/snapshots", operation_id = "list_snapshots", params(PageQuery),
    responses((status = OK, body = List<Snapshot>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Snapshot>> {
    let snapshots = control.snapshots(caller.tenant.as_ref()).await?;
    Ok(Json(List::page(snapshots, &query, Place::of)?))
}

/// Where a snapshot stands in the list: behind others of its name that are of earlier pools.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    name: String,
    pool: Option<Name>,
}

impl Place {
    fn of(snapshot: &Snapshot) -> Place {
        Place {
            name: snapshot.name.clone(),
            pool: Some(snapshot.pool.clone()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pool {
            Some(pool) => write!(formatter, "{pool}/{}", self.name),
            None => self.name.fmt(formatter),
        }
    }
}

impl FromStr for Place {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Place, Infallible> {
        let (pool, name) = text.split_once('/').unwrap_or(("", text));
        Ok(Place {
            name: name.to_owned(),
            pool: pool.parse().ok(),
        })
    }
}

/// Take snapshots of several volumes of one pool at one instant
#[utoipa::path(post, path = "/v1/snapshots", operation_id = "create_snapshot_group",
    request_body = SnapshotGroup,
    responses((status = OK, body = List<Snapshot>), (status = "default", body = ErrorBody)))]
pub async fn create_group(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Body(group): Body<SnapshotGroup>,
) -> Answer<List<Snapshot>> {
    Ok(Json(List {
        items: control
            .create_snapshots(caller.tenant.as_ref(), group)
            .await?,
        next: None,
    }))
}

/// One snapshot
#[utoipa::path(get, path = "/v1/snapshots/{name}", operation_id = "show_snapshot",
    params(("name" = Name, Path)),
    responses((status = OK, body = Snapshot), (status = "default", body = ErrorBody)))]
pub async fn show(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
) -> Answer<Snapshot> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.snapshot(asker, &name.into()).await?))
}

/// One snapshot of a pool
#[utoipa::path(get, path = "/v1/pools/{pool}/snapshots/{name}",
    operation_id = "show_pool_snapshot", params(("pool" = Name, Path), ("name" = Name, Path)),
    responses((status = OK, body = Snapshot), (status = "default", body = ErrorBody)))]
pub async fn show_in_pool(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    NamedInPool(name): NamedInPool,
) -> Answer<Snapshot> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.snapshot(asker, &name).await?))
}

/// The bytes of a snapshot that hold something, or may differ from another one's
#[utoipa::path(get, path = "/v1/snapshots/{name}/extents",
    operation_id = "list_snapshot_extents", params(("name" = Name, Path), ExtentsQuery),
    responses((status = OK, body = Extents), (status = "default", body = ErrorBody)))]
pub async fn extents(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Parameters(query): Parameters<ExtentsQuery>,
) -> Answer<Extents> {
    let asker = caller.tenant.as_ref();
    let name = name.into();
    Ok(Json(control.snapshot_extents(asker, &name, &query).await?))
}

/// The bytes of a snapshot of a pool that hold something, or may differ from another one's
#[utoipa::path(get, path = "/v1/pools/{pool}/snapshots/{name}/extents",
    operation_id = "list_pool_snapshot_extents",
    params(("pool" = Name, Path), ("name" = Name, Path), ExtentsQuery),
    responses((status = OK, body = Extents), (status = "default", body = ErrorBody)))]
pub async fn extents_in_pool(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    NamedInPool(name): NamedInPool,
    Parameters(query): Parameters<ExtentsQuery>,
) -> Answer<Extents> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.snapshot_extents(asker, &name, &query).await?))
}

/// Take a snapshot of a volume of a pool
#[utoipa::path(put, path = "/v1/snapshots/{name}", operation_id = "create_snapshot",
    params(("name" = Name, Path)), request_body = SnapshotSpec,
    responses((status = OK, body = Snapshot), (status = "default", body = ErrorBody)))]
pub async fn create(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Body(spec): Body<SnapshotSpec>,
) -> Answer<Snapshot> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.create_snapshot(asker, &name, spec).await?))
}

/// Delete a snapshot; clones of it stay
#[utoipa::path(delete, path = "/v1/snapshots/{name}", operation_id = "delete_snapshot",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn delete(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
) -> Gone {
    let asker = caller.tenant.as_ref();
    control.delete_snapshot(asker, &name.into()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete a snapshot of a pool; clones of it stay
#[utoipa::path(delete, path = "/v1/pools/{pool}/snapshots/{name}",
    operation_id = "delete_pool_snapshot", params(("pool" = Name, Path), ("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn delete_in_pool(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    NamedInPool(name): NamedInPool,
) -> Gone {
    let asker = caller.tenant.as_ref();
    control.delete_snapshot(asker, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a volume of a pool another size; connected hosts see it
#[utoipa::path(post, path = "/v1/volumes/{name}/resize", operation_id = "resize_volume",
    params(("name" = Name, Path)), request_body = VolumeResize,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn resize(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Body(to): Body<VolumeResize>,
) -> Answer<Volume> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.resize_volume(asker, &name, to).await?))
}

/// Keep space for all of a volume of a pool, or no longer; hosts do not notice
#[utoipa::path(post, path = "/v1/volumes/{name}/reserve", operation_id = "reserve_volume",
    params(("name" = Name, Path)), request_body = VolumeReserve,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn reserve(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(to): Body<VolumeReserve>,
) -> Answer<Volume> {
    Ok(Json(control.reserve_volume(&name, to).await?))
}

/// Give a volume of a pool another name; hosts do not notice
#[utoipa::path(post, path = "/v1/volumes/{name}/rename", operation_id = "rename_volume",
    params(("name" = Name, Path)), request_body = VolumeRename,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn rename(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(to): Body<VolumeRename>,
) -> Answer<Volume> {
    Ok(Json(control.rename_volume(&name, to).await?))
}

/// Make a volume of a pool what a snapshot is; what was written since is lost
#[utoipa::path(post, path = "/v1/volumes/{name}/rollback", operation_id = "rollback_volume",
    params(("name" = Name, Path)), request_body = VolumeRollback,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn rollback(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Body(to): Body<VolumeRollback>,
) -> Answer<Volume> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.rollback_volume(asker, &name, to).await?))
}

/// Make a replica a volume as any other, which hosts may be allowed on; its original's node writes
/// it no more
#[utoipa::path(post, path = "/v1/volumes/{name}/promote", operation_id = "promote_volume",
    params(("name" = Name, Path)),
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn promote(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Volume> {
    Ok(Json(control.promote_volume(&name).await?))
}
