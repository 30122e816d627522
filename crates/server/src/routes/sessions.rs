//! `/v1/sessions`

use std::sync::Arc;

use api::{Caller, ErrorBody, List, PageQuery, Session};
use axum::Extension;
use axum::Json;
use axum::extract::State;

use super::Answer;
use super::extract::Parameters;
use crate::control::Control;

/// Who is connected now, by controller
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions", params(PageQuery),
    responses((status = OK, body = List<Session>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Session>> {
    let sessions = control.sessions(&caller).await?;
    Ok(Json(List::page(sessions, &query, Session::key)?))
}
