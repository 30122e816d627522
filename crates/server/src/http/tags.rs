//! Tags of what is shown, and conditional requests (RFC 9110 §13).
//!
//! A tag has two halves: of what somebody made, and of all that the answer said. A change is made
//! or not by the first: what a pool does by itself is no reason to refuse one. A reader is told
//! that nothing is new by both. A list, which nobody makes, has the second alone.

use api::{ErrorBody, ErrorCode};
use axum::body::Body;
use axum::http::header::{self, GetAll};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Properties of objects, and of their parts, that say how they are, not what somebody made them:
/// they change by themselves, and do not count in a tag's first half.
const OBSERVED: [&str; 13] = [
    "state",
    "reason",
    "usable_bytes",
    "used_bytes",
    "used",
    "segments",
    "map",
    "counters",
    "active",
    "slow",
    "read_errors",
    "corrupt_blocks",
    "standing",
];

/// How an [`api::List`] begins. One may have a thousand objects: reading it again to leave out some
/// of their properties would take longer than to list them.
const LIST: &[u8] = br#"{"items":["#;

/// The answer with the tag of the object, or the list, that it shows.
pub async fn tagged(answer: Response) -> Result<Response, ErrorBody> {
    let (mut parts, body) = answer.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))?;
    if let Some(tag) = tag_of(&body)
        && let Ok(tag) = HeaderValue::try_from(tag)
    {
        parts.headers.insert(header::ETAG, tag);
    }
    Ok(Response::from_parts(parts, body.into()))
}

fn tag_of(body: &[u8]) -> Option<String> {
    if body.starts_with(LIST) {
        return Some(format!("\"{}\"", digest(body)));
    }
    let mut object = serde_json::from_slice(body).ok().filter(Value::is_object)?;
    leave_out_observed(&mut object);
    let made = digest(object.to_string().as_bytes());
    Some(format!("\"{made}.{}\"", digest(body)))
}

/// The answer, or that it is still what the client has: one of `known`.
pub fn unless_known(answer: Response, known: &[String]) -> Response {
    let tag = answer.headers().get(header::ETAG);
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else {
        return answer;
    };
    if !known.iter().any(|known| known == "*" || known == tag) {
        return answer;
    }
    let (mut parts, _) = answer.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::empty())
}

/// The tags that a condition names.
pub fn named_by(values: GetAll<'_, HeaderValue>) -> Vec<String> {
    let texts = values
        .iter()
        .map(|value| value.to_str().unwrap_or_default());
    let tags = texts.flat_map(|text| text.split(','));
    // Whether a proxy made a tag weak does not matter: it is ours.
    tags.map(|tag| tag.trim().trim_start_matches("W/").to_owned())
        .collect()
}

/// Whether one of `tags` is the object's, of which `found` is the tag if it is there.
pub fn names_object(tags: &[String], found: &Option<String>) -> bool {
    let Some(found) = found else {
        return false;
    };
    let named = |tag: &String| tag == "*" || made(tag) == made(found);
    tags.iter().any(named)
}

/// A tag's half that says what somebody made.
fn made(tag: &str) -> &str {
    let tag = tag.trim_matches('"');
    tag.split_once('.').map_or(tag, |(made, _)| made)
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let bytes = digest.iter().take(8);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn leave_out_observed(value: &mut Value) {
    match value {
        Value::Object(properties) => {
            properties.retain(|property, _| !OBSERVED.contains(&property.as_str()));
            properties.values_mut().for_each(leave_out_observed);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_observed),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::http::HeaderMap;
    use axum::response::IntoResponse;
    use serde_json::json;

    use super::*;

    async fn tag(shown: Value) -> Option<String> {
        let answer = tagged(Json(shown).into_response()).await.unwrap();
        let tag = answer.headers().get(header::ETAG)?.to_str().unwrap();
        Some(tag.to_owned())
    }

    /// What a pool does by itself is no change of what it was made; another member is one.
    #[tokio::test]
    async fn a_change_goes_by_what_somebody_made() {
        let pool = async |used: u64, errors: u64, drive: &str| {
            tag(json!({
                "name": "p", "state": "online", "usable_bytes": 100, "used_bytes": used,
                "members": [{ "index": 0, "drive": drive, "active": true, "read_errors": errors }],
                "counters": { "host_blocks_written": used },
            }))
            .await
        };
        let first = pool(1, 0, "d0").await;
        let named = [first.clone().unwrap()];
        assert!(names_object(&named, &first));
        assert!(names_object(&named, &pool(2, 3, "d0").await));
        assert!(!names_object(&named, &pool(1, 0, "d1").await));
        assert!(!names_object(&["*".to_owned()], &None));
    }

    /// A list says that it is another one when anything of it is.
    #[tokio::test]
    async fn a_list_has_a_tag_of_all_that_it_says() {
        let list = |state: &str| api::List {
            items: vec![json!({ "name": "a", "state": state })],
            next: None,
        };
        let tag_of = async |state| tag(serde_json::to_value(list(state)).unwrap()).await;
        let online = tag_of("online").await.unwrap();
        assert!(!online.contains('.'), "{online}");
        assert_eq!(tag_of("online").await.unwrap(), online);
        assert_ne!(tag_of("offline").await.unwrap(), online);
        assert!(
            serde_json::to_vec(&list("online"))
                .unwrap()
                .starts_with(LIST)
        );
    }

    /// A reader is told of everything.
    #[tokio::test]
    async fn what_is_new_in_any_way_is_shown() {
        let shown = |state: &str| Json(json!({ "name": "v", "state": state })).into_response();
        let online = tagged(shown("online")).await.unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(
            header::IF_NONE_MATCH,
            online.headers()[header::ETAG].clone(),
        );
        let known = named_by(headers.get_all(header::IF_NONE_MATCH));
        let again = unless_known(tagged(shown("online")).await.unwrap(), &known);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(
            again.headers()[header::ETAG],
            online.headers()[header::ETAG]
        );
        assert!(
            again
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .is_empty()
        );
        let other = unless_known(tagged(shown("offline")).await.unwrap(), &known);
        assert_eq!(other.status(), StatusCode::OK);
    }

    #[test]
    fn conditions_are_lists_in_one_header_or_several() {
        let mut headers = HeaderMap::new();
        headers.append(header::IF_MATCH, HeaderValue::from_static("\"a\", W/\"b\""));
        headers.append(header::IF_MATCH, HeaderValue::from_static("\"c\""));
        let named = named_by(headers.get_all(header::IF_MATCH));
        assert_eq!(named, ["\"a\"", "\"b\"", "\"c\""]);
    }
}
