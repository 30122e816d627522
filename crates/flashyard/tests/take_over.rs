//! A pool that goes to another node and comes back: no host is told anything by either that would
//! have it never come again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/attached.rs"]
mod attached;
#[path = "support/polling.rs"]
mod polling;
mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use api::PoolState;
use attached::Attached;
use polling::{Polled, Polling, Random};
use support::{Node, name, wait_until};

#[test]
fn hosts_come_again_while_a_pool_is_taken_over_and_given_back() {
    let mut first = Node::configured("");
    let second = Node::configured("[node]\nname = \"second\"\n");
    for drive in ["a", "b"] {
        let path = first.path().canonicalize().unwrap().join(drive);
        let path = path.to_str().unwrap();
        first.answer(&["drive", "add", drive, path, "--size", "32MiB"]);
    }
    let create = ["pool", "create", "p", "--level", "raid1", "--drives", "a,b"];
    first.answer(&create);
    let polled = ["v", "w"].map(|volume| {
        let create = ["volume", "create", volume, "--pool", "p", "--size", "8MiB"];
        first.answer(&[&create[..], &["--allow", "any"]].concat());
        Polled {
            nqn: first.client().volume(&name(volume)).unwrap().nqn,
            alone: volume == "w",
        }
    });
    let addresses = [&first, &second].map(|node| node.endpoints().nvme[0]);
    let attached = Attached::new(&first, "v");
    let polling = Polling::start(&addresses, &polled, &[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| writes(attached.device(), &stop));
        take_over_and_give_back(&mut first, &second);
        stop.store(true, Ordering::Relaxed);
        let written = writes.join().unwrap();
        assert!(written.is_ok(), "{written:?}: {}", attached.said());
    });
    polling.end();
    attached.detach();
}

/// Writes to an attached volume, durably each time, until it is to stop.
fn writes(device: &Path, stop: &AtomicBool) -> std::io::Result<u64> {
    let device = File::options().write(true).open(device)?;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        device.write_all_at(&[number as u8; 4096], (100 + number % 100) << 12)?;
        device.sync_all()?;
        number += 1;
    }
    Ok(number)
}

fn take_over_and_give_back(first: &mut Node, second: &Node) {
    let mut random = Random(4);
    random.pause(1000);
    first.kill();
    random.pause(1000);
    for drive in ["a", "b"] {
        let path = first.path().canonicalize().unwrap().join(drive);
        second.answer(&["drive", "add", drive, path.to_str().unwrap()]);
    }
    second.answer(&["pool", "import", "p", "--force"]);
    random.pause(1000);
    // It finds its pool taken.
    first.start();
    wait_until("the first node has it no more", || {
        let pool = first.client().pool(&name("p"));
        pool.is_ok_and(|pool| pool.state == PoolState::Offline)
    });
    random.pause(1000);
    second.answer(&["pool", "export", "p", "--force"]);
    random.pause(1000);
    for drive in ["a", "b"] {
        second.answer(&["drive", "remove", drive]);
    }
    // It waits for the drives, and has them by and by.
    wait_until("the first node has it again", || {
        let pool = first.client().pool(&name("p"));
        pool.is_ok_and(|pool| pool.state == PoolState::Online)
    });
    random.pause(1000);
}
