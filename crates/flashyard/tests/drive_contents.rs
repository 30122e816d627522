//! The contents of a drive are seen before it is taken, and gone afterwards: made by the tools that
//! people use, and judged by `blkid` and `wipefs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/carried.rs"]
mod carried;
mod support;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use block::{BlockDevice, Buffer, Durability, Lba};
use carried::{Carried, MADE, make, recognised};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, text};

fn node() -> Node {
    Node::configured("[pools]\ndrive_wait_seconds = 0\n")
}

fn add(node: &Node, drive: &str, path: &Path) {
    node.answer(&["drive", "add", drive, path.to_str().unwrap()]);
}

/// That `take` is refused in words that say what the drive carries, and changes nothing.
fn refused(node: &Node, take: &[&str], path: &Path, carried: &Carried) {
    let before = ends(path);
    let output = node.ask(take);
    let message = text(&output.stderr);
    let case = format!("{}: {take:?}: {message}", carried.name);
    assert_eq!(output.status.code(), Some(1), "{case}");
    for part in [carried.said, "--force"] {
        assert!(message.contains(part), "{part} is not said: {case}");
    }
    assert!(before == ends(path), "changed: {case}");
}

/// The first and the last 16 MiB of a file.
fn ends(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let end = size.min(16 << 20);
    let mut bytes = vec![0; 2 * end as usize];
    let (head, tail) = bytes.split_at_mut(end as usize);
    file.read_exact_at(head, 0).unwrap();
    file.read_exact_at(tail, size - end).unwrap();
    bytes
}

/// That neither the product nor util-linux recognises anything on a drive.
fn nothing_is_left(node: &Node, (drive, path): (&str, &Path), when: &str) {
    let left = recognised(path);
    assert!(left.is_empty(), "{when}: {left}");
    let shown = node.answer(&["drive", "show", drive]);
    assert!(!shown.contains("carries"), "{when}: {shown}");
}

