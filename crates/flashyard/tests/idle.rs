//! An idle node sleeps: with a hundred queue pairs connected it uses no CPU worth measuring.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use initiator::{ConnectOptions, Controller};
use reactor::{Reactor, ReactorConfig, sleep};
use support::{Node, processor_ticks};

const CONTROLLERS: u32 = 10;
const QUEUES: u16 = 10;

/// How long the node is watched, and the most processor time it may use meanwhile: one hundredth,
/// and twice that because the clock ticks in hundredths of a second.
const WATCHED: Duration = Duration::from_secs(4);
const TICKS_MAX: u64 = 8;

#[test]
fn a_hundred_idle_queue_pairs_cost_nothing() {
    let node = Node::develop(&["--drives", "1"]);
    let nqn = node.client().volume(&support::name("demo")).unwrap().nqn;
    let address = node.endpoints().nvme[0];
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let mut controllers = Vec::new();
            for number in 0..CONTROLLERS {
                let host = format!("nqn.2026-11.example.flashyard:idle-{number}");
                let options = ConnectOptions {
                    io_queues: QUEUES,
                    ..ConnectOptions::new(host)
                };
                controllers.push(Controller::connect(address, &nqn, options).await.unwrap());
            }
            let sessions = node.client().sessions().unwrap().items;
            let queues: u32 = sessions
                .iter()
                .map(|session| u32::from(session.queues))
                .sum();
            assert_eq!(queues, CONTROLLERS * u32::from(QUEUES));
            sleep(Duration::from_secs(1)).await;
            let before = processor_ticks(node.endpoints().pid);
            sleep(WATCHED).await;
            let used = processor_ticks(node.endpoints().pid) - before;
            assert!(used <= TICKS_MAX, "{used} ticks in {WATCHED:?}");
        });
}
