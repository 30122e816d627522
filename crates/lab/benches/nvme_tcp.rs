//! One core serves, one core loads, over loopback: the table of `docs/performance.md`.
//!
//! `cargo bench -p lab --bench nvme_tcp [-- FILTER] [--seconds N] [--runs N] [--file PATH]`;
//! FILTER is part of a row's name. Medians of the runs; JSON in target/bench/nvme_tcp.json.
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark ends when its scenery cannot be built"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use access::AllowedHosts;
use block::Geometry;
use drive::{Drive, FileDrive, FileOptions, MemoryDrive, NullDrive};
use initiator::{ConnectOptions, TargetAddress};
use lab::load::{Pattern, PerfOptions, Report, Stop, Workload};
use reactor::ReactorConfig;
use reactor::cores::{Cores, CoresConfig};
use target::{
    Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target, TargetSettings,
};

const SUBSYSTEM: &str = "nqn.2026-11.example.flashyard:bench";
const HOST: &str = "nqn.2026-11.example.flashyard:bench-host";
const FILE_BYTES: u64 = 2 << 30;

/// One row of the table.
struct Row {
    device: &'static str,
    nsid: u32,
    pattern: Pattern,
    transfer_bytes: u32,
    depth: u32,
    /// SPDK 24.09 on two Xeon vCPUs: IOPS, for rows that have a reference.
    reference: Option<f64>,
}

const fn row(
    device: &'static str,
    nsid: u32,
    pattern: Pattern,
    transfer_bytes: u32,
    depth: u32,
    reference: Option<f64>,
) -> Row {
    Row {
        device,
        nsid,
        pattern,
        transfer_bytes,
        depth,
        reference,
    }
}

const K4: u32 = 4 << 10;
const K128: u32 = 128 << 10;
const ROWS: [Row; 11] = [
    row("null", 1, Pattern::RandRead, K4, 1, Some(108e3)),
    row("null", 1, Pattern::RandRead, K4, 32, Some(811e3)),
    row("null", 1, Pattern::RandRead, K4, 128, Some(938e3)),
    row("null", 1, Pattern::RandWrite, K4, 128, Some(1010e3)),
    row(
        "null",
        1,
        Pattern::RandRead,
        K128,
        32,
        Some(6.6e9 / 131_072.0),
    ),
    row(
        "null",
        1,
        Pattern::RandWrite,
        K128,
        32,
        Some(5.7e9 / 131_072.0),
    ),
    row("memory", 2, Pattern::RandRead, K4, 128, Some(738e3)),
    row("memory", 2, Pattern::RandWrite, K4, 128, Some(600e3)),
    row("file", 3, Pattern::RandRead, K4, 1, Some(19e3)),
    row("file", 3, Pattern::RandRead, K4, 128, Some(137e3)),
    row("file", 3, Pattern::RandWrite, K4, 128, Some(188e3)),
];

impl Row {
    fn name(&self) -> String {
        let size = self.transfer_bytes >> 10;
        format!("{} {} {size}k QD{}", self.device, self.pattern, self.depth)
    }
}

struct Arguments {
    filter: String,
    seconds: u64,
    runs: usize,
    file: PathBuf,
}

fn arguments() -> Arguments {
    let mut found = Arguments {
        filter: String::new(),
        seconds: 3,
        runs: 3,
        file: PathBuf::from("/var/tmp/flashyard-bench.img"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option needs a value");
        match word.as_str() {
            "--seconds" => found.seconds = value().parse().unwrap(),
            "--runs" => found.runs = value().parse().unwrap(),
            "--file" => found.file = value().into(),
            "--bench" => {}
            filter => found.filter = filter.to_owned(),
        }
    }
    found
}

fn main() {
    let arguments = arguments();
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| row.name().contains(&arguments.filter))
        .collect();
    let with_file = rows.iter().any(|row| row.device == "file");
    let server = serve(with_file.then(|| arguments.file.clone()));
    println!(
        "{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "IOPS", "MB/s", "mean us", "p99 us", "ref"
    );
    let mut results = Vec::new();
    for row in rows {
        let mut reports: Vec<Report> = (0..arguments.runs)
            .map(|_| measure(row, server.address, arguments.seconds))
            .collect();
        reports.sort_by(|one, other| iops(one).total_cmp(&iops(other)));
        let median = reports.swap_remove(reports.len() / 2);
        show(row, &median);
        results.push(serde_json::json!({ "row": row.name(), "report": median }));
    }
    save(&results);
    if with_file {
        std::fs::remove_file(&arguments.file).unwrap();
    }
}

