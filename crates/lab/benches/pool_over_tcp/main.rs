//! What is left of a drive's speed behind a pool: 4 KiB and 128 KiB through NVMe/TCP on loopback,
//! a raid6 pool over drives in memory beside one such drive, both exported by one target on one
//! core, the load on another. What is read in sequence was written so first, and then over at
//! random (scattered). Prints a table, and writes `target/bench/pool_over_tcp.json`.
//! `SECONDS` and `ROUNDS` change the defaults of 2 and 3; `ONLY` and `DEVICE` name the beginning of
//! the one load (`randwrite 4`) and of the devices (`memory;pool, fresh`) to run, for a profiler.

mod made;

use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use bench::{median, setting};
use block::BlockDevice;
use initiator::ConnectOptions;
use lab::load::{Pattern, PerfOptions, Stop, Workload, run};
use made::{DEVICES, Device};
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target,
    TargetSettings,
};
use reactor::cores::{Cores, CoresConfig, Submitted};
use serde_json::json;

const SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:bench";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// Name, pattern, bytes of a request, requests outstanding.
type Load = (&'static str, Pattern, u32, u32);

const LOADS: [Load; 5] = [
    ("randread 4 KiB", Pattern::RandRead, 4096, 128),
    ("read 128 KiB", Pattern::Read, 131_072, 32),
    ("randwrite 4 KiB", Pattern::RandWrite, 4096, 128),
    ("scattered read 128 KiB", Pattern::Read, 131_072, 32),
    ("write 128 KiB", Pattern::Write, 131_072, 32),
];

/// A pool sees to what it has left for when hosts are quiet.
const SILENCE: Duration = Duration::from_secs(4);

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let seconds = setting("SECONDS", 2);
    let rounds = setting("ROUNDS", 3);
    let wanted = std::env::var("DEVICE").unwrap_or_default();
    let is_wanted = |name: &str| wanted.split(';').any(|start| name.starts_with(start));
    let mut groups: Vec<Vec<usize>> = (1..DEVICES.len())
        .map(|pool| {
            let beside = [0, pool].into_iter();
            beside.filter(|nth| is_wanted(DEVICES[*nth].1)).collect()
        })
        .collect();
    groups.dedup();
    let mut samples = vec![vec![Samples::default(); DEVICES.len()]; LOADS.len()];
    for _ in 0..rounds {
        for group in &groups {
            measure(group, seconds, &mut samples);
        }
    }
    println!("| load | device | IOPS | MB/s | of the drive |\n|---|---|---|---|---|");
    let mut results = Vec::new();
    for ((load, _, bytes, depth), devices) in LOADS.iter().zip(&samples) {
        for ((_, name), own) in DEVICES.iter().zip(devices) {
            if own.iops.is_empty() {
                continue;
            }
            let share = 100.0 * median(own.of_drive.clone());
            let iops = median(own.iops.clone());
            let megabytes = iops * f64::from(*bytes) / 1e6;
            println!("| {load} QD {depth} | {name} | {iops:.0} | {megabytes:.0} | {share:.0}% |");
            results.push(json!({
                "load": load, "bytes": bytes, "depth": depth, "device": name,
                "iops": iops, "percent_of_drive": share,
            }));
        }
    }
    bench::save("pool_over_tcp", &["bytes", "depth"], &json!(results));
}

/// What was measured of a load on a device.
#[derive(Clone, Default)]
struct Samples {
    iops: Vec<f64>,
    /// Each in terms of the drive's just before.
    of_drive: Vec<f64>,
}

/// Runs the loads, one after the other, each on these devices in turn: a machine whose speed
/// changes with what its neighbours do is the same for both of a pair, as nearly as can be. Nobody
/// has used the devices before.
fn measure(group: &[usize], seconds: u64, samples: &mut [Vec<Samples>]) {
    let only = std::env::var("ONLY").unwrap_or_default();
    let served: Vec<Served> = group
        .iter()
        .map(|nth| Served::start(DEVICES[*nth].0))
        .collect();
    std::thread::sleep(SILENCE);
    for (load, samples) in LOADS.iter().zip(samples) {
        if !load.0.starts_with(&only) {
            continue;
        }
        let mut of_drive = None;
        for (nth, served) in group.iter().zip(&served) {
            let iops = rate(served.address, *load, seconds);
            let drive = match DEVICES[*nth].0 {
                Device::Drive => *of_drive.insert(iops),
                _ => of_drive.unwrap_or(f64::NAN),
            };
            samples[*nth].iops.push(iops);
            samples[*nth].of_drive.push(iops / drive);
        }
    }
    for one in served {
        one.end();
    }
}

