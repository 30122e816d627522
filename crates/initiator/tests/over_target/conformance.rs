//! A namespace seen through the network is a block device like any other.

use std::rc::Rc;
use std::time::Duration;

use block::conformance::{Plan, check};
use block::{BlockDevice, Buffer, Durability, Lba};
use initiator::ConnectOptions;
use nvme_target::TargetSettings;
use nvme_target::transport::ConnectionSettings;
use reactor::sim::NetworkModel;
use reactor::{Reactor, ReactorConfig};

use crate::{Server, memory, options, simulate};

/// Every way to connect that changes what goes over the wire.
fn ways() -> Vec<ConnectOptions> {
    let mut ways = Vec::new();
    for bits in 0..8 {
        let mut way = options();
        way.header_digest = bits & 1 != 0;
        way.data_digest = bits & 2 != 0;
        way.in_capsule = bits & 4 != 0;
        way.queue_depth = if bits & 1 != 0 { 2 } else { 128 };
        ways.push(way);
    }
    ways
}

/// Small limits, so that a plan's transfers need several PDUs, R2Ts and commands.
fn narrow() -> TargetSettings {
    TargetSettings {
        connection: ConnectionSettings {
            host_data_bytes_max: 4096,
            transfer_bytes_max: 32 << 10,
            in_capsule_bytes_max: 8 << 10,
            ready_to_transfer_bytes: 8 << 10,
            write_bytes_max: 64 << 10,
            ..ConnectionSettings::default()
        },
        ..TargetSettings::default()
    }
}

#[test]
fn over_a_network_that_cuts_everything_up() {
    for (seed, way) in (0..).zip(ways()) {
        for (block_bytes, settings) in [(512, TargetSettings::default()), (4096, narrow())] {
            let way = way.clone();
            simulate(seed, async move {
                reactor::sim::set_network(NetworkModel {
                    fragment_bytes_max: 1 + reactor::sim::random_below(3000) as usize,
                    ..NetworkModel::default()
                });
                let drive = Rc::new(memory(block_bytes, 1024));
                let server = Server::start(settings, 4420, drive);
                let digests = (way.header_digest, way.data_digest);
                let namespace = server.namespace(way).await;
                assert_eq!(namespace.controller().digests().unwrap(), digests);
                assert_eq!(namespace.geometry().block_bytes, block_bytes);
                let plan = Plan {
                    operations: 150,
                    ..Plan::quick(seed)
                };
                check(&namespace, plan).await.unwrap();
            });
        }
    }
}

#[test]
fn over_real_loopback() {
    for way in ways() {
        let reactor = Reactor::io_uring(ReactorConfig::default()).expect("io_uring is available");
        reactor.run(async move {
            for (block_bytes, settings) in [(512, narrow()), (4096, TargetSettings::default())] {
                let server = Server::start(settings, 0, Rc::new(memory(block_bytes, 1024)));
                let namespace = server.namespace(way.clone()).await;
                check(
                    &namespace,
                    Plan {
                        operations: 100,
                        ..Plan::quick(7)
                    },
                )
                .await
                .unwrap();
                namespace.controller().disconnect().await;
                server.target.shutdown(Duration::from_secs(1)).await;
            }
        });
    }
}

#[test]
fn transfers_larger_than_the_controller_takes_are_split() {
    simulate(1, async {
        let server = Server::start(narrow(), 4420, Rc::new(memory(4096, 1024)));
        let namespace = server.namespace(options()).await;
        let content: Vec<u8> = (0..200 * 1024).map(|at| (at / 977) as u8).collect();
        let data = Buffer::copy_of(&content);
        let (data, result) = namespace.write(Lba(3), data, Durability::Durable).await;
        result.unwrap();
        let (_, result) = namespace.compare(Lba(3), data).await;
        result.unwrap();
        let (found, result) = namespace.read(Lba(3), Buffer::new(content.len())).await;
        result.unwrap();
        assert_eq!(found[..], content[..]);
    });
}

#[test]
fn many_requests_at_once_each_get_their_own_answer() {
    for seed in 0..5 {
        simulate(seed, async {
            let server = Server::memory(4096, 4096);
            let mut way = options();
            (way.io_queues, way.queue_depth) = (3, 4);
            let namespace = server.namespace(way).await;
            assert_eq!(namespace.controller().queue_count(), 3);
            let tasks: Vec<_> = (0..64u64)
                .map(|number| {
                    let namespace = namespace.clone();
                    reactor::spawn(async move {
                        let bytes = 4096 * (1 + number as usize % 8);
                        let start = Lba(number * 8);
                        let data = Buffer::copy_of(&vec![number as u8 + 1; bytes]);
                        let cached = Durability::Cached;
                        namespace.write(start, data, cached).await.1.unwrap();
                        let (found, result) = namespace.read(start, Buffer::new(bytes)).await;
                        result.unwrap();
                        assert!(found.iter().all(|byte| *byte == number as u8 + 1));
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        });
    }
}
