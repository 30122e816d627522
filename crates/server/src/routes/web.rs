//! The web page: files built from `web/`, embedded in the program.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};

/// What `make web` builds. A program built without it serves a hint in its place.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Built;

/// The page and its files. They hold no data, so they are everyone's; what the page shows, it
/// asks of the API.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(index))
        .route("/icon.svg", get(async || file("icon.svg", &REVALIDATED)))
        .route("/assets/{name}", get(asset))
}

async fn index() -> Response {
    if Built::get("index.html").is_none() {
        let hint = "This flashyard was built without its web page; `make build` builds both.\n";
        return (StatusCode::NOT_FOUND, hint).into_response();
    }
    file("index.html", &REVALIDATED)
}

async fn asset(Path(name): Path<String>) -> Response {
    // Their names are hashes of their contents.
    file(&format!("assets/{name}"), &FOR_EVER)
}

const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Only the node itself may be loaded from or asked, and nobody may frame the page. The component
/// library sets styles on elements, which needs the one exception.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      frame-ancestors 'none'; form-action 'none'";

const GUARDS: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
];

fn file(path: &str, caching: &HeaderValue) -> Response {
    let Some(EmbeddedFile { data, .. }) = Built::get(path) else {
        return (StatusCode::NOT_FOUND, "no such file\n").into_response();
    };
    let mut response = data.into_owned().into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(media_type(path)),
    );
    headers.insert(header::CACHE_CONTROL, caching.clone());
    headers.extend(GUARDS);
    response
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
