//! `serve --dev DIR`: one command to a served volume, and what it says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::{Node, flashyard, text};

#[test]
fn the_first_start_serves_a_volume_and_says_how_to_connect() {
    let node = Node::develop(&[]);
    let drives = node.client().drives().unwrap().items;
    assert_eq!(drives.len(), 6);
    assert!(
        drives
            .iter()
            .all(|drive| drive.capacity_bytes == 16 << 20 && drive.persistent)
    );
    let volumes = node.client().volumes().unwrap().items;
    assert_eq!(volumes.len(), 1);
    assert_eq!(volumes[0].name.as_str(), "demo");
    assert_eq!(volumes[0].hosts, [support::name("any")]);

    let said = node.log();
    let port = node.endpoints().nvme[0].port().to_string();
    for part in ["nvme discover", "nvme connect-all", &port, &volumes[0].nqn] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[test]
fn a_second_start_leaves_everything_as_it_is() {
    let mut node = Node::develop(&["--drives", "2"]);
    node.answer(&["volume", "delete", "demo"]);
    node.answer(&["drive", "remove", "d1"]);
    node.kill();
    node.start();
    assert_eq!(node.client().volumes().unwrap().items, []);
    assert_eq!(node.client().drives().unwrap().items.len(), 1);
}

#[test]
fn a_second_node_in_the_same_directory_is_refused() {
    let node = Node::develop(&["--drives", "1"]);
    let path = node.path().to_str().unwrap();
    let ports = ["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"];
    let second = flashyard(&[&["serve", "--dev", path][..], &ports].concat());
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("in use by another node"),
        "{second:?}"
    );
}

/// Where a first start is asked for, on free ports.
fn first_start(directory: &Path, extra: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
    program.args(["serve", "--dev"]).arg(directory);
    program.args(["--drive-size", "16MiB", "--listen", "127.0.0.1:0"]);
    program.args(["--api-listen", "127.0.0.1:0"]).args(extra);
    program.env("XDG_CONFIG_HOME", directory);
    program
}

#[test]
fn what_a_refused_first_start_made_is_undone_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    // One of the files is there before, and stays.
    std::fs::create_dir(directory.path().join("drives")).unwrap();
    let there_before = directory.path().join("drives/d2.img");
    std::fs::write(&there_before, vec![7; 16 << 20]).unwrap();
    let level = ["--drives", "3", "--level", "raid6"];
    let refused = first_start(directory.path(), &level).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("raid6"), "{refused:?}");

    let node = Node::develop_in(directory, &["--drives", "2", "--level", "none"]);
    assert!(node.log().contains("has been undone"), "{}", node.log());
    assert_eq!(node.client().drives().unwrap().items.len(), 2);
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
    assert!(
        std::fs::read(&there_before)
            .unwrap()
            .iter()
            .all(|byte| *byte == 7)
    );
    assert!(!node.path().join("first-start.json").exists());
}

#[test]
fn a_first_start_that_is_killed_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let unfinished = directory.path().join("first-start.json");
    let drives = ["--drives", "32", "--level", "raid6"];
    // Once with drives alone, once with a pool on them, if it is quick enough.
    for until in ["drives/d3.img", "drives/d31.img"] {
        let mut start = first_start(directory.path(), &drives);
        start.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = start.spawn().unwrap();
        while !directory.path().join(until).exists() {
            assert!(process.try_wait().unwrap().is_none(), "it ended");
        }
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(unfinished.exists(), "killed too late");
    }
    let mut node = Node::develop_in(directory, &drives);
    assert!(node.log().contains("has been undone"), "{}", node.log());
    let pools = node.client().pools().unwrap().items;
    assert_eq!((pools.len(), pools[0].members.len()), (1, 32));
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
    assert!(!unfinished.exists());
    // A start that was finished is not touched.
    node.kill();
    node.start();
    assert!(!node.log().contains("undone"));
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
}
