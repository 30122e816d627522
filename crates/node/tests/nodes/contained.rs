//! A panic in one pool ends that pool on every core: the other pools, their hosts and the node go
//! on, and the pool opens again.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scene::loopback;
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, Namespace};
use node::{
    AllowedHosts, Backing, DriveCounts, DriveSpec, EventSink, Level, Node, NodeError, NodeEvent,
    NodeSpec, OfflineReason, PoolError, PoolOpening, PoolSpec, PoolState, VolumeId, VolumeOptions,
    VolumeSpec,
};
use reactor::cores::Cores;
use reactor::{Reactor, ReactorConfig, Task, sleep, spawn, timeout};
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 4 * MIB;
const BLOCKS: u64 = VOLUME_BYTES / 4096;
/// A test that waits longer has hung.
const PATIENCE: Duration = Duration::from_secs(120);

fn spec(cores: usize) -> NodeSpec {
    NodeSpec {
        uuid: Uuid::from_u128(1),
        cores: vec![None; cores],
        ports: vec![loopback()],
        map_cache_bytes: node::MAP_CACHE_BYTES,
        controller_ids: node::ControllerIds::ALL,
    }
}

/// The failures of pools that a node told of.
type Told = Arc<Mutex<Vec<(String, String)>>>;

fn telling(told: &Told) -> EventSink {
    let told = Arc::clone(told);
    Arc::new(move |event| {
        if let NodeEvent::PoolFailed { pool, fault } = event {
            told.lock().unwrap().push((pool, fault));
        }
    })
}

async fn told_of(told: &Told) -> Vec<(String, String)> {
    while told.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    told.lock().unwrap().clone()
}

async fn create_pool(node: &Node, name: &str, drives: &[&str]) {
    let spec = PoolSpec {
        taking: node::Taking::Blank,
        level: Level::Raid1,
        width: None,
        drives: drives.iter().map(|drive| (*drive).to_owned()).collect(),
    };
    node.create_pool(name, spec).await.unwrap();
}

fn nqn(pool: &str) -> String {
    format!("nqn.2026-11.example.flashyard:n:{pool}")
}

async fn serve(node: &Node, pool: &str, volume: VolumeId) {
    let spec = VolumeSpec {
        name: pool.to_owned(),
        backing: Backing::Pool {
            pool: pool.to_owned(),
            volume,
        },
        block_bytes: 4096,
        subsystem: nqn(pool).parse().unwrap(),
        nsid: 1,
        uuid: Uuid::from_u128(u128::from(pool.as_bytes()[0])),
        group: node::AnaGroupId::POOLLESS,
        allowed: AllowedHosts::Any,
        tenant: None,
        rules: Some(Default::default()),
    };
    node.create_volume(spec).await.unwrap();
}

async fn create_volume(node: &Node, pool: &str) -> VolumeId {
    let options = VolumeOptions {
        bytes: VOLUME_BYTES,
        ..VolumeOptions::default()
    };
    let created = node.create_pool_volume(pool, "v", options).await;
    let volume = created.unwrap();
    serve(node, pool, volume).await;
    volume
}

/// A host with queues on all cores.
async fn connect(node: &Node, pool: &str) -> (Controller, Namespace) {
    let options = ConnectOptions {
        io_queues: 4,
        ..ConnectOptions::new("nqn.2026-11.example.flashyard:test")
    };
    let nqn = nqn(pool);
    let controller = Controller::connect(node.addresses()[0], &nqn, options);
    let controller = controller.await.unwrap();
    let namespace = controller.namespace(1).await.unwrap();
    (controller, namespace)
}

async fn write(host: &Namespace, block: u64, byte: u8) -> Result<(), IoError> {
    let buffer = Buffer::copy_of(&[byte; 4096]);
    let written = host.write(Lba(block), buffer, Durability::Durable).await;
    written.1
}

/// Reads a block that was written with this byte.
async fn verify(host: &Namespace, block: u64, byte: u8) -> Result<(), IoError> {
    let (buffer, read) = host.read(Lba(block), Buffer::new(4096)).await;
    read?;
    assert!(buffer.iter().all(|found| *found == byte), "block {block}");
    Ok(())
}

/// I/O that is verified until it is to end; how much there has been.
fn keep_busy(host: Namespace, end: &Rc<Cell<bool>>, done: &Rc<Cell<u64>>) -> Task<()> {
    let (end, done) = (Rc::clone(end), Rc::clone(done));
    spawn(async move {
        while !end.get() {
            let number = done.get();
            // Every 37th block: on all shards in turn.
            let block = number * 37 % BLOCKS;
            write(&host, block, number as u8).await.unwrap();
            verify(&host, block, number as u8).await.unwrap();
            done.set(number + 1);
        }
    })
}

