//! `/v1/status`

use std::sync::Arc;

use api::{Caller, ErrorBody, Status, StatusQuery};
use axum::Extension;
use axum::Json;
use axum::extract::State;
use node::Asker;

use super::Answer;
use super::extract::Parameters;
use crate::control::Control;

/// The node at a glance
#[utoipa::path(get, path = "/v1/status", operation_id = "show_status", params(StatusQuery),
    responses((status = OK, body = Status), (status = "default", body = ErrorBody)))]
pub async fn show(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Extension(asker): Extension<Asker>,
    Parameters(query): Parameters<StatusQuery>,
) -> Answer<Status> {
    let status = control.status(&caller, &asker, query.volume.as_ref());
    Ok(Json(status.await?))
}
