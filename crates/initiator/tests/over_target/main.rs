//! The initiator against the target: over the simulated network with its faults, and over real
//! loopback.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends when its scenery cannot be built"
)]

mod bad_input;
mod conformance;
mod controllers;
mod ghosts;
mod losses;
mod paths;
mod raw;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::Geometry;
use block::conformance::{Plan, check};
use drive::{Drive, FaultyDrive, MemoryDrive};
use initiator::{ConnectOptions, Controller, Namespace, Reconnect};
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, PortSet, PortSettings, SubsystemSettings, Target,
    TargetSettings,
};
use reactor::Reactor;

pub(crate) const SUBSYSTEM: &str = "nqn.2026-11.example.flashyard:test:volume";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

/// A target with one subsystem of one namespace.
pub(crate) struct Server {
    pub(crate) target: Target<Drive>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// On the current reactor; port 0 picks one.
    pub(crate) fn start(settings: TargetSettings, port: u16, drive: Rc<Drive>) -> Server {
        let links = Links::connect(1).pop().unwrap();
        Server::over(links, settings, port, drive)
    }

    /// The same on these links.
    pub(crate) fn over(
        links: Links,
        settings: TargetSettings,
        port: u16,
        drive: Rc<Drive>,
    ) -> Server {
        let target = Target::start(settings, links);
        let listen = SocketAddr::new([127, 0, 0, 1].into(), port);
        let port = PortSettings {
            id: 1,
            listen,
            advertise: None,
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        let address = target.add_port(port).unwrap();
        let server = Server { target, address };
        server.add_subsystem(SUBSYSTEM, AllowedHosts::Any);
        server.add_namespace(1, drive);
        server
    }

    /// One namespace of memory over the default settings.
    pub(crate) fn memory(block_bytes: u32, block_count: u64) -> Server {
        let drive = memory(block_bytes, block_count);
        Server::start(TargetSettings::default(), 4420, Rc::new(drive))
    }

    pub(crate) fn add_subsystem(&self, name: &str, allowed: AllowedHosts) {
        let settings = SubsystemSettings {
            nqn: name.parse().unwrap(),
            serial: "FY1".to_owned(),
            model: "Flashyard".to_owned(),
            allowed,
            ports: PortSet::All,
            tenant: None,
        };
        self.target.add_subsystem(settings).unwrap();
    }

    pub(crate) fn add_namespace(&self, nsid: u32, drive: Rc<Drive>) {
        let id = [nsid as u8; 16];
        let settings = NamespaceSettings {
            nsid,
            nguid: id,
            uuid: id,
            eui64: None,
            group: AnaGroupId::POOLLESS,
        };
        let nqn: Nqn = SUBSYSTEM.parse().unwrap();
        self.target.add_namespace(&nqn, settings, drive).unwrap();
    }

    pub(crate) async fn connect(&self, options: ConnectOptions) -> Controller {
        Controller::connect(self.address, SUBSYSTEM, options)
            .await
            .unwrap()
    }

    pub(crate) async fn namespace(&self, options: ConnectOptions) -> Namespace {
        self.connect(options).await.namespace(1).await.unwrap()
    }
}

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions::new(HOST)
}

/// A lost controller is connected to again, for so long.
pub(crate) fn persistent(seconds: u64) -> ConnectOptions {
    ConnectOptions {
        reconnect: Some(Reconnect {
            delay: Duration::from_millis(20),
            controller_loss_timeout: Duration::from_secs(seconds),
            afterwards: None,
        }),
        ..options()
    }
}

/// I/O of every kind is what the contract of devices says.
pub(crate) async fn keeps_the_contract(namespace: &Namespace, seed: u64) {
    let plan = Plan {
        operations: 200,
        ..Plan::quick(seed)
    };
    check(namespace, plan).await.unwrap();
}

/// A drive in memory.
pub(crate) fn memory(block_bytes: u32, block_count: u64) -> Drive {
    MemoryDrive::new(Geometry::new(block_bytes, block_count).unwrap()).into()
}

pub(crate) fn faulty(block_count: u64, seed: u64) -> (Rc<Drive>, drive::FaultControl) {
    let drive = FaultyDrive::over_memory(Geometry::new(4096, block_count).unwrap(), seed);
    let control = drive.control();
    (Rc::new(drive.into()), control)
}

/// Runs a scenario in virtual time; one that hangs fails.
pub(crate) fn simulate<F: Future<Output = ()>>(seed: u64, scenario: F) {
    Reactor::simulated(seed).run(async {
        let limit = Duration::from_secs(3600);
        reactor::timeout(limit, scenario)
            .await
            .expect("the scenario hangs");
    });
}
