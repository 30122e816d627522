//! `/v1/tokens`, `/v1/self` and `/v1/audit`

use std::sync::Arc;

use api::{AuditEntry, Caller, ErrorBody, List, Name, PAGE_ITEMS_MAX, PageQuery, Token, TokenSpec};
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::extract::{Body, Named, Parameters};
use super::{Answer, Gone};
use crate::control::Control;

/// Every token, by name, without secrets
#[utoipa::path(get, path = "/v1/tokens", operation_id = "list_tokens", params(PageQuery),
    responses((status = OK, body = List<Token>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<Token>> {
    let tokens = control.tokens();
    Ok(Json(List::page(tokens, &query, |token| {
        token.name.clone()
    })?))
}

/// A token, without its secret
#[utoipa::path(get, path = "/v1/tokens/{name}", operation_id = "show_token",
    params(("name" = Name, Path)),
    responses((status = OK, body = Token), (status = "default", body = ErrorBody)))]
pub async fn show(State(control): State<Arc<Control>>, Named(name): Named) -> Answer<Token> {
    Ok(Json(control.token(&name)?))
}

/// Make a token; the answer to the first request has its secret
#[utoipa::path(put, path = "/v1/tokens/{name}", operation_id = "create_token",
    params(("name" = Name, Path)), request_body = TokenSpec,
    responses((status = OK, body = Token), (status = "default", body = ErrorBody)))]
pub async fn create(
    State(control): State<Arc<Control>>,
    Named(name): Named,
    Body(spec): Body<TokenSpec>,
) -> Answer<Token> {
    Ok(Json(control.create_token(&name, &spec).await?))
}

/// Make a token worthless
#[utoipa::path(delete, path = "/v1/tokens/{name}", operation_id = "revoke_token",
    params(("name" = Name, Path)),
    responses((status = NO_CONTENT), (status = "default", body = ErrorBody)))]
pub async fn revoke(State(control): State<Arc<Control>>, Named(name): Named) -> Gone {
    control.revoke_token(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whose token the request carries
#[utoipa::path(get, path = "/v1/self", operation_id = "show_self",
    responses((status = OK, body = Caller), (status = "default", body = ErrorBody)))]
pub async fn myself(Extension(caller): Extension<Caller>) -> Answer<Caller> {
    Ok(Json(caller))
}

/// Every change, made or refused, oldest first; older ones than the last 50,000 are gone
#[utoipa::path(get, path = "/v1/audit", operation_id = "list_audit", params(PageQuery),
    responses((status = OK, body = List<AuditEntry>), (status = "default", body = ErrorBody)))]
pub async fn audit(
    State(control): State<Arc<Control>>,
    Parameters(query): Parameters<PageQuery>,
) -> Answer<List<AuditEntry>> {
    // Only the part that a page can need is read; what is no number is refused by the page.
    let after = query.after.as_ref().and_then(|after| after.parse().ok());
    let read = control.audit_log(after.unwrap_or(0), PAGE_ITEMS_MAX as usize + 1);
    Ok(Json(List::page(read.await?, &query, |entry| entry.id)?))
}
