//! `/v1/drives`

use std::sync::Arc;

use api::{Drive, DriveSpec, ErrorBody, List, Name, PageQuery};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named, NamedHost, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every drive, by name
#[utoipa::path(get, path = "/v1/drives", operation_id = "list_drives", params(PageQuery),
    responses((status = OK, body = List<Drive>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Drive>> {
    let drives = control.drives().await;
    Ok(Json(List::page(drives, &query, |drive| {
        drive.name.clone()
    })?))
}

/// One drive
#[utoipa::path(get, path = "/v1/drives/{name}", operation_id = "show_drive",
    params(("name" = Name, Path)),
    responses((status = OK, body = Drive), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Drive> {
    Ok(Json(control.drive(&name).await?))
}

/// Add a drive, or try an offline one again
#[utoipa::path(put, path = "/v1/drives/{name}", operation_id = "add_drive",
    params(("name" = Name, Path)), request_body = DriveSpec,
    responses((status = OK, body = Drive), (status = "default", body = ErrorBody)))]
pub async fn add(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<DriveSpec>,
) -> Answer<Drive> {
    Ok(Json(control.add_drive(&name, spec).await?))
}

/// Close and forget a drive that no volume uses; its contents stay
#[utoipa::path(delete, path = "/v1/drives/{name}", operation_id = "remove_drive",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn remove(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.remove_drive(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Let a host manage the drive's namespaces over NVMe
#[utoipa::path(put, path = "/v1/drives/{name}/administrators/{host}",
    operation_id = "grant_administration",
    params(("name" = Name, Path), ("host" = Name, Path)),
    responses((status = OK, body = Drive), (status = "default", body = ErrorBody)))]
pub async fn grant(
    State(control): State<Arc<Control>>,
    NamedHost(name, host): NamedHost,
) -> Answer<Drive> {
    Ok(Json(control.grant(&name, &host).await?))
}

/// No longer let a host manage the drive's namespaces; what it attached is detached
#[utoipa::path(delete, path = "/v1/drives/{name}/administrators/{host}",
    operation_id = "revoke_administration",
    params(("name" = Name, Path), ("host" = Name, Path)),
    responses((status = OK, body = Drive), (status = "default", body = ErrorBody)))]
pub async fn revoke(
    State(control): State<Arc<Control>>,
    NamedHost(name, host): NamedHost,
) -> Answer<Drive> {
    Ok(Json(control.revoke(&name, &host).await?))
}
