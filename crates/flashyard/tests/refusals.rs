//! Bad input gets one error that names the field, what was found and what is allowed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/loop_device.rs"]
mod loop_device;
mod support;

use api::ErrorCode;
use client::ClientError;
use loop_device::Loop;
use support::{Node, Refused, name, text};

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";

#[test]
fn the_command_line_explains_what_it_refuses() {
    let node = Node::develop(&["--drives", "2"]);
    node.answer(&["host", "add", "h1", "--nqn", NQN]);
    let occupied = node.path().join("state.redb");
    let occupied = occupied.to_str().unwrap();
    let cases: &[Refused] = &[
        (
            &["volume", "create", "v", "--drive", "d9"],
            1,
            &["drive", "d9", "d0, d1"],
        ),
        (
            &["volume", "create", "v", "--drive", "d0"],
            1,
            &["drive", "used by volume demo"],
        ),
        (
            &["volume", "create", "demo", "--drive", "d1"],
            1,
            &["exists on drive d0", "4096"],
        ),
        (
            &["volume", "create", "v", "--drive", "d1", "--allow", "h9"],
            1,
            &["hosts[0]", "h9"],
        ),
        (
            &["volume", "create", "V", "--drive", "d1"],
            2,
            &["\"V\"", "a-z"],
        ),
        (&["volume", "create", "v"], 2, &["--drive"]),
        (&["volume", "delete", "v"], 1, &["no volume is named v"]),
        (
            &["volume", "allow", "demo", "h9"],
            1,
            &["host", "h9", "any"],
        ),
        (&["drive", "remove", "d0"], 1, &["used by volume demo"]),
        (
            &["drive", "add", "x", "relative.img"],
            1,
            &["path", "relative.img", "absolute"],
        ),
        (
            &["drive", "add", "x", "/no/such/dir/x.img"],
            1,
            &["path", "/no/such/dir/x.img"],
        ),
        (
            &["drive", "add", "x", "--memory", "0"],
            1,
            &["size", "0 bytes"],
        ),
        (
            &["drive", "add", "x", "--memory", "1GiB", "--null", "1GiB"],
            2,
            &["--null"],
        ),
        (&["drive", "add", "x"], 2, &["--memory", "--null"]),
        (
            &["drive", "add", "d0", "--memory", "1MiB"],
            1,
            &["drive d0 exists"],
        ),
        (&["drive", "add", "x", occupied], 1, &["path", occupied]),
        (
            &["host", "add", "any", "--nqn", NQN],
            1,
            &["name", "every host"],
        ),
        (&["host", "add", "h2", "--nqn", NQN], 1, &["nqn", "h1"]),
        (
            &["host", "add", "h2", "--nqn", "iqn.1994"],
            1,
            &["nqn", "iqn.1994"],
        ),
        (&["host", "remove", "h2"], 1, &["no host is named h2"]),
    ];
    node.refuses(cases);
    assert_eq!(node.client().drives().unwrap().items.len(), 2);
    assert_eq!(node.client().volumes().unwrap().items.len(), 1);
}

