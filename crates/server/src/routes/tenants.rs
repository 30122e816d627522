//! `/v1/tenants`: limits and grants; and limits of volumes

use std::sync::Arc;

use api::{ErrorBody, Grant, Limits, List, Name, PageQuery, Tenant, Volume};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named, NamedPool, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every tenant that has limits, grants, volumes or hosts, by name
#[utoipa::path(get, path = "/v1/tenants", operation_id = "list_tenants", params(PageQuery),
    responses((status = OK, body = List<Tenant>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Tenant>> {
    let tenants = control.tenants().await;
    Ok(Json(List::page(tenants, &query, |tenant| {
        tenant.name.clone()
    })?))
}

/// One tenant
#[utoipa::path(get, path = "/v1/tenants/{name}", operation_id = "show_tenant",
    params(("name" = Name, Path)),
    responses((status = OK, body = Tenant), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Tenant> {
    Ok(Json(control.tenant(&name).await))
}

/// Limit what a tenant's volumes do together, from now on; what is absent is not limited
#[utoipa::path(put, path = "/v1/tenants/{name}/limits", operation_id = "limit_tenant",
    params(("name" = Name, Path)), request_body = Limits,
    responses((status = OK, body = Tenant), (status = "default", body = ErrorBody)))]
pub async fn limit(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(limits): Body<Limits>,
) -> Answer<Tenant> {
    Ok(Json(control.set_tenant_limits(&name, limits).await?))
}

/// Let a tenant's operators make volumes and snapshots in a pool, up to bounds
#[utoipa::path(put, path = "/v1/tenants/{name}/grants/{pool}", operation_id = "grant_pool",
    params(("name" = Name, Path), ("pool" = Name, Path)), request_body = Grant,
    responses((status = OK, body = Tenant), (status = "default", body = ErrorBody)))]
pub async fn grant(
    State(control): State<Arc<Control>>,
    NamedPool(name, pool): NamedPool,
    Body(grant): Body<Grant>,
) -> Answer<Tenant> {
    Ok(Json(control.grant_pool(&name, &pool, grant).await?))
}

/// No longer let a tenant's operators make anything in a pool; what is there stays
#[utoipa::path(delete, path = "/v1/tenants/{name}/grants/{pool}", operation_id = "revoke_pool",
    params(("name" = Name, Path), ("pool" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn revoke(State(control): State<Arc<Control>>, NamedPool(name, pool): NamedPool) -> Gone {
    control.revoke_pool(&name, &pool).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Limit what hosts do to a volume, or promise it a minimum, from now on; what is absent is not
/// limited
#[utoipa::path(put, path = "/v1/volumes/{name}/limits", operation_id = "limit_volume",
    params(("name" = Name, Path)), request_body = Limits,
    responses((status = OK, body = Volume), (status = "default", body = ErrorBody)))]
pub async fn limit_volume(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(limits): Body<Limits>,
) -> Answer<Volume> {
    Ok(Json(control.set_limits(&name, limits).await?))
}
