//! `cargo bench -p node --bench counting`: what counting costs a served command.
//!
//! A target on CPU 0 serves two null drives over loopback to a host on CPU 1, which writes and
//! reads 4 KiB, 128 outstanding: the fastest there is, so that counting is the largest part of it
//! that it can be. Behind one of the drives a layer counts each command a further twenty times, as
//! the node does for a volume and a drive, each time for another volume and drive. A twentieth of
//! what that takes is the cost of counting once. `ROUNDS` and `SECONDS` change the defaults of 7
//! and 2.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use bench::{median, setting};
use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use drive::NullDrive;
use initiator::{ConnectOptions, Controller};
use node::DriveTally;
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Tally, Target,
    TargetSettings,
};
use reactor::cores::{Cores, CoresConfig};
use serde_json::json;

const SUBSYSTEM: &str = "nqn.2026-11.example.flashyard:bench:counting";
const HOST: &str = "nqn.2026-11.example.flashyard:bench";
const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 1 << 20;
const DEPTH: u16 = 128;

/// How often the layer counts.
const TIMES: usize = 20;

/// A null drive behind a layer that counts.
struct Counted {
    drive: NullDrive,
    tallies: Vec<(Tally, DriveTally)>,
}

impl Counted {
    fn new(times: usize) -> Counted {
        let geometry = Geometry::new(BLOCK_BYTES as u32, BLOCKS).unwrap();
        Counted {
            drive: NullDrive::new(geometry),
            tallies: (0..times).map(|_| Default::default()).collect(),
        }
    }
}

impl BlockDevice for Counted {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    async fn read(&self, start: Lba, buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let (buffer, result) = self.drive.read(start, buffer).await;
        for (volume, drive) in &self.tallies {
            let arrived = reactor::turn_started();
            drive.count_read(buffer.len());
            volume.count_read(arrived, buffer.len() as u64);
        }
        (buffer, result)
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let (buffer, result) = self.drive.write(start, buffer, durability).await;
        for (volume, drive) in &self.tallies {
            let arrived = reactor::turn_started();
            drive.count_write(buffer.len());
            volume.count_write(arrived, buffer.len() as u64);
        }
        (buffer, result)
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        write_joined(self, start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.drive.flush().await
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        self.drive.deallocate(range).await
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        self.drive.write_zeroes(range, durability).await
    }
}

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let (rounds, seconds) = (setting("ROUNDS", 7), setting("SECONDS", 2));
    let cores = Cores::start(CoresConfig::pinned(2)).unwrap();
    let links = Links::connect(1).pop().unwrap();
    let address = cores.handles()[0].submit(move || serve(links));
    let address = address.wait().unwrap();
    println!("| 4 KiB, QD 128 | IOPS | ns a command | of them counting | share |");
    println!("|---|---|---|---|---|");
    let mut rows = Vec::new();
    for writes in [true, false] {
        let (mut plain, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let run = |nsid| {
                let load = cores.handles()[1].submit(move || load(address, nsid, writes, seconds));
                load.wait().unwrap()
            };
            let (once, often) = (run(1), run(2));
            plain.push(once);
            costs.push((1e9 / often - 1e9 / once) / TIMES as f64);
        }
        let (iops, cost) = (median(plain), median(costs));
        let kind = if writes { "write" } else { "read" };
        let share = cost * iops / 1e7;
        println!(
            "| {kind} | {iops:.0} | {:.0} | {cost:.1} | {share:.2}% |",
            1e9 / iops
        );
        rows.push(json!({ "load": kind, "iops": iops, "ns": cost, "percent": share }));
    }
    bench::save("counting", &[], &json!(rows));
}

/// Serves a drive behind a layer that counts nothing as namespace 1, and one behind a layer that
/// counts as namespace 2.
async fn serve(links: Links) -> SocketAddr {
    let target = Target::start(TargetSettings::default(), links);
    let nqn: access::Nqn = SUBSYSTEM.parse().unwrap();
    let subsystem = SubsystemSettings {
        nqn: nqn.clone(),
        serial: "COUNTING".into(),
        model: "Flashyard".into(),
        allowed: AllowedHosts::Any,
        ports: PortSet::All,
        tenant: None,
    };
    target.add_subsystem(subsystem).unwrap();
    for (nsid, times) in [(1, 0), (2, TIMES)] {
        let settings = NamespaceSettings {
            nsid,
            nguid: [nsid as u8; 16],
            uuid: [nsid as u8; 16],
            eui64: None,
            group: AnaGroupId::POOLLESS,
        };
        let device = Rc::new(Counted::new(times));
        target.add_namespace(&nqn, settings, device).unwrap();
    }
    let port = PortSettings {
        id: 1,
        listen: "127.0.0.1:0".parse().unwrap(),
        advertise: None,
        reuse_port: false,
        tls: false,
        transport: nvme_target::Transport::Tcp,
    };
    let address = target.add_port(port).unwrap();
    // Lives as long as its core.
    std::mem::forget(target);
    address
}

/// Commands a second on a namespace, as many outstanding as the queue holds.
async fn load(address: SocketAddr, nsid: u32, writes: bool, seconds: u64) -> f64 {
    let mut options = ConnectOptions::new(HOST);
    options.io_queues = 1;
    options.queue_depth = DEPTH;
    let controller = Controller::connect(address, SUBSYSTEM, options);
    let controller = controller.await.unwrap();
    let namespace = Rc::new(controller.namespace(nsid).await.unwrap());
    let done = Rc::new(Cell::new(0u64));
    let began = reactor::now();
    let until = began + Duration::from_secs(seconds);
    let tasks: Vec<_> = (0..DEPTH)
        .map(|task| {
            let (namespace, done) = (Rc::clone(&namespace), Rc::clone(&done));
            reactor::spawn(async move {
                let mut buffer = Buffer::new(BLOCK_BYTES);
                let mut block = u64::from(task);
                while reactor::turn_started() < until {
                    block = (block + 7919) % BLOCKS;
                    let (back, result) = match writes {
                        true => {
                            namespace
                                .write(Lba(block), buffer, Durability::Cached)
                                .await
                        }
                        false => namespace.read(Lba(block), buffer).await,
                    };
                    result.unwrap();
                    buffer = back;
                    done.set(done.get() + 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
    let took = reactor::now() - began;
    controller.disconnect().await;
    done.get() as f64 / took.as_secs_f64()
}
