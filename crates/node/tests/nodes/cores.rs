//! A pool on two real cores, over files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::scene::loopback;
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, Namespace};
use node::{
    AllowedHosts, Backing, DriveCounts, DriveSpec, Level, Node, NodeSpec, PoolSpec, VolumeOptions,
    VolumeSpec,
};
use reactor::{Reactor, ReactorConfig};
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 8 * MIB;
/// What each of those who count together adds.
const INCREMENTS: u64 = 40;
const HOST: &str = "nqn.2026-11.example.flashyard:test";
const SUBSYSTEM: &str = "nqn.2026-11.example.flashyard:n:v";

/// How often this process has `path` open.
fn handles(path: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = open.flatten().map(|entry| std::fs::read_link(entry.path()));
    links.flatten().filter(|link| link == path).count()
}

async fn start() -> Node {
    let spec = NodeSpec {
        uuid: Uuid::from_u128(1),
        cores: vec![None, None],
        ports: vec![loopback()],
        map_cache_bytes: node::MAP_CACHE_BYTES,
        controller_ids: node::ControllerIds::ALL,
    };
    let node = Node::start(spec, Arc::new(|_| {})).await.unwrap();
    node.listen().await.unwrap();
    node
}

async fn serve(node: &Node) {
    let options = VolumeOptions {
        bytes: VOLUME_BYTES,
        ..VolumeOptions::default()
    };
    let volume = node.create_pool_volume("p", "v", options).await.unwrap();
    let pool = "p".into();
    serve_from(node, Backing::Pool { pool, volume }).await;
}

async fn serve_from(node: &Node, backing: Backing) {
    let spec = VolumeSpec {
        name: "v".into(),
        backing,
        block_bytes: 4096,
        subsystem: SUBSYSTEM.parse().unwrap(),
        nsid: 1,
        uuid: Uuid::from_u128(2),
        group: node::AnaGroupId::POOLLESS,
        allowed: AllowedHosts::Any,
        tenant: None,
        rules: Some(Default::default()),
    };
    node.create_volume(spec).await.unwrap();
}

/// Increments the first block by Compare and Write, from many connections at once, which the kernel
/// deals to the cores; gives how often, and what the block holds then.
async fn increments(node: &Node) -> (u64, u64) {
    let mut controllers = Vec::new();
    let mut adding = Vec::new();
    for _ in 0..4 {
        let options = ConnectOptions {
            io_queues: 4,
            ..ConnectOptions::new(HOST)
        };
        let controller = Controller::connect(node.addresses()[0], SUBSYSTEM, options);
        let controller = controller.await.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        for _ in 0..2 {
            adding.push(reactor::spawn(increment(namespace.clone(), INCREMENTS)));
        }
        controllers.push((controller, namespace));
    }
    let mut wanted = 0;
    for task in adding {
        task.await;
        wanted += INCREMENTS;
    }
    let (buffer, read) = controllers[0].1.read(Lba(0), Buffer::new(4096)).await;
    read.unwrap();
    for (controller, _) in controllers {
        controller.disconnect().await;
    }
    (wanted, number(&buffer))
}

