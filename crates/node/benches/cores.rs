//! `cargo bench -p node --bench cores`: what a second core is worth to a pool, and a fourth.
//!
//! A raid6 pool of six drives in memory, served over loopback by a node on one core, on two, on
//! four and so on, up to all that there are. Hosts run on the same cores as the node, in the same
//! event loops, so that a core that is busy is busy with both, and nothing else runs on it. Beside
//! them as many nodes as cores, with a pool and a core each, which share nothing but the hosts,
//! whose connections lead to all cores either way: what this machine gives to so many cores at
//! most. `SECONDS` and `ROUNDS` change the defaults of 2 and 3; `CORES` how many cores at most;
//! `ONLY` and `ARRANGEMENT` name the beginning of the one load and arrangement to run, for a
//! profiler. Writes `cores.json` to `BENCH_FOLDER` or `target/bench`.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench::{median, setting};
use initiator::{ConnectOptions, Controller};
use lab::load::{Job, Pattern, Progress, Stop, Workload};
use node::{
    AllowedHosts, Backing, DriveSpec, Level, Node, NodeSpec, PathState, PoolSpec, PortSpec,
    VolumeOptions, VolumeSpec,
};
use reactor::ReactorConfig;
use reactor::cores::{CoreHandle, Cores, CoresConfig};
use serde_json::json;
use uuid::Uuid;

const SUBSYSTEM: &str = "nqn.2026-11.example.flashyard:bench:cores";
const HOST: &str = "nqn.2026-11.example.flashyard:bench";
const DRIVES: usize = 6;
/// For each core of a node, so that a log has as many segments to spare on many cores as on one.
const DRIVE_BYTES: u64 = 512 << 20;
/// For each core of a node, too.
const VOLUME_BYTES: u64 = 512 << 20;
/// The connections of a host, which the kernel deals to the cores of a node.
const QUEUES: u32 = 8;

/// Name, pattern, bytes of a request, requests outstanding of each host.
type Load = (&'static str, Pattern, u32, u32);

const LOADS: [Load; 4] = [
    ("randread 4 KiB", Pattern::RandRead, 4096, 128),
    ("randwrite 4 KiB", Pattern::RandWrite, 4096, 128),
    ("read 128 KiB", Pattern::Read, 131_072, 32),
    ("write 128 KiB", Pattern::Write, 131_072, 32),
];

/// How nodes share processors: what the reports call it, and the processors of each node.
struct Arrangement {
    name: String,
    cores: usize,
    nodes: Vec<Vec<usize>>,
}

/// One node on 1, 2, 4 and so on up to `most` cores, and as many nodes as those.
fn arrangements(most: usize) -> Vec<Arrangement> {
    let smaller = (0..).map(|power| 1 << power).take_while(|n| *n < most);
    let one_node = |cores: usize| Arrangement {
        name: format!("1 node, {cores} of {most} cores"),
        cores,
        nodes: vec![(0..cores).collect()],
    };
    let mut all: Vec<Arrangement> = smaller.chain([most]).map(one_node).collect();
    all.push(Arrangement {
        name: format!("{most} nodes, a core each"),
        cores: most,
        nodes: (0..most).map(|core| vec![core]).collect(),
    });
    all
}

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let rounds = setting("ROUNDS", 3);
    let chosen = std::env::var("ARRANGEMENT").unwrap_or_default();
    let processors = std::thread::available_parallelism().unwrap().get();
    let arrangements = arrangements(setting("CORES", processors as u64) as usize);
    let mut samples = vec![vec![Vec::new(); arrangements.len()]; LOADS.len()];
    for _ in 0..rounds {
        for (nth, arrangement) in arrangements.iter().enumerate() {
            if !arrangement.name.starts_with(&chosen) {
                continue;
            }
            for (load, rate) in samples.iter_mut().zip(measure(&arrangement.nodes)) {
                load[nth].extend(rate);
            }
        }
    }
    println!("| load | arrangement | IOPS | of one core | of as many nodes |");
    println!("|---|---|---|---|---|");
    let mut rows = Vec::new();
    for ((load, _, bytes, depth), rates) in LOADS.iter().zip(&samples) {
        for (arrangement, own) in arrangements.iter().zip(rates) {
            if own.is_empty() {
                continue;
            }
            let as_many = arrangements
                .iter()
                .position(|other| other.nodes.len() == arrangement.cores);
            let one = ratio(own, &rates[0]);
            let most = as_many.map(|nodes| ratio(own, &rates[nodes]));
            let (name, iops) = (&arrangement.name, median(own.clone()));
            let shown = most.map_or("-".to_owned(), |most| format!("{most:.2}"));
            println!("| {load} | {name} | {iops:.0} | {one:.2} | {shown} |");
            rows.push(json!({
                "load": load, "bytes": bytes, "depth": depth, "arrangement": name,
                "cores": arrangement.cores, "nodes": arrangement.nodes.len(), "iops": iops,
                "rounds": own, "of_one_core": one, "of_as_many_nodes": most,
            }));
        }
    }
    bench::save("cores", &["bytes", "depth", "cores", "nodes"], &json!(rows));
}

/// The median of the rounds' own ratios.
fn ratio(own: &[f64], other: &[f64]) -> f64 {
    median(own.iter().zip(other).map(|(own, other)| own / other))
}

/// A node under test, and its event loops, which its hosts share.
struct Served {
    node: Node,
    cores: Vec<CoreHandle>,
}

