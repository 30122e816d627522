//! Attacks of peers without a key, for as long as `ATTACK_SECONDS` says: what they cost a host.
//!
//! The whole node has one processor. Its host and the strangers, which come from other machines in
//! earnest, share another, where the host goes before them. The host is `flashyard perf`, and
//! writes to a pool, which takes the node longer than the host, so the node's processor is what its
//! rate depends on. Node and host are a release build, if `FLASHYARD_PROGRAM` names one: of a debug
//! build the host is the slower one.
//!
//! A rate is that of a second in which the node ran, with all of its threads: what strangers may
//! have is a share of the node's time, whoever else runs on the machine. Strangers' own work costs
//! a node on another machine nothing. Here it takes caches and the machine's time, so threads that
//! only compute take as much of these in their place while the host is alone.

use std::fmt;
use std::hint::spin_loop;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::everything::{VICTIM, admitted, known, origins, prepared, withstand};
use crate::flood::{ATTACKS, Flood, NICE};
use crate::setting;
use crate::support::{Node, name, program, wait_until};

/// How often it is measured with strangers and without, in turn.
const ROUNDS: u32 = 6;
/// What a host may lose of its rate.
const LOSS_MAX: f64 = 0.1;
/// The least part of the time for which the node has to run, for a rate to count.
const RAN_MIN: f64 = 0.5;
/// The least part of the time for which its core has to have work.
const BUSY_MIN: f64 = 0.9;
/// How often a measurement is tried.
const TRIES: u32 = 10;
/// The host is at work, and strangers are, for this long before it is measured.
const BEFORE: Duration = Duration::from_secs(3);
/// How long a thread that is there in a stranger's place computes at a time.
const BURST: Duration = Duration::from_micros(50);
/// How often the node's time is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

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
    let host = Host::of(&node);
    let time = Duration::from_secs(setting("ATTACK_SECONDS", 60)) / ROUNDS;
    for addresses in origins() {
        let mut losses: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            let alone = host.measured(time, &Beside::stand_ins);
            let attacked = host.measured(time, &|| Beside::strangers(&node, &addresses));
            let loss = 1.0 - attacked.rate / alone.rate;
            println!("{loss:.3} lost; alone {alone}; with strangers {attacked}");
            losses.push(loss);
        }
        losses.sort_by(f64::total_cmp);
        let middle = losses.len() / 2;
        let median = f64::midpoint(losses[middle], losses[losses.len() - 1 - middle]);
        println!("{} addresses: {median:.3} of the rate", addresses.len());
        assert!(median < LOSS_MAX, "{losses:?}");
    }
}

/// This thread, and what it starts from now on, runs on that processor.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).unwrap();
}

/// Who is at work beside a host.
enum Beside {
    Strangers(Flood),
    StandIns(Arc<AtomicBool>, Vec<JoinHandle<()>>),
}

impl Beside {
    fn strangers(node: &Node, addresses: &[IpAddr]) -> Beside {
        Beside::Strangers(Flood::begin(&known(node), addresses))
    }

    /// Threads that compute, as many as there are kinds of attacks.
    fn stand_ins() -> Beside {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = ATTACKS.map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                rustix::process::nice(NICE).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    while began.elapsed() < BURST {
                        spin_loop();
                    }
                    // Strangers wait for answers, and let the host have its turn then.
                    std::thread::sleep(BURST);
                }
            })
        });
        Beside::StandIns(stop, threads.into())
    }

    fn end(self) {
        match self {
            Beside::Strangers(flood) => println!("{:?}", flood.end()),
            Beside::StandIns(stop, threads) => {
                stop.store(true, Ordering::Relaxed);
                for thread in threads {
                    thread.join().unwrap();
                }
            }
        }
    }
}

/// A host with a key, and its volume in a pool.
struct Host<'a> {
    node: &'a Node,
    /// Where its secret is.
    secret: PathBuf,
    target: String,
}

