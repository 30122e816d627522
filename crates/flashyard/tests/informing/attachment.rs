//! A volume that is attached, and what the program that serves it says: a log, and a file about how
//! it stands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use block::Buffer;
use fickle::{FickleDirectory, Manner};

use crate::attached::Attached;
use crate::outputs::FAULTS;
use crate::support::{Node, wait_until};

/// Longer than a volume takes to be back on the slowest machine.
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// Whether a block is written and read, past the page cache.
fn works(device: &Path) -> bool {
    let direct = rustix::fs::OFlags::DIRECT.bits();
    let mut options = File::options();
    options.read(true).write(true).custom_flags(direct as i32);
    let (tell, hear) = mpsc::channel();
    let device = device.to_owned();
    // One that waits for ever is not waited for.
    std::thread::spawn(move || {
        let file = options.open(device).unwrap();
        let mut block = Buffer::zeroed(4096);
        file.write_all_at(&block, 0).unwrap();
        file.read_exact_at(&mut block, 0).unwrap();
        let _ = tell.send(());
    });
    hear.recv_timeout(BACK_WITHIN).is_ok()
}

/// What is said of it goes first: nothing can end a process that waits for that.
struct Scene {
    said: FickleDirectory,
    attached: Attached,
    node: Node,
}

impl Scene {
    fn new() -> Scene {
        let said = FickleDirectory::new();
        let directory = tempfile::tempdir().unwrap();
        for name in ["log", "standing"] {
            let place = directory.path().join(format!("demo.{name}"));
            symlink(said.path().join(name), place).unwrap();
        }
        let node = Node::develop(&["--drives", "1"]);
        Scene {
            attached: Attached::in_directory(directory, &node, "demo"),
            said,
            node,
        }
    }
}

/// The loss of the node and its return are news, which are written by what serves the volume.
#[test]
fn an_attached_volume_is_served_whatever_becomes_of_what_is_said_of_it() {
    let mut scene = Scene::new();
    for fault in FAULTS {
        scene.said.set(fault.manner());
        scene.node.kill();
        scene.node.start();
        assert!(works(scene.attached.device()), "{fault:?}");
        scene.said.set(Manner::Works);
        wait_until("how it stands is said", || {
            let standing = std::fs::read_to_string(scene.said.behind().join("standing"));
            standing.is_ok_and(|text| text.contains("\"connected\""))
        });
    }
    scene.attached.detach();
}
