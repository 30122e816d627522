//! `/v1/events`

use std::sync::Arc;

use api::{ErrorBody, Event, EventQuery, List};
use axum::Json;
use axum::extract::State;

use super::Answer;
use super::extract::Parameters;
use crate::control::Control;

/// What happened lately, oldest first
#[utoipa::path(get, path = "/v1/events", operation_id = "list_events", params(EventQuery),
    responses((status = OK, body = List<Event>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<EventQuery>,
) -> Answer<List<Event>> {
    Ok(Json(List {
        items: control.events().after(query.after),
    }))
}
