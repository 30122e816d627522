//! `/v1/settings`

use std::sync::Arc;

use api::{ErrorBody, Settings, SettingsChange};
use axum::Json;
use axum::extract::State;

use super::Answer;
use super::extract::Body;
use crate::control::Control;

/// Settings that change while the node runs
#[utoipa::path(get, path = "/v1/settings", operation_id = "show_settings",
    responses((status = OK, body = Settings), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>) -> Answer<Settings> {
    Ok(Json(control.settings()))
}

/// Change some of them
#[utoipa::path(patch, path = "/v1/settings", operation_id = "change_settings",
    request_body = SettingsChange,
    responses((status = OK, body = Settings), (status = "default", body = ErrorBody)))]
pub async fn change(
    State(control): State<Arc<Control>>,
    Body(change): Body<SettingsChange>,
) -> Answer<Settings> {
    Ok(Json(control.change_settings(change).await?))
}
