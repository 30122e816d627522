//! `/v1/hosts`

use std::sync::Arc;

use api::{Caller, ErrorBody, Host, HostConnections, HostSpec, List, Name, PageQuery};
use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use node::Asker;

use super::extract::{Body, Named, Parameters};
use super::{Answer, Gone, owner};
use crate::control::Control;

/// Every host, by name
#[utoipa::path(get, path = "/v1/hosts", operation_id = "list_hosts", params(PageQuery),
    responses((status = OK, body = List<Host>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Host>> {
    let mut hosts = control.hosts().await;
    hosts.retain(|host| caller.sees(host.tenant.as_ref()));
    Ok(Json(List::page(hosts, &query, |host| host.name.clone())?))
}

/// One host
#[utoipa::path(get, path = "/v1/hosts/{name}", operation_id = "show_host",
    params(("name" = Name, Path)),
    responses((status = OK, body = Host), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Host> {
    Ok(Json(control.host(&name).await?))
}

/// How a host is connected, and how it connects
#[utoipa::path(get, path = "/v1/hosts/{name}/connections", operation_id = "show_host_connections",
    params(("name" = Name, Path)),
    responses((status = OK, body = HostConnections), (status = "default", body = ErrorBody)))]
pub async fn connections(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Extension(asker): Extension<Asker>,
    Named(name): Named,
) -> Answer<HostConnections> {
    let shown = control.host_connections(&name, &caller, &asker).await;
    Ok(Json(shown?))
}

/// Add a host
#[utoipa::path(put, path = "/v1/hosts/{name}", operation_id = "add_host",
    params(("name" = Name, Path)), request_body = HostSpec,
    responses((status = OK, body = Host), (status = "default", body = ErrorBody)))]
pub async fn add(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Body(mut spec): Body<HostSpec>,
) -> Answer<Host> {
    spec.tenant = owner(&caller, spec.tenant)?;
    Ok(Json(control.add_host(&name, spec).await?))
}

/// Forget a host that no volume allows
#[utoipa::path(delete, path = "/v1/hosts/{name}", operation_id = "remove_host",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn remove(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.remove_host(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