/// Commands that are under way all the time, until the pool fails: every one of them ends.
fn until_it_fails(host: Namespace) -> Task<IoError> {
    spawn(async move {
        let mut number = 0;
        loop {
            // The even ones keep what was written before.
            let block = (number * 41 % BLOCKS) | 1;
            number += 1;
            if let Err(error) = write(&host, block, number as u8).await {
                return error;
            }
        }
    })
}

fn is_internal_error(error: &NodeError) -> bool {
    let reason = PoolError::Offline(OfflineReason::InternalError);
    matches!(error, NodeError::Pool { error, message }
        if *error == reason && message.contains("an internal error stopped the pool"))
}

/// Ends a pool by a panic in the middle of a change: its closure is called with the pool's locks
/// held and its state half changed.
async fn panic_in(node: &Node, pool: &str, volume: VolumeId) {
    let change = |_: &[u8]| -> Result<Vec<u8>, ()> { panic!("planted in {}", "a change") };
    let changed = node.change_pool_volume_attributes(pool, volume, change);
    let error = changed.await.unwrap_err();
    assert!(is_internal_error(&error), "{error}");
    assert!(error.to_string().contains("planted in a change"), "{error}");
}

/// What was done to some drives.
async fn counts(node: &Node, drives: &[&str]) -> Vec<DriveCounts> {
    let measured = node.measure().await.unwrap();
    drives.iter().map(|drive| measured.drives[*drive]).collect()
}

async fn fails_alone(node: Node, told: Told) {
    let (ours, others) = (["d0", "d1"], ["d2", "d3"]);
    for drive in ours.iter().chain(&others) {
        let memory = DriveSpec::Memory { bytes: 32 * MIB };
        node.open_drive(drive, memory).await.unwrap();
    }
    create_pool(&node, "p", &ours).await;
    create_pool(&node, "q", &others).await;
    let volume = create_volume(&node, "p").await;
    create_volume(&node, "q").await;
    let (p_controller, p) = connect(&node, "p").await;
    let (q_controller, q) = connect(&node, "q").await;
    for block in (0..BLOCKS).step_by(64) {
        write(&p, block, 200).await.unwrap();
    }
    let (end, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let busy = keep_busy(q, &end, &done);
    let hosts: Vec<_> = (0..4).map(|_| until_it_fails(p.clone())).collect();
    while done.get() < 20 {
        sleep(Duration::from_millis(1)).await;
    }
    panic_in(&node, "p", volume).await;
    for host in hosts {
        assert_eq!(host.await, IoError::DeviceGone);
    }
    let [(pool, fault)] = &told_of(&told).await[..] else {
        panic!("told more than once");
    };
    assert_eq!(pool, "p");
    assert!(fault.starts_with("planted in a change ("), "{fault}");
    assert!(fault.contains("node/tests/nodes/contained.rs:"), "{fault}");

    // The pool says so, whatever is asked of it, and its hosts stay connected.
    let facts = node.pool_seen("p").await.unwrap();
    assert_eq!(facts.status.state, PoolState::Offline);
    assert_eq!(facts.status.reason, Some(OfflineReason::InternalError));
    assert_eq!(facts.fault.as_ref(), Some(fault));
    let refused = node.pool_contents("p").await.unwrap_err();
    assert!(is_internal_error(&refused), "{refused}");
    assert_eq!(verify(&p, 0, 200).await, Err(IoError::DeviceGone));
    let again = p_controller.namespace(1).await.unwrap();
    assert_eq!(again.geometry().block_count, BLOCKS);

    // Nothing of it goes on: not its lease, which is renewed every second.
    let before = counts(&node, &ours).await;
    let (now, seconds) = (done.get(), reactor::now() + Duration::from_secs(3));
    while reactor::now() < seconds || done.get() < now + 50 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(before, counts(&node, &ours).await);
    let well = node.pool_facts("q").await.unwrap();
    assert_eq!((well.status.state, well.fault), (PoolState::Online, None));

    // Its drives are its own until it is let go of, and then it opens again.
    let taken = node.wipe_drive("d0").await.unwrap_err();
    assert!(matches!(taken, NodeError::DriveInUse { .. }), "{taken}");
    p_controller.disconnect().await;
    node.delete_volume("p").await.unwrap();
    let left = node.export_pool("p").await.unwrap_err();
    assert!(is_internal_error(&left), "{left}");
    let drives = ours.map(str::to_owned).to_vec();
    let opened = node.open_pool("p", drives, PoolOpening::default()).await;
    assert_eq!(opened.unwrap().status.state, PoolState::Online);
    serve(&node, "p", volume).await;
    let (p_controller, p) = connect(&node, "p").await;
    for block in (0..BLOCKS).step_by(64) {
        verify(&p, block, 200).await.unwrap();
    }
    write(&p, 0, 201).await.unwrap();
    verify(&p, 0, 201).await.unwrap();
    end.set(true);
    busy.await;
    p_controller.disconnect().await;
    q_controller.disconnect().await;
    node.shutdown(Duration::from_secs(1)).await.unwrap();
}

#[test]
fn a_panic_in_a_change_ends_its_pool_alone_on_simulated_cores() {
    for cores in [1, 2] {
        Reactor::simulated(19).run(async {
            let told = Told::default();
            let cores = Cores::on_current(cores);
            let node = Node::start_on(cores, &spec(0), telling(&told)).await;
            let node = node.unwrap();
            node.listen().await.unwrap();
            fails_alone(node, told).await;
        });
    }
}

#[test]
fn a_panic_in_a_change_ends_its_pool_alone_on_real_cores() {
    for cores in [1, 2] {
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            let told = Told::default();
            let node = Node::start(spec(cores), telling(&told)).await.unwrap();
            node.listen().await.unwrap();
            let test = fails_alone(node, told);
            timeout(PATIENCE, test).await.unwrap();
        });
    }
}

