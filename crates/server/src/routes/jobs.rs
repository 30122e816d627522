//! `/v1/jobs`

use std::sync::Arc;

use api::{ErrorBody, Job, List, PageQuery};
use axum::Json;
use axum::extract::State;

use super::Answer;
use super::extract::{Numbered, Parameters};
use crate::control::Control;

/// What takes long, and lately did, oldest first
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs", params(PageQuery),
    responses((status = OK, body = List<Job>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Job>> {
    Ok(Json(List::page(control.jobs(), &query, |job| job.id)?))
}

/// One job
#[utoipa::path(get, path = "/v1/jobs/{id}", operation_id = "show_job",
    params(("id" = u64, Path)),
    responses((status = OK, body = Job), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Numbered(id): Numbered) -> Answer<Job> {
    Ok(Json(control.job(id)?))
}
