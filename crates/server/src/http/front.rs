//! [`Front`]: what every request passes on its way to a route, and every answer on its way back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use api::{AuditEntry, Caller, ErrorBody, ErrorCode, Severity};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tower_service::Service;

use super::failures::{Failures, Verdict};
use super::permission::{self, Subject};
use super::places::Proof;
use super::refusals::{self, Refusals, Told};
use super::tags;
use crate::control::{Control, not_found};
use crate::events::timestamp;
use crate::routes::{OnlyAsked, Refusal};
use crate::state::Kind;

/// Larger than any request of this API.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Longer than any path of this API with its query.
const URI_BYTES_MAX: usize = 8 << 10;

/// More headers than clients and what stands between them and the node make together.
const HEADERS_MAX: usize = 64;

/// The same of their bytes.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// How long a request's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers that make a change hang on how its object is.
const CONDITIONS: [header::HeaderName; 2] = [header::IF_MATCH, header::IF_NONE_MATCH];

const REQUEST_ID: &str = "x-request-id";

const REQUEST_ID_CHARS_MAX: usize = 64;

/// Properties with these words in their names are secret.
const SECRET: [&str; 5] = ["secret", "key", "psk", "password", "token"];

/// How much of a body the audit log keeps.
const NOTED_CHARS_MAX: usize = 1024;

/// How much of a path: more than the longest of a route.
const NOTED_PATH_CHARS_MAX: usize = 256;

/// Stands before the routes. Gives every request an identifier and bounds its body; asks for its
/// token and whether that is good for it; gives every answer to a GET a tag, and carries out a
/// change with a condition only if that holds; writes every change to the audit log.
pub struct Front {
    control: Arc<Control>,
    router: Router,
    failures: Failures,
    refusals: Arc<Refusals>,
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
    /// A front for the routes of `router` over `control`.
    pub fn new(control: Arc<Control>, router: Router) -> Front {
        Front {
            control,
            router,
            failures: Failures::default(),
            refusals: Arc::default(),
            changes: RwLock::new(()),
        }
    }

    /// Returns when no change is under way.
    pub async fn idle(&self) {
        drop(self.changes.write().await);
    }

