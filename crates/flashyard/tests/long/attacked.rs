//! Attacks of peers without a key, for as long as `ATTACK_SECONDS` says: what they cost a host.
//!
//! The whole node has one processor, and its host and the strangers share another, where strangers
//! give way to the host. A host of another machine gets as many answers as the node's core has time
//! for. So what counts is the time of the core that goes to strangers: what it works beyond what
//! the host's reads take it. What others do on this machine changes that little.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::everything::{Host, known, origins, prepared, withstand};
use crate::flood::Flood;
use crate::setting;
use crate::support::Node;

/// Reads under way: enough for the node to be what they wait for.
const DEPTH: usize = 32;
/// How often it is measured with strangers and without, in turn.
const ROUNDS: u64 = 6;

/// As in `make test`, for longer.
#[test]
fn a_long_attack_costs_little_and_leaves_nothing() {
    withstand(Duration::from_secs(setting("ATTACK_SECONDS", 60)));
}

/// A host keeps nine tenths of the core's time, and so of its rate where that is the limit.
#[test]
fn an_attack_takes_little_from_a_host() {
    stay_on(0);
    let node = prepared(&["--cores", "0"]);
    stay_on(1);
    let host = Host::start(&node, DEPTH);
    let facts = known(&node);
    let seconds = setting("ATTACK_SECONDS", 60);
    let time = Duration::from_secs(seconds) / ROUNDS as u32;
    for addresses in origins() {
        let mut shares: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            let alone = busy(|| served(&node, &host, time));
            let flood = Flood::begin(&facts, &addresses);
            let attacked = served(&node, &host, time);
            let rounds = flood.end();
            let for_host = attacked.reads * alone.worked / alone.reads;
            let share = (attacked.worked - for_host) / attacked.time;
            println!("{share:.3} for strangers; alone {alone}, with them {attacked}; {rounds:?}");
            shares.push(share);
        }
        shares.sort_by(f64::total_cmp);
        let median = f64::midpoint(shares[shares.len() / 2], shares[(shares.len() - 1) / 2]);
        println!("{} addresses: {median:.3} of the core", addresses.len());
        assert!(median < 0.1, "{shares:?}");
    }
    host.end();
}

/// This thread, and what it starts from now on, runs on that processor.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).unwrap();
}

/// Reads that were answered, and how long the core worked in how long, in seconds.
struct Served {
    reads: f64,
    worked: f64,
    time: f64,
}

impl fmt::Display for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.reads / self.time;
        let load = self.worked / self.time;
        write!(
            formatter,
            "{rate:.0} reads a second in {load:.3} of the core"
        )
    }
}

fn served(node: &Node, host: &Host, time: Duration) -> Served {
    let (began, reads, worked) = (Instant::now(), host.reads(), core_time(node));
    std::thread::sleep(time);
    Served {
        reads: (host.reads() - reads) as f64,
        worked: (core_time(node) - worked).as_secs_f64(),
        time: began.elapsed().as_secs_f64(),
    }
}

/// How long the node's core has run so far.
fn core_time(node: &Node) -> Duration {
    let tasks = format!("/proc/{}/task", node.endpoints().pid);
    let mut tasks = std::fs::read_dir(tasks)
        .unwrap()
        .map(|task| task.unwrap().path());
    let is_core = |task: &PathBuf| {
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        name.contains("core0")
    };
    let core = tasks.find(is_core).unwrap();
    let times = std::fs::read_to_string(core.join("schedstat")).unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

/// Measures while the second processor has as much to do as with strangers.
fn busy<T>(measure: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::process::nice(19).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let measured = measure();
        stop.store(true, Ordering::Relaxed);
        measured
    })
}
