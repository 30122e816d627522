//! Ports: which addresses serve NVMe/TCP or NVMe/RDMA, and how good a path each of them is.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use api::{PathState, Port, PortTransport, Severity};
use node::{AnaGroupId, Asker, address_for, display_address};

use crate::config::{Config, PortConfig};
use crate::control::Control;
use crate::control::catalogue::Catalogue;
use crate::control::operating::paths::Transitions;
use crate::endpoints::from_here;
use crate::events::Events;
use crate::interfaces::global_addresses_or_none;
use crate::state::{PathRecord, Paths, state_of};

/// An address that serves hosts, as somebody reaches it.
pub struct Reached {
    /// Address and port.
    pub address: String,
    /// Hosts connect to it under TLS, or not at all.
    pub tls: bool,
    /// How hosts come.
    pub transport: PortTransport,
}

/// Every port of the settings file, in its order.
pub(in crate::control) struct Ports {
    pub configured: Vec<PortConfig>,
    pub paths: Catalogue<Paths>,
    pub transitions: Transitions,
}

impl Ports {
    /// The settings file's ports as the remembered records leave them.
    pub fn new(config: &Config, mut remembered: Paths) -> Ports {
        let configured = config.nvme.ports.clone();
        remembered.retain(|id, record| {
            let port = configured.get(usize::from(*id).wrapping_sub(1));
            port.is_some_and(|port| port.listen.to_string() == record.listen)
        });
        remembered
            .values_mut()
            .for_each(PathRecord::end_transitions);
        Ports {
            configured,
            paths: Catalogue::new(remembered),
            transitions: Transitions::default(),
        }
    }

    /// The ports as the data path takes them, before anything else has seen them.
    pub fn specs(&self) -> Vec<node::PortSpec> {
        let paths = self.paths.seen();
        let numbered = (1..).zip(&self.configured);
        numbered
            .map(|(id, port)| node::PortSpec {
                listen: port.listen.0,
                advertise: port.advertise.map(|address| address.0),
                path: on_the_data_path(state_of(&paths, id, None)),
                tls: port.tls,
                transport: match port.transport {
                    PortTransport::Tcp => node::Transport::Tcp,
                    PortTransport::Rdma => node::Transport::Rdma,
                },
            })
            .collect()
    }
}

impl Control {
    /// Every port, by number.
    pub fn ports(&self) -> Vec<Port> {
        let paths = self.ports.paths.seen();
        (1..=self.node.addresses().len() as u16)
            .filter_map(|id| self.port(&paths, id))
            .collect()
    }

    /// How good a path a port is to the volumes of these groups: to those for which it is worst.
    pub(in crate::control) fn path_to(
        &self,
        id: u16,
        groups: impl IntoIterator<Item = AnaGroupId>,
    ) -> PathState {
        let paths = self.ports.paths.seen();
        let to = |group| state_of(&paths, id, Some(group));
        let worst = groups.into_iter().map(to).max();
        worst.unwrap_or_else(|| state_of(&paths, id, None))
    }

    /// The addresses at which `asker`, or a host beside it, reaches the ports: the better paths
    /// first, to a group or to those that have no state of their own. An address of a link
    /// elsewhere is without the asker's name of that link.
    pub fn reached(&self, asker: &Asker, group: Option<AnaGroupId>) -> Vec<Reached> {
        let paths = self.ports.paths.seen();
        let mut ports: Vec<_> = self.open_ports().collect();
        ports.sort_by_key(|(id, ..)| state_of(&paths, *id, group));
        let mut found: Vec<Reached> = Vec::new();
        for (_, bound, port) in ports {
            let advertise = port.advertise.map(|address| address.0);
            for address in addresses_for(bound, advertise, asker, global_addresses_or_none) {
                let (address, transport) = (written(address, asker), port.transport);
                let known =
                    |known: &Reached| known.address == address && known.transport == transport;
                if !found.iter().any(known) {
                    found.push(Reached {
                        address,
                        tls: port.tls,
                        transport,
                    });
                }
            }
        }
        found
    }

    /// Ports that hosts can connect to, with their numbers and where they listen.
    pub(in crate::control) fn open_ports(
        &self,
    ) -> impl Iterator<Item = (u16, SocketAddr, &PortConfig)> {
        let bound = self.node.addresses().iter().zip(&self.ports.configured);
        (1..)
            .zip(bound)
            .filter(|(id, _)| self.node.port_fault(usize::from(*id) - 1).is_none())
            .map(|(id, (bound, port))| (id, *bound, port))
    }

