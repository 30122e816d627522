//! The REST API: one file a noun, one short function a route, every answer a type of `api`.
//!
//! When changing a route or a type: `docs/openapi.json` is compared with this code by a test,
//! which says how to write it anew. Only additions keep old clients working.

mod drives;
mod events;
mod extract;
mod host_keys;
mod hosts;
mod jobs;
mod namespaces;
mod pools;
mod sessions;
mod settings;
mod snapshots;
mod status;
mod volumes;

use std::sync::Arc;

use api::{ErrorBody, ErrorCode};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::control::Control;

/// What a handler gives back: a body, or a refusal.
type Answer<T> = Result<Json<T>, Refusal>;

/// What a handler gives back when nothing is left to show.
type Gone = Result<StatusCode, Refusal>;

#[derive(OpenApi)]
#[openapi(info(
    title = "Flashyard node",
    description = "Drives, volumes and hosts of one storage node.",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct Document;

/// Every route over `control`, with the document that describes them at `/openapi.json`.
pub fn router(control: Arc<Control>) -> Router {
    let (router, document) = described().with_state(control).split_for_parts();
    let document = axum::routing::get(async move || Json(document));
    router
        .route("/openapi.json", document)
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
}

/// The OpenAPI document, as JSON text.
pub fn openapi() -> Result<String, serde_json::Error> {
    described()
        .to_openapi()
        .to_pretty_json()
        .map(|text| text + "\n")
}

fn described() -> OpenApiRouter<Arc<Control>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status::show))
        .routes(routes!(drives::list))
        .routes(routes!(drives::show, drives::add, drives::remove))
        .routes(routes!(namespaces::list, namespaces::create))
        .routes(routes!(namespaces::delete))
        .routes(routes!(namespaces::health))
        .routes(routes!(pools::list))
        .routes(routes!(pools::show, pools::create, pools::destroy))
        .routes(routes!(pools::importable))
        .routes(routes!(pools::import))
        .routes(routes!(pools::export))
        .routes(routes!(pools::scrub))
        .routes(routes!(pools::add_drive, pools::remove_drive))
        .routes(routes!(pools::fail_drive))
        .routes(routes!(pools::wipe))
        .routes(routes!(volumes::list))
        .routes(routes!(volumes::show, volumes::create, volumes::delete))
        .routes(routes!(volumes::allow, volumes::deny))
        .routes(routes!(snapshots::resize))
        .routes(routes!(snapshots::rename))
        .routes(routes!(snapshots::rollback))
        .routes(routes!(snapshots::list, snapshots::create_group))
        .routes(routes!(
            snapshots::show,
            snapshots::create,
            snapshots::delete
        ))
        .routes(routes!(hosts::list))
        .routes(routes!(hosts::show, hosts::add, hosts::remove))
        .routes(routes!(
            host_keys::show,
            host_keys::set,
            host_keys::generate,
            host_keys::remove
        ))
        .routes(routes!(sessions::list))
        .routes(routes!(events::list))
        .routes(routes!(settings::show, settings::change))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::show))
}

/// An [`ErrorBody`] as an HTTP response.
#[derive(Debug)]
pub struct Refusal(pub ErrorBody);

impl From<ErrorBody> for Refusal {
    fn from(body: ErrorBody) -> Refusal {
        Refusal(body)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status());
        (
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Json(self.0),
        )
            .into_response()
    }
}

async fn no_such_route(request: Request) -> Refusal {
    let message = format!(
        "no route {}; /openapi.json lists them",
        request.uri().path()
    );
    Refusal(ErrorBody::new(ErrorCode::NotFound, message))
}

async fn no_such_method(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{path} has no method {method}; /openapi.json lists them");
    Refusal(ErrorBody::new(ErrorCode::MethodNotAllowed, message))
}
