//! All attacks at once, beside a host that has a key and an admin at work.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::ReadDir;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use access::Secret;
use api::{HostSpec, SecretText};
use block::{BlockDevice, Buffer, Lba};
use initiator::{ConnectOptions, Controller, Credentials};
use reactor::{Reactor, ReactorConfig};

use super::flood::{Facts, Flood};
use super::support::{Node, http, name, wait_for, wait_until, wait_until_or_tell};

pub const VICTIM: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1a9b1e-3f0e-4a54-a7c0-8ea4e0f8a8aa";
const MIB: u64 = 1 << 20;
const BLOCK_BYTES: usize = 4096;
/// Commands of a host that are under way.
const DEPTH: usize = 8;
/// How long a host waits for each answer while it connects: as long as others do.
const PATIENCE: Duration = Duration::from_secs(60);
/// Its admin queue and an I/O queue.
const HOST_CONNECTIONS: u64 = 2;
/// What an attack may cost the node.
const MEMORY_MAX: u64 = 64 * MIB;
/// The file that a node opens when its first minute has passed, and keeps open.
const OPENED_LATER: &str = "/history.ring";
/// Lines of the log that an attack may cause: a few for each address and each reason.
const LINES_MAX: usize = 1500;

/// A host that has a key, and commands under way all the time.
pub struct Host {
    secret: Secret,
    answers: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    works: JoinHandle<()>,
}

impl Host {
    /// Connects to a volume that is this host's alone, and reads from a drive in memory, which
    /// costs a node little.
    pub fn start(node: &Node) -> Host {
        let secret: Secret = admitted(node).reveal().parse().unwrap();
        node.answer(&["drive", "add", "m0", "--memory", "16MiB"]);
        let volume = ["volume", "create", "data", "--drive", "m0"];
        node.answer(&[&volume[..], &["--allow", "victim"]].concat());
        let address = node.endpoints().nvme[0];
        let nqn = node.client().volume(&name("data")).unwrap().nqn;
        let (answers, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, ends) = (Arc::clone(&answers), Arc::clone(&stop));
        let proves = secret.clone();
        let works = std::thread::spawn(move || {
            let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
            reactor.run(async {
                let options = options(proves);
                let controller = Controller::connect(address, &nqn, options).await.unwrap();
                let namespace = Rc::new(controller.namespace(1).await.unwrap());
                let tasks = (0..DEPTH).map(|_| {
                    let namespace = Rc::clone(&namespace);
                    let (counted, ends) = (Arc::clone(&counted), Arc::clone(&ends));
                    reactor::spawn(async move {
                        let mut buffer = Buffer::zeroed(BLOCK_BYTES);
                        while !ends.load(Ordering::Relaxed) {
                            let done = namespace.read(Lba(0), buffer).await;
                            done.1.expect("the host is served all the time");
                            buffer = done.0;
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                });
                let tasks: Vec<_> = tasks.collect();
                for task in tasks {
                    task.await;
                }
                controller.disconnect().await;
            });
        });
        let host = Host {
            secret,
            answers,
            stop,
            works,
        };
        wait_until("the host is answered", || host.answers() > 0);
        host
    }

    /// Commands that were answered.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Whether it gets another controller and is served there.
    fn connects_again(&self, facts: &Facts) -> bool {
        let options = options(self.secret.clone());
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            let connecting = Controller::connect(facts.nvme, &facts.volume, options);
            let Ok(controller) = connecting.await else {
                return false;
            };
            let served = controller.active_namespaces().await.is_ok();
            controller.disconnect().await;
            served
        })
    }

    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.works.join().unwrap();
    }
}

fn options(secret: Secret) -> ConnectOptions {
    ConnectOptions {
        credentials: Some(Credentials::new(secret, None)),
        connect_timeout: PATIENCE,
        ..ConnectOptions::new(VICTIM)
    }
}

/// Makes the host called victim; gives the secret that it has to prove.
pub fn admitted(node: &Node) -> SecretText {
    node.answer(&["host", "add", "victim", "--nqn", VICTIM]);
    let made = node.answer(&["host", "key", "victim", "--generate", "-o", "json"]);
    let made: api::NewHostKey = serde_json::from_str(&made).unwrap();
    made.secret
}

/// A node with a drive that somebody administers.
pub fn prepared(arguments: &[&str]) -> Node {
    let emulated = ["--drives", "2", "--profile", "cm7-r-7.68"];
    let scale = ["--scale", "0.00001"];
    let node = Node::develop(&[&emulated[..], &scale[..], arguments].concat());
    node.answer(&["host", "add", "lab", "--nqn", "nqn.2026-11.example:lab"]);
    node
}

/// What strangers know of such a node and of the host.
pub fn known(node: &Node) -> Arc<Facts> {
    let said = node.answer(&["drive", "grant", "d1", "lab"]);
    let mut words = said.split_whitespace();
    let drive = words.find(|word| word.contains(":drive:")).unwrap();
    let sessions = node.client().sessions().unwrap().items;
    Arc::new(Facts {
        nvme: node.endpoints().nvme[0],
        api: node.endpoints().api["http://".len()..].parse().unwrap(),
        victim: VICTIM.into(),
        victim_id: ConnectOptions::new(VICTIM).host_id,
        controller_id: sessions[0].controller_id,
        volume: sessions[0].nqn.clone(),
        drive: drive.trim_end_matches('.').into(),
    })
}

