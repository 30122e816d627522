//! `/v1/hosts`

use std::sync::Arc;

use api::{ErrorBody, Host, HostSpec, List, Name};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named};
use super::{Answer, Gone};
use crate::control::Control;

/// Every host, by name
#[utoipa::path(get, path = "/v1/hosts", operation_id = "list_hosts",
    responses((status = OK, body = List<Host>), (status = "default", body = ErrorBody)))]
pub async fn list(State(control): State<Arc<Control>>) -> Answer<List<Host>> {
    Ok(Json(List {
        items: control.hosts().await,
    }))
}

/// One host
#[utoipa::path(get, path = "/v1/hosts/{name}", operation_id = "show_host",
    params(("name" = Name, Path)),
    responses((status = OK, body = Host), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Host> {
    Ok(Json(control.host(&name).await?))
}

/// Add a host
#[utoipa::path(put, path = "/v1/hosts/{name}", operation_id = "add_host",
    params(("name" = Name, Path)), request_body = HostSpec,
    responses((status = OK, body = Host), (status = "default", body = ErrorBody)))]
pub async fn add(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<HostSpec>,
) -> Answer<Host> {
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
