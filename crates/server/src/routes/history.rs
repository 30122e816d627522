//! `/v1/history`

use std::sync::Arc;

use api::{Caller, ErrorBody, History, HistoryQuery};
use axum::extract::State;
use axum::{Extension, Json};

use super::Answer;
use super::extract::Parameters;
use crate::control::Control;

/// What objects did, and how they were, over up to 30 days
///
/// A tenant's token shows the tenant's volumes alone.
#[utoipa::path(get, path = "/v1/history", operation_id = "show_history", params(HistoryQuery),
    responses((status = OK, body = History), (status = "default", body = ErrorBody)))]
pub async fn show(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Parameters(query): Parameters<HistoryQuery>,
) -> Answer<History> {
    Ok(Json(control.history(&caller, &query).await?))
}