impl Host<'_> {
    fn of(node: &Node) -> Host<'_> {
        let secret = node.path().join("secret");
        std::fs::write(&secret, admitted(node).reveal()).unwrap();
        let drives: Vec<_> = (0..6).map(|number| format!("m{number}")).collect();
        for drive in &drives {
            node.answer(&["drive", "add", drive, "--memory", "64MiB"]);
        }
        let pool = ["pool", "create", "fast", "--level", "raid6", "--drives"];
        node.answer(&[&pool[..], &[&drives.join(",")]].concat());
        let volume = ["volume", "create", "data", "--pool", "fast"];
        node.answer(&[&volume[..], &["--size", "16MiB", "--allow", "victim"]].concat());
        let nqn = node.client().volume(&name("data")).unwrap().nqn;
        let target = format!("tcp://{}/{nqn}", node.endpoints().nvme[0]);
        Host {
            node,
            secret,
            target,
        }
    }

    /// Writes for [`BEFORE`] and this long, and says then how much.
    fn start(&self, time: Duration) -> Child {
        let seconds = |time: Duration| format!("{}s", time.as_secs_f64());
        // It goes before strangers at once, as if they were on other machines.
        let mut perf = Command::new("chrt");
        perf.args(["--fifo", "1", &program()]);
        perf.args(["perf", &self.target, "--host-nqn", VICTIM]);
        perf.arg("--dhchap-secret-file").arg(&self.secret);
        perf.args(["--rw", "randwrite", "--norandommap", "--iodepth", "64"]);
        perf.args(["--ramp-time", &seconds(BEFORE), "--runtime", &seconds(time)]);
        perf.args(["--output", "json"]);
        perf.stdin(Stdio::null()).stdout(Stdio::piped());
        perf.spawn().unwrap()
    }

    /// Measures until it counts.
    fn measured(&self, time: Duration, begin: &dyn Fn() -> Beside) -> Served {
        for _ in 0..TRIES {
            let served = self.served(time, begin);
            if served.ran > RAN_MIN && served.busy > BUSY_MIN && served.in_time {
                return served;
            }
            println!("once more, as that does not count: {served}");
        }
        panic!("other programs have the node's processor, or the node waits for its host");
    }

    fn served(&self, time: Duration, begin: &dyn Fn() -> Beside) -> Served {
        let mut perf = self.start(time);
        let connected = || self.node.client().sessions().unwrap().items.len() == 1;
        wait_until("the host is connected", connected);
        let beside = begin();
        let begun = Instant::now();
        let mut looks = Vec::new();
        while perf.try_wait().unwrap().is_none() {
            looks.push(Look::at(self.node));
            std::thread::sleep(LOOK_PERIOD);
        }
        let last = Look::at(self.node);
        beside.end();
        let gone = || self.node.client().sessions().unwrap().items.is_empty();
        wait_until("the host is gone", gone);
        let said = perf.wait_with_output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let (writes, elapsed) = (&said["write"]["ios"], &said["elapsed_seconds"]);
        let seen = writes.as_f64().unwrap() / elapsed.as_f64().unwrap();
        let first = looks
            .iter()
            .rev()
            .find(|look| last.time - look.time >= time);
        let first = first.expect("the host works for longer than it measures");
        let passed = (last.time - first.time).as_secs_f64();
        let part = |of: fn(&Look) -> Duration| (of(&last) - of(first)).as_secs_f64() / passed;
        let ran = part(|look| look.ran);
        Served {
            rate: seen / ran,
            seen,
            ran,
            busy: part(|look| look.core),
            in_time: begun < first.time,
        }
    }
}

/// What a host had of a node for some time.
struct Served {
    /// Answers in a second for which the node ran.
    rate: f64,
    /// Answers in a second.
    seen: f64,
    /// The part of the time for which a thread of the node ran.
    ran: f64,
    /// The part of the time for which the node's core had work.
    busy: f64,
    /// Whoever is beside the host was there from the beginning.
    in_time: bool,
}

impl fmt::Display for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Served {
            rate,
            seen,
            ran,
            busy,
            ..
        } = self;
        write!(
            formatter,
            "{rate:.0} answers in a second of the node's, {seen:.0} in one of all \
             (it ran for {ran:.3}, its core had work for {busy:.3})"
        )
    }
}

/// What the node has had so far.
struct Look {
    time: Instant,
    ran: Duration,
    core: Duration,
}

impl Look {
    fn at(node: &Node) -> Look {
        Look {
            time: Instant::now(),
            ran: ran(node),
            core: core_time(node) + stolen(),
        }
    }
}

/// How long all threads of the node have run so far, those that have ended among them.
fn ran(node: &Node) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.endpoints().pid)).unwrap();
    // Behind the program's name: the state is the third field, and the times are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    of_ticks(ticks)
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

/// How long other virtual machines have had the node's processor while it had work.
fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu0 "));
    // User, nice, system, idle, waiting, two kinds of interrupts, stolen.
    let stolen = line.unwrap().split(' ').nth(7).unwrap();
    of_ticks(stolen.parse().unwrap())
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