/// One address, that of everybody on the machine, and eight others.
pub fn origins() -> [Vec<IpAddr>; 2] {
    let local = |last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
    [vec![local(1)], (2..10).map(local).collect()]
}

/// What a node has, of everything that could be left behind.
#[derive(Debug)]
struct Belongings {
    connections: u64,
    sessions: Vec<String>,
    descriptors: BTreeMap<String, usize>,
    threads: usize,
}

impl Belongings {
    fn of(node: &Node) -> Belongings {
        let entries = |what| {
            let path = format!("/proc/{}/{what}", node.endpoints().pid);
            std::fs::read_dir(path).unwrap()
        };
        // First of all: the connections of what is asked below close a moment after the answers.
        let descriptors = kinds_of(entries("fd"));
        let (_, figures) = http::request(node, "GET", "/metrics", "");
        let series = "flashyard_connections ";
        let line = figures.lines().find_map(|line| line.strip_prefix(series));
        let sessions = node.client().sessions().unwrap().items.into_iter();
        Belongings {
            connections: line.unwrap().parse::<f64>().unwrap() as u64,
            sessions: sessions.map(|session| session.key()).collect(),
            descriptors,
            threads: entries("task").count(),
        }
    }

    /// Nothing is there that was not. Threads that wait for work end after a while.
    fn are_within(&self, before: &Belongings) -> bool {
        self.connections == before.connections
            && self.sessions == before.sessions
            && self.descriptors.iter().all(|(kind, count)| {
                kind.ends_with(OPENED_LATER) || before.descriptors.get(kind) >= Some(count)
            })
            && self.threads <= before.threads
    }
}

/// How many descriptors there are of each kind: "socket", "anon_inode", or a file's path.
fn kinds_of(descriptors: ReadDir) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    // Some are closed while they are looked at.
    for link in descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()) {
        let link = link.to_string_lossy();
        let kind = link.split(':').next().unwrap().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// Memory of the node's process that is resident, bytes.
fn resident(node: &Node) -> u64 {
    let path = format!("/proc/{}/status", node.endpoints().pid);
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

/// Attacks a node for as long as said from each of [`origins`], and looks at all that is promised.
pub fn withstand(time: Duration) {
    let node = prepared(&[]);
    let host = Host::start(&node);
    let facts = known(&node);
    let before = wait_for("the node is at rest", || {
        let before = Belongings::of(&node);
        // The host's, in figures that are as old as a second or two.
        (before.connections == HOST_CONNECTIONS).then_some(before)
    });
    let (memory, lines) = (resident(&node), node.log().lines().count());
    let mut most = 0;
    let mut made = Vec::new();
    for addresses in origins() {
        let answers = host.answers();
        let flood = Flood::begin(&facts, &addresses);
        let began = Instant::now();
        wait_until("the host connects again", || host.connects_again(&facts));
        while began.elapsed() < time {
            let added = name(&format!("h{}", made.len()));
            let nqn = format!("nqn.2026-11.example:{added}");
            let spec = HostSpec { nqn, tenant: None };
            // Others at the same address may take the connection's place before it is known.
            wait_until("a change is made", || {
                node.client().add_host(&added, &spec).is_ok()
            });
            made.push(added);
            most = most.max(resident(&node));
            std::thread::sleep(Duration::from_millis(50));
        }
        let rounds = flood.end();
        let (from, answers) = (addresses.len(), host.answers() - answers);
        println!("{from} addresses: {answers} answers to the host; {rounds:?}");
        for (attack, rounds) in rounds {
            assert!(rounds > 1, "{attack} was not tried");
        }
        assert!(answers > 0);
    }
    let grown = most.saturating_sub(memory);
    println!("{} MiB more at most, {} changes", grown / MIB, made.len());
    assert!(grown < MEMORY_MAX, "{} MiB", grown / MIB);
    nothing_is_lost(&node, &made);
    let left = RefCell::new(None);
    let told = || format!("{:?} is left, not {before:?}", left.borrow());
    wait_until_or_tell(told, || {
        let now = Belongings::of(&node);
        let done = now.are_within(&before);
        left.replace(Some(now));
        done
    });
    let lines = node.log().lines().count() - lines - made.len();
    assert!(lines < LINES_MAX, "{lines} lines in the log");
    host.end();
}

/// Each change has its entry in the audit log and its event.
fn nothing_is_lost(node: &Node, made: &[api::Name]) {
    let audit = node.client().audit(0).unwrap().items;
    let events = node.client().events(0).unwrap().items;
    for name in made {
        let path = format!("/v1/hosts/{name}");
        let carried_out = audit.iter().filter(|entry| entry.path == path);
        assert!(carried_out.count() > 0, "no entry of {path}");
        let object = format!("host/{name}");
        let told = events.iter().filter(|event| event.object == object);
        assert_eq!(told.count(), 1, "events of {object}");
    }
    // Nobody that has no token changes anything.
    let strange = audit.iter().find(|entry| entry.token.as_str() != "admin");
    assert!(strange.is_none(), "{strange:?}");
}