    /// Ports that hosts are told not to use, or cannot use, one sentence each.
    pub(in crate::control) fn closed_ports(&self) -> Vec<String> {
        let problems = |port: Port| {
            let (id, address) = (port.id, port.address);
            if let Some(fault) = port.fault {
                return vec![format!("port {id} serves nobody: {fault}")];
            }
            let of_pools = port.pools.into_iter();
            let of_pools = of_pools.map(|(pool, path)| (format!(" for pool {pool}"), path));
            let all = [(String::new(), port.path)].into_iter().chain(of_pools);
            let closed = all.filter_map(|(whom, path)| Some((whom, unused(path)?)));
            closed
                .map(|(whom, word)| format!("port {id} at {address} is {word}{whom}"))
                .collect()
        };
        self.ports().into_iter().flat_map(problems).collect()
    }

    pub(in crate::control) fn port(&self, paths: &Paths, id: u16) -> Option<Port> {
        let index = usize::from(id).wrapping_sub(1);
        let configured = self.ports.configured.get(index)?;
        Some(Port {
            id,
            address: self.node.addresses().get(index)?.to_string(),
            advertise: configured.advertise.map(|address| address.to_string()),
            path: state_of(paths, id, None),
            pools: self.pools_of(paths, id),
            tls: configured.tls,
            transport: configured.transport,
            fault: self.node.port_fault(index),
        })
    }
}

/// Tells that nobody can connect through a port, or that hosts can again.
pub(in crate::control) fn tell(events: &Events, index: usize, fault: Option<String>) {
    let (severity, message) = match fault {
        Some(fault) => (Severity::Error, format!("serves nobody: {fault}")),
        None => (Severity::Info, "serves hosts".to_owned()),
    };
    events.record(severity, &format!("port/{}", index + 1), &message);
}

/// The addresses of one port that are of use to `asker`. A port that listens everywhere has the
/// address at which the asker came, and otherwise all of `global`, which this machine has.
fn addresses_for(
    bound: SocketAddr,
    advertise: Option<SocketAddr>,
    asker: &Asker,
    global: impl Fn() -> Vec<IpAddr>,
) -> Vec<SocketAddr> {
    let reached = address_for(bound, advertise, asker);
    let listens_everywhere = advertise.is_none() && bound.ip().is_unspecified();
    match reached {
        // Of no use to anybody elsewhere, whom a person on this machine may ask for.
        Some(address) if listens_everywhere && address.ip().is_loopback() => {}
        None if listens_everywhere => {}
        reached => return reached.into_iter().collect(),
    }
    let mut all = global();
    all.retain(|ip| ip.is_ipv4() == bound.is_ipv4());
    if all.is_empty() && asker.is_here() {
        all.push(from_here(bound).ip());
    }
    let port = bound.port();
    all.into_iter()
        .map(|ip| SocketAddr::new(ip, port))
        .collect()
}

/// An address as `asker` can take it: the name of a link is for this machine alone.
fn written(address: SocketAddr, asker: &Asker) -> String {
    match address {
        SocketAddr::V6(v6) if !asker.is_here() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0).to_string()
        }
        address => display_address(&address),
    }
}

/// What it is called that hosts do not use a path for good or until somebody says otherwise.
fn unused(path: PathState) -> Option<&'static str> {
    match path {
        PathState::Inaccessible | PathState::PersistentLoss => Some(path.word()),
        PathState::Optimized | PathState::NonOptimized | PathState::Change => None,
    }
}

pub(in crate::control) fn on_the_data_path(path: PathState) -> node::PathState {
    match path {
        PathState::Optimized => node::PathState::Optimized,
        PathState::NonOptimized => node::PathState::NonOptimized,
        PathState::Change => node::PathState::Change,
        PathState::Inaccessible => node::PathState::Inaccessible,
        PathState::PersistentLoss => node::PathState::PersistentLoss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port number says nothing once the settings file has another address there. A transition
    /// does not survive the node.
    #[test]
    fn a_path_is_remembered_for_the_address_it_was_said_of() {
        let text = "[[nvme.ports]]\nlisten = \"127.0.0.1:1\"\n\
                    [[nvme.ports]]\nlisten = \"127.0.0.1:2\"\n\
                    [[nvme.ports]]\nlisten = \"127.0.0.1:3\"\n";
        let config = Config::parse(text).unwrap();
        let record = |listen: &str, path| {
            let mut record = PathRecord::of(listen.to_owned());
            record.set(None, Some(path));
            record
        };
        let remembered = [
            (1, record("127.0.0.1:1", PathState::PersistentLoss)),
            (2, record("127.0.0.1:9", PathState::PersistentLoss)),
            (3, record("127.0.0.1:3", PathState::Change)),
            (4, record("127.0.0.1:2", PathState::PersistentLoss)),
        ];
        let ports = Ports::new(&config, remembered.into());
        let paths: Vec<_> = ports.specs().iter().map(|port| port.path).collect();
        assert_eq!(
            paths,
            [
                node::PathState::PersistentLoss,
                node::PathState::Optimized,
                node::PathState::Inaccessible
            ]
        );
    }
}
