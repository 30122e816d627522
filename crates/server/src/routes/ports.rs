//! `/v1/ports`

use std::sync::Arc;

use api::{ErrorBody, List, PageQuery, Port, PortChange};
use axum::Json;
use axum::extract::State;

use super::Answer;
use super::extract::{Body, Numbered, Parameters};
use crate::control::Control;

/// Addresses that serve NVMe/TCP, by number
#[utoipa::path(get, path = "/v1/ports", operation_id = "list_ports", params(PageQuery),
    responses((status = OK, body = List<Port>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Port>> {
    let ports = control.ports();
    Ok(Json(List::page(ports, &query, |port| {
        format!("{:05}", port.id)
    })?))
}

/// Make a port a better or a worse path for hosts that have several
#[utoipa::path(patch, path = "/v1/ports/{id}", operation_id = "change_port",
    params(("id" = u16, Path)), request_body = PortChange,
    responses((status = OK, body = Port), (status = "default", body = ErrorBody)))]
pub async fn change(
    State(control): State<Arc<Control>>,
    Numbered(id): Numbered,
    Body(change): Body<PortChange>,
) -> Answer<Port> {
    Ok(Json(control.change_port(id, change).await?))
}
