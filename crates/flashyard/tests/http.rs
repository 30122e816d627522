//! The REST API spoken by hand: everything that is no success has the one error shape.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use api::{ErrorBody, ErrorCode};
use support::Node;

/// Status and body of one HTTP/1.1 request.
fn request(node: &Node, method: &str, path: &str, body: &str) -> (u16, String) {
    let address = node
        .endpoints()
        .api
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Method, path and body; status, code and field of the refusal.
type Case<'a> = (&'a str, &'a str, &'a str, u16, ErrorCode, Option<&'a str>);

#[test]
fn every_refusal_has_the_one_error_shape() {
    let node = Node::develop(&["--drives", "1"]);
    let invalid = ErrorCode::InvalidArgument;
    let drive = "/v1/drives/x";
    let volume = "/v1/volumes/x";
    let cases: &[Case] = &[
        ("GET", "/", "", 404, ErrorCode::NotFound, None),
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
        ("GET", "/v1/events?after=x", "", 400, invalid, Some("query")),
        (
            "GET",
            "/v1/events?before=1",
            "",
            400,
            invalid,
            Some("query"),
        ),
        ("PUT", drive, "", 400, invalid, Some("body")),
        ("PUT", drive, "{}", 400, invalid, Some("body")),
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
            None,
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
    let client = node.client();
    let address = node
        .endpoints()
        .api
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "PUT /v1/volumes/x HTTP/1.1\r\nHost: n\r\nConnection: close\r\n";
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(
        !answer.starts_with(b"HTTP/1.1 2"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(client.volumes().unwrap().items.len(), 1);
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
