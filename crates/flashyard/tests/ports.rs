//! Ports on the command line: what hosts are told of one is changed at once and remembered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use api::{List, PathState, Port};
use support::Node;

fn paths(node: &Node) -> Vec<(u16, PathState)> {
    let listed = node.answer(&["port", "list", "--output", "json"]);
    let listed: List<Port> = serde_json::from_str(&listed).unwrap();
    let row = |port: &Port| (port.id, port.path);
    listed.items.iter().map(row).collect()
}

#[test]
fn a_path_is_changed_and_survives_a_crash() {
    let mut node = Node::develop(&["--listen", "[::1]:0"]);
    let fresh = [(1, PathState::Optimized), (2, PathState::Optimized)];
    assert_eq!(paths(&node), fresh);
    let set = node.answer(&["port", "set", "2", "--path", "inaccessible"]);
    assert!(
        set.contains("inaccessible") && set.contains("[::1]"),
        "{set}"
    );
    node.kill();
    node.start();
    assert_eq!(paths(&node)[1].1, PathState::Inaccessible);
    let status = node.answer(&["status"]);
    assert!(status.contains("port 2 at [::1]"), "{status}");
    node.answer(&["port", "set", "2", "--path", "non-optimized"]);
    assert_eq!(paths(&node)[1].1, PathState::NonOptimized);
    let set_third: &[&str] = &["port", "set", "3", "--path", "optimized"];
    node.refuses(&[(set_third, 1, &["no port 3", "1 to 2"])]);
}
