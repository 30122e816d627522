//! I/O through the wire: the contract of a device holds on the host's side too.

use std::time::Duration;

use block::conformance::{self, Plan};
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};
use nvme::SglDescriptor;
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::Connect;
use nvme_target::{TargetEvent, TargetSettings};
use reactor::sim::NetworkModel;

use crate::raw::{Raw, capsule, connect_data};
use crate::{Fixture, options, simulate};

pub(crate) fn geometry(block_bytes: u32, block_count: u64) -> Geometry {
    let mut geometry = Geometry::new(block_bytes, block_count).unwrap();
    geometry.deallocates = true;
    geometry
}

/// A namespace seen through the wire passes the test that every device passes, for both block
/// sizes, with and without digests, over a network that cuts the stream into small pieces.
#[test]
fn a_namespace_through_the_wire_is_a_conforming_device() {
    for (seed, block_bytes, digests) in [
        (1, 4096, false),
        (2, 4096, true),
        (3, 512, false),
        (4, 512, true),
    ] {
        simulate(seed, async {
            reactor::sim::set_network(NetworkModel {
                latency: Duration::from_micros(1)..Duration::from_micros(100),
                fragment_bytes_max: 9000,
                ..NetworkModel::default()
            });
            let settings = TargetSettings::default();
            let fixture = Fixture::start(settings, geometry(block_bytes, 512));
            let mut options = options();
            options.header_digest = digests;
            options.data_digest = digests;
            let controller = fixture.connect(options).await;
            let namespace = controller.namespace(1).await.unwrap();
            conformance::check(&namespace, Plan::quick(seed))
                .await
                .unwrap();
            controller.disconnect().await;
            assert!(fixture.target.shutdown(Duration::from_secs(1)).await);
        });
    }
}

/// What a device answers is what the host's block layer sees; the connection lives on.
#[test]
fn a_failing_device_gives_its_own_error_and_an_event() {
    simulate(5, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(4096, 64));
        let controller = fixture.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        for error in [
            IoError::UnrecoveredRead,
            IoError::WriteFault,
            IoError::CapacityExceeded,
            IoError::WriteProtected,
            IoError::NotReady,
            IoError::DeviceGone,
            IoError::Internal,
        ] {
            fixture.device.failing.set(Some(error));
            let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
            assert_eq!(read, Err(error));
            let write = namespace
                .write(Lba(0), Buffer::zeroed(65536), Durability::Cached)
                .await;
            assert_eq!(write.1, Err(error));
            assert_eq!(namespace.flush().await, Err(error));
        }
        fixture.device.failing.set(None);
        let (_, read) = namespace.read(Lba(0), Buffer::new(4096)).await;
        assert_eq!(read, Ok(()));
        reactor::sleep(Duration::from_secs(1)).await;
        let events = fixture.target.take_events();
        let failed = |event: &TargetEvent| matches!(event, TargetEvent::DeviceFailed { .. });
        assert!(events.iter().any(failed), "{events:?}");
        assert_eq!(fixture.target.counters().namespaces[0].errors, 21);
    });
}

/// Force Unit Access and Flush reach the device as such.
#[test]
fn durable_writes_and_flushes_reach_the_device() {
    simulate(6, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let controller = fixture.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        for durability in [Durability::Cached, Durability::Durable] {
            namespace
                .write(Lba(0), Buffer::zeroed(512), durability)
                .await
                .1
                .unwrap();
        }
        namespace.flush().await.unwrap();
        assert_eq!(fixture.device.durable_writes.get(), 1);
        assert_eq!(fixture.device.flushes.get(), 1);
    });
}

