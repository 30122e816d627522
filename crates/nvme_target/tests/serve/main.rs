//! The whole target over the simulated network, with the library initiator as its host.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends when its scenery cannot be built"
)]

mod admin;
mod authentication;
mod coming_again;
mod commands;
mod compare_write;
mod conformance;
mod connecting;
mod control;
mod copy;
mod copy_under_way;
mod cores;
mod cross_reset;
mod device;
mod discovery;
mod groups;
mod io;
mod names;
mod pace;
mod paths;
mod raw;
mod refusals;
mod reservations;
mod secure;
mod shutting_down;
mod sockets;
mod subsystem_reset;
mod unready;
mod views;
mod write_protection;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::Geometry;
use initiator::{ConnectOptions, Controller};
use nvme_target::{
    AnaGroupId, Links, NamespaceSettings, NodeIdentity, PortSet, PortSettings, SubsystemSettings,
    Target, TargetSettings,
};
use reactor::Reactor;

use device::Memory;

pub(crate) const SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:test";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// A target with one subsystem and one namespace.
pub(crate) struct Fixture {
    pub(crate) target: Target<Memory>,
    pub(crate) address: SocketAddr,
    pub(crate) device: Rc<Memory>,
}

pub(crate) fn nqn(text: &str) -> Nqn {
    text.parse().unwrap()
}

/// A target on the core that `links` belong to, which anybody may use.
pub(crate) fn on(links: Links, settings: TargetSettings) -> (Target<Memory>, SocketAddr) {
    let target: Target<Memory> = Target::start(settings, links);
    let port = PortSettings {
        id: 1,
        listen: SocketAddr::from(([127, 0, 0, 1], 4420)),
        advertise: None,
        reuse_port: true,
        tls: false,
        transport: nvme_target::Transport::Tcp,
    };
    let address = target.add_port(port).unwrap();
    let settings = subsystem(SUBSYSTEM, AllowedHosts::Any);
    target.add_subsystem(settings).unwrap();
    (target, address)
}

pub(crate) fn subsystem(name: &str, allowed: AllowedHosts) -> SubsystemSettings {
    SubsystemSettings {
        nqn: nqn(name),
        serial: "FY0001".into(),
        model: "Flashyard".into(),
        allowed,
        ports: PortSet::All,
        tenant: None,
    }
}

pub(crate) fn namespace(nsid: u32) -> NamespaceSettings {
    NamespaceSettings {
        nsid,
        nguid: [nsid as u8; 16],
        uuid: [nsid as u8 + 100; 16],
        eui64: Some([nsid as u8; 8]),
        group: AnaGroupId::POOLLESS,
    }
}

impl Fixture {
    pub(crate) fn start(settings: TargetSettings, geometry: Geometry) -> Fixture {
        Fixture::of_node(&NodeIdentity::default(), settings, geometry)
    }

    pub(crate) fn of_node(
        node: &NodeIdentity,
        settings: TargetSettings,
        geometry: Geometry,
    ) -> Fixture {
        let links = Links::of_node(1, node).pop().unwrap();
        let target = Target::start(settings, links);
        let port = PortSettings {
            id: 1,
            listen: "127.0.0.1:4420".parse().unwrap(),
            advertise: None,
            reuse_port: false,
            tls: false,
            transport: nvme_target::Transport::Tcp,
        };
        let address = target.add_port(port).unwrap();
        target
            .add_subsystem(subsystem(SUBSYSTEM, AllowedHosts::Any))
            .unwrap();
        let device = Rc::new(Memory::new(geometry));
        target
            .add_namespace(&nqn(SUBSYSTEM), namespace(1), Rc::clone(&device))
            .unwrap();
        Fixture {
            target,
            address,
            device,
        }
    }

    pub(crate) async fn connect(&self, options: ConnectOptions) -> Controller {
        Controller::connect(self.address, SUBSYSTEM, options)
            .await
            .unwrap()
    }
}

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions::new(HOST)
}

/// Runs a scenario in virtual time; a scenario that hangs fails.
pub(crate) fn simulate<F: Future<Output = ()>>(seed: u64, scenario: F) {
    Reactor::simulated(seed).run(async {
        reactor::timeout(Duration::from_secs(3600), scenario)
            .await
            .expect("the scenario hangs");
    });
}