async fn increment(namespace: Namespace, times: u64) {
    let mut done = 0;
    while done < times {
        let (old, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
        read.unwrap();
        let mut new = Buffer::copy_of(&old);
        new[..8].copy_from_slice(&(number(&old) + 1).to_le_bytes());
        match namespace.compare_and_write(Lba(0), old, new).await.2 {
            Ok(()) => done += 1,
            Err(error) => assert_eq!(error, IoError::CompareFailure),
        }
    }
}

fn number(block: &Buffer) -> u64 {
    u64::from_le_bytes(block[..8].try_into().unwrap())
}

async fn write_and_read_all(node: &Node) {
    let options = ConnectOptions::new(HOST);
    let controller = Controller::connect(node.addresses()[0], SUBSYSTEM, options);
    let controller = controller.await.unwrap();
    let namespace = controller.namespace(1).await.unwrap();
    for block in 0..VOLUME_BYTES / 4096 {
        let buffer = Buffer::copy_of(&[block as u8; 4096]);
        let written = namespace.write(Lba(block), buffer, Durability::Durable);
        written.await.1.unwrap();
    }
    for block in 0..VOLUME_BYTES / 4096 {
        let (buffer, read) = namespace.read(Lba(block), Buffer::new(4096)).await;
        read.unwrap();
        assert!(buffer.iter().all(|byte| *byte == block as u8), "{block}");
    }
    controller.disconnect().await;
}

async fn counts(node: &Node) -> Vec<DriveCounts> {
    node.measure().await.unwrap().drives.into_values().collect()
}

/// Runs `test` with a node of two cores that has a pool of files, and these files' paths by the
/// names of the drives.
fn with_pool(test: impl AsyncFnOnce(Node, BTreeMap<String, PathBuf>)) {
    let directory = tempfile::tempdir().unwrap();
    let paths: BTreeMap<String, PathBuf> = (0..4)
        .map(|drive| format!("d{drive}"))
        .map(|name| (name.clone(), directory.path().join(name)))
        .collect();
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let node = start().await;
        for (name, path) in &paths {
            let spec = DriveSpec::Path {
                path: path.clone(),
                create_bytes: Some(32 * MIB),
            };
            node.open_drive(name, spec).await.unwrap();
            assert_eq!(handles(path), 1);
        }
        let pool = PoolSpec {
            taking: node::Taking::Blank,
            level: Level::Raid6,
            width: None,
            drives: paths.keys().cloned().collect(),
        };
        node.create_pool("p", pool).await.unwrap();
        test(node, paths).await;
    });
}

/// Each core has a ring to every file while there is a pool on them, what it did there is counted
/// once, also when the pool is gone, and then the files are let go of.
#[test]
fn every_core_opens_the_files_of_its_pool_and_lets_go_of_them() {
    with_pool(async |node, paths| {
        for path in paths.values() {
            // The core that has it, the other one, and what that was opened from.
            assert_eq!(handles(path), 3);
        }
        serve(&node).await;
        write_and_read_all(&node).await;
        let busy = counts(&node).await;
        assert!(
            busy.iter()
                .all(|drive| drive.writes > 0 && drive.errors == 0)
        );
        let read: u64 = busy.iter().map(|drive| drive.read_bytes).sum();
        assert!(read >= VOLUME_BYTES, "{busy:?}");
        node.delete_volume("v").await.unwrap();
        node.export_pool("p").await.unwrap();
        let after = counts(&node).await;
        for (before, after) in busy.iter().zip(&after) {
            assert!(after.reads >= before.reads && after.write_bytes >= before.write_bytes);
        }
        for (name, path) in &paths {
            assert_eq!(handles(path), 1);
            node.close_drive(name).await.unwrap();
            assert_eq!(handles(path), 0);
        }
        node.shutdown(Duration::from_secs(1)).await.unwrap();
    });
}

/// The volumes of a core's post were kept by the parts of them that other cores have, and with them
/// their pool, as long as the process ran.
#[test]
fn a_node_that_shuts_down_lets_go_of_a_pool_in_use() {
    with_pool(async |node, paths| {
        serve(&node).await;
        write_and_read_all(&node).await;
        node.shutdown(Duration::from_secs(1)).await.unwrap();
        for path in paths.values() {
            assert_eq!(handles(path), 0);
        }
    });
}

/// What hosts count by Compare and Write is right whichever cores their commands come to: on a
/// volume of a pool, and on a drive.
#[test]
fn compare_and_write_is_one_step_on_all_cores() {
    with_pool(async |node, _| {
        serve(&node).await;
        let (wanted, found) = increments(&node).await;
        assert_eq!(wanted, found, "in a pool");
        node.delete_volume("v").await.unwrap();
        let bytes = VOLUME_BYTES;
        let opened = node.open_drive("m", DriveSpec::Memory { bytes }).await;
        opened.unwrap();
        serve_from(&node, Backing::Drive("m".into())).await;
        let (wanted, found) = increments(&node).await;
        assert_eq!(wanted, found, "on a drive");
        node.shutdown(Duration::from_secs(1)).await.unwrap();
    });
}
