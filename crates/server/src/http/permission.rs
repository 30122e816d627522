//! Who may do what: from a request's method and path, before any route.
//!
//! What is not named here needs the role admin, and is closed to tokens of tenants.

use api::{Caller, ErrorBody, ErrorCode, Name, Role};
use axum::http::Method;

use crate::state::Kind;

/// What a request is about, as far as permission goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Subject {
    /// One object that may be somebody's, or something below it.
    Owned(Kind, Name),
    /// Everything else.
    Other,
}

/// Whether a path is for those who have a token. The page, its parts and the API's description are
/// for everybody.
pub fn needs_token(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    matches!(segments.next(), Some("v1" | "metrics"))
}

/// Refuses what the caller's token is not good for.
pub fn check(caller: &Caller, method: &Method, path: &str) -> Result<Subject, ErrorBody> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let needed = needed_role(method, &segments);
    if caller.role < needed {
        let message = format!(
            "token {} has role {}; this needs {}",
            caller.name,
            word(caller.role),
            word(needed)
        );
        return Err(ErrorBody::new(ErrorCode::Forbidden, message));
    }
    let subject = subject(&segments);
    match &caller.tenant {
        Some(tenant) if !open_to_tenants(tenant, method, &segments, &subject) => {
            let message = format!(
                "token {} is for tenant {tenant}; this needs one without a tenant",
                caller.name
            );
            Err(ErrorBody::new(ErrorCode::Forbidden, message))
        }
        _ => Ok(subject),
    }
}

fn needed_role(method: &Method, segments: &[&str]) -> Role {
    match (segments, method.is_safe()) {
        (["v1", "tokens" | "audit", ..], _) => Role::Admin,
        (_, true) => Role::Viewer,
        (["v1", "volumes" | "hosts" | "snapshots" | "schedules", ..], false) => Role::Operator,
        (["v1", "pools", _, "snapshots", _], false) => Role::Operator,
        _ => Role::Admin,
    }
}

fn subject(segments: &[&str]) -> Subject {
    let kind = match segments {
        ["v1", "volumes", _, ..] => Kind::Volume,
        ["v1", "hosts", _, ..] => Kind::Host,
        _ => return Subject::Other,
    };
    // A name in another spelling, such as %64emo, is nobody's: closed to tenants.
    let name = segments.get(2).and_then(|name| name.parse().ok());
    name.map_or(Subject::Other, |name| Subject::Owned(kind, name))
}

