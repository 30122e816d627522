//! What a pool keeps about a volume for its hosts, when this program cannot read it: the volume is
//! listed with the reason and not served, and nothing is written over what is there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/label.rs"]
mod label;
mod support;

use std::path::{Path, PathBuf};

use api::{ObjectState, Volume};
use support::{Node, name, text};

fn drives(node: &Node) -> Vec<PathBuf> {
    let path = |number| node.path().join(format!("drives/d{number}.img"));
    (0..6).map(path).collect()
}

fn replace_everywhere(drives: &[PathBuf], from: &str, to: &str) {
    for drive in drives {
        label::replace_in_tables(drive, from, to);
    }
}

/// That every table on the drives has the identity as it was, unread.
fn untouched(drives: &[PathBuf], format: &str, before: &Volume) {
    for drive in drives {
        for kept in [format, &before.nqn, &before.uuid.to_string()] {
            let has = label::tables_have(drive, kept);
            assert!(has.iter().all(|has| *has), "{kept} of {}", drive.display());
        }
    }
}

/// The volume is there, with a reason that has these words, and every change of it is refused.
fn listed_unserved(node: &Node, words: &[&str]) {
    let shown = node.client().volume(&name("demo")).unwrap();
    assert_eq!(shown.state, ObjectState::Offline);
    let reason = shown.reason.clone().unwrap();
    for word in words {
        assert!(reason.contains(word), "{reason}");
    }
    assert_eq!(shown.pool, Some(name("pool")));
    let listed = node.client().volumes().unwrap().items;
    assert!(listed.contains(&shown), "{listed:?}");
    let problems = node.client().status().unwrap().problems;
    let told = |problem: &String| words.iter().all(|word| problem.contains(word));
    assert!(problems.iter().any(told), "{problems:?}");
    let changes: [&[&str]; 7] = [
        &["volume", "deny", "demo", "any"],
        &["volume", "limit", "demo", "--iops", "1000"],
        &["volume", "resize", "demo", "64MiB"],
        &["volume", "rename", "demo", "other"],
        &["volume", "protect", "demo"],
        &["volume", "rollback", "demo", "s"],
        &[
            "volume", "create", "demo", "--pool", "pool", "--size", "8MiB",
        ],
    ];
    for change in changes {
        let refused = node.ask(change);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{change:?}: {message}");
        assert!(message.contains("demo"), "{change:?}: {message}");
    }
}

fn add_drives(node: &Node, drives: &[PathBuf]) {
    for (number, path) in drives.iter().enumerate() {
        let path: &Path = path;
        let add = ["drive", "add", &format!("e{number}")];
        node.answer(&[&add[..], &[path.to_str().unwrap()]].concat());
    }
}

#[test]
fn an_identity_of_a_later_format_waits_for_a_program_that_reads_it() {
    let mut node = Node::develop(&[]);
    let before = node.client().volume(&name("demo")).unwrap();
    node.answer(&["volume", "snapshot", "demo", "s"]);
    node.kill();
    let drives = drives(&node);
    replace_everywhere(&drives, "\"format\":1", "\"format\":9");
    node.start();
    listed_unserved(&node, &["format 9", "newer"]);
    assert!(node.terminate().success(), "{}", node.log());
    untouched(&drives, "\"format\":9", &before);

    // On another node it is the same, and an export gives the pool back as it was.
    let second = Node::configured("[node]\nname = \"second\"\n");
    add_drives(&second, &drives);
    second.answer(&["pool", "import", "pool", "--force"]);
    listed_unserved(&second, &["format 9", "newer"]);
    assert_eq!(second.client().volume(&name("demo")).unwrap().nqn, "");
    second.answer(&["pool", "export", "pool"]);
    drop(second);
    untouched(&drives, "\"format\":9", &before);

    // A program that reads it finds the volume as it always was.
    replace_everywhere(&drives, "\"format\":9", "\"format\":1");
    node.start();
    assert_eq!(node.client().volume(&name("demo")).unwrap(), before);
}

#[test]
fn an_identity_that_cannot_be_read_stays_and_its_data_can_be_had() {
    let mut node = Node::develop(&[]);
    let before = node.client().volume(&name("demo")).unwrap();
    node.answer(&["volume", "snapshot", "demo", "s"]);
    node.kill();
    let drives = drives(&node);
    replace_everywhere(&drives, "\"format\":1", "\"format\":x");
    node.start();
    listed_unserved(&node, &["cannot be read"]);
    // A clone has an identity of its own.
    node.answer(&["volume", "snapshot", "demo", "rescue"]);
    node.answer(&["volume", "clone", "rescue", "rescued", "--allow", "any"]);
    let rescued = node.client().volume(&name("rescued")).unwrap();
    assert_eq!(rescued.state, ObjectState::Online);
    assert_ne!((&rescued.nqn, rescued.uuid), (&before.nqn, before.uuid));
    assert_eq!(rescued.capacity_bytes, before.capacity_bytes);
    assert!(node.terminate().success(), "{}", node.log());
    untouched(&drives, "\"format\":x", &before);
    node.start();
    // Who asks for it gets rid of it.
    node.answer(&["volume", "delete", "demo"]);
    let left = node.client().volumes().unwrap().items;
    let left: Vec<&str> = left.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(left, ["rescued"]);
}
