//! [`Front`]: what every request passes on its way to a route, and every answer on its way back.

use std::net::SocketAddr;
use std::time::Duration;

use api::{ErrorBody, ErrorCode};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tower_service::Service;

use crate::routes::Refusal;

/// Larger than any request of this API.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const REQUEST_ID: &str = "x-request-id";

const REQUEST_ID_CHARS_MAX: usize = 64;

/// Properties of objects that say how they are, not what somebody made them: they change by
/// themselves, and do not count in a tag.
const OBSERVED: [&str; 2] = ["state", "reason"];

/// Stands before the routes. Gives every request an identifier and bounds its body; gives every
/// answer to a GET a tag, and carries out a change with `If-Match` only if the tag is still right.
pub struct Front {
    router: Router,
    /// Changes with a condition are alone; others are in company.
    changes: RwLock<()>,
}

/// Held while a request is carried out.
enum Turn<'a> {
    Shared { _guard: RwLockReadGuard<'a, ()> },
    Alone { _guard: RwLockWriteGuard<'a, ()> },
    Reading,
}

impl Front {
    /// A front for the routes of `router`.
    pub fn new(router: Router) -> Front {
        Front {
            router,
            changes: RwLock::new(()),
        }
    }

    /// Answers one request of the client at `peer`.
    pub async fn answer(&self, request: Request, peer: SocketAddr) -> Response {
        let id = request_id(request.headers());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut answer = match self.admitted(request).await {
            Ok(answer) => answer,
            Err(refusal) => Refusal(refusal).into_response(),
        };
        let status = answer.status().as_u16();
        tracing::debug!(%peer, %method, path, status, request = ?id, "request");
        let headers = answer.headers_mut();
        headers.insert(REQUEST_ID, id);
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    async fn admitted(&self, request: Request) -> Result<Response, ErrorBody> {
        let (parts, body) = request.into_parts();
        let body = whole(&parts.headers, body).await?;
        let _turn = self.turn(&parts).await?;
        let reading = parts.method == Method::GET;
        let answer = self.route(Request::from_parts(parts, body.into())).await;
        if reading && answer.status() == StatusCode::OK {
            return tagged(answer).await;
        }
        Ok(answer)
    }

    /// Waits for the moment at which the request may be carried out; refuses one whose object is
    /// not what its `If-Match` names.
    async fn turn(&self, parts: &Parts) -> Result<Turn<'_>, ErrorBody> {
        if parts.method.is_safe() {
            return Ok(Turn::Reading);
        }
        let Some(wanted) = parts.headers.get(header::IF_MATCH) else {
            let _guard = self.changes.read().await;
            return Ok(Turn::Shared { _guard });
        };
        let _guard = self.changes.write().await;
        let found = self.current_tag(parts).await?;
        let wanted = wanted.to_str().unwrap_or_default();
        let matches = found.is_some_and(|found| {
            wanted.trim() == "*" || wanted.split(',').any(|tag| tag.trim() == found)
        });
        if matches {
            return Ok(Turn::Alone { _guard });
        }
        let message = "the object is not what If-Match names; read it again";
        Err(ErrorBody::new(ErrorCode::PreconditionFailed, message))
    }

    /// The tag of the object that a change is about: what its path shows, or, where the path is
    /// only for changes, the nearest path above that shows something.
    async fn current_tag(&self, parts: &Parts) -> Result<Option<String>, ErrorBody> {
        let mut path = parts.uri.path();
        let mut first = true;
        loop {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = path.parse().map_err(|_| unreadable("its path"))?;
            *request.extensions_mut() = parts.extensions.clone();
            let answer = self.route(request).await;
            let status = answer.status();
            if status == StatusCode::OK {
                let headers = tagged(answer).await?.headers().clone();
                let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
                return Ok(tag.map(str::to_owned));
            }
            if first && status != StatusCode::METHOD_NOT_ALLOWED {
                return Ok(None);
            }
            first = false;
            match path.rsplit_once('/') {
                Some((above, _)) if !above.is_empty() => path = above,
                _ => return Ok(None),
            }
        }
    }

    async fn route(&self, request: Request) -> Response {
        let mut router = self.router.clone();
        let Ok(answer) = router.call(request).await;
        answer
    }
}

/// The client's identifier for the request, if it is a sane one, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |id: &&HeaderValue| {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.as_bytes().iter().all(word)
    };
    let given = headers.get(REQUEST_ID).filter(sane).cloned();
    given.unwrap_or_else(|| {
        let id = uuid::Uuid::new_v4().to_string();
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
    })
}

/// The body, which must arrive whole, in time, and not be too large.
async fn whole(headers: &HeaderMap, body: Body) -> Result<Bytes, ErrorBody> {
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let arriving = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(unreadable(&format!("its body: {error}"))),
        Err(_) => {
            let message = format!("the body did not arrive within {BODY_TIMEOUT:?}");
            Err(ErrorBody::new(ErrorCode::Timeout, message))
        }
    }
}

fn too_large() -> ErrorBody {
    let message = format!("the body is too large; allowed: {BODY_BYTES_MAX} bytes");
    ErrorBody::new(ErrorCode::BodyTooLarge, message)
}

fn unreadable(what: &str) -> ErrorBody {
    let message = format!("the request cannot be read: {what}");
    ErrorBody::new(ErrorCode::InvalidArgument, message)
}

/// The answer with the tag of the object that it shows.
async fn tagged(answer: Response) -> Result<Response, ErrorBody> {
    let (mut parts, body) = answer.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))?;
    if let Ok(Value::Object(mut object)) = serde_json::from_slice(&body) {
        object.retain(|property, _| !OBSERVED.contains(&property.as_str()));
        let digest = Sha256::digest(Value::Object(object).to_string());
        let tag: String = digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if let Ok(tag) = HeaderValue::try_from(format!("\"{tag}\"")) {
            parts.headers.insert(header::ETAG, tag);
        }
    }
    Ok(Response::from_parts(parts, body.into()))
}
