//! TLS: hosts with a key, ports that ask for it, and keys that are never shown again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::PathBuf;

use support::{Node, name, text};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

fn file(node: &Node, name: &str, key: &str) -> PathBuf {
    let path = node.path().join(name);
    std::fs::write(&path, format!("{key}\n")).unwrap();
    path
}

/// Reads 100 blocks of the volume `demo` as the host, with the key in a file if there is one; what
/// went wrong, if anything did.
fn read(node: &Node, key: Option<&PathBuf>) -> Result<(), String> {
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    let target = format!("tcp://{}/{nqn}", node.endpoints().nvme[0]);
    let mut arguments = vec!["perf", &target, "--number-ios", "100", "--host-nqn", HOST];
    if let Some(key) = key {
        arguments.extend(["--tls-key", key.to_str().unwrap()]);
    }
    let output = node.ask(&arguments);
    match output.status.success() {
        true => Ok(()),
        false => Err(text(&output.stderr)),
    }
}

fn generate(node: &Node, extra: &[&str]) -> String {
    let generate = ["host", "tls-key", "h", "--generate", "-o", "json"];
    let made = node.answer(&[&generate[..], extra].concat());
    let made: api::NewTlsKey = serde_json::from_str(&made).unwrap();
    made.key.reveal().to_owned()
}

#[test]
fn a_port_that_asks_for_tls_serves_the_key_alone_also_after_a_crash() {
    let mut node = Node::develop(&["--tls"]);
    node.answer(&["host", "add", "h", "--nqn", HOST]);
    let old = file(&node, "old", &generate(&node, &[]));
    let new = file(&node, "new", &generate(&node, &["--hash", "sha384"]));
    for _ in 0..2 {
        assert_eq!(read(&node, Some(&new)), Ok(()));
        let wrong = read(&node, Some(&old)).unwrap_err();
        assert!(wrong.contains("TLS"), "{wrong}");
        assert!(read(&node, None).is_err());
        let events = node.answer(&["event", "list"]);
        let told = [
            events,
            node.answer(&["host", "list"]),
            node.answer(&["audit", "list"]),
            node.log(),
        ];
        for told in told {
            assert!(!told.contains("NVMeTLSkey"), "{told}");
        }
        node.kill();
        node.start();
    }
    assert!(node.answer(&["port", "list"]).contains("tls"));
    node.answer(&["host", "tls-key", "h", "--remove"]);
    assert!(read(&node, Some(&new)).is_err());
}

#[test]
fn a_host_with_a_key_is_not_served_in_the_clear() {
    let node = Node::develop(&[]);
    node.answer(&["host", "add", "h", "--nqn", HOST]);
    assert_eq!(read(&node, None), Ok(()));
    let key = file(
        &node,
        "key",
        &access::TlsKey::generate(access::PskHash::Sha256).reveal(),
    );
    let set = node.answer(&["host", "tls-key", "h", "--set", key.to_str().unwrap()]);
    assert!(set.contains("tls"), "{set}");
    assert!(read(&node, None).is_err());
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("came without TLS"), "{events}");
    let damaged = file(&node, "damaged", "NVMeTLSkey-1:01:AAAA:");
    let refused = node.ask(&["host", "tls-key", "h", "--set", damaged.to_str().unwrap()]);
    let words = text(&refused.stderr);
    assert!(
        words.contains("key: ") && !words.contains("AAAA"),
        "{words}"
    );
    node.answer(&["host", "remove", "h"]);
    assert_eq!(read(&node, None), Ok(()));
}
