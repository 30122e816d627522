//! The REST API spoken by hand: everything that is no success has the one error shape.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};

use api::{Drive, ErrorBody, ErrorCode, List};
use support::http::{connect, exchange, header, request};
use support::{Node, name, wait_until};

/// Method, path and body; status, code and field of the refusal.
type Case<'a> = (&'a str, &'a str, &'a str, u16, ErrorCode, Option<&'a str>);

#[test]
fn every_refusal_has_the_one_error_shape() {
    let node = Node::develop(&["--drives", "1"]);
    let invalid = ErrorCode::InvalidArgument;
    let drive = "/v1/drives/x";
    let volume = "/v1/volumes/x";
    let cases: &[Case] = &[
        ("GET", "/nothing", "", 404, ErrorCode::NotFound, None),
        ("GET", "/v1/nothing", "", 404, ErrorCode::NotFound, None),
        ("GET", "/v1/volumes/x", "", 404, ErrorCode::NotFound, None),
        (
            "POST",
            "/v1/volumes",
            "{}",
            405,
            ErrorCode::MethodNotAllowed,
            None,
        ),
        ("GET", "/v1/volumes/X", "", 400, invalid, Some("name")),
        (
            "GET",
            "/v1/volumes/%2e%2e%2fx",
            "",
            400,
            invalid,
            Some("name"),
        ),
        ("GET", "/v1/volumes/%ff", "", 400, invalid, Some("name")),
        (
            "PUT",
            "/v1/volumes/demo/hosts/B",
            "",
            400,
            invalid,
            Some("host"),
        ),
        ("GET", "/v1/events?after=x", "", 400, invalid, Some("after")),
        (
            "GET",
            "/v1/volumes?limit=0",
            "",
            400,
            invalid,
            Some("limit"),
        ),
        (
            "GET",
            "/v1/volumes?limit=x",
            "",
            400,
            invalid,
            Some("limit"),
        ),
        ("GET", "/v1/drives?after=A", "", 400, invalid, Some("after")),
        (
            "PATCH",
            "/v1/settings",
            " [null, null]",
            400,
            invalid,
            Some("body"),
        ),
        (
            "PATCH",
            "/v1/settings",
            "{\"shutdown_timeout_seconds\":0}",
            400,
            invalid,
            Some("shutdown_timeout_seconds"),
        ),
        (
            "PATCH",
            "/v1/settings",
            "{\"log_level\":\"loud\"}",
            400,
            invalid,
            Some("log_level"),
        ),
        (
            "GET",
            "/v1/events?before=1",
            "",
            400,
            invalid,
            Some("before"),
        ),
        ("PUT", drive, "", 400, invalid, Some("body")),
        ("PUT", drive, "{}", 400, invalid, Some("kind")),
        (
            "PUT",
            drive,
            "{\"kind\":\"tape\"}",
            400,
            invalid,
            Some("kind"),
        ),
        (
            "PUT",
            drive,
            "{\"kind\":\"memory\",\"size\":\"1 XB\"}",
            400,
            invalid,
            Some("size"),
        ),
        (
            "PUT",
            volume,
            "{\"drive\":\"d0\",\"block_bytes\":520}",
            400,
            invalid,
            Some("block_bytes"),
        ),
        (
            "PUT",
            volume,
            "{\"drive\":\"d0\",\"hosts\":[\"A\"]}",
            400,
            invalid,
            Some("hosts[0]"),
        ),
        (
            "PUT",
            volume,
            "{\"drive\":\"d0\",\"hots\":[]}",
            400,
            invalid,
            Some("hots"),
        ),
        (
            "PUT",
            volume,
            "{\"drive\":\"d0\"} x",
            400,
            invalid,
            Some("body"),
        ),
        (
            "PUT",
            volume,
            "{\"drive\":\"d0\"}",
            409,
            ErrorCode::InUse,
            Some("drive"),
        ),
    ];
    for (method, path, body, status, code, field) in cases {
        let (found, answer) = request(&node, method, path, body);
        let place = format!("{method} {path} {body}");
        assert_eq!(found, *status, "{place}: {answer}");
        let error: ErrorBody = serde_json::from_str(&answer)
            .unwrap_or_else(|error| panic!("{place}: {error}: {answer}"));
        assert_eq!(error.code, *code, "{place}: {answer}");
        if field.is_some() {
            assert_eq!(error.field.as_deref(), *field, "{place}: {answer}");
        }
        assert!(!error.message.is_empty(), "{place}");
    }
}

#[test]
fn an_oversized_body_is_refused() {
    let node = Node::develop(&["--drives", "1"]);
    let body = format!("{{\"drive\":\"{}\"}}", "d".repeat(4 << 20));
    let mut stream = connect(&node);
    let token = node.admin_token();
    let head = format!(
        "PUT /v1/volumes/x HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n"
    );
    write!(stream, "{head}Content-Length: {}\r\n\r\n", body.len()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("body_too_large"), "{answer}");

    let mut stream = connect(&node);
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n").unwrap();
    let _ = write!(stream, "{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 2"));
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
}

