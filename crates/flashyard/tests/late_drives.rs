//! A machine that starts may have its drives later than the node: pools wait for them, each by
//! itself, and then go on without those that never come.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/attached.rs"]
mod attached;
mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use api::{ObjectState, PoolState};
use attached::Attached;
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller, Reconnect};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, wait_until};

/// A node with two mirrors, `late` on drives a and b, `other` on c and d, that was killed; and the
/// file of drive b, which is out of the way.
fn with_a_late_drive(wait_seconds: u32) -> (Node, PathBuf, PathBuf) {
    let settings = format!("[pools]\ndrive_wait_seconds = {wait_seconds}\n");
    let mut node = Node::configured(&settings);
    for drive in ["a", "b", "c", "d"] {
        let path = node.path().canonicalize().unwrap().join(drive);
        node.answer(&[
            "drive",
            "add",
            drive,
            path.to_str().unwrap(),
            "--size",
            "16MiB",
        ]);
    }
    for (pool, drives) in [("late", "a,b"), ("other", "c,d")] {
        node.answer(&[
            "pool", "create", pool, "--level", "raid1", "--drives", drives,
        ]);
        node.answer(&[
            "volume",
            "create",
            &format!("v-{pool}"),
            "--pool",
            pool,
            "--size",
            "4MiB",
        ]);
    }
    node.kill();
    let (file, aside) = (node.path().join("b"), node.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    (node, file, aside)
}

/// I/O that meets a pool which waits for a drive waits as well, and is done when the drive is back.
#[test]
fn a_connected_host_waits_for_a_pool_that_waits() {
    let (mut node, file, aside) = with_a_late_drive(3600);
    std::fs::rename(&aside, &file).unwrap();
    node.start();
    node.answer(&["volume", "allow", "v-late", "any"]);
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&name("v-late")).unwrap().nqn;
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let mut options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
        options.reconnect = Some(Reconnect::default());
        let controller = Controller::connect(address, &nqn, options).await.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        let write = |byte: u8| {
            let (namespace, block) = (namespace.clone(), Buffer::copy_of(&[byte; 4096]));
            async move { namespace.write(Lba(5), block, Durability::Durable).await.1 }
        };
        write(1).await.unwrap();
        node.kill();
        std::fs::rename(&file, &aside).unwrap();
        let waiting = reactor::spawn(write(2));
        node.start();
        assert_eq!(state(&node, "late"), PoolState::Offline);
        // It meets a namespace that is not ready for longer than a host without patience waits.
        reactor::sleep(Duration::from_secs(4)).await;
        assert_eq!(state(&node, "late"), PoolState::Offline);
        std::fs::rename(&aside, &file).unwrap();
        waiting.await.unwrap();
        assert_ne!(state(&node, "late"), PoolState::Offline);
        let (found, read) = namespace.read(Lba(5), Buffer::new(4096)).await;
        read.unwrap();
        assert_eq!(found[..], [2; 4096]);
    });
}

/// So does a write to an attached volume, whose host is `attach`, for longer than a host that tries
/// ten times in a second.
#[test]
fn an_attached_volume_waits_for_a_pool_that_waits() {
    let (mut node, file, aside) = with_a_late_drive(3600);
    std::fs::rename(&aside, &file).unwrap();
    node.start();
    node.answer(&["volume", "allow", "v-late", "any"]);
    let attached = Attached::new(&node, "v-late");
    let device = File::options().write(true).open(attached.device()).unwrap();
    let write = |byte: u8| {
        device.write_all_at(&[byte; 4096], 5 << 12)?;
        device.sync_all()
    };
    write(1).unwrap();
    node.kill();
    std::fs::rename(&file, &aside).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| write(2));
        node.start();
        std::thread::sleep(Duration::from_secs(5));
        assert_eq!(state(&node, "late"), PoolState::Offline);
        assert!(!waiting.is_finished(), "{}", attached.said());
        std::fs::rename(&aside, &file).unwrap();
        let written = waiting.join().unwrap();
        assert!(written.is_ok(), "{written:?}: {}", attached.said());
    });
    drop(device);
    attached.detach();
    let again = Attached::new(&node, "v-late");
    let mut found = [0; 4096];
    let device = File::open(again.device()).unwrap();
    device.read_exact_at(&mut found, 5 << 12).unwrap();
    assert_eq!(found, [2; 4096]);
    drop(device);
}

fn state(node: &Node, pool: &str) -> PoolState {
    node.client().pool(&name(pool)).unwrap().state
}

