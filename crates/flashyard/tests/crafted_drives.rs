//! Drives that a stranger has made, every checksum right: a node refuses their pool in words, and
//! its other pool goes on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/label.rs"]
mod label;
mod support;

use api::PoolState;
use block::{BlockDevice, Buffer, Durability, Lba};
use connected::connected;
use std::fs::File;
use std::path::{Path, PathBuf};
use support::{Node, name, text};

/// Changes a drive of a pool.
type Craft = fn(&Path);

/// What is changed, and words of what an import says to it.
const CRAFTS: [(Craft, &[&str]); 7] = [
    // Each of the first two ended a node, or had it take all memory.
    (
        |drive| label::set_number(drive, 124, 4, 0),
        &["zone_blocks is 0", "allowed: 32 to"],
    ),
    (
        |drive| label::set_number(drive, 1232 + 24, 8, u64::MAX),
        &["blocks of member 0 is 18446744073709551615"],
    ),
    (
        |drive| label::set_number(drive, 128, 4, u64::MAX),
        &["slot_blocks is 4294967295"],
    ),
    (
        |drive| label::set_number(drive, 141, 1, 255),
        &["width is 255", "allowed: 1 to 32"],
    ),
    (
        |drive| label::set_number(drive, 132, 4, u64::MAX),
        &["body_bytes is 4294967295"],
    ),
    // Of the first shard: its slices, and where its log ends.
    (
        |drive| label::set_in_tables(drive, 0, &[1, 0, 0, 0]),
        &["slice_blocks is 1", "multiples of 16"],
    ),
    (
        |drive| label::set_in_tables(drive, 8, &[0xff; 8]),
        &["sequence of a shard is 18446744073709551615"],
    ),
];

/// A drive that carries a pool called usb, which no node has.
fn exported() -> (Node, PathBuf) {
    let mut node = Node::configured("[node]\nname = \"first\"\n");
    let path = node.path().canonicalize().unwrap().join("usb.img");
    File::create(&path).unwrap().set_len(16 << 20).unwrap();
    node.answer(&["drive", "add", "usb", path.to_str().unwrap()]);
    let create = ["pool", "create", "usb", "--level", "raid0"];
    node.answer(&[&create[..], &["--drives", "usb"]].concat());
    node.answer(&["pool", "export", "usb"]);
    node.kill();
    (node, path)
}

/// Writes to the node's own volume and reads it back.
fn serves(node: &Node, byte: u8) {
    connected(node, "demo", async |device, _controller| {
        let mut buffer = Buffer::zeroed(4096);
        buffer.fill(byte);
        let written = device.write(Lba(7), buffer, Durability::Durable).await;
        assert_eq!(written.1, Ok(()));
        let (buffer, read) = device.read(Lba(7), Buffer::new(4096)).await;
        assert_eq!(read, Ok(()));
        assert!(buffer.iter().all(|found| *found == byte));
    });
}

#[test]
fn a_crafted_drive_is_refused_and_the_other_pool_goes_on() {
    let (first, whole) = exported();
    let node = Node::develop(&[]);
    serves(&node, 1);
    for (byte, (craft, words)) in (2..).zip(CRAFTS) {
        let crafted = first.path().canonicalize().unwrap().join("crafted.img");
        std::fs::copy(&whole, &crafted).unwrap();
        craft(&crafted);
        let add = ["drive", "add", "usb", crafted.to_str().unwrap()];
        let added = node.ask(&add);
        let listed = node.ask(&["pool", "import"]);
        let import = ["pool", "import", "usb", "--drives", "usb"];
        let imported = node.ask(&import);
        assert_eq!(imported.status.code(), Some(1), "{words:?}");
        let told = [added.stdout, added.stderr, listed.stdout, imported.stderr];
        let told = told.map(|bytes| text(&bytes)).join("\n");
        for word in words {
            assert!(told.contains(word), "{word}: {told}");
        }
        serves(&node, byte);
        let pool = node.client().pool(&name("pool")).unwrap();
        assert_eq!(pool.state, PoolState::Online);
        node.answer(&["drive", "remove", "usb"]);
    }
    // As it was it is imported.
    node.answer(&["drive", "add", "usb", whole.to_str().unwrap()]);
    node.answer(&["pool", "import", "usb"]);
    serves(&node, 1);
}
