//! Clean stop: SIGTERM ends the node with code 0 within its bound.

mod support;

use support::{Node, flashyard};

#[test]
fn sigterm_ends_the_node_cleanly() {
    let mut node = Node::develop(&["--drives", "1"]);
    let api = node.endpoints().api.clone();
    assert!(node.terminate().success(), "{}", node.log());
    assert!(!node.path().join(server::endpoints::FILE_NAME).exists());
    let log = node.log();
    assert!(
        log.contains("stopping on SIGTERM") && log.contains("stopped"),
        "{log}"
    );
    assert_eq!(
        flashyard(&["--node", &api, "status"]).status.code(),
        Some(3)
    );
}

#[test]
fn a_port_in_use_is_named() {
    let node = Node::develop(&["--drives", "1"]);
    let other = tempfile::tempdir().unwrap();
    let directory = other.path().to_str().unwrap();
    let nvme = node.endpoints().nvme[0].to_string();
    let ports = ["--listen", &nvme, "--api-listen", "127.0.0.1:0"];
    let refused = flashyard(&[&["serve", "--dev", directory][..], &ports].concat());
    assert_eq!(refused.status.code(), Some(1));
    let message = support::text(&refused.stderr);
    assert!(message.contains(&nvme), "{message}");
}
