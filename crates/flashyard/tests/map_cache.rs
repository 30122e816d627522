//! The memory that a node gives to a pool's map: what the settings say, on all cores together.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name};

const MIB: u64 = 1 << 20;

/// What a node with these settings has of the map of a volume of 384 MiB that was written once.
fn map_of(settings: &str) -> api::PoolMap {
    let node = Node::configured(&format!("[pools]\ndrive_wait_seconds = 0\n{settings}"));
    node.answer(&["drive", "add", "d0", "--memory", "1GiB"]);
    node.answer(&["pool", "create", "p", "--level", "raid0", "--drives", "d0"]);
    let create = ["volume", "create", "v", "--pool", "p", "--size", "384MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    let connected = |node: &Node, write: bool| {
        let nqn = node.client().volume(&name("v")).unwrap().nqn;
        let address = node.endpoints().nvme[0];
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            let options = ConnectOptions::new("nqn.2026-11.example.flashyard:test");
            let controller = Controller::connect(address, &nqn, options).await.unwrap();
            let device = controller.namespace(1).await.unwrap();
            for block in (0..384 * MIB / 4096).step_by(16) {
                let mut buffer = Buffer::zeroed(64 << 10);
                if write {
                    buffer.fill(7);
                    let written = device.write(Lba(block), buffer, Durability::Cached).await;
                    assert_eq!(written.1, Ok(()));
                } else {
                    let (buffer, read) = device.read(Lba(block), buffer).await;
                    assert_eq!(read, Ok(()));
                    assert!(buffer.iter().all(|byte| *byte == 7), "block {block}");
                }
            }
        });
    };
    connected(&node, true);
    // What is written is in the map then.
    node.answer(&["pool", "usage", "p"]);
    connected(&node, false);
    let shown = node.answer(&["pool", "show", "p"]);
    let map = node.client().pool(&name("p")).unwrap().map.unwrap();
    let row = format!("of up to {}", api::Size(map.cache_bytes));
    assert!(shown.contains(&row), "{shown}");
    map
}

#[test]
fn a_pools_map_has_the_memory_that_the_settings_give_it() {
    let usual = map_of("");
    assert_eq!(usual.cache_bytes, 64 * MIB);
    assert!(usual.bytes > 3 * MIB / 2, "{usual:?}");
    assert!(usual.cached_bytes > MIB, "{usual:?}");
    let cores = match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => "0",
        _ => "0, 1",
    };
    let little = map_of(&format!("map_cache_mib = 1\n[node]\ncores = [{cores}]\n"));
    assert_eq!(little.cache_bytes, MIB);
    assert!(little.bytes > 3 * MIB / 2, "{little:?}");
    assert!((1..=MIB).contains(&little.cached_bytes), "{little:?}");
}