#[test]
fn slow_clients_are_cut_off_and_others_served() {
    let node = Node::develop(&["--drives", "1"]);
    let mut silent = connect(&node);
    let mut in_header = connect(&node);
    write!(in_header, "GET /v1/status HTTP/1.1\r\nHost: n\r\n").unwrap();
    let mut in_body = connect(&node);
    let token = node.admin_token();
    let head = format!("PUT /v1/volumes/x HTTP/1.1\r\nAuthorization: Bearer {token}");
    write!(in_body, "{head}\r\nHost: n\r\nContent-Length: 9\r\n\r\n{{").unwrap();
    assert_eq!(request(&node, "GET", "/v1/status", "").0, 200);
    let mut answers = [&mut silent, &mut in_header, &mut in_body].map(|stream| {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    });
    let [silent, in_header, in_body] = &mut answers;
    assert!(silent.is_empty(), "{silent}");
    assert!(!in_header.starts_with("HTTP/1.1 2"), "{in_header}");
    assert!(in_body.starts_with("HTTP/1.1 408"), "{in_body}");
}

#[test]
fn lists_come_in_pages() {
    let node = Node::develop(&["--drives", "3"]);
    let page = |query: &str| -> List<Drive> {
        let (status, body) = request(&node, "GET", &format!("/v1/drives{query}"), "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let names = |list: &List<Drive>| -> Vec<String> {
        list.items
            .iter()
            .map(|drive| drive.name.to_string())
            .collect()
    };
    let first = page("?limit=2");
    assert_eq!(names(&first), ["d0", "d1"]);
    let second = page(&format!("?limit=2&after={}", first.next.unwrap()));
    assert_eq!((names(&second), second.next), (vec!["d2".into()], None));
    assert_eq!(page("").items.len(), 3);
}

#[test]
fn a_change_with_a_condition_is_made_once() {
    let node = Node::develop(&["--drives", "2"]);
    let tag = |path: &str| {
        let (status, head, body) = exchange(&node, "GET", path, &[], "");
        assert_eq!(status, 200, "{body}");
        header(&head, "etag").unwrap()
    };
    let change = |method: &str, path: &str, tag: &str, body: &str| {
        let condition = format!("If-Match: {tag}");
        exchange(&node, method, path, &[&condition], body).0
    };
    let before = tag("/v1/settings");
    let body = "{\"shutdown_timeout_seconds\":11}";
    assert_eq!(change("PATCH", "/v1/settings", &before, body), 200);
    let body = "{\"shutdown_timeout_seconds\":12}";
    assert_eq!(change("PATCH", "/v1/settings", &before, body), 412);
    let seconds = node.client().settings().unwrap().shutdown_timeout_seconds;
    assert_eq!(seconds, 11);
    let tags = format!("\"0\", {}", tag("/v1/settings"));
    assert_eq!(change("PATCH", "/v1/settings", &tags, body), 200);

    // A path that is only for changes counts as the object above it.
    let shown = tag("/v1/volumes/demo");
    let denied = "/v1/volumes/demo/hosts/any";
    assert_eq!(change("DELETE", denied, "\"0\"", ""), 412);
    assert_eq!(change("DELETE", denied, &shown, ""), 200);
    assert_ne!(tag("/v1/volumes/demo"), shown);
    assert_eq!(change("DELETE", "/v1/volumes/demo", &shown, ""), 412);
    assert_eq!(change("DELETE", "/v1/volumes/demo", "*", ""), 204);
    assert_eq!(change("DELETE", "/v1/volumes/demo", "*", ""), 412);
}

/// A reader is told that nothing is new, and of everything that is; a change is made only where
/// there is nothing yet.
#[test]
fn what_a_client_has_already_is_neither_sent_nor_made_again() {
    let node = Node::develop(&["--drives", "4"]);
    let read = |tag: &str| {
        let condition = format!("If-None-Match: {tag}");
        exchange(&node, "GET", "/v1/volumes/demo", &[&condition], "")
    };
    let (status, head, _) = exchange(&node, "GET", "/v1/volumes/demo", &[], "");
    let tag = header(&head, "etag").unwrap();
    assert_eq!(status, 200);
    let (status, head, body) = read(&format!("\"0\", W/{tag}"));
    assert_eq!((status, body.as_str()), (304, ""));
    assert_eq!(header(&head, "etag"), Some(tag.clone()));
    assert_eq!(read("*").0, 304);
    assert_eq!(read("\"0\"").0, 200);
    assert!(
        node.ask(&["volume", "deny", "demo", "any"])
            .status
            .success()
    );
    assert_eq!(read(&tag).0, 200);

    for (path, body) in [
        ("/v1/volumes/new", r#"{"pool":"pool","size":4096}"#),
        ("/v1/tokens/new", r#"{"role":"viewer"}"#),
        ("/v1/hosts/new", r#"{"nqn":"nqn.2014-08.org.example:new"}"#),
    ] {
        let create = || exchange(&node, "PUT", path, &["If-None-Match: *"], body);
        let (status, _, answer) = create();
        assert_eq!(status, 200, "{path}: {answer}");
        let (status, _, answer) = create();
        let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
        assert_eq!(status, 412, "{path}: {answer}");
        assert_eq!(refused.field.as_deref(), Some("If-None-Match"));
    }
}

/// A request that is no request for anything is refused as that, whatever its conditions.
#[test]
fn conditions_are_looked_at_where_there_is_a_route() {
    let node = Node::develop(&["--drives", "2"]);
    for (method, path, status) in [
        ("POST", "/v1/volumes/demo", 405),
        ("DELETE", "/v1/status", 405),
        ("PUT", "/v1/nothing/there", 404),
        ("DELETE", "/v1/volumes/demo?forced=true", 400),
        ("DELETE", "/v1/volumes/demo", 412),
    ] {
        let (found, _, answer) = exchange(&node, method, path, &["If-Match: \"0\""], "");
        assert_eq!(found, status, "{method} {path}: {answer}");
    }
    let volume = node.client().volume(&name("demo"));
    assert!(volume.is_ok(), "{volume:?}");
}

/// A misspelt parameter is no request for what comes without it, whatever the method.
#[test]
fn query_parameters_that_an_operation_lacks_are_refused() {
    let node = Node::develop(&["--drives", "4"]);
    let spec = "{\"pool\":\"pool\",\"size\":4096}";
    for (method, path, body, field) in [
        ("GET", "/v1/status?verbose=1", "", "verbose"),
        ("GET", "/metrics?name", "", "name"),
        ("GET", "/v1/drives?limit=1&limit=2", "", "limit"),
        ("GET", "/v1/drives?Limit=1", "", "Limit"),
        ("PUT", "/v1/volumes/v?dry_run=true", spec, "dry_run"),
        ("PATCH", "/v1/settings?force=true", "{}", "force"),
        ("POST", "/v1/pools/pool/scrub?force=true", "", "force"),
        ("DELETE", "/v1/volumes/demo?forced=true", "", "forced"),
        ("DELETE", "/v1/volumes/demo?force=yes", "", "force"),
    ] {
        let (status, answer) = request(&node, method, path, body);
        assert_eq!(status, 400, "{method} {path}: {answer}");
        let refused: ErrorBody = serde_json::from_str(&answer).unwrap();
        assert_eq!(refused.field.as_deref(), Some(field), "{method} {path}");
        assert!(refused.message.contains("allowed"), "{}", refused.message);
    }
    assert_eq!(request(&node, "GET", "/v1/volumes/v", "").0, 404);
    assert_eq!(request(&node, "GET", "/v1/volumes/demo", "").0, 200);
    assert_eq!(request(&node, "HEAD", "/v1/drives?limit=1", "").0, 200);
}

#[test]
fn every_answer_names_its_request() {
    let node = Node::develop(&["--drives", "1"]);
    let id = |headers: &[&str]| {
        let (_, head, _) = exchange(&node, "GET", "/v1/status", headers, "");
        header(&head, "x-request-id").unwrap()
    };
    assert_eq!(id(&["X-Request-Id: build-7.1"]), "build-7.1");
    assert_ne!(id(&[]), id(&[]));
    for wrong in ["", "a b", "a;b", &"x".repeat(65)] {
        assert_ne!(id(&[&format!("X-Request-Id: {wrong}")]), wrong);
    }
}

#[test]
fn changed_settings_are_in_force_and_remembered() {
    let mut node = Node::configured("[log]\nlevel = \"warn\"\n");
    assert!(!node.log().contains("INFO"), "{}", node.log());
    node.answer(&["settings", "set", "--log-level", "debug"]);
    node.answer(&["status"]);
    wait_until("the log is written", || node.log().contains("/v1/status"));
    node.kill();
    node.start();
    let shown = node.answer(&["settings", "show"]);
    assert!(shown.contains("debug"), "{shown}");
    wait_until("the log is written", || node.log().contains("/v1/settings"));
}

#[test]
fn the_document_is_served() {
    let node = Node::develop(&["--drives", "1"]);
    let (status, body) = request(&node, "GET", "/openapi.json", "");
    assert_eq!(status, 200);
    let served: serde_json::Value = serde_json::from_str(&body).unwrap();
    let current = server::routes::openapi().unwrap();
    assert_eq!(
        served,
        serde_json::from_str::<serde_json::Value>(&current).unwrap()
    );
}
