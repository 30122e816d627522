//! A pool with a shard on each of two cores, on real threads: the contract, verified load while
//! drives come and go, SIGKILL, and other numbers of cores.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use api::PoolState;
use block::BlockDevice;
use block::conformance::{Plan, check};
use initiator::{ConnectOptions, Controller};
use load::{HOST, clean, target, verified_load};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name, wait_until};

/// Two cores, or the one that there is.
fn cores() -> &'static str {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => "0",
        _ => "0,1",
    }
}

fn keeps_the_contract(node: &Node, volume: &str, seed: u64) {
    let target = target(node, volume);
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions::new(HOST);
        let connected = Controller::connect(target.address, &target.subsystem_nqn, options);
        let controller = connected.await.unwrap();
        let namespace = controller.namespace(1).await.unwrap();
        check(&namespace, Plan::quick(seed)).await.unwrap();
        assert!(namespace.geometry().deallocates);
    });
}

fn create(node: &Node, volume: &str, block_bytes: &str) {
    let verb = [
        "volume", "create", volume, "--pool", "pool", "--size", "8MiB",
    ];
    let more = ["--block-size", block_bytes, "--allow", "any"];
    node.answer(&[&verb[..], &more].concat());
}

#[test]
fn volumes_of_either_block_size_keep_the_contract_on_two_cores() {
    let node = Node::develop(&["--cores", cores()]);
    for (volume, block_bytes, seed) in [("large", "4096", 8), ("small", "512", 9)] {
        create(&node, volume, block_bytes);
        keeps_the_contract(&node, volume, seed);
        // Four connections, on both cores, write sectors of the same blocks.
        let bytes = block_bytes.parse().unwrap();
        clean(&verified_load(target(&node, volume), bytes, 2000), volume);
    }
}

#[test]
fn drives_fail_leave_and_join_under_load_on_two_cores() {
    let mut node = Node::develop(&["--cores", cores()]);
    create(&node, "v", "4096");
    let to = target(&node, "v");
    let load = std::thread::spawn(move || verified_load(to, 4096, 3000));
    node.answer(&["volume", "snapshot", "v", "s"]);
    node.answer(&["pool", "fail-drive", "pool", "d1"]);
    let path = node.path().canonicalize().unwrap().join("drives/d6.img");
    let path = path.to_str().unwrap();
    node.answer(&["drive", "add", "d6", path, "--size", "16MiB"]);
    node.answer(&["pool", "add-drive", "pool", "d6"]);
    node.answer(&["snapshot", "delete", "s"]);
    clean(&load.join().unwrap(), "while a drive failed");
    wait_until("the drive is forgotten", || {
        let pool = node.client().pool(&name("pool")).unwrap();
        pool.state == PoolState::Online && pool.members.len() == 6
    });
    let to = target(&node, "v");
    let load = std::thread::spawn(move || verified_load(to, 4096, 3000));
    node.answer(&["pool", "remove-drive", "pool", "d2", "--wait"]);
    node.answer(&["pool", "scrub", "pool", "--wait"]);
    clean(&load.join().unwrap(), "while a drive left");
    node.kill();
    node.start();
    keeps_the_contract(&node, "v", 10);
    node.answer(&["pool", "scrub", "pool", "--wait"]);
}

#[test]
fn a_pool_opens_on_other_numbers_of_cores_than_it_was_made_on() {
    let mut node = Node::develop(&["--cores", "0"]);
    create(&node, "v", "4096");
    node.answer(&[
        "volume", "create", "w", "--pool", "pool", "--size", "4MiB", "--allow", "any",
    ]);
    let bytes = |node: &Node| {
        let to = target(node, "w");
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async move {
            let options = ConnectOptions::new(HOST);
            let controller = Controller::connect(to.address, &to.subsystem_nqn, options);
            let namespace = controller.await.unwrap().namespace(1).await.unwrap();
            let mut blocks = Vec::new();
            for block in 0..namespace.geometry().block_count {
                let read = namespace
                    .read(block::Lba(block), block::Buffer::new(4096))
                    .await;
                assert_eq!(read.1, Ok(()));
                blocks.push(read.0.to_vec());
            }
            blocks
        })
    };
    let load = |node: &Node| clean(&verified_load(target(node, "v"), 4096, 500), "v");
    clean(&verified_load(target(&node, "w"), 4096, 1000), "w");
    let written = bytes(&node);
    for on in [cores(), "0", cores()] {
        load(&node);
        node.kill();
        node.start_on(on);
        assert_eq!(bytes(&node), written, "after a kill, on {on}");
        load(&node);
        assert!(node.terminate().success(), "{}", node.log());
        node.start();
        assert_eq!(bytes(&node), written, "after a stop, on {on}");
    }
}
