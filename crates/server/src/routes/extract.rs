//! What handlers take from a request, refused in our own error shape.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use api::{ErrorBody, Name, SnapshotName};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::objects::Objects;
use super::{Refusal, document};

/// A JSON body; a wrong one is refused with the path of the field at fault.
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Refusal> {
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("body", rejection.body_text())))?;
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(Objects(&mut json)).map_err(|error| {
            let said = error.inner().to_string();
            let field = field_of(&error.path().to_string(), &said);
            Refusal(ErrorBody::invalid(field, said))
        })?;
        json.end()
            .map_err(|error| Refusal(ErrorBody::invalid("body", error.to_string())))?;
        Ok(Body(value))
    }
}

/// The field of a body that is wrong: where reading ended, or what is said to be missing there or
/// to come twice.
fn field_of(path: &str, said: &str) -> String {
    let words: &[&str] = match path {
        // Elsewhere reading ended at what is unknown.
        "." => &["missing field `", "duplicate field `", "unknown field `"],
        _ => &["missing field `", "duplicate field `"],
    };
    let mut words = words.iter();
    let named = words.find_map(|words| said.strip_prefix(*words)?.split('`').next());
    match (path, named) {
        (".", None) => "body".to_owned(),
        (".", Some(name)) => name.to_owned(),
        (path, None) => path.to_owned(),
        (path, Some(name)) => format!("{path}.{name}"),
    }
}

/// The `{name}` of a path.
pub struct Named(pub Name);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, Refusal> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("name", rejection.body_text())))?;
        parse("name", &text).map(Named)
    }
}

/// The `{name}` and the `{nsid}` of a path.
pub struct NamedNamespace(pub Name, pub u32);

impl<S: Send + Sync> FromRequestParts<S> for NamedNamespace {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NamedNamespace, Refusal> {
        let Path((name, nsid)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("name", rejection.body_text())))?;
        Ok(NamedNamespace(
            parse("name", &name)?,
            nsid.parse().map_err(|_| {
                let message = format!("namespace {nsid:?}; allowed: a number");
                Refusal(ErrorBody::invalid("nsid", message))
            })?,
        ))
    }
}

/// The `{name}` and the `{host}` of a path.
pub struct NamedHost(pub Name, pub Name);

impl<S: Send + Sync> FromRequestParts<S> for NamedHost {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NamedHost, Refusal> {
        let Path((name, host)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("name", rejection.body_text())))?;
        Ok(NamedHost(parse("name", &name)?, parse("host", &host)?))
    }
}

/// The `{name}` and the `{drive}` of a path.
pub struct NamedDrive(pub Name, pub Name);

impl<S: Send + Sync> FromRequestParts<S> for NamedDrive {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NamedDrive, Refusal> {
        let Path((name, drive)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("name", rejection.body_text())))?;
        Ok(NamedDrive(parse("name", &name)?, parse("drive", &drive)?))
    }
}

/// The snapshot that the `{pool}` and the `{name}` of a path name.
pub struct NamedInPool(pub SnapshotName);

impl<S: Send + Sync> FromRequestParts<S> for NamedInPool {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NamedInPool, Refusal> {
        let Path((pool, name)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("name", rejection.body_text())))?;
        Ok(NamedInPool(SnapshotName {
            pool: Some(parse("pool", &pool)?),
            name: parse("name", &name)?,
        }))
    }
}

/// The `{name}` and the `{pool}` of a path.
pub struct NamedPool(pub Name, pub Name);

impl<S: Send + Sync> FromRequestParts<S> for NamedPool {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NamedPool, Refusal> {
        let Path((name, pool)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("name", rejection.body_text())))?;
        Ok(NamedPool(parse("name", &name)?, parse("pool", &pool)?))
    }
}

/// The `{id}` of a path.
pub struct Numbered(pub u64);

