//! `/v1/pools`, `/v1/importable-pools`, `/v1/carried-labels` and `/v1/drives/{name}/wipe`

use std::sync::Arc;

use api::{
    AddDriveQuery, CarriedLabel, ErrorBody, ExportQuery, ImportablePool, Job, List, Name,
    PageQuery, Pool, PoolImport, PoolSpec, PoolUsage, WipeQuery,
};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named, NamedDrive, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every pool, by name
#[utoipa::path(get, path = "/v1/pools", operation_id = "list_pools", params(PageQuery),
    responses((status = OK, body = List<Pool>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Pool>> {
    let pools = control.pools().await;
    Ok(Json(List::page(pools, &query, |pool| pool.name.clone())?))
}

/// One pool
#[utoipa::path(get, path = "/v1/pools/{name}", operation_id = "show_pool",
    params(("name" = Name, Path)),
    responses((status = OK, body = Pool), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Pool> {
    Ok(Json(control.pool(&name).await?))
}

/// Where the space of a pool has gone
#[utoipa::path(get, path = "/v1/pools/{name}/usage", operation_id = "show_pool_usage",
    params(("name" = Name, Path)),
    responses((status = OK, body = PoolUsage), (status = "default", body = ErrorBody)))]
pub async fn usage(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<PoolUsage> {
    Ok(Json(control.pool_usage(&name).await?))
}

/// Make a pool out of drives that nothing uses
#[utoipa::path(put, path = "/v1/pools/{name}", operation_id = "create_pool",
    params(("name" = Name, Path)), request_body = PoolSpec,
    responses((status = OK, body = Pool), (status = "default", body = ErrorBody)))]
pub async fn create(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<PoolSpec>,
) -> Answer<Pool> {
    Ok(Json(control.create_pool(&name, spec).await?))
}

/// Destroy a pool that has no volumes and no snapshots
#[utoipa::path(delete, path = "/v1/pools/{name}", operation_id = "destroy_pool",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn destroy(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.destroy_pool(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pools on the node's drives that it does not hold
#[utoipa::path(get, path = "/v1/importable-pools", operation_id = "list_importable_pools",
    params(PageQuery),
    responses((status = OK, body = List<ImportablePool>), (status = "default", body = ErrorBody)))]
pub async fn importable(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<ImportablePool>> {
    let pools = control.importable_pools().await;
    Ok(Json(List::page(pools, &query, |pool| pool.id.clone())?))
}

/// What drives carry that neither a volume nor an open pool uses
#[utoipa::path(get, path = "/v1/carried-labels", operation_id = "list_carried_labels",
    params(PageQuery),
    responses((status = OK, body = List<CarriedLabel>), (status = "default", body = ErrorBody)))]
pub async fn carried(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<CarriedLabel>> {
    let labels = control.carried_labels().await;
    Ok(Json(List::page(labels, &query, |label| {
        label.drive.to_string()
    })?))
}

/// Take a pool that the node's drives carry, and serve its volumes
#[utoipa::path(post, path = "/v1/pools/{name}/import", operation_id = "import_pool",
    params(("name" = Name, Path)), request_body = PoolImport,
    responses((status = OK, body = Pool), (status = "default", body = ErrorBody)))]
pub async fn import(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(how): Body<PoolImport>,
) -> Answer<Pool> {
    Ok(Json(control.import_pool(&name, how).await?))
}

/// Stop serving a pool and let go of it, so that another node may import it
#[utoipa::path(post, path = "/v1/pools/{name}/export", operation_id = "export_pool",
    params(("name" = Name, Path), ExportQuery),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn export(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Parameters(query): Parameters<ExportQuery>,
) -> Gone {
    let force = query.force.unwrap_or_default();
    control.export_pool(&name, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin to check everything in a pool, and to repair what can be
#[utoipa::path(post, path = "/v1/pools/{name}/scrub", operation_id = "scrub_pool",
    params(("name" = Name, Path)),
    responses((status = OK, body = Job), (status = "default", body = ErrorBody)))]
pub async fn scrub(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Job> {
    Ok(Json(control.scrub_pool(&name).await?))
}

/// Stop a scrub; what it has repaired stays so
#[utoipa::path(delete, path = "/v1/pools/{name}/scrub", operation_id = "stop_scrub",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn stop_scrub(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.stop_scrub(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add a drive that nothing uses to a pool
#[utoipa::path(put, path = "/v1/pools/{name}/drives/{drive}", operation_id = "add_pool_drive",
    params(("name" = Name, Path), ("drive" = Name, Path), AddDriveQuery),
    responses((status = OK, body = Pool), (status = "default", body = ErrorBody)))]
pub async fn add_drive(
    State(control): State<Arc<Control>>,
    NamedDrive(name, drive): NamedDrive,
    Parameters(query): Parameters<AddDriveQuery>,
) -> Answer<Pool> {
    let force = query.force.unwrap_or_default();
    Ok(Json(control.add_pool_drive(&name, &drive, force).await?))
}

/// Begin to move everything off a drive of a pool; then it is free
#[utoipa::path(delete, path = "/v1/pools/{name}/drives/{drive}",
    operation_id = "remove_pool_drive",
    params(("name" = Name, Path), ("drive" = Name, Path)),
    responses((status = OK, body = Job), (status = "default", body = ErrorBody)))]
pub async fn remove_drive(
    State(control): State<Arc<Control>>,
    NamedDrive(name, drive): NamedDrive,
) -> Answer<Job> {
    Ok(Json(control.remove_pool_drive(&name, &drive).await?))
}

/// Take a drive of a pool out of use for good; what was on it is rebuilt
#[utoipa::path(post, path = "/v1/pools/{name}/drives/{drive}/fail",
    operation_id = "fail_pool_drive",
    params(("name" = Name, Path), ("drive" = Name, Path)),
    responses((status = OK, body = Pool), (status = "default", body = ErrorBody)))]
pub async fn fail_drive(
    State(control): State<Arc<Control>>,
    NamedDrive(name, drive): NamedDrive,
) -> Answer<Pool> {
    Ok(Json(control.fail_pool_drive(&name, &drive).await?))
}

/// Wipe a drive that nothing uses: the pool that it carries, or whatever else
#[utoipa::path(post, path = "/v1/drives/{name}/wipe", operation_id = "wipe_drive",
    params(("name" = Name, Path), WipeQuery),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn wipe(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Parameters(query): Parameters<WipeQuery>,
) -> Gone {
    let force = query.force.unwrap_or(false);
    control.wipe_drive(&name, force).await?;
    Ok(StatusCode::NO_CONTENT)
}