    /// Answers one request of the client at `peer`; a good token is proof of its connection.
    pub async fn answer(&self, request: Request, peer: SocketAddr, proof: &Proof) -> Response {
        let id = request_id(request.headers());
        let (method, path) = (request.method().clone(), shortened(request.uri().path()));
        let mut answer = match self.caller(request.uri(), request.headers(), peer).await {
            Ok(None) => self.route(request).await,
            Ok(Some(caller)) => {
                proof.give();
                self.recorded(request, caller, peer, &id).await
            }
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

    /// Whose token the request carries; none where the path needs none.
    async fn caller(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<Option<Caller>, ErrorBody> {
        bounded(uri, headers)?;
        if !permission::needs_token(uri.path()) {
            return Ok(None);
        }
        let Some(secret) = bearer(headers) else {
            let message = "no token; send one as `Authorization: Bearer TOKEN`";
            return Err(ErrorBody::new(ErrorCode::Unauthenticated, message));
        };
        if let Some(caller) = self.control.recognise(secret) {
            return Ok(Some(caller));
        }
        let verdict = self.failures.count(peer.ip(), Instant::now());
        if verdict == Verdict::JustTooMany {
            let message = format!("{} tries one wrong token after another", peer.ip());
            self.control
                .events()
                .record(Severity::Warning, "api", &message);
        }
        Err(match verdict {
            Verdict::Tolerated => {
                let message = "the token is unknown, revoked or expired";
                ErrorBody::new(ErrorCode::Unauthenticated, message)
            }
            Verdict::JustTooMany | Verdict::TooMany => {
                let message = "too many wrong tokens from this address";
                ErrorBody::new(ErrorCode::TooManyRequests, message)
            }
        })
    }

    /// Carries out a request, and writes to the audit log what became of a change.
    async fn recorded(
        &self,
        request: Request,
        caller: Caller,
        peer: SocketAddr,
        id: &HeaderValue,
    ) -> Response {
        let (parts, body) = request.into_parts();
        let (method, path) = (parts.method.clone(), shortened(parts.uri.path()));
        let mut entry = AuditEntry {
            id: 0,
            time: timestamp(SystemTime::now()),
            token: caller.name.clone(),
            from: peer.to_string(),
            request: id.to_str().unwrap_or_default().to_owned(),
            method: method.to_string(),
            path,
            body: None,
            status: 0,
            code: None,
            others: 0,
        };
        let done = self.admitted(parts, body, caller, &mut entry.body).await;
        let answer = done.unwrap_or_else(|refusal| Refusal(refusal).into_response());
        if method.is_safe() {
            return answer;
        }
        entry.status = answer.status().as_u16();
        entry.code = answer.extensions().get().copied();
        self.note(entry).await;
        answer
    }

    /// Writes to the audit log what became of a change. What fails here is in the log and among the
    /// events; the change has been made.
    async fn note(&self, entry: AuditEntry) {
        let told = match entry.is_refused() {
            true => self.refusals.count(&entry.token, Instant::now()),
            false => Told::Whole,
        };
        match told {
            Told::Whole => self.control.audit(entry).await,
            Told::Counted => {}
            Told::Later => {
                let control = Arc::downgrade(&self.control);
                let refusals = Arc::clone(&self.refusals);
                tokio::spawn(async move {
                    tokio::time::sleep(refusals::PERIOD).await;
                    let others = refusals.end(&entry.token).saturating_sub(1);
                    if let Some(control) = control.upgrade() {
                        control.audit(AuditEntry { others, ..entry }).await;
                    }
                });
            }
        }
    }

    async fn admitted(
        &self,
        mut parts: Parts,
        body: Body,
        caller: Caller,
        noted: &mut Option<String>,
    ) -> Result<Response, ErrorBody> {
        let subject = permission::check(&caller, &parts.method, parts.uri.path())?;
        let body = whole(&parts.headers, body).await?;
        *noted = without_secrets(&body);
        parts.extensions.insert(caller.clone());
        if !parts.method.is_safe() {
            self.control.check_state()?;
        }
        let _turn = self.turn(&parts, &caller).await;
        if let Subject::Owned(kind, name) = &subject
            && !self.control.is_visible(&caller, *kind, name).await
        {
            return Err(match kind {
                Kind::Host => not_found("host", name),
                _ => not_found("volume", name),
            });
        }
        self.condition(&parts).await?;
        let reading = parts.method == Method::GET;
        let known = parts.headers.get_all(header::IF_NONE_MATCH);
        let known = tags::named_by(known);
        let answer = self.route(Request::from_parts(parts, body.into())).await;
        if reading && answer.status() == StatusCode::OK {
            return Ok(tags::unless_known(tags::tagged(answer).await?, &known));
        }
        Ok(answer)
    }

    /// Waits for the moment at which the request may be carried out: one whose permission or
    /// condition hangs on how an object is has to be alone.
    async fn turn(&self, parts: &Parts, caller: &Caller) -> Turn<'_> {
        if parts.method.is_safe() {
            Turn::Reading
        } else if caller.tenant.is_some()
            || CONDITIONS.iter().any(|c| parts.headers.contains_key(c))
        {
            let _guard = self.changes.write().await;
            Turn::Alone { _guard }
        } else {
            let _guard = self.changes.read().await;
            Turn::Shared { _guard }
        }
    }

    /// Refuses a change whose object is not what its `If-Match` names, or is what its
    /// `If-None-Match` names.
    async fn condition(&self, parts: &Parts) -> Result<(), ErrorBody> {
        let named = |header| tags::named_by(parts.headers.get_all(header));
        let [wanted, unwanted] = CONDITIONS.map(named);
        if parts.method.is_safe() || (wanted.is_empty() && unwanted.is_empty()) {
            return Ok(());
        }
        if !self.has_operation(parts).await {
            // Its own refusal comes before that of a condition (RFC 9110 §13.2.1).
            return Ok(());
        }
        let found = self.current_tag(parts).await?;
        let (header, message) = if !wanted.is_empty() && !tags::names_object(&wanted, &found) {
            (
                "If-Match",
                "the object is not what If-Match names; read it again",
            )
        } else if tags::names_object(&unwanted, &found) {
            let message = "the object is there, and is what If-None-Match names; read it";
            ("If-None-Match", message)
        } else {
            return Ok(());
        };
        let refusal = ErrorBody::new(ErrorCode::PreconditionFailed, message);
        Err(refusal.at(header.to_owned()))
    }

    /// Whether there is a route for the request; nothing is done yet.
    async fn has_operation(&self, parts: &Parts) -> bool {
        let mut request = Request::from_parts(parts.clone(), Body::empty());
        request.extensions_mut().insert(OnlyAsked);
        self.route(request).await.status() == StatusCode::NO_CONTENT
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
                let headers = tags::tagged(answer).await?.headers().clone();
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

/// The secret in `Authorization: Bearer SECRET`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(secret.trim())
}

/// A change's body as the audit log keeps it.
fn without_secrets(body: &[u8]) -> Option<String> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    hide_secrets(&mut value);
    Some(value.to_string().chars().take(NOTED_CHARS_MAX).collect())
}

fn hide_secrets(value: &mut Value) {
    match value {
        Value::Object(properties) => {
            for (name, value) in properties {
                if SECRET.iter().any(|word| name.contains(word)) {
                    *value = Value::from("hidden");
                } else {
                    hide_secrets(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        _ => {}
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
    if let Some(length) = announced.filter(|length| *length > BODY_BYTES_MAX) {
        return Err(too_large(&length.to_string()));
    }
    let arriving = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large("more")),
        Ok(Err(error)) => Err(unreadable(&format!("its body: {error}"))),
        Err(_) => {
            let message = format!("the body did not arrive within {BODY_TIMEOUT:?}");
            Err(ErrorBody::new(ErrorCode::Timeout, message).at("body".to_owned()))
        }
    }
}

fn too_large(found: &str) -> ErrorBody {
    let message = format!("the body has {found} bytes; allowed: {BODY_BYTES_MAX}");
    ErrorBody::new(ErrorCode::BodyTooLarge, message).at("body".to_owned())
}

/// Refuses a path, a query or headers that are longer than any request needs.
fn bounded(uri: &Uri, headers: &HeaderMap) -> Result<(), ErrorBody> {
    let (path, query) = (uri.path().len(), uri.query().map_or(0, str::len));
    if path + query > URI_BYTES_MAX {
        let field = if path > query { "path" } else { "query" };
        let message = format!(
            "path and query have {} bytes; allowed: {URI_BYTES_MAX}",
            path + query
        );
        return Err(ErrorBody::new(ErrorCode::UriTooLong, message).at(field.to_owned()));
    }
    let bytes =
        |(name, value): (&header::HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let bytes: usize = headers.iter().map(bytes).sum();
    if headers.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
        let message = format!(
            "{} headers with {bytes} bytes; allowed: {HEADERS_MAX} with {HEADER_BYTES_MAX}",
            headers.len()
        );
        return Err(ErrorBody::new(ErrorCode::HeadersTooLarge, message).at("headers".to_owned()));
    }
    Ok(())
}

/// The path as logs have it.
fn shortened(path: &str) -> String {
    match path.char_indices().nth(NOTED_PATH_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &path[..end]),
        None => path.to_owned(),
    }
}

fn unreadable(what: &str) -> ErrorBody {
    let message = format!("the request cannot be read: {what}");
    ErrorBody::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_audit_log_keeps_of_a_path_is_bounded() {
        assert_eq!(shortened("/v1/volumes/v"), "/v1/volumes/v");
        let long = shortened(&"\u{e9}".repeat(60_000));
        assert_eq!(long.chars().count(), NOTED_PATH_CHARS_MAX + 3);
    }

    #[test]
    fn secrets_do_not_reach_the_audit_log() {
        let body = r#"{"nqn":"n","dhchap_secret":"DHHC-1:x","tls":[{"psk":"y"}],"keys":["z"]}"#;
        let noted = without_secrets(body.as_bytes()).unwrap();
        for secret in ["DHHC", "\"y\"", "\"z\""] {
            assert!(!noted.contains(secret), "{noted}");
        }
        assert!(noted.contains(r#""nqn":"n""#), "{noted}");
        assert_eq!(without_secrets(b"not JSON"), None);
    }
}
