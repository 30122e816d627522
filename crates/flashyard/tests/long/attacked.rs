//! Attacks of peers without a key, for as long as `ATTACK_SECONDS` says: what they cost a host.
//!
//! The whole node has one processor. Its host and the strangers, which come from other machines in
//! earnest, share another, where strangers give way to the host. The host works with a pool, which
//! takes the node several times as long as the host, so the node's processor is what its rate
//! depends on. A rate is that of a second in which the node ran, with all of its threads. It counts
//! where other programs of the machine left the node nearly all of its processor: what strangers
//! may have is a share of time, whoever runs.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::everything::{Host, Load, known, origins, prepared, withstand};
use crate::flood::Flood;
use crate::setting;
use crate::support::Node;

/// Commands under way: enough for the node to be what they wait for.
const DEPTH: usize = 64;
/// How often it is measured with strangers and without, in turn.
const ROUNDS: u32 = 6;
/// What a host may lose of its rate.
const LOSS_MAX: f64 = 0.1;
/// The least part of the time for which the node has to run, for a rate to count.
const RAN_MIN: f64 = 0.8;
/// The least part of the time for which its core has to have work.
const BUSY_MIN: f64 = 0.9;
/// How often a measurement is tried.
const TRIES: u32 = 10;

/// As in `make test`, for longer.
#[test]
fn a_long_attack_costs_little_and_leaves_nothing() {
    withstand(Duration::from_secs(setting("ATTACK_SECONDS", 60)));
}

/// A host keeps nine tenths of its rate.
#[test]
fn an_attack_takes_little_from_a_host() {
    stay_on(0);
    let node = prepared(&["--cores", "0"]);
    stay_on(1);
    let host = Host::start(&node, Load::Pool, DEPTH);
    let facts = known(&node);
    let time = Duration::from_secs(setting("ATTACK_SECONDS", 60)) / ROUNDS;
    for addresses in origins() {
        let mut losses: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            let alone = measured(&node, &host, time);
            let flood = Flood::begin(&facts, &addresses);
            let attacked = measured(&node, &host, time);
            let rounds = flood.end();
            let loss = 1.0 - attacked.rate() / alone.rate();
            println!("{loss:.3} lost; alone {alone}; with strangers {attacked}; {rounds:?}");
            losses.push(loss);
        }
        losses.sort_by(f64::total_cmp);
        let middle = losses.len() / 2;
        let median = f64::midpoint(losses[middle], losses[losses.len() - 1 - middle]);
        println!("{} addresses: {median:.3} of the rate", addresses.len());
        assert!(median < LOSS_MAX, "{losses:?}");
    }
    host.end();
}

/// This thread, and what it starts from now on, runs on that processor.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).unwrap();
}

/// What a host had of a node for some time.
struct Served {
    answers: f64,
    /// Seconds.
    time: f64,
    /// Seconds for which a thread of the node ran.
    ran: f64,
    /// The part of the time for which the node's core ran, or waited for the processor.
    busy: f64,
}

impl Served {
    /// Answers in a second of the node's.
    fn rate(&self) -> f64 {
        self.answers / self.ran
    }
}

impl fmt::Display for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (
            rate,
            Served {
                time, ran, busy, ..
            },
        ) = (self.rate(), self);
        let seen = self.answers / time;
        let ran = ran / time;
        write!(
            formatter,
            "{rate:.0} answers in a second of the node's, {seen:.0} in one of all \
             (it ran for {ran:.3}, its core had work for {busy:.3})"
        )
    }
}

/// Measures until it counts.
fn measured(node: &Node, host: &Host, time: Duration) -> Served {
    for _ in 0..TRIES {
        let served = served(node, host, time);
        if served.ran > RAN_MIN * served.time && served.busy > BUSY_MIN {
            return served;
        }
        println!("once more, as that does not count: {served}");
    }
    panic!("other programs have the node's processor, or the node waits for its host");
}

fn served(node: &Node, host: &Host, time: Duration) -> Served {
    let now = || (Instant::now(), host.answers(), ran(node), core_time(node));
    let before = now();
    std::thread::sleep(time);
    let after = now();
    let time = (after.0 - before.0).as_secs_f64();
    Served {
        answers: (after.1 - before.1) as f64,
        time,
        ran: (after.2 - before.2).as_secs_f64(),
        busy: (after.3 - before.3).as_secs_f64() / time,
    }
}

/// How long all threads of the node have run so far, those that have ended among them.
fn ran(node: &Node) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.endpoints().pid)).unwrap();
    // Behind the program's name: the state is the third field, and the times are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// How long the node's core has run so far, or has waited for its processor.
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
    let times = times.split(' ').take(2);
    Duration::from_nanos(times.map(|nanos| nanos.parse::<u64>().unwrap()).sum())
}
