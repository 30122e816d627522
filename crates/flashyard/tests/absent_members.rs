//! Members of a pool that are not there when it is imported, and those that come back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/label.rs"]
mod label;
mod support;

use std::path::PathBuf;

use api::PoolState;
use support::{Node, name, wait_until};

const IMPORT: [&str; 3] = ["pool", "import", "pool"];

/// The drives of a raid6 pool of six that its node has let go of, and that node, which keeps them.
fn exported() -> (Node, Vec<PathBuf>) {
    let mut node = Node::develop(&[]);
    node.answer(&["pool", "export", "pool"]);
    node.kill();
    let directory = node.path().canonicalize().unwrap().join("drives");
    let drives = (0..6).map(|number| directory.join(format!("d{number}.img")));
    let drives = drives.collect();
    (node, drives)
}

/// Another node, with some of these drives: each is called e and its number.
fn second(drives: &[PathBuf], numbers: &[usize]) -> Node {
    let node = Node::configured("[node]\nname = \"second\"\n");
    numbers
        .iter()
        .for_each(|number| add(&node, drives, *number));
    node
}

fn add(node: &Node, drives: &[PathBuf], number: usize) {
    let path = drives[number].to_str().unwrap();
    node.answer(&["drive", "add", &format!("e{number}"), path]);
}

fn contents(drives: &[PathBuf]) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    drives.iter().map(read).collect()
}

#[test]
fn an_import_without_a_member_is_refused_until_that_is_wanted() {
    let (_first, drives) = exported();
    let before = contents(&drives);
    let node = second(&drives, &[0, 1, 3, 4, 5]);
    let words = [
        "lacks 1 of its 6 members",
        "member 2 (16 MiB, identity ",
        "connect it",
        "--degraded",
    ];
    node.refuses(&[(&IMPORT, 1, &words)]);
    assert!(contents(&drives) == before, "nothing is written");
    // The cable is plugged in.
    add(&node, &drives, 2);
    node.answer(&IMPORT);
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Online, "{pool:?}");
    assert!(pool.members.iter().all(|member| member.active), "{pool:?}");

    // It is beyond help.
    node.answer(&["pool", "export", "pool"]);
    node.answer(&["drive", "remove", "e2"]);
    node.refuses(&[(&IMPORT, 1, &words)]);
    node.answer(&[&IMPORT[..], &["--degraded"]].concat());
    wait_until("the pool is rebuilt without it", || {
        let pool = node.client().pool(&name("pool")).unwrap();
        pool.state == PoolState::Online && pool.members.len() == 5
    });
}

#[test]
fn a_member_with_a_damaged_label_is_absent_and_named() {
    let (_first, drives) = exported();
    let whole = std::fs::read(&drives[4]).unwrap();
    let hurt = drives[4].with_extension("hurt");
    label::damage(&drives[4], &hurt);
    std::fs::rename(&hurt, &drives[4]).unwrap();
    let node = second(&drives, &[0, 1, 2, 3, 4, 5]);
    let words = ["member 4 (drive e4, whose label is damaged", "--degraded"];
    node.refuses(&[(&IMPORT, 1, &words)]);
    let listed = node.answer(&IMPORT[..2]);
    let carried = "a damaged label, which names member 4 of pool \"pool\"";
    assert!(listed.contains(carried), "{listed}");
    std::fs::write(&drives[4], whole).unwrap();
    node.answer(&IMPORT);
}

#[test]
fn a_drive_that_missed_writes_is_shown_as_what_it_is() {
    let mut node = Node::develop(&[]);
    node.kill();
    let file = node.path().canonicalize().unwrap().join("drives/d2.img");
    let aside = file.with_extension("aside");
    std::fs::rename(&file, &aside).unwrap();
    node.start();
    wait_until("the pool goes on without it for good", || {
        let pool = node.client().pool(&name("pool")).unwrap();
        pool.state == PoolState::Online && pool.members.len() == 5
    });
    std::fs::rename(&aside, &file).unwrap();
    let path = file.to_str().unwrap();
    node.answer(&["drive", "add", "d2", path]);
    let told = [
        "member 2 of pool pool, which has gone on without it",
        "pool add-drive pool d2",
    ];
    for ask in [&["drive", "show", "d2"][..], &IMPORT[..2]] {
        let shown = node.answer(ask);
        for part in told {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    node.answer(&["pool", "add-drive", "pool", "d2"]);
    let shown = node.answer(&["drive", "show", "d2"]);
    assert!(!shown.contains("carries"), "{shown}");
}

#[test]
fn a_label_that_is_damaged_on_one_side_is_told_once_and_written_anew() {
    let mut node = Node::develop(&[]);
    node.kill();
    let directory = node.path().join("drives");
    label::damage_first(&directory.join("d1.img"));
    label::erase_second(&directory.join("d4.img"));
    node.start();
    let told = |node: &Node, drive: &str| {
        let events = node.answer(&["event", "list"]);
        events
            .matches(&format!("one of the two labels of drive {drive} "))
            .count()
    };
    wait_until("both are told of", || {
        told(&node, "d1") == 1 && told(&node, "d4") == 1
    });
    assert_eq!(told(&node, "d0"), 0);
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Online, "{pool:?}");
    for drive in ["d1.img", "d4.img"] {
        let whole = label::tables_have(&directory.join(drive), "demo");
        assert_eq!(whole, [true, true], "{drive}");
    }
    node.kill();
    node.start();
    assert_eq!((told(&node, "d1"), told(&node, "d4")), (0, 0));
}