impl<S: Send + Sync> FromRequestParts<S> for Numbered {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Numbered, Refusal> {
        let Path(id) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("id", rejection.body_text())))?;
        let wrong = |_| ErrorBody::invalid("id", format!("{id:?}; allowed: a number"));
        Ok(Numbered(id.parse().map_err(wrong)?))
    }
}

fn parse(field: &str, text: &str) -> Result<Name, Refusal> {
    Name::from_str(text).map_err(|error| Refusal(ErrorBody::invalid(field, error.to_string())))
}

/// The query string; a wrong parameter is refused by name. Unknown ones do not come so far.
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Parameters<T>, Refusal> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        let Query(value) = read.map_err(|rejection| wrong(&parts.uri, &rejection.body_text()))?;
        Ok(Parameters(value))
    }
}

type Pairs = Vec<(String, String)>;

/// Which parameter of a query cannot be read, which is said before why.
fn wrong(uri: &Uri, said: &str) -> Refusal {
    let pairs = Query::<Pairs>::try_from_uri(uri).map_or_else(|_| Vec::new(), |Query(pairs)| pairs);
    let at = pairs.iter().find_map(|(name, value)| {
        let (_, reason) = said.split_once(&format!(": {name}: "))?;
        let message = format!("{value:?}: {reason}; allowed: what /openapi.json says of it");
        Some(ErrorBody::invalid(name, message))
    });
    Refusal(at.unwrap_or_else(|| ErrorBody::invalid("query", said)))
}

/// The query parameters that every operation has, by its path and method.
pub struct Queries(HashMap<String, HashMap<String, Vec<String>>>);

impl Queries {
    /// As the document says.
    pub fn of(document: &Value) -> Queries {
        let mut queries: HashMap<String, HashMap<String, Vec<String>>> = HashMap::new();
        for (method, path, names) in document::queries(document) {
            queries.entry(path).or_default().insert(method, names);
        }
        Queries(queries)
    }

    /// Refuses what the operation does not have, and what is said twice.
    fn check(&self, path: &str, method: &Method, uri: &Uri) -> Result<(), Refusal> {
        let method = match *method {
            Method::HEAD => Method::GET.as_str(),
            _ => method.as_str(),
        };
        let known = self.0.get(path).and_then(|methods| methods.get(method));
        let (Some(known), Some(_)) = (known, uri.query()) else {
            return Ok(());
        };
        let Query(pairs) = Query::<Pairs>::try_from_uri(uri)
            .map_err(|rejection| ErrorBody::invalid("query", rejection.body_text()))?;
        for (index, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(name) {
                let allowed = match known.as_slice() {
                    [] => "none".to_owned(),
                    known => known.join(", "),
                };
                let message = format!("query parameter {name:?}; allowed here: {allowed}");
                return Err(ErrorBody::invalid(name, message).into());
            }
            if pairs.iter().take(index).any(|(before, _)| before == name) {
                let message = format!("query parameter {name:?} comes twice; allowed: once");
                return Err(ErrorBody::invalid(name, message).into());
            }
        }
        Ok(())
    }
}

/// In a request's extensions: whether there is a route is all that is asked.
#[derive(Clone, Copy)]
pub struct OnlyAsked;

/// Stands before every route: a misspelt parameter is no request for what comes without it.
pub async fn known_parameters(
    State(queries): State<Arc<Queries>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    queries.check(path.as_str(), request.method(), request.uri())?;
    if request.extensions().get::<OnlyAsked>().is_some() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_comes_twice_is_named() {
        for (path, said, field) in [
            (".", "an array; allowed: an object", "body"),
            (".", "missing field `level` at line 1 column 2", "level"),
            (".", "duplicate field `pool` at line 1 column 20", "pool"),
            (".", "unknown field `path` for this kind of drive", "path"),
            ("snapshots[0]", "missing field `name`", "snapshots[0].name"),
            ("hots", "unknown field `hots`, expected one of", "hots"),
            ("hosts[1]", "invalid type", "hosts[1]"),
        ] {
            assert_eq!(field_of(path, said), field);
        }
    }
}