/// The panic comes where a host's command, or the pool's own look at its labels, reads a drive.
#[test]
fn a_panic_while_drives_are_read_ends_its_pool_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = |drive: &str| directory.path().join(drive);
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let told = Told::default();
        let armed = Arc::new(AtomicBool::new(false));
        let (tell, panics) = (telling(&told), Arc::clone(&armed));
        let sink: EventSink = Arc::new(move |event| {
            let failed = matches!(event, NodeEvent::DriveFailed { .. });
            assert!(
                !failed || !panics.load(Ordering::SeqCst),
                "planted where a drive failed"
            );
            tell(event);
        });
        let node = Node::start(spec(2), sink).await.unwrap();
        node.listen().await.unwrap();
        for drive in ["d0", "d1", "d2", "d3"] {
            let file = DriveSpec::Path {
                path: path(drive),
                create_bytes: Some(32 * MIB),
            };
            node.open_drive(drive, file).await.unwrap();
        }
        create_pool(&node, "p", &["d0", "d1"]).await;
        create_pool(&node, "q", &["d2", "d3"]).await;
        create_volume(&node, "p").await;
        create_volume(&node, "q").await;
        let (_p_controller, p) = connect(&node, "p").await;
        let (_q_controller, q) = connect(&node, "q").await;
        for block in (0..BLOCKS).step_by(16) {
            write(&p, block, 5).await.unwrap();
        }
        let (end, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let busy = keep_busy(q, &end, &done);
        armed.store(true, Ordering::SeqCst);
        for drive in ["d0", "d1"] {
            truncate(path(drive));
        }
        let reading = async {
            for block in (0..BLOCKS).step_by(16).cycle() {
                if let Err(error) = verify(&p, block, 5).await {
                    return error;
                }
            }
            unreachable!("it goes round");
        };
        let ended = timeout(PATIENCE, reading).await.unwrap();
        assert_eq!(ended, IoError::DeviceGone);
        let told = timeout(PATIENCE, told_of(&told)).await.unwrap();
        let [(pool, fault)] = &told[..] else {
            panic!("told more than once: {told:?}");
        };
        assert_eq!(pool, "p");
        assert!(
            fault.starts_with("planted where a drive failed ("),
            "{fault}"
        );
        for block in (0..BLOCKS).step_by(16) {
            assert_eq!(verify(&p, block, 5).await, Err(IoError::DeviceGone));
        }
        let now = done.get();
        while done.get() < now + 50 {
            sleep(Duration::from_millis(1)).await;
        }
        end.set(true);
        busy.await;
        let stopped = node.shutdown(Duration::from_secs(1)).await.unwrap_err();
        assert!(is_internal_error(&stopped), "{stopped}");
    });
}

fn truncate(path: PathBuf) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(0).unwrap();
}