/// Collections here, histories, all snapshots and schedules are filtered by their routes, objects
/// by their owner. What a tenant may make in which pool, and of which snapshot, is looked at where
/// it is made.
fn open_to_tenants(tenant: &Name, method: &Method, segments: &[&str], subject: &Subject) -> bool {
    match (segments, subject) {
        (["v1", "volumes", _], Subject::Owned(..)) => true,
        (
            [
                "v1",
                "volumes",
                _,
                "resize" | "reserve" | "protect" | "rename" | "rollback" | "promote",
            ],
            Subject::Owned(..),
        ) => true,
        (["v1", "volumes", _, "hosts", _], Subject::Owned(..)) => true,
        // A name of a host is whatever anybody says: the node's people say whose it is.
        (["v1", "hosts", _] | ["v1", "hosts", _, "connections"], Subject::Owned(..)) => {
            method.is_safe()
        }
        (["v1", "hosts", _, "key" | "tls-key"], Subject::Owned(..)) => true,
        (["v1", "snapshots" | "schedules"], _) => true,
        (["v1", "snapshots" | "schedules", _] | ["v1", "snapshots", _, "extents"], _) => true,
        (["v1", "pools", _, "snapshots", _] | ["v1", "pools", _, "snapshots", _, "extents"], _) => {
            true
        }
        (["v1", "tenants", name], _) => method.is_safe() && *name == tenant.as_str(),
        (
            [
                "v1",
                "self" | "status" | "sessions" | "volumes" | "hosts" | "history",
            ],
            _,
        ) => method.is_safe(),
        _ => false,
    }
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, tenant: Option<&str>) -> Caller {
        Caller {
            name: "t".parse().unwrap(),
            role,
            tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        }
    }

    fn allowed(caller: &Caller, method: Method, path: &str) -> bool {
        check(caller, &method, path).is_ok()
    }

    #[test]
    fn what_needs_no_token_is_outside_the_api() {
        assert!(!needs_token("/") && !needs_token("/openapi.json") && !needs_token("/assets/a.js"));
        assert!(needs_token("/v1/status") && needs_token("/metrics") && needs_token("/v1"));
    }

    #[test]
    fn each_role_may_do_what_it_is_for() {
        let [viewer, operator, admin] =
            [Role::Viewer, Role::Operator, Role::Admin].map(|role| caller(role, None));
        assert!(allowed(&viewer, Method::GET, "/v1/drives"));
        assert!(allowed(&viewer, Method::GET, "/metrics"));
        assert!(!allowed(&viewer, Method::PUT, "/v1/hosts/h"));
        assert!(allowed(&operator, Method::PUT, "/v1/hosts/h"));
        assert!(allowed(&operator, Method::DELETE, "/v1/volumes/v/hosts/h"));
        assert!(allowed(
            &operator,
            Method::DELETE,
            "/v1/pools/p/snapshots/s"
        ));
        assert!(!allowed(&operator, Method::DELETE, "/v1/pools/p"));
        for (method, path) in [
            (Method::PUT, "/v1/drives/d"),
            (Method::PATCH, "/v1/settings"),
            (Method::PUT, "/v1/replications/r"),
            (Method::GET, "/v1/tokens"),
            (Method::GET, "/v1/audit"),
            (Method::POST, "/v1/something/new"),
        ] {
            assert!(!allowed(&operator, method.clone(), path), "{method} {path}");
            assert!(allowed(&admin, method, path));
        }
    }

    #[test]
    fn a_tenant_reaches_only_what_can_be_its_own() {
        let tenant = caller(Role::Operator, Some("acme"));
        for path in [
            "/v1/volumes",
            "/v1/volumes/v",
            "/v1/hosts",
            "/v1/hosts/h/connections",
            "/v1/sessions",
            "/v1/self",
            "/v1/history",
        ] {
            assert!(allowed(&tenant, Method::GET, path), "{path}");
        }
        for method in [Method::PUT, Method::DELETE] {
            assert!(!allowed(&tenant, method, "/v1/hosts/h"));
        }
        assert!(allowed(&tenant, Method::PUT, "/v1/hosts/h/key"));
        assert!(allowed(&tenant, Method::DELETE, "/v1/volumes/v"));
        assert!(allowed(&tenant, Method::PUT, "/v1/volumes/v"));
        assert!(!allowed(&tenant, Method::PUT, "/v1/volumes/%64emo"));
        for path in [
            "/v1/volumes/v/resize",
            "/v1/volumes/v/rollback",
            "/v1/volumes/v/reserve",
            "/v1/volumes/v/protect",
            "/v1/volumes/v/promote",
            "/v1/snapshots",
        ] {
            assert!(allowed(&tenant, Method::POST, path), "{path}");
        }
        assert!(allowed(&tenant, Method::DELETE, "/v1/pools/p/snapshots/s"));
        for path in ["/v1/snapshots/s/extents", "/v1/pools/p/snapshots/s/extents"] {
            assert!(allowed(&tenant, Method::GET, path), "{path}");
        }
        assert!(!allowed(&tenant, Method::GET, "/v1/pools/p/snapshots"));
        assert!(!allowed(&tenant, Method::PUT, "/v1/volumes/v/limits"));
        assert!(allowed(&tenant, Method::GET, "/v1/tenants/acme"));
        assert!(!allowed(&tenant, Method::GET, "/v1/tenants/rival"));
        assert!(!allowed(&tenant, Method::GET, "/v1/tenants"));
        assert!(!allowed(&tenant, Method::GET, "/v1/volumes/%64emo"));
        assert!(!allowed(&tenant, Method::DELETE, "/v1/volumes/../hosts/h"));
        for path in [
            "/v1/drives",
            "/v1/events",
            "/v1/settings",
            "/metrics",
            "/v1/pools/p",
        ] {
            assert!(!allowed(&tenant, Method::GET, path), "{path}");
        }
        let subject = check(&tenant, &Method::GET, "/v1/volumes/v/hosts/h").unwrap();
        assert_eq!(subject, Subject::Owned(Kind::Volume, "v".parse().unwrap()));
    }
}
