//! A drive that fails in the middle of I/O: the host gets an error, the operator an event, and
//! the other volumes go on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use api::Severity;
use block::{BlockDevice, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig};
use support::{Node, name};

const HOST: &str = "nqn.2026-11.example.flashyard:test";

#[test]
fn a_failing_drive_is_told_to_host_and_operator() {
    let node = Node::develop(&["--drives", "2"]);
    node.answer(&[
        "volume", "create", "other", "--drive", "d1", "--allow", "any",
    ]);
    let address = node.endpoints().nvme[0];
    let nqn = |volume: &str| node.client().volume(&name(volume)).unwrap().nqn;
    let before = node.client().events(0).unwrap().items.last().unwrap().id;
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let connect = async |volume: &str| {
                let options = ConnectOptions::new(HOST);
                let controller = Controller::connect(address, &nqn(volume), options)
                    .await
                    .unwrap();
                (controller.namespace(1).await.unwrap(), controller)
            };
            let (failing, _failing_controller) = connect("demo").await;
            let (healthy, _healthy_controller) = connect("other").await;
            let last = Lba(failing.geometry().block_count - 1);
            assert_eq!(failing.read(last, Buffer::new(4096)).await.1, Ok(()));

            // The file loses its second half under the node: what was there cannot be read.
            let file = node.path().join("drives/d0.img");
            std::fs::File::options()
                .write(true)
                .open(file)
                .unwrap()
                .set_len(8 << 20)
                .unwrap();
            for _ in 0..5 {
                let (_, result) = failing.read(last, Buffer::new(4096)).await;
                assert_eq!(result, Err(IoError::UnrecoveredRead));
            }
            assert_eq!(failing.read(Lba(0), Buffer::new(4096)).await.1, Ok(()));
            let written = healthy
                .write(last, Buffer::zeroed(4096), Durability::Durable)
                .await;
            assert_eq!(written.1, Ok(()));
        });
    let events = node.client().events(before).unwrap().items;
    let about = |event: &&api::Event| event.object == "drive/d0";
    let failures: Vec<_> = events.iter().filter(about).collect();
    assert_eq!(
        failures.len(),
        3,
        "5 failures are told at 1, 2 and 4: {events:?}"
    );
    assert!(
        failures
            .iter()
            .all(|event| event.severity == Severity::Error)
    );
    assert!(failures[2].message.contains("4 times"), "{:?}", failures[2]);
    let status = node.answer(&["status"]);
    assert!(status.contains("drive d0: I/O failed"), "{status}");
}
