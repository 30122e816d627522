//! `/v1/events`

use std::sync::Arc;

use api::{ErrorBody, Event, List, PageQuery};
use axum::Json;
use axum::extract::State;

use super::Answer;
use super::extract::Parameters;
use crate::control::Control;

/// What happened lately, oldest first
#[utoipa::path(get, path = "/v1/events", operation_id = "list_events", params(PageQuery),
    responses((status = OK, body = List<Event>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Event>> {
    let events = control.events().all();
    Ok(Json(List::page(events, &query, |event| event.id)?))
}
