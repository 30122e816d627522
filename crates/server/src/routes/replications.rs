//! `/v1/replications`: copies of volumes that the node keeps up to date on other nodes

use std::sync::Arc;

use api::{ErrorBody, List, Name, PageQuery, Replication, ReplicationSpec};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{Body, Named, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every replication, by name
#[utoipa::path(get, path = "/v1/replications", operation_id = "list_replications",
    params(PageQuery),
    responses((status = OK, body = List<Replication>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Replication>> {
    let replications = control.replications().await;
    Ok(Json(List::page(replications, &query, |replication| {
        replication.name.clone()
    })?))
}

/// One replication
#[utoipa::path(get, path = "/v1/replications/{name}", operation_id = "show_replication",
    params(("name" = Name, Path)),
    responses((status = OK, body = Replication), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Replication> {
    Ok(Json(control.replication(&name).await?))
}

/// Keep a replica of a volume up to date on another node, and begin a copy now; with another body
/// the replication is changed
#[utoipa::path(put, path = "/v1/replications/{name}", operation_id = "set_replication",
    params(("name" = Name, Path)), request_body = ReplicationSpec,
    responses((status = OK, body = Replication), (status = "default", body = ErrorBody)))]
pub async fn set(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<ReplicationSpec>,
) -> Answer<Replication> {
    Ok(Json(control.set_replication(&name, spec).await?))
}

/// Copy a volume to the other node no more; the replica and the snapshots stay
#[utoipa::path(delete, path = "/v1/replications/{name}", operation_id = "remove_replication",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn remove(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.remove_replication(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