#[test]
fn what_tools_made_is_refused_by_name_and_gone_once_a_pool_was_told_to_take_it() {
    let node = node();
    for (number, carried) in MADE.iter().enumerate() {
        let path = node.path().join(format!("{number}.img"));
        make(carried, &path);
        if carried.known_to_tools {
            assert!(!recognised(&path).is_empty(), "{}", carried.name);
        }
        let drive = format!("d{number}");
        add(&node, &drive, &path);
        let create = [
            "pool", "create", "p", "--level", "raid0", "--drives", &drive,
        ];
        refused(&node, &create, &path, carried);
        let shown = node.answer(&["drive", "show", &drive]);
        assert!(shown.contains(carried.said), "{}: {shown}", carried.name);
        node.answer(&[&create[..], &["--force"]].concat());
        nothing_is_left(
            &node,
            (&drive, &path),
            &format!("{}, in a pool", carried.name),
        );
        node.answer(&["pool", "destroy", "p"]);
        nothing_is_left(
            &node,
            (&drive, &path),
            &format!("{}, after it", carried.name),
        );
        // It is as good as new.
        node.answer(&create);
        node.answer(&["pool", "destroy", "p"]);
        node.answer(&["drive", "remove", &drive]);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn what_tools_made_is_refused_and_gone_once_a_volume_was_told_to_take_the_drive_whole() {
    let node = node();
    for (number, carried) in MADE.iter().enumerate() {
        let path = node.path().join(format!("{number}.img"));
        make(carried, &path);
        let drive = format!("d{number}");
        add(&node, &drive, &path);
        let create = ["volume", "create", "v", "--drive", &drive];
        refused(&node, &create, &path, carried);
        node.answer(&[&create[..], &["--force"]].concat());
        nothing_is_left(&node, (&drive, &path), carried.name);
        node.answer(&["volume", "delete", "v"]);
        node.answer(&["drive", "remove", &drive]);
        std::fs::remove_file(path).unwrap();
    }
}

/// A file of 64 MiB that carries an ext4 file system.
fn ext4(node: &Node, file: &str) -> PathBuf {
    let path = node.path().join(file);
    make(&MADE[0], &path);
    path
}

#[test]
fn a_volume_that_keeps_what_a_drive_carries_serves_it() {
    let node = node();
    let path = ext4(&node, "d0.img");
    add(&node, "d0", &path);
    let before = recognised(&path);
    let create = ["volume", "create", "v", "--drive", "d0"];
    let message = text(&node.ask(&create).stderr);
    assert!(message.contains("--keep-data"), "{message}");
    node.answer(&[&create[..], &["--keep-data"]].concat());
    assert_eq!(recognised(&path), before);
    // Nor does deleting the volume take it away.
    node.answer(&["volume", "delete", "v"]);
    assert_eq!(recognised(&path), before);
    let both = [&create[..], &["--keep-data", "--force"]].concat();
    assert_eq!(node.ask(&both).status.code(), Some(2));
}

#[test]
fn a_pool_adds_no_drive_that_carries_something_unless_told_so() {
    let node = node();
    let path = node.path().join("d0.img");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    add(&node, "d0", &path);
    node.answer(&["pool", "create", "p", "--level", "raid0", "--drives", "d0"]);
    let path = ext4(&node, "d1.img");
    add(&node, "d1", &path);
    let join = ["pool", "add-drive", "p", "d1"];
    refused(&node, &join, &path, &MADE[0]);
    node.answer(&[&join[..], &["--force"]].concat());
    nothing_is_left(&node, ("d1", &path), "joined");
    node.answer(&["pool", "remove-drive", "p", "d1", "--wait"]);
    nothing_is_left(&node, ("d1", &path), "removed");
    // Nothing of the pool is left that would have to be forced.
    node.answer(&["volume", "create", "v", "--drive", "d1"]);
}

#[test]
fn a_pool_that_is_refused_for_another_reason_leaves_its_drives_as_they_are() {
    let node = node();
    let path = ext4(&node, "d0.img");
    add(&node, "d0", &path);
    let before = std::fs::read(&path).unwrap();
    let create = [
        "pool", "create", "p", "--level", "raid6", "--drives", "d0", "--force",
    ];
    let output = node.ask(&create);
    assert_eq!(output.status.code(), Some(1));
    assert!(before == std::fs::read(&path).unwrap());
}

#[test]
fn an_import_names_what_another_program_wrote_before_a_label() {
    let node = node();
    let path = node.path().join("d0.img");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    add(&node, "d0", &path);
    node.answer(&["pool", "create", "p", "--level", "raid0", "--drives", "d0"]);
    node.answer(&["pool", "export", "p"]);
    // A swap area is the first 4 KiB of a drive, and leaves its labels whole.
    let swap = std::process::Command::new("mkswap").arg(&path).output();
    assert!(swap.unwrap().status.success());
    let before = ends(&path);
    let import = ["pool", "import", "p"];
    let refused = node.ask(&import);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    for part in ["a swap area, UUID ", "--overwrite"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(before == ends(&path), "{message}");
    node.answer(&[&import[..], &["--overwrite"]].concat());
    nothing_is_left(&node, ("d0", &path), "imported");
}

#[test]
fn wiping_a_drive_takes_away_whatever_it_carries() {
    let node = node();
    let path = ext4(&node, "d0.img");
    add(&node, "d0", &path);
    node.answer(&["drive", "wipe", "d0"]);
    nothing_is_left(&node, ("d0", &path), "wiped");
}

/// A host of a volume that takes a drive whole can write what looks like a pool's label.
#[test]
fn no_host_leaves_a_label_behind_on_a_drive_that_its_volume_had() {
    let node = node();
    let paths = ["d0.img", "d1.img"].map(|file| node.path().join(file));
    for (drive, path) in ["d0", "d1"].into_iter().zip(&paths) {
        std::fs::File::create(path)
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        add(&node, drive, path);
    }
    node.answer(&["pool", "create", "p", "--level", "raid0", "--drives", "d0"]);
    node.answer(&["pool", "export", "p"]);
    let mut image = vec![0; 64 << 20];
    let file = std::fs::File::open(&paths[0]).unwrap();
    file.read_exact_at(&mut image, 0).unwrap();
    node.answer(&["drive", "remove", "d0"]);
    node.answer(&["volume", "create", "v", "--drive", "d1", "--allow", "any"]);
    let nqn = node.client().volume(&name("v")).unwrap().nqn;
    let address = node.endpoints().nvme[0];
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
        let controller = Controller::connect(address, &nqn, options).await.unwrap();
        let device = controller.namespace(1).await.unwrap();
        for (number, piece) in image.chunks(64 << 10).enumerate() {
            let mut buffer = Buffer::new(piece.len());
            buffer.copy_from_slice(piece);
            let start = Lba((number * 16) as u64);
            let written = device.write(start, buffer, Durability::Durable).await;
            assert_eq!(written.1, Ok(()));
        }
        controller.disconnect().await;
    });
    node.answer(&["volume", "delete", "v", "--force"]);
    let importable = node.client().importable_pools().unwrap().items;
    assert_eq!(importable, [], "what a host wrote is taken for a pool");
}
