//! `/v1/volumes`

use std::sync::Arc;

use api::{
    Caller, DeleteQuery, ErrorBody, List, Name, PageQuery, Volume, VolumeProtect, VolumeSpec,
};
use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named, NamedHost, Parameters};
use super::{Answer, Gone, owner};
use crate::control::{Control, not_found};
use crate::state::Kind;

/// Every volume, by name
#[utoipa::path(get, path = "/v1/volumes", operation_id = "list_volumes", params(PageQuery),
    responses((status = OK, body = List<Volume>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Volume>> {
    Ok(Json(control.volumes_for(&caller, &query).await?))
}

/// One volume
#[utoipa::path(get, path = "/v1/volumes/{name}", operation_id = "show_volume",
    params(("name" = Name, Path)),
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Volume> {
    Ok(Json(control.volume(&name).await?))
}

/// Create a volume and serve it
#[utoipa::path(put, path = "/v1/volumes/{name}", operation_id = "create_volume",
    params(("name" = Name, Path)), request_body = VolumeSpec,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn create(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Body(mut spec): Body<VolumeSpec>,
) -> Answer<Volume> {
    spec.tenant = owner(&caller, spec.tenant)?;
    let asker = caller.tenant.as_ref();
    Ok(Json(control.create_volume(asker, &name, spec).await?))
}

/// Stop serving a volume and forget it
#[utoipa::path(delete, path = "/v1/volumes/{name}", operation_id = "delete_volume",
    params(("name" = Name, Path), DeleteQuery),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn delete(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Parameters(query): Parameters<DeleteQuery>,
) -> Gone {
    let force = query.force.unwrap_or_default();
    let asker = caller.tenant.as_ref();
    control.delete_volume(asker, &name, force).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Write protect a volume against every host, or lift that; connected hosts are told
#[utoipa::path(post, path = "/v1/volumes/{name}/protect", operation_id = "protect_volume",
    params(("name" = Name, Path)), request_body = VolumeProtect,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn protect(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(to): Body<VolumeProtect>,
) -> Answer<Volume> {
    Ok(Json(control.protect_volume(&name, to).await?))
}

/// Let a host, or `any`, see the volume
#[utoipa::path(put, path = "/v1/volumes/{name}/hosts/{host}", operation_id = "allow_host",
    params(("name" = Name, Path), ("host" = Name, Path)),
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn allow(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    NamedHost(name, host): NamedHost,
) -> Answer<Volume> {
    if !control.is_visible(&caller, Kind::Host, &host).await {
        return Err(not_found("host", &host).into());
    }
    Ok(Json(control.allow_host(&name, &host).await?))
}

/// Hide the volume from a host, or no longer show it to `any`
#[utoipa::path(delete, path = "/v1/volumes/{name}/hosts/{host}", operation_id = "deny_host",
    params(("name" = Name, Path), ("host" = Name, Path)),
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn deny(
    State(control): State<Arc<Control>>,
    NamedHost(name, host): NamedHost,
) -> Answer<Volume> {
    Ok(Json(control.deny_host(&name, &host).await?))
}
