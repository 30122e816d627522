//! A pool that finds itself wrong: its node and the other pool serve on, everybody is told why, and
//! it opens again with all that was acknowledged.

// Programs without debug assertions have no fault to plant.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/connected.rs"]
mod connected;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use api::{ObjectState, PoolState, Severity};
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use connected::{HOST, connected};
use initiator::{ConnectOptions, Controller, Namespace};
use reactor::{Reactor, ReactorConfig};
use support::{Node, http, name, text, wait_until};

/// A pool of the node does not survive the write of a block that begins like this.
const BREAKS: &str = "breaks the pool";
const REASON: &str = "an internal error stopped the pool: planted in a block that is written";
const BLOCKS: u64 = 64;

/// Two pools, both on all processors: `pool` with a volume demo, and `other` with a volume v.
fn prepared() -> Node {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if processors > 1 { "0,1" } else { "0" };
    let variable = format!("FLASHYARD_POOL_BREAKS_AT={BREAKS}");
    let arguments = ["--drives", "2", "--level", "raid1", "--cores", cores];
    let node = Node::develop_under(&["env", &variable], &arguments);
    for drive in ["o0", "o1"] {
        let path = node.path().join(drive);
        let add = ["drive", "add", drive, path.to_str().unwrap()];
        node.answer(&[&add[..], &["--size", "32MiB"]].concat());
    }
    let pool = ["pool", "create", "other", "--level", "raid1"];
    node.answer(&[&pool[..], &["--drives", "o0,o1"]].concat());
    node.answer(&["volume", "snapshot", "demo", "monday"]);
    let volume = ["volume", "create", "v", "--pool", "other"];
    node.answer(&[&volume[..], &["--size", "4MiB", "--allow", "any"]].concat());
    node
}

async fn write(volume: &Namespace, block: u64, byte: u8) {
    let buffer = Buffer::copy_of(&[byte; 4096]);
    let written = volume.write(Lba(block), buffer, Durability::Durable).await;
    assert_eq!(written.1, Ok(()), "block {block}");
}

async fn read(volume: &Namespace, block: u64, byte: u8) -> Result<(), IoError> {
    let (buffer, read) = volume.read(Lba(block), Buffer::new(4096)).await;
    read?;
    assert!(buffer.iter().all(|found| *found == byte), "block {block}");
    Ok(())
}

/// A host that writes to the volume demo and reads it back, all the time.
struct Neighbour {
    turns: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    works: JoinHandle<()>,
}