fn iops(report: &Report) -> f64 {
    [&report.read, &report.write]
        .into_iter()
        .flatten()
        .map(|found| found.iops)
        .sum()
}

fn show(row: &Row, report: &Report) {
    let found = report
        .read
        .as_ref()
        .or(report.write.as_ref())
        .expect("something was done");
    println!(
        "{:<28}{:>10.0}{:>10.0}{:>10.1}{:>10.1}{:>9.0}%",
        row.name(),
        found.iops,
        found.bytes_per_second / 1e6,
        found.latency.mean_us,
        found.latency.p99_us,
        row.reference
            .map_or(0.0, |reference| 100.0 * found.iops / reference),
    );
}

fn save(results: &[serde_json::Value]) {
    let directory = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let directory = directory.join("bench");
    std::fs::create_dir_all(&directory).unwrap();
    let json = serde_json::to_string_pretty(results).unwrap();
    std::fs::write(directory.join("nvme_tcp.json"), json).unwrap();
}

fn measure(row: &Row, address: SocketAddr, seconds: u64) -> Report {
    let options = PerfOptions {
        target: TargetAddress {
            address,
            subsystem_nqn: SUBSYSTEM.to_owned(),
            namespace_id: Some(row.nsid),
        },
        connect: ConnectOptions::new(HOST),
        workload: Workload {
            pattern: row.pattern,
            transfer_bytes: row.transfer_bytes,
            depth: row.depth,
            runtime: Some(Duration::from_secs(seconds)),
            ramp_time: Duration::from_millis(500),
            ..Workload::default()
        },
        cores: vec![1],
        journal: None,
    };
    let report = lab::load::run(&options, &Stop::default(), |_| ()).expect("the target answers");
    assert!(report.is_clean(), "{report}");
    report
}

/// Keeps the serving core alive.
struct Server {
    address: SocketAddr,
    _cores: Cores,
}

fn serve(file: Option<PathBuf>) -> Server {
    let cores = Cores::start(CoresConfig {
        cpus: vec![Some(0)],
        name: "target".to_owned(),
        reactor: ReactorConfig::default(),
    })
    .unwrap();
    let started = cores.handles()[0].submit(move || async move {
        let links = Links::connect(1).pop().unwrap();
        let target: Target<Drive> = Target::start(TargetSettings::default(), links);
        let address = target.add_port(PortSettings {
            id: 1,
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            reuse_port: false,
        });
        let nqn: access::Nqn = SUBSYSTEM.parse().unwrap();
        target
            .add_subsystem(SubsystemSettings {
                nqn: nqn.clone(),
                serial: "BENCH".to_owned(),
                model: "Flashyard".to_owned(),
                allowed: AllowedHosts::Any,
                ports: PortSet::All,
            })
            .unwrap();
        for (nsid, drive) in (1..).zip(drives(file).await) {
            let nguid = [nsid as u8; 16];
            let identity = NamespaceSettings {
                nsid,
                nguid,
                uuid: nguid,
                eui64: None,
            };
            target
                .add_namespace(&nqn, identity, Rc::new(drive))
                .unwrap();
        }
        // The target lives as long as a handle to it does.
        drop(reactor::spawn(async move {
            let _target = target;
            std::future::pending::<()>().await;
        }));
        address.unwrap()
    });
    Server {
        address: started.wait().unwrap(),
        _cores: cores,
    }
}

async fn drives(file: Option<PathBuf>) -> Vec<Drive> {
    let geometry = Geometry::new(4096, 1 << 24).unwrap();
    let small = Geometry::new(4096, 1 << 16).unwrap();
    let mut drives: Vec<Drive> = vec![
        NullDrive::new(geometry).into(),
        MemoryDrive::new(small).into(),
    ];
    if let Some(path) = file {
        // Written whole, so that no read meets a hole.
        let block = vec![0x5a; 1 << 20];
        let mut written = std::fs::File::create(&path).unwrap();
        for _ in 0..FILE_BYTES >> 20 {
            std::io::Write::write_all(&mut written, &block).unwrap();
        }
        written.sync_all().unwrap();
        drives.push(
            FileDrive::open(&path, &FileOptions::default())
                .await
                .unwrap()
                .into(),
        );
    }
    drives
}
