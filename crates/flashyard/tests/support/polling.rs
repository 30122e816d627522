//! Hosts that connect, discover, and send commands of every kind, each millisecond. Whatever
//! becomes of the node, they are told nothing that would have them never come again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use block::Buffer;
use initiator::{ConnectOptions, Controller, Data, Error, discover};
use nvme::command::{
    ALL_NAMESPACES, AdminOpcode, DATASET_DEALLOCATE, DatasetManagement, DatasetRange, IoOpcode,
    ReadWrite,
};
use nvme::fabrics::DISCOVERY_NQN;
use nvme::feature::{Feature, Features};
use nvme::identify::{Cns, Identify};
use nvme::log::{GetLogPage, LogPage};
use nvme::reservation::{EXTENDED, Keys, Reservation, ReservationType, action};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use reactor::{Reactor, ReactorConfig, sleep};
use zerocopy::IntoBytes;

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

/// A volume that hosts poll.
#[derive(Clone)]
pub struct Polled {
    pub nqn: String,
    /// Nobody else works with it, so the hosts reserve it too.
    pub alone: bool,
}

/// The hosts, at work.
pub struct Polling {
    met: Arc<Met>,
    hosts: Vec<JoinHandle<()>>,
}

impl Polling {
    /// Hosts of each of the volumes at each address, and of discovery, whose log has `always`.
    pub fn start(addresses: &[SocketAddr], volumes: &[Polled], always: &[String]) -> Polling {
        let met = Arc::new(Met::default());
        let mut hosts = Vec::new();
        for address in addresses.iter().copied() {
            for volume in volumes {
                let shared = (Arc::clone(&met), volume.nqn.clone());
                hosts.push(spawn(move || connects(shared.0, address, shared.1)));
                let shared = (Arc::clone(&met), volume.clone());
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
    successes: [AtomicU64; 4],
    wrong: Mutex<Vec<String>>,
}

const CONNECTED: usize = 0;
const DISCOVERED: usize = 1;
const DONE: usize = 2;
const RESERVED: usize = 3;

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

    /// The same of a command that only those who are registered may send. Nobody is any more once
    /// the node has started anew, and that is no reason to come again.
    fn status_of_registrant(&self, what: &str, status: Status) {
        match status.code() {
            Status::RESERVATION_CONFLICT => {}
            Status::SUCCESS => self.success(RESERVED),
            _ => self.status(what, status),
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

/// Where a command goes.
enum Queue {
    Admin,
    Io,
}

/// The data of a command.
enum Moves {
    Nothing,
    Out(Vec<u8>),
    In(usize),
}

struct Command {
    what: &'static str,
    to: Queue,
    entry: SubmissionEntry,
    data: Moves,
    /// Only those who are registered may send it.
    of_registrants: bool,
}

impl Command {
    fn new(to: Queue, what: &'static str, entry: SubmissionEntry, data: Moves) -> Command {
        Command {
            what,
            to,
            entry,
            data,
            of_registrants: false,
        }
    }
}

/// Every kind of command that a host at work sends, all for the same block. An Asynchronous Event
/// Request is outstanding all the time: the controller sends it by itself. Acquire and Release are
/// for hosts that are `alone` with a volume: others could not write meanwhile.
fn commands(alone: bool) -> Vec<Command> {
    let io = |what, entry, data| Command::new(Queue::Io, what, entry, data);
    let admin = |what, entry, data| Command::new(Queue::Admin, what, entry, data);
    let plain = |opcode: u8, nsid| SubmissionEntry::new(opcode, nsid, SglDescriptor::transport(0));
    let block = |opcode, bytes| {
        let transfer = SglDescriptor::transport(bytes);
        *ReadWrite::new(opcode, 1, 7, 1, transfer).entry()
    };
    let whole = BLOCK as u32;
    let page = |what, page, nsid| {
        let entry = *GetLogPage::new(page, nsid, 0, 512).entry();
        admin(what, entry, Moves::In(512))
    };
    let feature = |opcode: AdminOpcode| {
        let mut command = *Features::of(&plain(opcode.0, 0));
        command.feature = Feature::ERROR_RECOVERY;
        *command.entry()
    };
    let zeroes = || Moves::Out(vec![0; BLOCK]);
    let mut commands = vec![
        io("Write", block(IoOpcode::WRITE, whole), zeroes()),
        io("Compare", block(IoOpcode::COMPARE, whole), zeroes()),
        io("Read", block(IoOpcode::READ, whole), Moves::In(BLOCK)),
        io(
            "Write Zeroes",
            block(IoOpcode::WRITE_ZEROES, 0),
            Moves::Nothing,
        ),
        io("Dataset Management", deallocate(), Moves::Out(range())),
        io("Flush", plain(IoOpcode::FLUSH.0, 1), Moves::Nothing),
        io("Reservation Register", register(), Moves::Out(keys(0, KEY))),
        io("Reservation Report", report(), Moves::In(REPORT_BYTES)),
        admin(
            "Identify",
            *Identify::new(Cns::NAMESPACE, 1).entry(),
            Moves::In(4096),
        ),
        page("the error log", LogPage::ERROR, ALL_NAMESPACES),
        page("the health log", LogPage::SMART, ALL_NAMESPACES),
        admin(
            "Get Features",
            feature(AdminOpcode::GET_FEATURES),
            Moves::Nothing,
        ),
        admin(
            "Set Features",
            feature(AdminOpcode::SET_FEATURES),
            Moves::Nothing,
        ),
        admin(
            "Keep Alive",
            plain(AdminOpcode::KEEP_ALIVE.0, 0),
            Moves::Nothing,
        ),
    ];
    if alone {
        commands.extend(reserving());
    }
    commands
}

/// What those send who have registered.
fn reserving() -> [Command; 2] {
    [
        ("Reservation Acquire", IoOpcode::RESERVATION_ACQUIRE),
        ("Reservation Release", IoOpcode::RESERVATION_RELEASE),
    ]
    .map(|(what, opcode)| Command {
        of_registrants: true,
        ..Command::new(Queue::Io, what, reserve(opcode), Moves::Out(keys(KEY, 0)))
    })
}

fn deallocate() -> SubmissionEntry {
    let transfer = SglDescriptor::transport(16);
    let entry = SubmissionEntry::new(IoOpcode::DATASET_MANAGEMENT.0, 1, transfer);
    let mut command = *DatasetManagement::of(&entry);
    command.attributes = DATASET_DEALLOCATE.into();
    *command.entry()
}

/// The block, as a range to deallocate.
fn range() -> Vec<u8> {
    let range = DatasetRange {
        attributes: 0.into(),
        blocks: 1.into(),
        start: 7.into(),
    };
    range.as_bytes().to_vec()
}

/// Bytes of a report with a few registrants.
const REPORT_BYTES: usize = 512;

fn register() -> SubmissionEntry {
    let transfer = SglDescriptor::transport(16);
    let entry = SubmissionEntry::new(IoOpcode::RESERVATION_REGISTER.0, 1, transfer);
    let mut command = *Reservation::of(&entry);
    command.action = action::REPLACE | action::IGNORE_KEY;
    *command.entry()
}

/// What hosts register, the same each time.
const KEY: u64 = 7;

/// Acquires, or releases what was acquired.
fn reserve(opcode: IoOpcode) -> SubmissionEntry {
    let transfer = SglDescriptor::transport(16);
    let entry = SubmissionEntry::new(opcode.0, 1, transfer);
    let mut command = *Reservation::of(&entry);
    // Of either the action that this asks for is the one with that number.
    command.action = action::ACQUIRE;
    command.kind = ReservationType::WriteExclusive.number();
    *command.entry()
}

fn keys(current: u64, other: u64) -> Vec<u8> {
    let keys = Keys {
        current: current.into(),
        other: other.into(),
    };
    keys.as_bytes().to_vec()
}

fn report() -> SubmissionEntry {
    let transfer = SglDescriptor::transport(REPORT_BYTES as u32);
    let entry = SubmissionEntry::new(IoOpcode::RESERVATION_REPORT.0, 1, transfer);
    let mut command = *Reservation::of(&entry);
    command.action = (REPORT_BYTES / 4 - 1) as u8;
    command.report = EXTENDED.into();
    *command.entry()
}

/// Sends every kind of command, every millisecond, on a controller that is kept while it is there.
async fn works(met: Arc<Met>, address: SocketAddr, volume: Polled) {
    while met.goes_on() {
        let options = ConnectOptions::new(HOST);
        let Ok(controller) = Controller::connect(address, &volume.nqn, options).await else {
            sleep(Duration::from_millis(1)).await;
            continue;
        };
        while met.goes_on() {
            let Ok(queue) = controller.queue(0) else {
                break;
            };
            let mut is_lost = false;
            for command in commands(volume.alone) {
                let data = match &command.data {
                    Moves::Nothing => Data::None,
                    Moves::Out(bytes) => Data::Out(Buffer::copy_of(bytes)),
                    Moves::In(bytes) => Data::In(Buffer::zeroed(*bytes)),
                };
                let status = match command.to {
                    Queue::Admin => {
                        let done = controller.admin(command.entry, data).await.1;
                        done.ok().map(|completion| completion.status())
                    }
                    Queue::Io => {
                        let done = queue.submit(command.entry, data).await.1;
                        done.ok().map(|completion| completion.status())
                    }
                };
                match status {
                    Some(status) if command.of_registrants => {
                        met.status_of_registrant(command.what, status);
                    }
                    Some(status) => met.status(command.what, status),
                    None => is_lost = true,
                }
            }
            if is_lost {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}
