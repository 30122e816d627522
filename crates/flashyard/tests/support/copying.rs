//! Nodes with a pool, what is written to their volumes, and the program with a stream.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Seek, Write};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use block::{BlockDevice, BlockRange, Buffer, Durability, Lba};
use server::tokens::ADMIN_TOKEN_FILE;

use crate::connected::connected;
use crate::support::{Node, name, program as flashyard, text, wait_until};

pub const MIB: u64 = 1 << 20;
pub const BLOCK: u64 = 4096;

/// What is to stand at a place.
pub enum Content {
    Bytes(Vec<u8>),
    /// So many bytes that are deallocated.
    Nothing(u64),
}

/// A node with the pool `pool`, which is there after a kill.
pub fn pair() -> Node {
    let node = Node::configured("");
    let path = node.path().join("drive.img");
    let path = path.to_str().unwrap();
    node.answer(&["drive", "add", "drive", path, "--size", "256MiB"]);
    node.answer(&[
        "pool", "create", "pool", "--level", "raid0", "--drives", "drive",
    ]);
    node
}

/// Bytes that do not compress.
pub fn noise(bytes: u64, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..bytes / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

/// Writes to a volume, as a host does.
pub fn write(node: &Node, volume: &str, parts: Vec<(u64, Content)>) {
    connected(node, volume, |namespace, controller| async move {
        let block = u64::from(namespace.geometry().block_bytes);
        for (at, content) in parts {
            let start = Lba(at / block);
            match content {
                Content::Bytes(bytes) => {
                    let buffer = Buffer::copy_of(&bytes);
                    let write = namespace.write(start, buffer, Durability::Cached);
                    write.await.1.unwrap();
                }
                Content::Nothing(bytes) => {
                    let blocks = bytes / block;
                    let range = BlockRange { start, blocks };
                    namespace.deallocate(range).await.unwrap();
                }
            }
        }
        namespace.flush().await.unwrap();
        controller.disconnect().await;
    });
}

/// All of a volume.
pub fn contents(node: &Node, volume: &str) -> Vec<u8> {
    let bytes = node.client().volume(&name(volume)).unwrap().capacity_bytes;
    let all = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let read = std::rc::Rc::clone(&all);
    connected(node, volume, |namespace, controller| async move {
        let block = u64::from(namespace.geometry().block_bytes);
        for at in (0..bytes).step_by(MIB as usize) {
            let length = MIB.min(bytes - at) as usize;
            let (buffer, done) = namespace.read(Lba(at / block), Buffer::new(length)).await;
            done.unwrap();
            read.borrow_mut().extend_from_slice(&buffer);
        }
        controller.disconnect().await;
    });
    all.take()
}

/// The program, against a node as its admin.
pub fn program(node: &Node, arguments: &[&str]) -> Command {
    let mut program = Command::new(flashyard());
    program
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(["--node", &node.endpoints().api, "--token-file"])
        .arg(node.path().join(ADMIN_TOKEN_FILE))
        .args(arguments)
        .stderr(Stdio::piped());
    program
}

/// What `snapshot send` writes, which must succeed.
pub fn sent(node: &Node, arguments: &[&str]) -> Vec<u8> {
    let all = [&["snapshot", "send"], arguments].concat();
    let output = program(node, &all).output().unwrap();
    assert!(output.status.success(), "{all:?}: {}", text(&output.stderr));
    output.stdout
}

/// `volume receive` with a stream, ended.
pub fn receive(node: &Node, arguments: &[&str], stream: &[u8]) -> Output {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(stream).unwrap();
    file.rewind().unwrap();
    let all = [&["volume", "receive"], arguments].concat();
    program(node, &all).stdin(file).output().unwrap()
}

/// The same, which must succeed.
pub fn received(node: &Node, arguments: &[&str], stream: &[u8]) {
    let output = receive(node, arguments, stream);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
}

/// `volume receive` that has been given a part of a stream, and waits for more.
pub fn begun(node: &Node, arguments: &[&str], part: &[u8]) -> (Child, ChildStdin) {
    let all = [&["volume", "receive"], arguments].concat();
    let mut child = program(node, &all).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(part).unwrap();
    wait_until("the volume aside is connected", || {
        let client = node.client();
        let volume = client.volume(&name("data.receiving"));
        let sessions = client.sessions().unwrap().items;
        volume.is_ok_and(|volume| sessions.iter().any(|it| it.nqn == volume.nqn))
    });
    (child, pipe)
}
