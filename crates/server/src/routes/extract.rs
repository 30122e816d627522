//! What handlers take from a request, refused in our own error shape.

use std::str::FromStr;

use api::{ErrorBody, Name, SnapshotName};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::Refusal;
use super::objects::Objects;

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
            let path = error.path().to_string();
            let field = if path == "." { "body".to_owned() } else { path };
            Refusal(ErrorBody::invalid(field, error.inner().to_string()))
        })?;
        json.end()
            .map_err(|error| Refusal(ErrorBody::invalid("body", error.to_string())))?;
        Ok(Body(value))
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

/// The query string; a wrong or unknown parameter is refused.
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Parameters<T>, Refusal> {
        let Query(value) = Query::<T>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal(ErrorBody::invalid("query", rejection.body_text())))?;
        Ok(Parameters(value))
    }
}