/// Rates of the loads, one after the other, of all nodes together; `None` for those left out.
fn measure(nodes: &[Vec<usize>]) -> Vec<Option<f64>> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let seconds = setting("SECONDS", 2);
    // Who commands the nodes is none of them, and asleep while they are measured.
    let commands = Cores::start(CoresConfig::unpinned(1)).unwrap();
    let served: Vec<Served> = nodes.iter().map(|cpus| serve(&commands, cpus)).collect();
    let rates = LOADS.map(|(name, pattern, transfer_bytes, depth)| {
        let workload = Workload {
            pattern,
            transfer_bytes,
            depth,
            runtime: Some(Duration::from_secs(seconds)),
            random_map: false,
            ..Workload::default()
        };
        name.starts_with(&only).then(|| rate(&served, &workload))
    });
    for Served { node, .. } in served {
        let stopped = commands.handles()[0].submit(move || async move {
            node.shutdown(Duration::from_secs(1)).await.unwrap();
        });
        stopped.wait().unwrap();
    }
    commands.stop();
    rates.to_vec()
}

/// A node on these processors and its pool, a quarter full and written over until its log has been
/// everywhere: memory that was never written would be made while it is measured.
fn serve(commands: &Cores, cpus: &[usize]) -> Served {
    let config = CoresConfig {
        cpus: cpus.iter().copied().map(Some).collect(),
        name: "bench".to_owned(),
        reactor: ReactorConfig::default(),
    };
    let event_loops = Cores::start(config).unwrap();
    let cores = event_loops.handles().to_vec();
    let scale = cpus.len() as u64;
    let node = commands.handles()[0].submit(move || start(event_loops, scale));
    let node = node.wait().unwrap();
    let served = [Served { node, cores }];
    let written = |pattern, bytes: u64| Workload {
        pattern,
        transfer_bytes: 131_072,
        depth: 32,
        number_ios: Some(bytes / 131_072 / u64::from(QUEUES)),
        random_map: false,
        ..Workload::default()
    };
    rate(&served, &written(Pattern::Write, VOLUME_BYTES));
    rate(
        &served,
        &written(Pattern::RandWrite, DRIVES as u64 * DRIVE_BYTES),
    );
    let [served] = served;
    served
}

/// A node that serves the one volume of a pool, `scale` times the size of one core's.
async fn start(cores: Cores, scale: u64) -> Node {
    let port = PortSpec {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: None,
        path: PathState::Optimized,
        tls: false,
        transport: node::Transport::Tcp,
    };
    let spec = NodeSpec {
        uuid: Uuid::from_u128(1),
        cores: Vec::new(),
        ports: vec![port],
        map_cache_bytes: node::MAP_CACHE_BYTES,
        controller_ids: node::ControllerIds::ALL,
    };
    let node = Node::start_on(cores, &spec, Arc::new(|_| {}));
    let node = node.await.unwrap();
    node.listen().await.unwrap();
    let drives: Vec<String> = (0..DRIVES).map(|drive| format!("d{drive}")).collect();
    for drive in &drives {
        let memory = DriveSpec::Memory {
            bytes: DRIVE_BYTES * scale,
        };
        node.open_drive(drive, memory).await.unwrap();
    }
    let pool = PoolSpec {
        taking: node::Taking::Blank,
        level: Level::Raid6,
        width: None,
        drives,
    };
    node.create_pool("p", pool).await.unwrap();
    let options = VolumeOptions {
        bytes: VOLUME_BYTES * scale,
        ..VolumeOptions::default()
    };
    let volume = node.create_pool_volume("p", "v", options).await.unwrap();
    let spec = VolumeSpec {
        name: "v".into(),
        backing: Backing::Pool {
            pool: "p".into(),
            volume,
        },
        block_bytes: 4096,
        subsystem: SUBSYSTEM.parse().unwrap(),
        nsid: 1,
        uuid: Uuid::from_u128(2),
        group: node::AnaGroupId::POOLLESS,
        allowed: AllowedHosts::Any,
        tenant: None,
        rules: Some(Default::default()),
    };
    node.create_volume(spec).await.unwrap();
    node
}

/// Requests a second of a host on every core, each with its depth spread over its connections, and
/// these over the nodes.
fn rate(served: &[Served], workload: &Workload) -> f64 {
    let hosts: Vec<&CoreHandle> = served.iter().flat_map(|each| &each.cores).collect();
    let queues = QUEUES * hosts.len() as u32;
    let part_bytes = VOLUME_BYTES / u64::from(QUEUES);
    let mut jobs = Vec::new();
    for number in 0..queues {
        let host = number / QUEUES;
        // Of each host's connections, as many lead to each node as there can.
        let node = &served[number as usize % served.len()].node;
        let address = node.addresses()[0];
        let workload = Workload {
            depth: workload.depth / QUEUES,
            size_bytes: Some(part_bytes),
            offset_bytes: part_bytes * u64::from(number / served.len() as u32),
            ..workload.clone()
        };
        let host = hosts[host as usize];
        jobs.push(host.submit(move || queue(address, workload, number)));
    }
    jobs.into_iter().map(|job| job.wait().unwrap()).sum()
}

/// Requests a second of one connection.
async fn queue(address: SocketAddr, workload: Workload, number: u32) -> f64 {
    let controller = connect(address).await;
    let job = Job {
        device: Rc::new(controller.namespace(1).await.unwrap()),
        workload,
        number,
        journal: None,
        progress: Arc::new(Progress::default()),
        stop: Stop::default(),
    };
    let report = job.run().await.unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    controller.disconnect().await;
    let requests = report.statistics.reads.ios + report.statistics.writes.ios;
    requests as f64 / report.elapsed.as_secs_f64()
}

async fn connect(address: SocketAddr) -> Controller {
    let mut options = ConnectOptions::new(HOST);
    options.io_queues = 1;
    let controller = Controller::connect(address, SUBSYSTEM, options);
    controller.await.unwrap()
}