/// A device that is served, by the same processor as the others: they rest meanwhile.
struct Served {
    address: std::net::SocketAddr,
    stop: Sender<()>,
    served: Submitted<()>,
    core: Cores,
}

impl Served {
    fn start(device: Device) -> Served {
        let (sender, receiver) = channel();
        let (stop, stopped) = channel::<()>();
        let core = Cores::start(CoresConfig::pinned(1)).expect("a core");
        let served = core.handles()[0].submit(move || async move {
            let (target, address) = serve(device).await;
            sender.send(address).expect("somebody waits");
            wait_for(&stopped).await;
            target.shutdown(Duration::from_secs(1)).await;
        });
        Served {
            address: receiver.recv().expect("a target that serves"),
            stop,
            served,
            core,
        }
    }

    fn end(self) {
        self.stop.send(()).expect("the target still serves");
        self.served.wait().expect("the target's core");
        self.core.stop();
    }
}

fn rate(address: std::net::SocketAddr, (_, pattern, bytes, depth): Load, seconds: u64) -> f64 {
    let options = PerfOptions {
        target: format!("tcp://{address}/{SUBSYSTEM}?nsid=1")
            .parse()
            .expect("an address"),
        connect: ConnectOptions::new(HOST),
        workload: Workload {
            pattern,
            transfer_bytes: bytes,
            depth,
            runtime: Some(Duration::from_secs(seconds)),
            random_map: false,
            ..Workload::default()
        },
        cores: vec![1],
        journal: None,
    };
    let report = run(&options, &Stop::default(), |_| ()).expect("the load runs");
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let rates = [report.read, report.write];
    rates.iter().flatten().map(|rate| rate.iops).sum()
}

async fn wait_for(stopped: &Receiver<()>) {
    while stopped.try_recv().is_err() {
        reactor::sleep(Duration::from_millis(20)).await;
    }
}

async fn serve(device: Device) -> (Rc<dyn Serving>, std::net::SocketAddr) {
    if device == Device::Drive {
        return export(made::drive().await);
    }
    let (_, volume) = made::pool(device).await;
    export(volume)
}

/// What can be told to stop, whatever it exports.
trait Serving {
    fn shutdown(&self, grace: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl<D: BlockDevice + 'static> Serving for Target<D> {
    fn shutdown(&self, grace: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            Target::shutdown(self, grace).await;
        })
    }
}

fn export<D: BlockDevice + 'static>(device: Rc<D>) -> (Rc<dyn Serving>, std::net::SocketAddr) {
    let links = Links::connect(1).pop().expect("one core's links");
    let target = Target::start(TargetSettings::default(), links);
    let port = PortSettings {
        id: 1,
        listen: "127.0.0.1:0".parse().expect("an address"),
        advertise: None,
        reuse_port: false,
        tls: false,
        transport: nvme_target::Transport::Tcp,
    };
    let address = target.add_port(port).expect("a free port");
    let nqn: Nqn = SUBSYSTEM.parse().expect("a name");
    let subsystem = SubsystemSettings {
        nqn: nqn.clone(),
        serial: "FY0001".into(),
        model: "Flashyard".into(),
        allowed: AllowedHosts::Any,
        ports: PortSet::All,
        tenant: None,
    };
    target.add_subsystem(subsystem).expect("the only subsystem");
    let namespace = NamespaceSettings {
        nsid: 1,
        nguid: [1; 16],
        uuid: [2; 16],
        eui64: None,
        group: AnaGroupId::POOLLESS,
    };
    let added = target.add_namespace(&nqn, namespace, device);
    added.expect("the only namespace");
    (Rc::new(target), address)
}
