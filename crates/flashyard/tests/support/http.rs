//! The REST API spoken by hand, over a connection for each request.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Node;

/// One HTTP/1.1 request with headers of its own: status, head and body of the answer.
pub fn exchange(
    node: &Node,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> (u16, String, String) {
    let token = node.admin_token();
    exchange_as(&token, node, (method, path), headers, body)
}

/// The same by whom `token` is for.
pub fn exchange_as(
    token: &str,
    node: &Node,
    (method, path): (&str, &str),
    headers: &[&str],
    body: &str,
) -> (u16, String, String) {
    let mut stream = connect(node);
    let length = body.len();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n");
    head += &format!("Authorization: Bearer {token}\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    // A refusal may arrive, and the connection close, before a large body is out.
    let _ = write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// A connection to the API, which speaks HTTP in the clear.
pub fn connect(node: &Node) -> TcpStream {
    let address = node.endpoints().api.strip_prefix("http://").unwrap();
    TcpStream::connect(address).unwrap()
}

/// Status and body of one HTTP/1.1 request.
pub fn request(node: &Node, method: &str, path: &str, body: &str) -> (u16, String) {
    let (status, _, body) = exchange(node, method, path, &[], body);
    (status, body)
}

/// The value of a header, whose name is in lower case.
pub fn header(head: &str, name: &str) -> Option<String> {
    let value = |line: &str| line.strip_prefix(&format!("{name}: ")).map(str::to_owned);
    head.lines().find_map(value)
}