impl Neighbour {
    fn start(node: &Node) -> Neighbour {
        let address = node.endpoints().nvme[0];
        let nqn = node.client().volume(&name("demo")).unwrap().nqn;
        let (turns, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, ends) = (Arc::clone(&turns), Arc::clone(&stop));
        let works = std::thread::spawn(move || {
            let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
            reactor.run(async {
                let options = ConnectOptions::new(HOST);
                let controller = Controller::connect(address, &nqn, options).await.unwrap();
                let volume = controller.namespace(1).await.unwrap();
                while !ends.load(Ordering::Relaxed) {
                    let turn = counted.load(Ordering::Relaxed);
                    write(&volume, turn * 37 % BLOCKS, turn as u8).await;
                    let back = read(&volume, turn * 37 % BLOCKS, turn as u8).await;
                    assert_eq!(back, Ok(()));
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                controller.disconnect().await;
            });
        });
        Neighbour { turns, stop, works }
    }

    /// Waits until it has been served for a while from now on.
    fn goes_on(&self) {
        let before = self.turns.load(Ordering::Relaxed);
        wait_until("the other pool's host goes on", || {
            self.turns.load(Ordering::Relaxed) > before + 50
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.works.join().unwrap();
    }
}

/// Has a host of the pool break it; the host stays connected.
fn break_it(node: &Node) {
    connected(node, "v", async |volume, controller| {
        let mut block = BREAKS.as_bytes().to_vec();
        block.resize(4096, 0);
        let buffer = Buffer::copy_of(&block);
        let written = volume.write(Lba(3), buffer, Durability::Durable).await;
        assert_eq!(written.1, Err(IoError::DeviceGone));
        assert_eq!(read(&volume, 0, 5).await, Err(IoError::DeviceGone));
        let again = controller.namespace(1).await.unwrap();
        assert_eq!(again.geometry().block_count, 1024);
    });
}

/// A volume says what its pool says, alone and in the list.
fn is_told_of_volumes(node: &Node) {
    let client = node.client();
    for volume in [client.volume(&name("v")).unwrap()]
        .into_iter()
        .chain(client.volumes().unwrap().items)
    {
        if volume.name == name("demo") {
            assert_eq!((volume.state, volume.reason), (ObjectState::Online, None));
            continue;
        }
        assert_eq!(volume.state, ObjectState::Offline);
        let reason = volume.reason.unwrap();
        let said = format!("pool other is offline: {REASON}");
        assert!(reason.starts_with(&said), "{reason}");
    }
}

/// Everybody who asks is told what has happened.
fn is_told(node: &Node, times: usize) {
    let client = node.client();
    let pool = client.pool(&name("other")).unwrap();
    assert_eq!(pool.state, PoolState::Offline);
    let reason = pool.reason.unwrap();
    assert!(reason.starts_with(REASON), "{reason}");
    assert!(reason.contains("crates/pool/src/mutation.rs:"), "{reason}");
    let listed = node.answer(&["pool", "list"]);
    let line = |pool: &str| listed.lines().find(|line| line.starts_with(pool)).unwrap();
    assert!(line("other").contains("OFFLINE"), "{listed}");
    assert!(line("pool").contains("online"), "{listed}");
    assert!(node.answer(&["pool", "show", "other"]).contains(REASON));
    is_told_of_volumes(node);
    let status = client.status().unwrap();
    assert_eq!((status.pools.offline, status.volumes.offline), (1, 1));
    let problems = status.problems;
    let problem = problems
        .iter()
        .find(|it| it.starts_with("pool other is offline"));
    assert!(
        problem.is_some_and(|it| it.contains(REASON)),
        "{problems:?}"
    );
    let events = client.events(0).unwrap().items;
    let about = |event: &&api::Event| {
        (event.object.as_str(), event.severity) == ("pool/other", Severity::Error)
    };
    let told: Vec<_> = events.iter().filter(about).collect();
    assert_eq!(told.len(), times, "{told:?}");
    assert!(told[0].message.contains(REASON), "{told:?}");
    wait_until("the metrics count it", || {
        let (_, figures) = http::request(node, "GET", "/metrics", "");
        let has = |line: &str| figures.lines().any(|found| found == line);
        has(r#"flashyard_pool_online{pool="other"} 0"#)
            && has(r#"flashyard_pool_online{pool="pool"} 1"#)
            && has(r#"flashyard_volume_online{volume="v"} 0"#)
            && has(r#"flashyard_volume_online{volume="demo"} 1"#)
    });
    let made = node.ask(&["volume", "create", "w", "--pool", "other", "--size", "1MiB"]);
    assert_eq!(made.status.code(), Some(1));
    assert!(
        text(&made.stderr).contains(REASON),
        "{}",
        text(&made.stderr)
    );
    // Snapshots of the other pool are there as before.
    let snapshots = node.answer(&["snapshot", "list"]);
    assert!(snapshots.contains("monday"), "{snapshots}");
    node.answer(&["snapshot", "extents", "monday"]);
}

/// It is online, with all that was acknowledged, and takes more.
fn is_well(node: &Node) {
    let pool = node.client().pool(&name("other")).unwrap();
    assert_eq!((pool.state, pool.reason), (PoolState::Online, None));
    let volume = node.client().volume(&name("v")).unwrap();
    assert_eq!((volume.state, volume.reason), (ObjectState::Online, None));
    connected(node, "v", async |volume, _controller| {
        for block in 0..BLOCKS {
            assert_eq!(read(&volume, block, 5).await, Ok(()));
        }
        write(&volume, 3, 6).await;
        write(&volume, 3, 5).await;
    });
    assert_eq!(
        node.client().status().unwrap().problems,
        Vec::<String>::new()
    );
}

#[test]
fn a_pool_that_finds_itself_wrong_ends_alone_and_opens_again() {
    let mut node = prepared();
    connected(&node, "v", async |volume, _controller| {
        for block in 0..BLOCKS {
            write(&volume, block, 5).await;
        }
    });
    let neighbour = Neighbour::start(&node);
    neighbour.goes_on();
    break_it(&node);
    neighbour.goes_on();
    is_told(&node, 1);

    // While the node runs.
    node.answer(&["pool", "export", "other"]);
    node.answer(&["pool", "import", "other"]);
    is_well(&node);
    neighbour.goes_on();
    break_it(&node);
    is_told(&node, 2);
    neighbour.goes_on();
    neighbour.end();

    // By a start of the node.
    assert!(!node.terminate().success(), "it could not close a pool");
    node.start();
    is_well(&node);
    Neighbour::start(&node).end();
}
