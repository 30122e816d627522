//! A member of a pool that begins to fail in the middle of I/O, seen through the kernel: hosts
//! notice nothing, the operator is told, and what was on it is rebuilt on the others. Needs root,
//! as the drive is a file of a file system of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
#[path = "support/load.rs"]
mod load;
#[path = "support/raid6.rs"]
mod raid6;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use api::{JobKind, JobState, ObjectState, PoolState};
use block::{BlockDevice, Buffer, Durability, Lba};
use connected::connected;
use fickle::{FickleDrive, Mood};
use load::{clean, target, verified_load};
use raid6::make_pool;
use support::{Node, name, text, wait_until};

const MIB: u64 = 1 << 20;

/// A raid6 pool of five files and a drive that may fail, with a volume for every host.
fn pool_with(drive: &FickleDrive, cores: &str) -> Node {
    let node = Node::configured(&format!(
        "[node]\ncores = [{cores}]\n[pools]\ndrive_wait_seconds = 0\n"
    ));
    make_pool(&node, 5, "32MiB", &[("fickle", &drive.path())]);
    let create = ["volume", "create", "v", "--pool", "pool", "--size", "16MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    node
}

/// Load goes on through the failure, none of it fails, and all of it is read back.
fn goes_on_through(mood: Mood, cores: &str) {
    let drive = FickleDrive::new(32 * MIB);
    let mut node = pool_with(&drive, cores);
    let (stop, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let load = {
        let (to, stop, rounds) = (target(&node, "v"), stop.clone(), rounds.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                clean(&verified_load(to.clone(), 4096, 2000), "load");
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let done = || rounds.load(Ordering::Relaxed);
    wait_until("the load runs", || done() > 0 || load.is_finished());
    drive.set(mood);
    let client = node.client();
    wait_until("the drive is out of use", || {
        let members = client.pool(&name("pool")).unwrap().members;
        let used = |name: &api::Name| name.as_str() == "fickle";
        !members
            .iter()
            .any(|member| member.active && member.drive.as_ref().is_some_and(used))
    });
    let before = done();
    wait_until("the load goes on without it", || {
        done() > before + 1 || load.is_finished()
    });
    wait_until("the pool makes itself whole", || {
        let pool = client.pool(&name("pool")).unwrap();
        pool.state == PoolState::Online && pool.members.len() == 5
    });
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
    let events = node.answer(&["event", "list"]);
    for told in [
        "drive fickle failed, and is out of use",
        "degraded",
        "rebuilt",
    ] {
        assert!(events.contains(told), "{told}: {events}");
    }
    let jobs = client.jobs().unwrap().items;
    let rebuild = jobs.iter().find(|job| job.kind == JobKind::Rebuild);
    assert_eq!(rebuild.unwrap().state, JobState::Done, "{jobs:?}");
    node.answer(&["pool", "scrub", "pool", "--wait"]);
    clean(&verified_load(target(&node, "v"), 4096, 500), "afterwards");

    // It works again, and the pool takes it as another member. A flush that failed is forgotten.
    drive.set(Mood::Works);
    let whole = |members: usize| {
        let pool = client.pool(&name("pool")).unwrap();
        pool.state == PoolState::Online && pool.members.len() == members
    };
    node.answer(&["pool", "add-drive", "pool", "fickle"]);
    wait_until("the pool has it again", || whole(6));
    node.answer(&["pool", "fail-drive", "pool", "fickle"]);
    wait_until("the pool is whole without it", || whole(5));
    // What it holds is of the past: the pool does not take it for its own.
    node.kill();
    node.start();
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!((pool.state, pool.members.len()), (PoolState::Online, 5));
    node.answer(&["pool", "add-drive", "pool", "fickle"]);
    clean(
        &verified_load(target(&node, "v"), 4096, 500),
        "with it again",
    );
    assert!(node.terminate().success(), "{}", node.log());
}

#[test]
fn load_goes_on_when_a_drive_fails_every_write() {
    goes_on_through(Mood::FailsWrites, "0");
}

#[test]
fn load_goes_on_when_a_drive_fails_everything_on_two_cores() {
    let two = std::thread::available_parallelism().map_or(1, usize::from) > 1;
    goes_on_through(Mood::Fails, if two { "0, 1" } else { "0" });
}

/// A pool of nothing but a drive that may fail, with a volume for every host.
fn pool_of(drive: &FickleDrive) -> Node {
    let node = Node::configured("");
    let path = drive.path();
    node.answer(&["drive", "add", "fickle", path.to_str().unwrap()]);
    let create = ["pool", "create", "pool", "--level", "raid0"];
    node.answer(&[&create[..], &["--drives", "fickle"]].concat());
    let create = ["volume", "create", "v", "--pool", "pool", "--size", "16MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    node
}

#[test]
fn a_pool_that_its_drives_have_left_is_let_go_of_and_taken_again_when_they_are_back() {
    let drive = FickleDrive::new(32 * MIB);
    let node = pool_of(&drive);
    connected(&node, "v", async |device, _controller| {
        let mut buffer = Buffer::zeroed(4096);
        buffer.fill(7);
        let written = device.write(Lba(3), buffer, Durability::Durable).await;
        assert_eq!(written.1, Ok(()));
        drive.set(Mood::Fails);
        let buffer = Buffer::zeroed(4096);
        let written = device.write(Lba(4), buffer, Durability::Durable).await;
        assert!(written.1.is_err());
    });
    let client = node.client();
    let pool = || client.pool(&name("pool"));
    wait_until("the pool is offline", || {
        pool().unwrap().state == PoolState::Offline
    });
    let refused = node.ask(&["pool", "import", "pool"]);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("export it"), "{message}");

    node.answer(&["pool", "export", "pool"]);
    assert!(pool().is_err());
    assert_eq!(client.volumes().unwrap().items, []);
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("exported as it stood"), "{events}");

    drive.set(Mood::Works);
    // Opened anew, what it has failed before counts no more.
    node.answer(&["drive", "remove", "fickle"]);
    node.answer(&["drive", "add", "fickle", drive.path().to_str().unwrap()]);
    node.answer(&["pool", "import", "pool"]);
    assert_eq!(pool().unwrap().state, PoolState::Online);
    connected(&node, "v", async |device, _controller| {
        let (buffer, result) = device.read(Lba(3), Buffer::new(4096)).await;
        assert_eq!(result, Ok(()));
        assert!(buffer.iter().all(|found| *found == 7));
    });
}

#[test]
fn an_export_that_fails_leaves_the_pool_and_its_volumes() {
    let drive = FickleDrive::new(32 * MIB);
    let mut node = pool_of(&drive);
    let before = node.client().volume(&name("v")).unwrap();
    drive.set(Mood::FailsWrites);
    node.refuses(&[(&["pool", "export", "pool"], 1, &["pool pool"])]);
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Offline);
    assert_eq!(pool.volumes, [name("v")]);
    let held = node.client().volume(&name("v")).unwrap();
    assert_eq!(held.state, ObjectState::Offline);
    drive.set(Mood::Works);
    node.kill();
    node.start();
    assert_eq!(node.client().volume(&name("v")).unwrap(), before);
    connected(&node, "v", async |device, _controller| {
        let (_, result) = device.read(Lba(3), Buffer::new(4096)).await;
        assert_eq!(result, Ok(()));
    });
    node.answer(&["pool", "export", "pool"]);
}

/// Imports a pool that is offline for a reason, which only is done once a loss is accepted.
fn accepts_loss(node: &Node, why: &str) {
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Offline);
    let told = pool.reason.unwrap();
    let words = [why, "--accept-loss"];
    for word in words {
        assert!(told.contains(word), "{told}");
    }
    node.refuses(&[(&["pool", "import", "pool"], 1, &words)]);
    node.answer(&["pool", "import", "pool", "--accept-loss"]);
}

#[test]
fn a_label_that_cannot_be_read_may_be_given_up() {
    let drive = FickleDrive::new(32 * MIB);
    let mut node = pool_of(&drive);
    node.kill();
    drive.set(Mood::FailsLastLabel);
    node.start();
    accepts_loss(&node, "a label of drive fickle cannot be read");
    let pool = node.client().pool(&name("pool")).unwrap();
    assert_eq!(pool.state, PoolState::Online);
    node.kill();
    node.start();
    let volume = node.client().volume(&name("v")).unwrap();
    assert_eq!(volume.state, ObjectState::Online);
}

#[test]
fn a_log_that_cannot_be_read_to_its_end_may_be_given_up() {
    let drive = FickleDrive::new(32 * MIB);
    let mut node = pool_of(&drive);
    connected(&node, "v", async |device, _controller| {
        let mut buffer = Buffer::zeroed(4096);
        buffer.fill(7);
        let written = device.write(Lba(3), buffer, Durability::Durable).await;
        assert_eq!(written.1, Ok(()));
    });
    node.kill();
    drive.set(Mood::FailsUnwritten);
    node.start();
    accepts_loss(&node, "cannot be read where the log ends");
    connected(&node, "v", async |device, _controller| {
        let (buffer, result) = device.read(Lba(3), Buffer::new(4096)).await;
        assert_eq!(result, Ok(()));
        assert!(buffer.iter().all(|found| *found == 7));
    });
}
