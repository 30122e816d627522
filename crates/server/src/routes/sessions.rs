//! `/v1/sessions`

use std::sync::Arc;

use api::{ErrorBody, List, Session};
use axum::Json;
use axum::extract::State;

use super::Answer;
use crate::control::Control;

/// Who is connected now
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions",
    responses((status = OK, body = List<Session>), (status = "default", body = ErrorBody)))]
pub async fn list(State(control): State<Arc<Control>>) -> Answer<List<Session>> {
    Ok(Json(List {
        items: control.sessions().await?,
    }))
}
