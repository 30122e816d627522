//! Pools are checked by themselves when it is time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use api::{JobKind, JobState};
use server::state::State;
use support::{Node, name, text, wait_for, wait_until};

/// Longer than checking an empty pool takes on the slowest machine, and a look of the node.
const PATIENCE: Duration = Duration::from_secs(120);

/// The node finds itself so much later than it last checked its pool.
fn let_time_pass(node: &mut Node, days: u64) {
    assert!(node.terminate().success(), "{}", node.log());
    let state = State::open(node.path()).unwrap();
    let mut record = state.load().unwrap().pools.remove(&name("pool")).unwrap();
    assert!(
        record.scrub.since > 0,
        "it counts from when the pool was made"
    );
    record.scrub.since -= days * 24 * 60 * 60;
    state.put_pool(&name("pool"), None, &record).unwrap();
    drop(state);
    node.start();
}

#[test]
fn a_pool_is_checked_a_month_after_it_was_made_and_not_before() {
    let mut node = Node::develop(&["--drives", "4"]);
    let_time_pass(&mut node, 29);
    // The first look comes before the node is ready for requests.
    assert_eq!(node.client().jobs().unwrap().items, []);
    assert_eq!(node.client().pool(&name("pool")).unwrap().scrubbed, None);
    let_time_pass(&mut node, 1);
    let begun = Instant::now();
    let job = loop {
        let job = node.client().jobs().unwrap().items.pop();
        match job.filter(|job| job.state != JobState::Running) {
            Some(job) => break job,
            None => assert!(begun.elapsed() < PATIENCE, "{}", node.log()),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((job.kind, job.state), (JobKind::Scrub, JobState::Done));
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("scheduled scrub begins, job 1"), "{events}");
    let scrubbed = node.client().pool(&name("pool")).unwrap().scrubbed;
    node.kill();
    node.start();
    assert_eq!(
        node.client().pool(&name("pool")).unwrap().scrubbed,
        scrubbed
    );
    assert!(scrubbed.is_some());
    assert_eq!(
        node.client().jobs().unwrap().items,
        [],
        "the month begins anew"
    );
}

#[test]
fn the_interval_is_a_setting_and_a_scrub_that_is_none_cannot_be_stopped() {
    let mut node = Node::develop(&["--drives", "4"]);
    let settings = node.answer(&["settings", "show"]);
    assert!(settings.contains("every 30 days"), "{settings}");
    let refused = node.ask(&["settings", "set", "--scrub-interval", "3651"]);
    let message = text(&refused.stderr);
    assert!(
        message.contains("scrub_interval_days") && message.contains("0 (never) to 3650"),
        "{message}"
    );
    node.answer(&["settings", "set", "--scrub-interval", "0"]);
    let_time_pass(&mut node, 4000);
    assert!(node.answer(&["settings", "show"]).contains("never"));
    assert_eq!(node.client().jobs().unwrap().items, []);
    let refused = node.ask(&["pool", "scrub", "pool", "--stop"]);
    let message = text(&refused.stderr);
    assert!(message.contains("no scrub runs on pool pool"), "{message}");
}

/// A scrub that is under way is remembered, until it has ended or somebody has stopped it.
fn is_under_way(node: &Node) -> bool {
    let state = State::open(node.path()).unwrap();
    let pools = state.load().unwrap().pools;
    pools[&name("pool")].scrub.under_way
}

/// Ends the node in the middle of a scrub, which is over soon.
fn cut_short(node: &mut Node, end: impl Fn(&mut Node)) {
    for _ in 0..100 {
        node.client().scrub_pool(&name("pool")).unwrap();
        end(node);
        let cut_short = is_under_way(node);
        node.start();
        if cut_short {
            return;
        }
    }
    panic!("the scrub was always over before the node was");
}

#[test]
fn a_scrub_that_the_nodes_end_cuts_short_begins_anew() {
    let mut node = Node::develop(&["--drives", "4"]);
    node.answer(&["settings", "set", "--scrub-interval", "0"]);
    let ends: [fn(&mut Node); 2] = [Node::kill, |node| {
        assert!(node.terminate().success(), "{}", node.log());
    }];
    for end in ends {
        cut_short(&mut node, end);
        let jobs = wait_for("it begins", || {
            let jobs = node.client().jobs().unwrap().items;
            (!jobs.is_empty()).then_some(jobs)
        });
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        assert_eq!(
            (jobs[0].kind, &jobs[0].object[..]),
            (JobKind::Scrub, "pool/pool")
        );
        let events = node.answer(&["event", "list"]);
        assert!(events.contains("begins anew, job 1"), "{events}");
        wait_until("it has ended", || {
            let job = node.client().job(1).unwrap();
            job.state == JobState::Done
        });
    }
    // Neither one that has ended nor one that was stopped.
    node.kill();
    assert!(!is_under_way(&node));
    node.start();
    assert_eq!(node.client().jobs().unwrap().items, []);
    let job = node.client().scrub_pool(&name("pool")).unwrap();
    let stopped = node.ask(&["pool", "scrub", "pool", "--stop"]);
    wait_until("it has ended", || {
        node.client().job(job.id).unwrap().state != JobState::Running
    });
    node.kill();
    assert!(!is_under_way(&node), "{stopped:?}");
}
