//! The REST API: one file a noun, one short function a route, every answer a type of `api`.
//!
//! When changing a route or a type: `docs/openapi.json` is compared with this code by a test,
//! which says how to write it anew. Only additions keep old clients working.

mod document;
mod drives;
mod events;
mod extract;
mod history;
mod host_keys;
mod hosts;
mod jobs;
mod metrics;
mod namespaces;
mod objects;
mod pools;
mod ports;
mod profiles;
mod replications;
mod schedules;
mod sessions;
mod settings;
mod snapshots;
mod status;
mod tenants;
mod tls_keys;
mod tokens;
mod volumes;
mod web;

use std::sync::Arc;
use std::time::Duration;

use api::{AccessPattern, Caller, ErrorBody, ErrorCode, HistoryKind, Name};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::extract::OnlyAsked;
use self::extract::{Queries, known_parameters};
use crate::control::Control;

/// How long until an address that came with wrong tokens too often may come once more.
pub const REFILL: Duration = Duration::from_secs(6);

/// What a handler gives back: a body, or a refusal.
type Answer<T> = Result<Json<T>, Refusal>;

/// What a handler gives back when nothing is left to show.
type Gone = Result<StatusCode, Refusal>;

#[derive(OpenApi)]
#[openapi(info(
    title = "Flashyard node",
    description = DESCRIPTION,
    license(name = "Apache-2.0", identifier = "Apache-2.0")
), components(schemas(AccessPattern, HistoryKind)),
servers((url = "/", description = "The node that serves this document")),
modifiers(&BearerToken))]
struct Document;

const DESCRIPTION: &str = "Drives, volumes and hosts of one storage node.

- Every request needs a token: `Authorization: Bearer TOKEN`.
- Whatever is no success has one shape: `code`, a stable word; `message`, what was found and what \
is allowed; and `field`, where one is at fault. A 4xx is for the client to mend; a 5xx is a fault \
of the node.
- Creates are `PUT` under a name that the client chooses: repeated with the same body they give \
what is there, with another body they are refused with 409.
- Lists come in pages: ask again with `after`, which is `next` of the page before, until there is \
no `next`.
- The answer to a `GET` has an `ETag`, for `If-Match` and `If-None-Match`.
- A query parameter that an operation does not have, or that is given twice, is refused.";

/// Every route of the document needs a token.
struct BearerToken;

impl Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", scheme);
        document.security = Some(vec![SecurityRequirement::new(
            "token",
            Vec::<String>::new(),
        )]);
    }
}

/// Every route over `control`, with the document that describes them at `/openapi.json`.
pub fn router(control: Arc<Control>) -> Router {
    let (router, document) = described().with_state(control).split_for_parts();
    let document = document::completed(&document);
    let queries = Arc::new(Queries::of(&document));
    let document = axum::routing::get(async move || Json(document));
    router
        .route_layer(from_fn_with_state(queries, known_parameters))
        .route("/openapi.json", document)
        .merge(web::router())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
}

/// The OpenAPI document, as JSON text.
pub fn openapi() -> Result<String, serde_json::Error> {
    let document = document::completed(&described().into_openapi());
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

fn described() -> OpenApiRouter<Arc<Control>> {
    let first = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status::show))
        .routes(routes!(metrics::show))
        .routes(routes!(metrics::prometheus))
        .routes(routes!(history::show))
        .routes(routes!(drives::list))
        .routes(routes!(drives::show, drives::add, drives::remove))
        .routes(routes!(drives::grant, drives::revoke))
        .routes(routes!(namespaces::list, namespaces::create))
        .routes(routes!(namespaces::delete))
        .routes(routes!(namespaces::attach, namespaces::detach))
        .routes(routes!(namespaces::health))
        .routes(routes!(pools::list))
        .routes(routes!(pools::show, pools::create, pools::destroy))
        .routes(routes!(pools::usage))
        .routes(routes!(pools::importable))
        .routes(routes!(pools::carried))
        .routes(routes!(pools::import))
        .routes(routes!(pools::export))
        .routes(routes!(pools::scrub, pools::stop_scrub))
        .routes(routes!(pools::add_drive, pools::remove_drive))
        .routes(routes!(pools::fail_drive))
        .routes(routes!(pools::wipe))
        .routes(routes!(volumes::list))
        .routes(routes!(volumes::show, volumes::create, volumes::delete))
        .routes(routes!(volumes::allow, volumes::deny))
        .routes(routes!(tenants::limit_volume))
        .routes(routes!(tenants::list))
        .routes(routes!(tenants::show))
        .routes(routes!(tenants::limit))
        .routes(routes!(tenants::grant, tenants::revoke));
    of_snapshots(first)
        .routes(routes!(hosts::list))
        .routes(routes!(hosts::show, hosts::add, hosts::remove))
        .routes(routes!(hosts::connections))
        .routes(routes!(
            host_keys::show,
            host_keys::set,
            host_keys::generate,
            host_keys::remove
        ))
        .routes(routes!(tls_keys::set, tls_keys::generate, tls_keys::remove))
        .routes(routes!(sessions::list))
        .routes(routes!(ports::list))
        .routes(routes!(ports::change))
        .routes(routes!(events::list))
        .routes(routes!(profiles::list))
        .routes(routes!(profiles::curve))
        .routes(routes!(settings::show, settings::change))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::show))
        .routes(routes!(tokens::list))
        .routes(routes!(tokens::show, tokens::create, tokens::revoke))
        .routes(routes!(tokens::myself))
        .routes(routes!(tokens::audit))
}

/// Adds what is asked of volumes of pools, of their snapshots, schedules and replications.
fn of_snapshots(router: OpenApiRouter<Arc<Control>>) -> OpenApiRouter<Arc<Control>> {
    router
        .routes(routes!(snapshots::resize))
        .routes(routes!(snapshots::reserve))
        .routes(routes!(volumes::protect))
        .routes(routes!(snapshots::rename))
        .routes(routes!(snapshots::rollback))
        .routes(routes!(snapshots::promote))
        .routes(routes!(snapshots::list, snapshots::create_group))
        .routes(routes!(
            snapshots::show,
            snapshots::create,
            snapshots::delete
        ))
        .routes(routes!(snapshots::show_in_pool, snapshots::delete_in_pool))
        .routes(routes!(snapshots::extents))
        .routes(routes!(snapshots::extents_in_pool))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::show, schedules::set, schedules::remove))
        .routes(routes!(replications::list))
        .routes(routes!(
            replications::show,
            replications::set,
            replications::remove
        ))
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
        let code = self.0.code;
        let status = StatusCode::from_u16(code.http_status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0.shortened())).into_response();
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        match code {
            ErrorCode::Unauthenticated => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            ErrorCode::TooManyRequests => {
                headers.insert(header::RETRY_AFTER, REFILL.as_secs().into());
            }
            _ => {}
        }
        response
    }
}

/// Whose a new object is: the caller's tenant's, or whose an unbound caller says.
fn owner(caller: &Caller, asked: Option<Name>) -> Result<Option<Name>, Refusal> {
    match (&caller.tenant, asked) {
        (Some(own), Some(other)) if *own != other => {
            let message = format!("tenant {other}; allowed for this token: {own}");
            Err(ErrorBody::invalid("tenant", message).into())
        }
        (Some(own), _) => Ok(Some(own.clone())),
        (None, asked) => Ok(asked),
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
