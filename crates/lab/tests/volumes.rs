//! Experiments on volumes of a node: connections last between loads, and what ends one is told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use access::AllowedHosts;
use block::Geometry;
use drive::{Drive, MemoryDrive};
use initiator::ConnectOptions;
use lab::experiment::{Execution, NodeReading, Results};
use lab::load::{PerfOptions, Stop, Workload, run as perf};
use lab::plan::Plan;
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target,
    TargetSettings,
};
use reactor::cores::{Cores, CoresConfig};

const SUBSYSTEM: &str = "nqn.2026-11.example.flashyard:test:volume";

/// Longer than a host may be silent: its keep alive timeout, and a second of granularity.
const SILENCE: Duration = Duration::from_secs(8);

/// A node of one volume, on a core of its own.
fn serve(cores: &Cores) -> SocketAddr {
    let (tell, told) = mpsc::channel();
    let serving = move || async move {
        let target = Target::start(TargetSettings::default(), Links::connect(1).pop().unwrap());
        let port = PortSettings {
            id: 1,
            listen: SocketAddr::new([127, 0, 0, 1].into(), 0),
            advertise: None,
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        let address = target.add_port(port).unwrap();
        let subsystem = SubsystemSettings {
            nqn: SUBSYSTEM.parse().unwrap(),
            serial: "FY1".to_owned(),
            model: "Flashyard".to_owned(),
            allowed: AllowedHosts::Any,
            ports: PortSet::All,
            tenant: None,
        };
        target.add_subsystem(subsystem).unwrap();
        let namespace = NamespaceSettings {
            nsid: 1,
            nguid: [1; 16],
            uuid: [1; 16],
            eui64: None,
            group: AnaGroupId::POOLLESS,
        };
        let drive: Drive = MemoryDrive::new(Geometry::new(4096, 4096).unwrap()).into();
        let nqn = SUBSYSTEM.parse().unwrap();
        target
            .add_namespace(&nqn, namespace, Rc::new(drive))
            .unwrap();
        tell.send(address).unwrap();
        // Until the core ends.
        std::future::pending::<()>().await;
    };
    drop(cores.handles()[0].submit(serving));
    told.recv().unwrap()
}

/// Two loads on a volume, one after the other.
fn plan(address: SocketAddr) -> (Plan, String) {
    let text = format!(
        r#"
        name = "two-loads"
        title = "t"
        question = "q"
        run.repetitions = 1
        run.runtime = "50ms"
        [[target]]
        name = "volume"
        kind = "volume"
        addresses = ["tcp://{address}/{SUBSYSTEM}?nsid=1"]
        [[workload]]
        name = "reads"
        rw = "randread"
        bs = ["4k", "8k"]
        depth = 4
        "#
    );
    Plan::parse("two-loads", &text, None, &[]).unwrap()
}

/// Runs it; `asked` is called before and after each load, in place of the node's interface.
fn run(plan: &Plan, text: &str, asked: impl Fn(u32)) -> Result<Results, String> {
    let directory = tempfile::tempdir().unwrap();
    let times = Cell::new(0);
    let reading = |_: &str| {
        times.set(times.get() + 1);
        asked(times.get());
        None::<NodeReading>
    };
    let execution = Execution {
        plan,
        destroy: Vec::new(),
        output: directory.path().join("results.json"),
        processes: Vec::new(),
        node: Some(&reading),
        stop: Stop::default(),
    };
    let mut results = Results::new(text.to_owned(), None);
    let ended = execution.run(&mut results, &mut |_| {});
    ended.map(|_| results).map_err(|error| error.to_string())
}

#[test]
fn a_load_whose_node_stood_still_tells_its_address_and_for_how_long() {
    let cores = Cores::start(CoresConfig::unpinned(1)).unwrap();
    let address = serve(&cores);
    let (plan, text) = plan(address);
    let asked = |_| {
        let core = &cores.handles()[0];
        drop(core.submit(|| async { std::thread::sleep(SILENCE) }));
    };
    let error = run(&plan, &text, asked).unwrap_err();
    let expected = format!(
        "workload reads-4k on volume: connection to tcp://{address}/{SUBSYSTEM}?nsid=1 lost: the \
         controller did not answer in time, which is 5s"
    );
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_load_whose_node_ends_tells_why_the_connection_is_lost_before_what_failed() {
    let cores = Cores::start(CoresConfig::unpinned(1)).unwrap();
    let address = serve(&cores);
    let options = PerfOptions {
        target: format!("tcp://{address}/{SUBSYSTEM}").parse().unwrap(),
        connect: ConnectOptions::new("nqn.2026-11.example.flashyard:test:host"),
        workload: Workload {
            depth: 4,
            runtime: Some(Duration::from_secs(60)),
            ..Workload::default()
        },
        cores: Vec::new(),
        journal: None,
    };
    let mut serving = Some(cores);
    let report = perf(&options, &Stop::default(), |seen| {
        if seen.reads > 0 {
            serving.take();
        }
    });
    let errors = report.unwrap().errors;
    // The system resets a connection whose last commands nobody has read.
    let expected = [
        "connection lost: the controller closed the connection",
        "connection lost: the network failed: connection reset",
    ];
    assert!(expected.contains(&errors[0].as_str()), "{errors:?}");
    assert!(errors[1].ends_with("device gone"), "{errors:?}");
}

#[test]
fn a_volume_stays_connected_while_a_slow_node_is_asked_between_two_loads() {
    let cores = Cores::start(CoresConfig::unpinned(1)).unwrap();
    let (plan, text) = plan(serve(&cores));
    let asked = |times| {
        if times == 2 {
            std::thread::sleep(SILENCE);
        }
    };
    let results = run(&plan, &text, asked).unwrap();
    assert_eq!(results.runs.len(), 2);
    assert!(results.runs.iter().all(|run| run.measured.iops() > 0.0));
}
