//! Tokens: who may use the API, and for what; and the audit log of what they did.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ErrorCode, Name, SecretText};

/// What a token is good for. Each role may do what those before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads everything but tokens and the audit log.
    Viewer,
    /// Changes volumes and hosts.
    Operator,
    /// Does everything: drives, pools, settings and tokens as well.
    Admin,
}

/// What a token is to be; the body of `PUT /v1/tokens/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// What it is good for.
    pub role: Role,
    /// Only for this tenant's volumes, snapshots and hosts, and for what the tenant is granted of
    /// pools; not with role admin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// When it stops being good, in UTC (RFC 3339); without this it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires: Option<String>,
}

/// A token as the node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its name: who did what, in the audit log.
    pub name: Name,
    /// What it is good for.
    pub role: Role,
    /// The tenant whose volumes and hosts it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// When it was made, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub created: String,
    /// When it stops being good, in UTC (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires: Option<String>,
    /// What the client sends, as `Authorization: Bearer SECRET`; only in the answer to the request
    /// that made the token, for the node does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretText>,
}

/// Whose token a request carries; the answer of `GET /v1/self`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Caller {
    /// The token's name.
    pub name: Name,
    /// What it is good for.
    pub role: Role,
    /// The tenant whose volumes and hosts it is for; none: everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
}

impl Caller {
    /// Whether what belongs to `owner` may be seen.
    pub fn sees(&self, owner: Option<&Name>) -> bool {
        self.tenant.is_none() || self.tenant.as_ref() == owner
    }
}

/// One change, made or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Counts up from 1 for the life of the node.
    pub id: u64,
    /// When, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub time: String,
    /// The name of the token that asked for it.
    pub token: Name,
    /// Address and port that it came from.
    pub from: String,
    /// Identifier of the request.
    pub request: String,
    /// What should be done: the method.
    pub method: String,
    /// And to what: the path.
    pub path: String,
    /// And how: the body, without what is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The answer's HTTP status: below 300, it was done.
    pub status: u16,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Of a burst of refused changes: so many more of this token were refused in the minute after
    /// this one, and have no entry of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: u64,
}

impl AuditEntry {
    /// Nothing was changed, and that was right.
    pub fn is_refused(&self) -> bool {
        (400..500).contains(&self.status)
    }
}

/// For what is left out unless there is some.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks with a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_token_is_given_once_and_never_shown_by_accident() {
        let token = Token {
            name: "t".parse().unwrap(),
            role: Role::Viewer,
            tenant: None,
            created: "2026-11-26T12:00:00Z".into(),
            expires: None,
            secret: Some("fy_secret".into()),
        };
        assert!(!format!("{token:?}").contains("fy_"), "{token:?}");
        let given = serde_json::to_string(&token).unwrap();
        assert!(given.contains(r#""secret":"fy_secret""#), "{given}");
    }
}
