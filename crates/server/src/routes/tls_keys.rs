//! `/v1/hosts/{name}/tls-key`

use std::sync::Arc;

use api::{ErrorBody, Host, Name, NewTlsKey, TlsKeyRequest, TlsKeySpec};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named};
use super::{Answer, Gone};
use crate::control::Control;

/// Have a host connect under TLS alone, with this key
#[utoipa::path(put, path = "/v1/hosts/{name}/tls-key", operation_id = "set_tls_key",
    params(("name" = Name, Path)), request_body = TlsKeySpec,
    responses((status = OK, body = Host), (status = "default", body = ErrorBody)))]
pub async fn set(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<TlsKeySpec>,
) -> Answer<Host> {
    Ok(Json(control.set_tls_key(&name, spec).await?))
}

/// Make a new TLS key for a host; it is shown this once
#[utoipa::path(post, path = "/v1/hosts/{name}/tls-key", operation_id = "generate_tls_key",
    params(("name" = Name, Path)), request_body = TlsKeyRequest,
    responses((status = OK, body = NewTlsKey), (status = "default", body = ErrorBody)))]
pub async fn generate(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(request): Body<TlsKeyRequest>,
) -> Answer<NewTlsKey> {
    Ok(Json(control.generate_tls_key(&name, request).await?))
}

/// Let a host connect without TLS, where a port does not ask for it
#[utoipa::path(delete, path = "/v1/hosts/{name}/tls-key", operation_id = "remove_tls_key",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn remove(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.remove_tls_key(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
