//! The target on real cores with real sockets: connections of one host spread over the cores.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends when its scenery cannot be built"
)]

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::Geometry;
use block::conformance::{self, Plan};
use drive::{Drive, MemoryDrive};
use initiator::{ConnectOptions, Controller};
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target,
    TargetSettings,
};
use reactor::cores::{Cores, CoresConfig};

const SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:sockets";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

async fn start(links: Links, listen: SocketAddr, drives: u32) -> SocketAddr {
    let target = Target::start(TargetSettings::default(), links);
    let nqn: Nqn = SUBSYSTEM.parse().unwrap();
    let subsystem = SubsystemSettings {
        nqn: nqn.clone(),
        serial: "SOCKETS".into(),
        model: "Flashyard".into(),
        allowed: AllowedHosts::Any,
        ports: PortSet::All,
        tenant: None,
    };
    target.add_subsystem(subsystem).unwrap();
    for nsid in 1..=drives {
        let settings = NamespaceSettings {
            nsid,
            nguid: [1; 16],
            uuid: [1; 16],
            eui64: None,
            group: AnaGroupId::POOLLESS,
        };
        let drive = Drive::from(MemoryDrive::new(Geometry::new(4096, 1024).unwrap()));
        target
            .add_namespace(&nqn, settings, Rc::new(drive))
            .unwrap();
    }
    let port = PortSettings {
        id: 1,
        listen,
        advertise: None,
        reuse_port: true,
        tls: false,
        transport: nvme_target::Transport::Tcp,
    };
    let address = target.add_port(port).unwrap();
    // Lives as long as its core.
    std::mem::forget(target);
    address
}

fn options(io_queues: u16, digests: bool) -> ConnectOptions {
    let mut options = ConnectOptions::new(HOST);
    options.io_queues = io_queues;
    options.header_digest = digests;
    options.data_digest = digests;
    options
}

/// The contract of a device holds over real sockets, with and without digests.
#[test]
fn a_namespace_over_real_sockets_is_a_conforming_device() {
    let cores = Cores::start(CoresConfig::unpinned(2)).unwrap();
    let links = Links::connect(1).pop().unwrap();
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let address = cores.handles()[0]
        .submit(move || start(links, anywhere, 1))
        .wait()
        .unwrap();
    let checked = cores.handles()[1].submit(move || async move {
        for digests in [false, true] {
            let options = options(1, digests);
            let controller = Controller::connect(address, SUBSYSTEM, options)
                .await
                .unwrap();
            let namespace = controller.namespace(1).await.unwrap();
            conformance::check(&namespace, Plan::quick(7)).await?;
            controller.disconnect().await;
        }
        Ok::<(), String>(())
    });
    checked.wait().unwrap().unwrap();
}

/// Two cores share a port; the queues of every controller connect wherever the kernel puts them.
#[test]
fn queues_of_a_controller_spread_over_cores() {
    let cores = Cores::start(CoresConfig::unpinned(3)).unwrap();
    let mut listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for (links, core) in Links::connect(2).into_iter().zip(cores.handles()) {
        listen = core.submit(move || start(links, listen, 1)).wait().unwrap();
    }
    let checked = cores.handles()[2].submit(move || async move {
        for _ in 0..8 {
            let options = options(4, false);
            let controller = Controller::connect(listen, SUBSYSTEM, options)
                .await
                .unwrap();
            assert_eq!(controller.queue_count(), 4);
            assert_eq!(controller.active_namespaces().await.unwrap(), [1]);
            controller.disconnect().await;
        }
        reactor::sleep(Duration::from_millis(10)).await;
    });
    checked.wait().unwrap();
}