#[test]
fn a_host_in_use_is_not_removed() {
    let node = Node::develop(&["--drives", "1"]);
    node.answer(&["host", "add", "h1", "--nqn", NQN]);
    node.answer(&["volume", "allow", "demo", "h1"]);
    let refused = node.client().remove_host(&name("h1"));
    let Err(ClientError::Refused(body)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(body.code, ErrorCode::InUse);
    node.answer(&["volume", "deny", "demo", "h1"]);
    node.answer(&["host", "remove", "h1"]);
}

#[test]
fn creating_again_with_the_same_specification_succeeds() {
    let node = Node::develop(&["--drives", "2"]);
    let create = ["volume", "create", "v", "--drive", "d1", "--output", "json"];
    let first = node.answer(&create);
    assert_eq!(node.answer(&create), first);
    let path = node.path().join("drives/d1.img");
    let path = path.canonicalize().unwrap();
    let again = [
        "drive",
        "add",
        "d1",
        path.to_str().unwrap(),
        "--size",
        "16MiB",
    ];
    node.answer(&again);
}

#[test]
fn volumes_of_one_subsystem_have_their_own_hosts_and_count_namespaces() {
    let node = Node::develop(&["--drives", "3"]);
    let create = |volume, drive, more: &[&str]| {
        let verb = [
            "volume",
            "create",
            volume,
            "--drive",
            drive,
            "--subsystem",
            "group",
        ];
        node.ask(&[&verb[..], more].concat())
    };
    assert!(create("a", "d1", &["--allow", "any"]).status.success());
    assert!(create("b", "d2", &[]).status.success());
    let volumes = node.client().volumes().unwrap().items;
    assert_eq!((volumes[0].nsid, volumes[1].nsid), (1, 2));
    assert_eq!(volumes[0].nqn, volumes[1].nqn);
    let hosts = |volume| node.client().volume(&name(volume)).unwrap().hosts;
    assert_eq!((hosts("a"), hosts("b")), (vec![name("any")], vec![]));
    node.answer(&["volume", "allow", "b", "any"]);
    node.answer(&["volume", "deny", "a", "any"]);
    assert_eq!((hosts("a"), hosts("b")), (vec![], vec![name("any")]));
    let refused = text(
        &node
            .ask(&["volume", "create", "group", "--drive", "d0"])
            .stderr,
    );
    assert!(
        refused.contains("d0") || refused.contains("subsystem"),
        "{refused}"
    );
}

#[test]
fn what_a_refused_drive_was_to_be_made_of_is_not_left() {
    let node = Node::develop(&["--drives", "1"]);
    let [file, directory] = ["new.img", "new"].map(|made| node.path().join(made));
    let add = |source: &[&str]| node.ask(&[&["drive", "add", "x"], source].concat());
    let path = file.to_str().unwrap();
    // More than any file system has.
    let refused = add(&[path, "--size", "8388608TiB"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!file.exists(), "{refused:?}");
    let kept = directory.to_str().unwrap();
    let emulated = ["--emulated", "cm7-r-7.68", "--directory", kept];
    let refused = add(&[&emulated[..], &["--scale", "0.000001"]].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!directory.exists(), "{refused:?}");
    // A file that was there already stays.
    std::fs::write(&file, "short").unwrap();
    assert_eq!(add(&[path, "--size", "1MiB"]).status.code(), Some(1));
    assert_eq!(std::fs::read(&file).unwrap(), b"short");
}

#[test]
fn sizes_are_rounded_up_to_whole_blocks() {
    let node = Node::develop(&[]);
    let path = node.path().join("new.img");
    let add = ["drive", "add", "x", path.to_str().unwrap(), "--size", "1MB"];
    let create = ["volume", "create", "v", "--pool", "pool", "--size", "1GB"];
    for arguments in [&add[..], &create] {
        let first = node.answer(arguments);
        assert_eq!(node.answer(arguments), first, "said again it is the same");
    }
    let (whole, gigabyte) = (1_003_520, 1_000_001_536);
    assert_eq!(
        node.client().drive(&name("x")).unwrap().capacity_bytes,
        whole
    );
    assert_eq!(path.metadata().unwrap().len(), whole);
    let capacity = || node.client().volume(&name("v")).unwrap().capacity_bytes;
    assert_eq!(capacity(), gigabyte);
    node.answer(&["volume", "resize", "v", "2GB"]);
    assert_eq!(capacity(), 2_000_003_072);
}

#[test]
fn paths_with_control_characters_are_refused() {
    let node = Node::develop(&["--drives", "1"]);
    let path = node.path().join("a\nb");
    let path = path.to_str().unwrap();
    let cases: &[Refused] = &[
        (
            &["drive", "add", "x", path, "--size", "1MiB"],
            1,
            &["path", "a\\nb", "control characters"],
        ),
        (
            &["drive", "add", "x", "--emulated", "p\u{1b}[2J"],
            1,
            &["profile", "control characters"],
        ),
        (
            &[
                "drive",
                "add",
                "x",
                "--emulated",
                "cm7-r-7.68",
                "--directory",
                path,
            ],
            1,
            &["directory", "control characters"],
        ),
    ];
    node.refuses(cases);
    assert!(!node.path().join("a\nb").exists());
}

#[test]
fn a_file_and_a_loop_device_over_it_are_not_two_drives() {
    let node = Node::develop(&["--drives", "1"]);
    let path = node.path().join("shared.img");
    let file = path.to_str().unwrap();
    let device = Loop::made(&path, 16 << 20);
    // The loop device is there: that alone makes the file one that is in use.
    let under = node.ask(&["drive", "add", "x", file]);
    let message = text(&under.stderr);
    assert_eq!(under.status.code(), Some(1), "{message}");
    assert!(message.contains(&device.0), "{message}");
    node.answer(&["drive", "add", "over", &device.0]);
    assert_eq!(
        node.ask(&["drive", "add", "x", file]).status.code(),
        Some(1)
    );
    node.answer(&["drive", "remove", "over"]);
    drop(device);
    node.answer(&["drive", "add", "x", file]);
    // The other way round.
    let device = Loop::over(&path);
    let over = node.ask(&["drive", "add", "over", &device.0]);
    let message = text(&over.stderr);
    assert_eq!(over.status.code(), Some(1), "{message}");
    assert!(message.contains("in use"), "{message}");
}
