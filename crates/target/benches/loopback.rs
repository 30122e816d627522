//! One core serves, another loads it over loopback: the figures of the target by itself.
//!
//! `cargo bench -p target --bench loopback [-- SECONDS [CASE-PREFIX]]`

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to say"
)]

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use block::Geometry;
use drive::{Drive, MemoryDrive, NullDrive};
use initiator::{ConnectOptions, TargetAddress};
use lab::load::{Pattern, PerfOptions, Stop, Workload, run};
use reactor::ReactorConfig;
use reactor::cores::{Cores, CoresConfig};
use target::{
    Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target, TargetSettings,
};

const SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:bench";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

const NULL: u32 = 1;
const MEMORY: u32 = 2;

/// Name, namespace, pattern, bytes of a transfer, depth.
const CASES: [(&str, u32, Pattern, u32, u32); 9] = [
    ("null-randread-4k-qd1", NULL, Pattern::RandRead, 4096, 1),
    ("null-randread-4k-qd32", NULL, Pattern::RandRead, 4096, 32),
    ("null-randread-4k-qd128", NULL, Pattern::RandRead, 4096, 128),
    (
        "null-randwrite-4k-qd128",
        NULL,
        Pattern::RandWrite,
        4096,
        128,
    ),
    ("null-read-128k-qd32", NULL, Pattern::Read, 128 << 10, 32),
    ("null-write-128k-qd32", NULL, Pattern::Write, 128 << 10, 32),
    (
        "memory-randread-4k-qd128",
        MEMORY,
        Pattern::RandRead,
        4096,
        128,
    ),
    (
        "memory-randwrite-4k-qd128",
        MEMORY,
        Pattern::RandWrite,
        4096,
        128,
    ),
    (
        "memory-write-128k-qd32",
        MEMORY,
        Pattern::Write,
        128 << 10,
        32,
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|word| word != "--bench").collect();
    let seconds = arguments
        .get(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(3.0);
    let prefix = arguments.get(2).cloned().unwrap_or_default();
    let cores = Cores::start(CoresConfig {
        cpus: vec![Some(0)],
        name: "target".to_owned(),
        reactor: ReactorConfig::default(),
    })
    .unwrap();
    let address = cores.handles()[0].submit(serve).wait().unwrap();
    println!(
        "{:<28}{:>12}{:>10}{:>10}{:>10}",
        "case", "IOPS", "MB/s", "mean us", "p99 us"
    );
    for (name, nsid, pattern, bytes, depth) in CASES {
        if name.starts_with(&prefix) {
            measure(name, address, nsid, pattern, bytes, depth, seconds);
        }
    }
}

async fn serve() -> SocketAddr {
    let target = Target::start(TargetSettings::default(), Links::connect(1).pop().unwrap());
    let nqn: access::Nqn = SUBSYSTEM.parse().unwrap();
    let subsystem = SubsystemSettings {
        nqn: nqn.clone(),
        serial: "BENCH".into(),
        model: "Flashyard".into(),
        allowed: AllowedHosts::Any,
        ports: PortSet::All,
    };
    target.add_subsystem(subsystem).unwrap();
    let geometry = Geometry::new(4096, (1 << 30) / 4096).unwrap();
    let drives = [
        (NULL, Drive::from(NullDrive::new(geometry))),
        (MEMORY, Drive::from(MemoryDrive::new(geometry))),
    ];
    for (nsid, drive) in drives {
        let settings = NamespaceSettings {
            nsid,
            nguid: [nsid as u8; 16],
            uuid: [nsid as u8; 16],
            eui64: None,
        };
        target
            .add_namespace(&nqn, settings, Rc::new(drive))
            .unwrap();
    }
    let port = PortSettings {
        id: 1,
        listen: "127.0.0.1:0".parse().unwrap(),
        advertise: None,
        reuse_port: false,
    };
    let address = target.add_port(port).unwrap();
    std::mem::forget(target);
    address
}

fn measure(
    name: &str,
    address: SocketAddr,
    nsid: u32,
    pattern: Pattern,
    transfer_bytes: u32,
    depth: u32,
    seconds: f64,
) {
    let options = PerfOptions {
        target: TargetAddress {
            address,
            subsystem_nqn: SUBSYSTEM.to_owned(),
            namespace_id: Some(nsid),
        },
        connect: ConnectOptions::new(HOST),
        workload: Workload {
            pattern,
            transfer_bytes,
            depth,
            runtime: Some(Duration::from_secs_f64(seconds)),
            ramp_time: Duration::from_millis(300),
            ..Workload::default()
        },
        cores: vec![1],
        journal: None,
    };
    let report = run(&options, &Stop::default(), |_| {}).unwrap();
    let Some(side) = report.read.as_ref().or(report.write.as_ref()) else {
        return println!("{name:<28} nothing ran: {:?}", report.errors);
    };
    println!(
        "{name:<28}{:>12.0}{:>10.0}{:>10.1}{:>10.1}",
        side.iops,
        side.bytes_per_second / 1e6,
        side.latency.mean_us,
        side.latency.p99_us,
    );
}
