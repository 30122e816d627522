//! A node all of whose outputs have the same fault, and a host that reads and writes meanwhile.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use api::{PathState, PortChange, Role, SettingsChange, TokenSpec};
use block::{BlockDevice, Buffer, Durability, Lba};
use client::{Client, ClientError};
use fickle::{FickleDirectory, Manner};
use initiator::{ConnectOptions, Controller, Namespace};
use nvme::Status;
use reactor::{Reactor, ReactorConfig};
use tempfile::TempDir;

use crate::outputs::{Cell, FAULTS, Fault, OUTPUTS, Output, Series};
use crate::receivers::{Receiver, clients, of_systemd};
use crate::reserving::{self, PERSIST};
use crate::served::{Served, make_volume};
use crate::support::{name, text, wait_until};

/// What Linux gives a command.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);

/// Longer than an answer takes on the slowest machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// A path, and what came of a change of what is there.
type Change = (&'static str, Result<(), ClientError>);

/// Changes something.
type Changing = fn(&Client) -> Result<(), ClientError>;

/// A host that reads and writes without a break.
pub struct Host {
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Host {
    /// One of the volume `v` of a node that answers.
    pub fn of(node: &Served) -> Host {
        let nqn = node.client().volume(&name("v")).unwrap().nqn;
        Host::start(node.nvme, nqn)
    }

    fn start(address: SocketAddr, nqn: String) -> Host {
        let (done, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let shared = (Arc::clone(&done), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
            reactor.run(async {
                let host = ConnectOptions::new("nqn.2026-11.example.flashyard:at-work");
                let host = Controller::connect(address, &nqn, host).await.unwrap();
                let namespace = host.namespace(1).await.unwrap();
                while !shared.1.load(Ordering::Relaxed) {
                    let number = shared.0.load(Ordering::Relaxed);
                    let once = write_and_read(&namespace, number);
                    let once = reactor::timeout(COMMAND_WITHIN, once).await;
                    once.expect("a host has given up");
                    shared.0.fetch_add(1, Ordering::Relaxed);
                    reactor::sleep(Duration::from_millis(20)).await;
                }
                host.disconnect().await;
            });
        });
        Host { done, stop, thread }
    }

    /// Waits until it has written and read some more.
    pub fn goes_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        seen_by_and_by("the host reads and writes", || {
            assert!(!self.thread.is_finished(), "the host has ended");
            self.done.load(Ordering::Relaxed) > before + 20
        });
    }

    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Asks again until it holds, not so often that it costs others their time.
pub fn seen_by_and_by(what: &str, mut holds: impl FnMut() -> bool) {
    wait_until(what, || {
        let found = holds();
        if !found {
            std::thread::sleep(Duration::from_millis(300));
        }
        found
    });
}

/// Writes a block and reads it again.
async fn write_and_read(namespace: &Namespace, number: u64) {
    let block = Lba(number % 1000);
    let data = Buffer::copy_of(&[number as u8; 4096]);
    let written = namespace.write(block, data, Durability::Cached).await;
    written.1.unwrap();
    let (data, read) = namespace.read(block, Buffer::new(4096)).await;
    read.unwrap();
    assert!(data.iter().all(|byte| *byte == number as u8), "{number}");
}

/// What `status` and the events of a node say.
pub fn said(node: &Served) -> String {
    let client = node.client();
    let problems = client.status().unwrap().problems.into_iter();
    let events = client.events(0).unwrap().items.into_iter();
    let said = problems.chain(events.map(|event| event.message));
    said.collect::<Vec<_>>().join("\n")
}

/// A node, everything that it informs, and what is left of its files when it has ended.
struct Scene {
    fault: Fault,
    state: FickleDirectory,
    log: FickleDirectory,
    syslog: Receiver,
    graphite: Receiver,
    node: Served,
    nqn: String,
    elsewhere: TempDir,
}

impl Scene {
    /// The node has a volume, knows its receivers, and has been stopped.
    fn new(fault: Fault) -> Scene {
        let (state, elsewhere) = (FickleDirectory::new(), tempfile::tempdir().unwrap());
        let mut node = Served::new(state.path(), elsewhere.path());
        node.state = state.behind().to_owned();
        node.quietly();
        make_volume(&node, elsewhere.path());
        let receivers = [Receiver::with(fault), Receiver::with(fault)];
        let [syslog, graphite] = receivers;
        let (to_syslog, to_graphite) = (
            format!("tcp://{}", syslog.address),
            graphite.address.to_string(),
        );
        let set = ["settings", "set", "--syslog", &to_syslog];
        let figures_too = ["--graphite", &to_graphite, "--graphite-interval", "1"];
        node.answer(&[&set[..], &figures_too].concat());
        let nqn = node.client().volume(&name("v")).unwrap().nqn;
        assert_eq!(node.end(), 0);
        node.arguments
            .extend(["--log-level".into(), "trace".into()]);
        let log = FickleDirectory::new();
        Scene {
            fault,
            state,
            log,
            syslog,
            graphite,
            node,
            nqn,
            elsewhere,
        }
    }

    /// Starts the node, with a host. All outputs have the fault then, and `endpoints.json` is yet
    /// to be written: that waits for the address of the REST API.
    fn start(&mut self) -> Host {
        let (socket, _systemd) = of_systemd(self.elsewhere.path(), self.fault);
        let socket = socket.to_str().unwrap().to_owned();
        self.node.environment.push(("NOTIFY_SOCKET", socket));
        let output = |name: &str| Stdio::from(File::create(self.log.path().join(name)).unwrap());
        let (said, log) = (output("said"), output("log"));
        let taken = TcpListener::bind(self.node.api).unwrap();
        self.log.set(self.fault.manner());
        self.node.spawn(said, log);
        seen_by_and_by("the node serves", || {
            TcpStream::connect(self.node.nvme).is_ok()
        });
        let host = Host::start(self.node.nvme, self.nqn.clone());
        host.goes_on();
        self.state.set(self.fault.manner());
        drop(taken);
        self.node.wait();
        host
    }

    /// What comes of changes: of all objects whose changes wait for one another only.
    fn change(&self) -> mpsc::Receiver<Change> {
        let (tell, hear) = mpsc::channel();
        let changes: [(&str, Changing); 3] = [
            ("/v1/tokens/t", |client| {
                let spec = TokenSpec {
                    role: Role::Viewer,
                    tenant: None,
                    expires: None,
                };
                client.create_token(&name("t"), &spec).map(drop)
            }),
            ("/v1/settings", |client| {
                let change = SettingsChange {
                    scrub_interval_days: Some(9),
                    ..SettingsChange::default()
                };
                client.change_settings(&change).map(drop)
            }),
            ("/v1/ports/1", |client| {
                let change = PortChange::path(PathState::NonOptimized);
                client.change_port(1, &change).map(drop)
            }),
        ];
        for (path, change) in changes {
            let (client, tell) = (self.node.client(), tell.clone());
            // A test that fails may not wait for it.
            std::thread::spawn(move || drop(tell.send((path, change(&client)))));
        }
        hear
    }

    /// Changes that were begun wait for a disk that hangs. One that comes when that is known is not
    /// begun.
    fn refuses_at_once(&self, begun: &mpsc::Receiver<Change>) {
        let silent = "the disk does not answer";
        seen_by_and_by(silent, || said(&self.node).contains(silent));
        assert_eq!(begun.try_iter().count(), 0, "changes wait for the disk");
        let refused = self.node.add_host("none");
        let told = text(&refused.stderr);
        assert!(told.contains(silent), "{told}");
    }

    /// That everything that is in memory is told.
    fn answers(&self) {
        let (tell, hear) = mpsc::channel();
        let client = self.node.client();
        std::thread::spawn(move || {
            client.status().unwrap();
            client.tokens().unwrap();
            client.settings().unwrap();
            client.ports().unwrap();
            client.hosts().unwrap();
            client.volumes().unwrap();
            client.drives().unwrap();
            client.sessions().unwrap();
            client.figures().unwrap();
            let _ = tell.send(());
        });
        let heard = hear.recv_timeout(ANSWERED_WITHIN);
        heard.expect("what is asked is answered");
    }

    /// What a host is told that registers for longer than the node lives.
    fn register(&self) -> Status {
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(async {
            let host = (7, "nqn.2026-11.example.flashyard:registers".to_owned());
            let host = reserving::connect(self.node.nvme, &self.nqn, host).await;
            let host = host.unwrap();
            let status = reserving::register(&host, 1, 7, PERSIST).await;
            host.disconnect().await;
            status
        })
    }

    /// That an output has what its cell says.
    fn look(&self, output: &Output) {
        let cell = output.cell(self.fault);
        let what = format!("{:?}, {}: {}", self.fault, output.name, cell.in_words());
        match (cell, output.lost) {
            (Cell::Said(_) | Cell::Counted, Some(series)) => {
                seen_by_and_by(&what, || self.is_lost(series));
            }
            (Cell::Whole, Some(series)) => seen_by_and_by(&what, || !self.is_lost(series)),
            _ => {}
        }
        if let Cell::Said(words) = cell {
            seen_by_and_by(&what, || said(&self.node).contains(words));
        }
    }

    fn is_lost(&self, series: Series) -> bool {
        match series {
            Series::Rises(series) => self.node.metric(series) > 0.0,
            Series::Falls(series) => self.node.metric(series) == 0.0,
        }
    }

    /// Everything takes what it is given again.
    fn comes_back(&mut self) {
        self.state.set(Manner::Works);
        self.log.set(Manner::Works);
        self.syslog.comes_back(self.fault);
        self.graphite.comes_back(self.fault);
        seen_by_and_by("no problems", || {
            self.node.client().status().unwrap().problems.is_empty()
        });
        seen_by_and_by("nothing waits", || {
            self.node.metric("flashyard_audit_waiting_entries") == 0.0
        });
        let endpoints = self.node.state.join("endpoints.json");
        seen_by_and_by("endpoints.json", || endpoints.exists());
        let added = self.node.add_host("after");
        assert!(added.status.success(), "{added:?}");
        self.syslog.gets("PUT /v1/hosts/after");
        self.graphite.gets(".volume_read_bytes_total.v ");
        assert_eq!(self.register(), Status::SUCCESS);
        self.has_logged();
    }

    /// Whether the changes are seen: those that were refused are not there later.
    fn has_made(&self, all: bool) {
        let client = self.node.client();
        let tokens = || client.tokens().unwrap().items.len() == 2;
        let settings = || client.settings().unwrap().scrub_interval_days == 9;
        let ports = || client.ports().unwrap().items[0].path == PathState::NonOptimized;
        match all {
            true => seen_by_and_by("changes are made", || tokens() && settings() && ports()),
            false => assert!(!tokens() && !settings() && !ports()),
        }
    }

    /// The log goes on, and says if it lacks something; so does a greeting that had to wait.
    fn has_logged(&self) {
        let read = |name: &str| {
            let path = self.log.behind().join(name);
            String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
        };
        let lost = self.node.metric("flashyard_log_dropped_total") > 0.0;
        let expected = match lost {
            true => "lines of the log were left out before this one",
            false => "method=PUT path=\"/v1/hosts/after\"",
        };
        seen_by_and_by(expected, || read("log").contains(expected));
        if matches!(self.fault, Fault::Hangs | Fault::Slow) {
            seen_by_and_by("the greeting", || read("said").contains("NVMe/TCP"));
        }
    }
}

impl Output {
    fn cell(&self, fault: Fault) -> Cell {
        let found = FAULTS
            .iter()
            .zip(self.cells)
            .find(|(one, _)| **one == fault);
        found.unwrap().1
    }
}

/// All outputs of a node have a fault, and are back again in the end.
pub fn trial(fault: Fault) {
    let mut scene = Scene::new(fault);
    let host = scene.start();
    let asking = clients(scene.node.api, fault);
    let changed = scene.change();
    scene.answers();
    match fault {
        Fault::Hangs => scene.refuses_at_once(&changed),
        _ => ends(&changed, fault == Fault::Slow),
    }
    let registered = scene.register() == Status::SUCCESS;
    assert_eq!(registered, fault == Fault::Slow, "{fault:?}");
    for output in OUTPUTS {
        scene.look(output);
    }
    scene.answers();
    host.goes_on();
    drop(asking);
    scene.comes_back();
    scene.has_made(matches!(fault, Fault::Hangs | Fault::Slow));
    audited(&scene.node);
    host.goes_on();
    host.end();
    assert_eq!(scene.node.end(), 0, "{fault:?}");
}

/// Waits for what comes of all changes: they are made, or refused.
fn ends(changed: &mpsc::Receiver<Change>, are_made: bool) {
    for _ in 0..3 {
        let (path, made) = changed.recv_timeout(ANSWERED_WITHIN).unwrap();
        assert_eq!(made.is_ok(), are_made, "{path}: {made:?}");
    }
}

/// What was changed, or was not, is in the audit log.
fn audited(node: &Served) {
    for path in [
        "/v1/tokens/t",
        "/v1/ports/1",
        "/v1/settings",
        "/v1/hosts/after",
    ] {
        seen_by_and_by(path, || {
            let log = node.client().audit(0).unwrap().items;
            log.iter().any(|entry| entry.path == path)
        });
    }
}