#[test]
fn a_pool_waits_for_a_drive_that_is_late_and_others_do_not() {
    let (mut node, file, aside) = with_a_late_drive(3600);
    node.start();
    assert_eq!(state(&node, "other"), PoolState::Online);
    let waiting = node.client().pool(&name("late")).unwrap();
    assert_eq!(waiting.state, PoolState::Offline);
    assert_eq!(waiting.reason.as_deref(), Some("waits for drive b"));
    let held = node.client().volume(&name("v-late")).unwrap();
    assert_eq!(held.state, ObjectState::Offline);
    std::fs::rename(&aside, &file).unwrap();
    wait_until("the pool opens with its drive", || {
        state(&node, "late") != PoolState::Offline
    });
    assert_eq!(state(&node, "late"), PoolState::Online);
    let volume = node.client().volume(&name("v-late")).unwrap();
    assert_eq!(volume.state, ObjectState::Online);
    assert_eq!(
        node.client().status().unwrap().problems,
        Vec::<String>::new()
    );
}

#[test]
fn a_pool_goes_on_without_a_drive_that_never_comes_and_takes_it_back_when_it_does() {
    let (mut node, file, aside) = with_a_late_drive(2);
    node.start();
    assert_eq!(state(&node, "other"), PoolState::Online);
    wait_until("the pool opens without its drive", || {
        state(&node, "late") == PoolState::Degraded
    });
    let events = node.answer(&["event", "list"]);
    for part in [
        "waits for drive b",
        "has waited for drive b: goes on without",
    ] {
        assert!(events.contains(part), "{events}");
    }
    std::fs::rename(&aside, &file).unwrap();
    let path = file.canonicalize().unwrap();
    node.answer(&[
        "drive",
        "add",
        "b",
        path.to_str().unwrap(),
        "--size",
        "16MiB",
    ]);
    node.answer(&["pool", "add-drive", "late", "b"]);
    takes_part_again(&node, "b");
    // Once more, while the node runs.
    let fail = ["pool", "fail-drive", "late", "b"];
    node.answer(&fail);
    node.refuses(&[(&fail, 1, &["drive b has failed already"])]);
    node.answer(&["pool", "add-drive", "late", "b"]);
    takes_part_again(&node, "b");
}

/// The pool `late` has its data on two drives again, one of which is `drive`.
fn takes_part_again(node: &Node, drive: &str) {
    wait_until("the pool is whole again", || {
        state(node, "late") == PoolState::Online
    });
    let members = node.client().pool(&name("late")).unwrap().members;
    let mut called: Vec<String> = members
        .iter()
        .map(|member| member.drive.as_ref().unwrap().to_string())
        .collect();
    called.sort();
    assert_eq!(called, ["a", drive], "{members:?}");
    assert!(members.iter().all(|member| member.active), "{members:?}");
}

#[test]
fn an_import_ends_the_wait() {
    let (mut node, _, _) = with_a_late_drive(3600);
    node.start();
    assert_eq!(state(&node, "late"), PoolState::Offline);
    let known_as = ["drive b", "/b", "--degraded"];
    node.refuses(&[(&["pool", "import", "late"], 1, &known_as)]);
    node.answer(&["pool", "import", "late", "--degraded"]);
    assert_eq!(state(&node, "late"), PoolState::Degraded);
    let volume = node.client().volume(&name("v-late")).unwrap();
    assert_eq!(volume.state, ObjectState::Online);
}

/// A drive that is where a member was, and is none, is no drive that is missing.
#[test]
fn what_is_there_instead_of_a_member_is_named() {
    let blank = |file: &PathBuf| {
        let made = File::create(file).unwrap();
        made.set_len(16 << 20).unwrap();
    };
    let (mut node, file, _aside) = with_a_late_drive(3600);
    blank(&file);
    node.start();
    let reason = |node: &Node| node.client().pool(&name("late")).unwrap().reason.unwrap();
    let said = "waits for drive b (drive b is there and blank)";
    assert_eq!(reason(&node), said);
    let problems = node.client().status().unwrap().problems;
    assert!(
        problems.iter().any(|problem| problem.contains(said)),
        "{problems:?}"
    );
    node.kill();

    // The drives were mixed up: names do not matter to the other pool.
    std::fs::rename(node.path().join("c"), &file).unwrap();
    node.start();
    assert_eq!(state(&node, "other"), PoolState::Online);
    let said = "waits for drive b (drive b is there and carries member 0 of pool other)";
    assert_eq!(reason(&node), said);

    let (mut node, file, _aside) = with_a_late_drive(0);
    blank(&file);
    node.start();
    let pool = node.client().pool(&name("late")).unwrap();
    assert_eq!(pool.state, PoolState::Degraded);
    assert_eq!(pool.reason.as_deref(), Some("drive b is there and blank"));
    let problems = node.client().status().unwrap().problems;
    let said = "drive b, is missing or has failed: drive b is there and blank";
    assert!(
        problems.iter().any(|problem| problem.contains(said)),
        "{problems:?}"
    );
}
