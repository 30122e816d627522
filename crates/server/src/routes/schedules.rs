//! `/v1/schedules`: snapshots that the node takes by itself

use std::sync::Arc;

use api::{Caller, ErrorBody, List, Name, PageQuery, Schedule, ScheduleSpec};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::extract::{Body, Named, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every schedule, by name
#[utoipa::path(get, path = "/v1/schedules", operation_id = "list_schedules", params(PageQuery),
    responses((status = OK, body = List<Schedule>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Schedule>> {
    let schedules = control.schedules(caller.tenant.as_ref()).await;
    Ok(Json(List::page(schedules, &query, |schedule| {
        schedule.name.clone()
    })?))
}

/// One schedule
#[utoipa::path(get, path = "/v1/schedules/{name}", operation_id = "show_schedule",
    params(("name" = Name, Path)),
    responses((status = OK, body = Schedule), (status = "default", body = ErrorBody)))]
pub async fn show(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
) -> Answer<Schedule> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.schedule(asker, &name).await?))
}

/// Take snapshots of volumes each hour, day or week, and keep so many of them; with another body
/// the schedule is changed, and snapshots that it keeps no longer are deleted
#[utoipa::path(put, path = "/v1/schedules/{name}", operation_id = "set_schedule",
    params(("name" = Name, Path)), request_body = ScheduleSpec,
    responses((status = OK, body = Schedule), (status = "default", body = ErrorBody)))]
pub async fn set(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Body(spec): Body<ScheduleSpec>,
) -> Answer<Schedule> {
    let asker = caller.tenant.as_ref();
    Ok(Json(control.set_schedule(asker, &name, &spec).await?))
}

/// Take no more snapshots on a schedule; those that it took stay
#[utoipa::path(delete, path = "/v1/schedules/{name}", operation_id = "remove_schedule",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn remove(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
) -> Gone {
    let asker = caller.tenant.as_ref();
    control.remove_schedule(asker, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
