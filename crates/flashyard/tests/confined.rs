//! A node under the seccomp profile that containers are to have: nothing that it does is refused,
//! and what it has no use for is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use std::process::Command;

use support::Node;

const CONFINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/confined/confine.py");
const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/seccomp.json");

#[test]
fn a_node_does_everything_under_the_profile_of_containers() {
    let launcher = ["python3", CONFINE, PROFILE];
    let mut node = Node::develop_under(&launcher, &["--drives", "4", "--cores", "0"]);
    for command in [
        "drive add memory --memory 16MiB",
        "volume create whole --drive memory --allow any",
        "host add h --nqn nqn.2026-11.example:h",
        "host key h --generate",
        "host tls-key h --generate",
        "volume snapshot demo before",
        "volume clone before copy",
        "settings set --log-level debug --syslog udp://127.0.0.1:9",
        "pool scrub pool --wait",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        node.answer(&words);
    }
    for volume in ["demo", "whole"] {
        load::clean(
            &load::verified_load(load::target(&node, volume), 4096, 400),
            volume,
        );
    }
    node.kill();
    node.start();
    load::clean(
        &load::verified_load(load::target(&node, "demo"), 65_536, 400),
        "demo",
    );
    for command in [
        "volume delete copy",
        "snapshot delete before",
        "volume delete whole",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        node.answer(&words);
    }
    let log = node.log();
    assert!(!log.contains("not permitted"), "{log}");
    assert!(node.terminate().success());
}

#[test]
fn the_profile_keeps_what_a_node_has_no_use_for() {
    for tool in [&["unshare", "--net", "true"][..], &["strace", "true"]] {
        let confined = Command::new("python3")
            .args([CONFINE, PROFILE, "/usr/bin/env"])
            .args(tool)
            .output()
            .unwrap();
        assert!(!confined.status.success(), "{tool:?}: {confined:?}");
    }
    let listed = Command::new("python3")
        .args([CONFINE, PROFILE, "/usr/bin/env", "ls", "/"])
        .output();
    assert!(listed.unwrap().status.success());
}
