//! `/v1/hosts/{name}/key`

use std::sync::Arc;

use api::{ErrorBody, HostKey, HostKeyRequest, HostKeySpec, Name, NewHostKey};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named};
use super::{Answer, Gone};
use crate::control::Control;

/// A host's key, without its secrets
#[utoipa::path(get, path = "/v1/hosts/{name}/key", operation_id = "show_host_key",
    params(("name" = Name, Path)),
    responses((status = OK, body = HostKey), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<HostKey> {
    Ok(Json(control.host_key(&name).await?))
}

/// Have a host prove a secret before it is served
#[utoipa::path(put, path = "/v1/hosts/{name}/key", operation_id = "set_host_key",
    params(("name" = Name, Path)), request_body = HostKeySpec,
    responses((status = OK, body = HostKey), (status = "default", body = ErrorBody)))]
pub async fn set(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<HostKeySpec>,
) -> Answer<HostKey> {
    Ok(Json(control.set_host_key(&name, spec).await?))
}

/// Make a new key for a host; its secrets are shown this once
#[utoipa::path(post, path = "/v1/hosts/{name}/key", operation_id = "generate_host_key",
    params(("name" = Name, Path)), request_body = HostKeyRequest,
    responses((status = OK, body = NewHostKey), (status = "default", body = ErrorBody)))]
pub async fn generate(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(request): Body<HostKeyRequest>,
) -> Answer<NewHostKey> {
    Ok(Json(control.generate_host_key(&name, request).await?))
}

/// Ask nothing of a host any more
#[utoipa::path(delete, path = "/v1/hosts/{name}/key", operation_id = "remove_host_key",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn remove(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.remove_host_key(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
