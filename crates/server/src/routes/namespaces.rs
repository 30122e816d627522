//! `/v1/drives/{name}/namespaces` and `/v1/drives/{name}/health`

use std::sync::Arc;

use api::{DriveHealth, ErrorBody, Name, Namespace, NamespaceSpec, Namespaces};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named, NamedNamespace};
use super::{Answer, Gone};
use crate::control::Control;

/// The namespaces of a drive
#[utoipa::path(get, path = "/v1/drives/{name}/namespaces", operation_id = "list_namespaces",
    params(("name" = Name, Path)),
    responses((status = OK, body = Namespaces), (status = "default", body = ErrorBody)))]
pub async fn list(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Namespaces> {
    Ok(Json(control.namespaces(&name).await?))
}

/// Create a namespace on a drive that no volume uses
#[utoipa::path(post, path = "/v1/drives/{name}/namespaces", operation_id = "create_namespace",
    params(("name" = Name, Path)), request_body = NamespaceSpec,
    responses((status = OK, body = Namespace), (status = "default", body = ErrorBody)))]
pub async fn create(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<NamespaceSpec>,
) -> Answer<Namespace> {
    Ok(Json(control.create_namespace(&name, &spec).await?))
}

/// Delete a namespace, with its data, of a drive that no volume uses
#[utoipa::path(delete, path = "/v1/drives/{name}/namespaces/{nsid}",
    operation_id = "delete_namespace",
    params(("name" = Name, Path), ("nsid" = u32, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn delete(
    State(control): State<Arc<Control>>,
    NamedNamespace(name, nsid): NamedNamespace,
) -> Gone {
    control.delete_namespace(&name, nsid).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Attach a namespace of an NVMe drive that no volume uses to the node's machine
#[utoipa::path(put, path = "/v1/drives/{name}/namespaces/{nsid}/attachment",
    operation_id = "attach_namespace",
    params(("name" = Name, Path), ("nsid" = u32, Path)),
    responses((status = OK, body = Namespace), (status = "default", body = ErrorBody)))]
pub async fn attach(
    State(control): State<Arc<Control>>,
    NamedNamespace(name, nsid): NamedNamespace,
) -> Answer<Namespace> {
    Ok(Json(control.attach_namespace(&name, nsid).await?))
}

/// Detach a namespace of an NVMe drive that no volume uses from the node's machine; its data stays
#[utoipa::path(delete, path = "/v1/drives/{name}/namespaces/{nsid}/attachment",
    operation_id = "detach_namespace",
    params(("name" = Name, Path), ("nsid" = u32, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn detach(
    State(control): State<Arc<Control>>,
    NamedNamespace(name, nsid): NamedNamespace,
) -> Gone {
    control.detach_namespace(&name, nsid).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The health of a drive that can tell
#[utoipa::path(get, path = "/v1/drives/{name}/health", operation_id = "show_drive_health",
    params(("name" = Name, Path)),
    responses((status = OK, body = DriveHealth), (status = "default", body = ErrorBody)))]
pub async fn health(
    State(control): State<Arc<Control>>,
    Named(name): Named,
) -> Answer<DriveHealth> {
    Ok(Json(control.drive_health(&name).await?))
}
