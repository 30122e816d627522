//! Pools as `pool create --width` makes them, and what `pool usage` says is in them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use api::PoolState;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller};
use load::{HOST, clean, target, verified_load};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, text, wait_until};

/// A node with six drives that nothing uses.
fn with_drives() -> Node {
    let node = Node::configured("[pools]\ndrive_wait_seconds = 0\n");
    for number in 0..6 {
        let add = ["drive", "add", &format!("d{number}"), "--memory", "16MiB"];
        node.answer(&add);
    }
    node
}

fn create<'a>(level: &'a str, drives: &'a str, width: &'a str) -> Vec<&'a str> {
    let create = ["pool", "create", "p", "--level", level, "--drives", drives];
    [&create[..], &["--width", width]].concat()
}

#[test]
fn a_width_is_as_asked_or_refused_with_what_is_allowed() {
    let node = with_drives();
    let (six, five) = ("d0,d1,d2,d3,d4,d5", "d0,d1,d2,d3,d4");
    for (level, drives, width, allowed) in [
        ("raid6", six, "40", "3 to 6"),
        ("raid6", six, "7", "3 to 6"),
        ("raid6", six, "2", "3 to 6"),
        ("raid5", six, "1", "2 to 6"),
        ("raid0", six, "0", "1 to 6"),
        ("raid10", six, "5", "2 to 6, even"),
        ("raid10", five, "5", "2 to 4, even"),
        ("raid1", six, "4", "2 to 3"),
    ] {
        let output = node.ask(&create(level, drives, width));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{level} {width}: {message}");
        let parts = [level, "width", &format!(" {width}"), allowed];
        for part in parts {
            assert!(message.contains(part), "{level} {width}: {part}: {message}");
        }
    }
    assert_eq!(node.client().pools().unwrap().items, []);
    for (level, width) in [
        ("raid6", "3"),
        ("raid6", "5"),
        ("raid5", "4"),
        ("raid10", "4"),
        ("raid1", "2"),
        ("raid0", "1"),
    ] {
        node.answer(&create(level, six, width));
        let pool = node.client().pool(&name("p")).unwrap();
        assert_eq!(
            pool.width.map(|width| width.to_string()).as_deref(),
            Some(width)
        );
        let shown = node.answer(&["pool", "show", "p"]);
        assert!(shown.contains(&format!("{level}, {width} wide")), "{shown}");
        node.answer(&["pool", "destroy", "p"]);
    }
}

#[test]
fn a_pool_narrower_than_its_drives_rebuilds_at_full_width_and_keeps_everything() {
    let mut node = Node::configured("[pools]\ndrive_wait_seconds = 0\n");
    for number in 0..6 {
        let (name, path) = (format!("d{number}"), format!("d{number}.img"));
        let path = node.path().join(path);
        let add = ["drive", "add", &name, path.to_str().unwrap()];
        node.answer(&[&add[..], &["--size", "16MiB"]].concat());
    }
    node.answer(&create("raid6", "d0,d1,d2,d3,d4,d5", "4"));
    let create = ["volume", "create", "v", "--pool", "p", "--size", "8MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    let load = |node: &Node, what: &str| {
        clean(&verified_load(target(node, "v"), 4096, 1000), what);
    };
    load(&node, "whole");
    node.answer(&["pool", "fail-drive", "p", "d1"]);
    load(&node, "one failed");
    wait_until("the drive is made up for", || {
        node.client().pool(&name("p")).unwrap().members.len() <= 5
    });
    node.kill();
    // Two more are gone, as before any was.
    for number in [2, 4] {
        std::fs::remove_file(node.path().join(format!("d{number}.img"))).unwrap();
    }
    node.start();
    let pool = node.client().pool(&name("p")).unwrap();
    assert_eq!((pool.state, pool.width), (PoolState::Degraded, Some(4)));
    assert_eq!(pool.drives_to_spare, Some(0));
    load(&node, "two missing");
    node.answer(&["pool", "scrub", "p", "--wait"]);
}

#[test]
fn usage_says_what_each_volume_and_snapshot_holds_and_shares() {
    let node = Node::develop(&[]);
    let create = ["volume", "create", "v", "--pool", "pool", "--size", "8MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    let nqn = node.client().volume(&name("v")).unwrap().nqn;
    let address = node.endpoints().nvme[0];
    let fill = |blocks: std::ops::Range<u64>, byte: u8| {
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            let options = ConnectOptions::new(HOST);
            let controller = Controller::connect(address, &nqn, options).await.unwrap();
            let device = controller.namespace(1).await.unwrap();
            for block in blocks {
                let mut buffer = Buffer::zeroed(4096);
                buffer.fill(byte);
                let written = device.write(Lba(block), buffer, Durability::Durable).await;
                assert_eq!(written.1, Ok(()));
            }
        });
    };
    fill(0..100, 1);
    node.answer(&["volume", "snapshot", "v", "s"]);
    fill(0..40, 2);
    let usage = node.client().pool_usage(&name("pool")).unwrap();
    let of = |name: &str| usage.users.iter().find(|user| user.name == name).unwrap();
    let blocks = |bytes: u64| bytes / 4096;
    let (volume, snapshot) = (of("v"), of("s"));
    assert!(!volume.snapshot && snapshot.snapshot);
    for user in [volume, snapshot] {
        assert_eq!(blocks(user.logical_bytes), 100, "{user:?}");
        assert_eq!(blocks(user.unique_bytes), 40, "{user:?}");
        assert_eq!(blocks(user.shared_bytes), 60, "{user:?}");
    }
    assert_eq!(of("demo").logical_bytes, 0);
    assert_eq!((blocks(usage.total_bytes), usage.unnamed_bytes), (140, 0));
    let shown = node.answer(&["pool", "usage", "pool"]);
    let row = |name: &str| {
        let found = shown
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        found
            .unwrap_or_else(|| panic!("{name}: {shown}"))
            .to_owned()
    };
    assert!(
        row("v ").contains("volume") && row("v ").contains("400 KiB"),
        "{shown}"
    );
    assert!(
        row("s ").contains("snapshot") && row("s ").contains("160 KiB"),
        "{shown}"
    );
    assert!(row("total").contains("560 KiB"), "{shown}");
    let unknown = node.ask(&["pool", "usage", "q"]);
    assert!(
        text(&unknown.stderr).contains("no pool is named q"),
        "{unknown:?}"
    );
}