/// Compare tells equal from different; the fused pair writes only after an equal compare, and is
/// one step for everybody else: of many counters incremented at once, none is lost.
#[test]
fn compare_and_write_is_atomic() {
    simulate(7, async {
        let fixture = Fixture::start(TargetSettings::default(), geometry(512, 64));
        let controller = fixture.connect(options()).await;
        let namespace = controller.namespace(1).await.unwrap();
        let ones = || Buffer::copy_of(&[1; 512]);
        assert_eq!(
            namespace.compare(Lba(3), ones()).await.1,
            Err(IoError::CompareFailure)
        );
        namespace
            .write(Lba(3), ones(), Durability::Cached)
            .await
            .1
            .unwrap();
        assert_eq!(namespace.compare(Lba(3), ones()).await.1, Ok(()));
        namespace.verify(BlockRange::new(Lba(0), 64)).await.unwrap();

        fixture.device.delay.set(Duration::from_micros(50));
        let increment = |namespace: initiator::Namespace| async move {
            loop {
                let (old, read) = namespace.read(Lba(5), Buffer::new(512)).await;
                read.unwrap();
                let mut new = Buffer::copy_of(&old);
                new[0] += 1;
                match namespace.compare_and_write(Lba(5), old, new).await.2 {
                    Ok(()) => return,
                    Err(error) => assert_eq!(error, IoError::CompareFailure),
                }
            }
        };
        let tasks: Vec<_> = (0..20)
            .map(|_| reactor::spawn(increment(namespace.clone())))
            .collect();
        for task in tasks {
            task.await;
        }
        let (counter, _) = namespace.read(Lba(5), Buffer::new(512)).await;
        assert_eq!(counter[0], 20);
    });
}

/// Bytes of the answers that come first, and of all, to reads of eight blocks that come at once, of
/// which the device reads every other one `odd_turns` turns later.
async fn first_of_answers(answers_wait_turns: u32, odd_turns: u32) -> (usize, usize) {
    reactor::sim::set_network(NetworkModel {
        // All of what is sent at once arrives at the same time.
        latency: Duration::from_micros(10)..Duration::from_nanos(10_001),
        ..NetworkModel::default()
    });
    let settings = TargetSettings {
        answers_wait_turns,
        ..TargetSettings::default()
    };
    let fixture = Fixture::start(settings, geometry(512, 64));
    let (_admin, controller_id) = Raw::enabled(fixture.address, 0).await;
    let queue = Raw::initialized(fixture.address).await;
    let (connect, data) = (Connect::new(1, 31, 0), connect_data(controller_id));
    assert!(queue.connect(&connect, &data).await.status().is_success());
    fixture.device.odd_turns.set(odd_turns);
    let mut reads = Vec::new();
    for block in 0..8 {
        let read = ReadWrite::new(IoOpcode::READ, 1, block, 1, SglDescriptor::transport(512));
        let mut entry = *read.entry();
        entry.command_id = (block as u16).into();
        reads.extend(capsule(&entry, &[]));
    }
    queue.send(&reads).await;
    let (mut first, mut all) = ((None, 0), 0);
    let collected = async {
        loop {
            let (_, received) = queue.stream.recv(Buffer::new(1 << 16), 0..1 << 16).await;
            let received = received.unwrap();
            all += received;
            if *first.0.get_or_insert(reactor::now()) == reactor::now() {
                first.1 += received;
            }
        }
    };
    let quiet = reactor::timeout(Duration::from_secs(1), collected).await;
    assert!(quiet.is_err(), "the connection is open");
    (first.1, all)
}

/// Where other cores carry out some commands of a connection, what came at once is answered at
/// once, so that the host's next commands come at once too; but what takes longer holds up nobody.
#[test]
fn answers_wait_for_those_that_come_soon() {
    simulate(9, async {
        let (first, all) = first_of_answers(0, 2).await;
        assert!(first < all, "nothing waits unless settings say so");
        assert!(all > 8 * 512, "every block came");
    });
    simulate(10, async {
        let (first, all) = first_of_answers(3, 2).await;
        assert_eq!(first, all, "all came together");
    });
    simulate(11, async {
        let (first, all) = first_of_answers(3, 1000).await;
        assert!(first < all, "four blocks do not wait for ever");
    });
}
