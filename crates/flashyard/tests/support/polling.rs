//! Hosts that connect, discover, read, write and ask, each millisecond: whatever becomes of the
//! node, they are told nothing that would have them never come again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use block::Buffer;
use initiator::{ConnectOptions, Controller, Data, Error, discover};
use nvme::command::{IoOpcode, ReadWrite};
use nvme::fabrics::DISCOVERY_NQN;
use nvme::identify::{Cns, Identify};
use nvme::{SglDescriptor, Status};
use reactor::{Reactor, ReactorConfig, sleep};

const HOST: &str = "nqn.2026-11.example.flashyard:test";
const BLOCK: usize = 4096;

/// Numbers that look random, the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }

    pub fn pause(&mut self, limit_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.below(limit_ms)));
    }
}

/// The hosts, at work.
pub struct Polling {
    met: Arc<Met>,
    hosts: Vec<JoinHandle<()>>,
}

impl Polling {
    /// Hosts of each of the volumes at each address, and of discovery, whose log has `always`.
    pub fn start(addresses: &[SocketAddr], volumes: &[String], always: &[String]) -> Polling {
        let met = Arc::new(Met::default());
        let mut hosts = Vec::new();
        for address in addresses.iter().copied() {
            for nqn in volumes {
                let shared = (Arc::clone(&met), nqn.clone());
                hosts.push(spawn(move || connects(shared.0, address, shared.1)));
                let shared = (Arc::clone(&met), nqn.clone());
                hosts.push(spawn(move || works(shared.0, address, shared.1)));
            }
            for stays in [false, true] {
                let (met, always) = (Arc::clone(&met), always.to_vec());
                hosts.push(spawn(move || discovers(met, address, always, stays)));
            }
        }
        Polling { met, hosts }
    }

    /// Ends them. Fails if one was told not to come again, or none got anything done.
    pub fn end(self) {
        self.met.stop.store(true, Ordering::Relaxed);
        for host in self.hosts {
            host.join().unwrap();
        }
        let mut wrong = self.met.wrong.lock().unwrap().clone();
        let count = wrong.len();
        wrong.sort();
        wrong.dedup();
        assert_eq!(wrong, [""; 0], "{count} in all");
        let successes = self.met.successes.each_ref();
        let successes = successes.map(|one| one.load(Ordering::Relaxed));
        assert!(successes.iter().all(|one| *one > 10), "{successes:?}");
    }
}

/// What hosts met.
#[derive(Default)]
struct Met {
    stop: AtomicBool,
    successes: [AtomicU64; 3],
    wrong: Mutex<Vec<String>>,
}

const CONNECTED: usize = 0;
const DISCOVERED: usize = 1;
const DONE: usize = 2;

impl Met {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn success(&self, what: usize) {
        self.successes[what].fetch_add(1, Ordering::Relaxed);
    }

    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// What a command ended with is all right, or to be tried again.
    fn status(&self, what: &str, status: Status) {
        match status {
            status if status.is_success() => self.success(DONE),
            status if status.is_do_not_retry() => self.wrong(format!("{what}: {status:?}")),
            _ => {}
        }
    }

    fn error(&self, what: &str, error: &Error) {
        match error {
            Error::Refused { status, .. } | Error::Command(status) => self.status(what, *status),
            _ => {}
        }
    }
}

/// Runs `host` on a reactor of its own.
fn spawn<F: Future<Output = ()>>(host: impl FnOnce() -> F + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(|| {
        let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
        reactor.run(host());
    })
}

/// Connects to a volume, every millisecond.
async fn connects(met: Arc<Met>, address: SocketAddr, nqn: String) {
    while met.goes_on() {
        match Controller::connect(address, &nqn, ConnectOptions::new(HOST)).await {
            Ok(controller) => {
                met.success(CONNECTED);
                drop(controller);
            }
            Err(error) => met.error("Connect", &error),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Reads the discovery log, every millisecond: as a new host, or as one that stays.
async fn discovers(met: Arc<Met>, address: SocketAddr, volumes: Vec<String>, stays: bool) {
    while met.goes_on() {
        let options = ConnectOptions::new(HOST);
        if !stays {
            judge(&met, discover(address, &options).await, &volumes);
        } else if let Ok(controller) = Controller::connect(address, DISCOVERY_NQN, options).await {
            let mut log = controller.discovery_log().await;
            while log.is_ok() && met.goes_on() {
                judge(&met, log, &volumes);
                sleep(Duration::from_millis(1)).await;
                log = controller.discovery_log().await;
            }
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// A log has all volumes, or there is none.
fn judge(met: &Met, log: Result<Vec<initiator::DiscoveryRecord>, Error>, volumes: &[String]) {
    match log {
        Ok(records) => {
            met.success(DISCOVERED);
            let named = |nqn: &&String| records.iter().all(|one| one.subsystem_nqn != **nqn);
            for missing in volumes.iter().filter(named) {
                met.wrong(format!("the discovery log lacks {missing}"));
            }
        }
        Err(error) => met.error("discovery", &error),
    }
}

/// Reads, writes and asks, every millisecond, on a controller that is kept while it is there.
async fn works(met: Arc<Met>, address: SocketAddr, nqn: String) {
    while met.goes_on() {
        let Ok(controller) = Controller::connect(address, &nqn, ConnectOptions::new(HOST)).await
        else {
            sleep(Duration::from_millis(1)).await;
            continue;
        };
        while met.goes_on() {
            let Ok(queue) = controller.queue(0) else {
                break;
            };
            let transfer = SglDescriptor::transport(BLOCK as u32);
            let command = |opcode| *ReadWrite::new(opcode, 1, 7, 1, transfer).entry();
            let write = Data::Out(Buffer::zeroed(BLOCK));
            let written = queue.submit(command(IoOpcode::WRITE), write).await.1;
            let read = Data::In(Buffer::zeroed(BLOCK));
            let read = queue.submit(command(IoOpcode::READ), read).await.1;
            let asked = *Identify::new(Cns::NAMESPACE, 1).entry();
            let asked = controller
                .admin(asked, Data::In(Buffer::zeroed(4096)))
                .await
                .1;
            for (what, done) in [("write", written), ("read", read)] {
                if let Ok(completion) = done {
                    met.status(what, completion.status());
                }
            }
            match asked {
                Ok(completion) => met.status("Identify", completion.status()),
                Err(_) => break,
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}
