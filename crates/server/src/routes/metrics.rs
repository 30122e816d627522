//! `/metrics` and `/v1/metrics`

use std::sync::Arc;

use api::{ErrorBody, Metrics, MetricsQuery};
use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use super::extract::Parameters;
use super::{Answer, Refusal};
use crate::control::Control;

/// What the node does now and did lately
#[utoipa::path(get, path = "/v1/metrics", operation_id = "show_metrics", params(MetricsQuery),
    responses((status = OK, body = Metrics), (status = "default", body = ErrorBody)))]
pub async fn show(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<MetricsQuery>,
) -> Answer<Metrics> {
    Ok(Json(control.figures().shown(query.interval.unwrap_or(1))?))
}

/// All figures in Prometheus' text format
#[utoipa::path(get, path = "/metrics", operation_id = "show_prometheus_metrics",
    responses((status = OK, body = String, content_type = prometheus::TEXT_FORMAT),
        (status = "default", body = ErrorBody)))]
pub async fn prometheus(State(control): State<Arc<Control>>) -> Result<impl IntoResponse, Refusal> {
    let text = control.figures().text()?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text))
}
