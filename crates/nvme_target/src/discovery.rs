//! The discovery log: what a host may connect to, and where (NVMe 2.0 §5.16.1.23).

use std::net::SocketAddr;

use access::Nqn;
use block::BlockDevice;
use nvme::fabrics::{CONTROLLER_ID_DYNAMIC, DISCOVERY_NQN};
use nvme::log::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, RDMA_SPECIFIC, SECURITY_TLS_1_3, SubsystemType,
    TRANSPORT_RDMA, TRANSPORT_TCP, entry_flags, requirements,
};
use nvme::text::{padded, terminated};
use zerocopy::{FromZeros, IntoBytes};

use crate::controller::Controller;
use crate::per_core::Core;
use crate::port::Port;
use crate::reach::Asker;
use crate::settings::Transport;

/// Entries that an admin queue must have for every host: what Linux uses.
const ADMIN_QUEUE_ENTRIES: u16 = 32;

/// The log as one host sees it.
pub(crate) fn log<D: BlockDevice + 'static>(core: &Core<D>, controller: &Controller<D>) -> Vec<u8> {
    let own = core.discovery_nqn.as_ref();
    let own = own.map_or(DISCOVERY_NQN, Nqn::as_str);
    let mut entries = Vec::new();
    let host = Asker::new(controller.local_address, controller.host_address);
    for port in core.ports.borrow().values() {
        let Some(address) = port.address_for(&host) else {
            continue;
        };
        let mut discovery = entry(port, address, own);
        discovery.subsystem_type = SubsystemType::CURRENT_DISCOVERY;
        discovery.flags = (entry_flags::PERSISTENT | entry_flags::DUPLICATE).into();
        entries.push(discovery);
        for subsystem in core.subsystems.borrow().values() {
            let settings = &subsystem.settings;
            if settings.ports.contains(port.settings.id) && subsystem.admits(&controller.host_nqn) {
                entries.push(entry(port, address, settings.nqn.as_str()));
            }
        }
    }
    let mut header = DiscoveryHeader::new_zeroed();
    header.generation = core.generation.get().into();
    header.records = (entries.len() as u64).into();
    [header.as_bytes(), entries.as_bytes()].concat()
}

impl<D: BlockDevice + 'static> Core<D> {
    /// True of both names of the discovery subsystem: the well-known one and its own.
    pub fn is_discovery(&self, nqn: &Nqn) -> bool {
        nqn.as_str() == DISCOVERY_NQN || self.discovery_nqn.as_ref() == Some(nqn)
    }

    /// The name that a host is told, which asked for discovery as `asked`. Hosts connect anew by
    /// the name that they are told. Under TLS a host's key may be for `asked` alone.
    pub fn discovery_name<'a>(&'a self, asked: &'a Nqn, is_secured: bool) -> &'a Nqn {
        let own = self.discovery_nqn.as_ref();
        own.filter(|_| !is_secured).unwrap_or(asked)
    }
}

fn entry(port: &Port, address: SocketAddr, subsystem_nqn: &str) -> DiscoveryEntry {
    let mut entry = DiscoveryEntry::new_zeroed();
    entry.transport = TRANSPORT_TCP;
    if port.settings.transport == Transport::Rdma {
        entry.transport = TRANSPORT_RDMA;
        let [queue, provider, management, ..] = &mut entry.transport_specific;
        [*queue, *provider, *management] = RDMA_SPECIFIC;
    }
    entry.address_family = match address {
        SocketAddr::V4(_) => AddressFamily::IPV4,
        SocketAddr::V6(_) => AddressFamily::IPV6,
    };
    entry.subsystem_type = SubsystemType::NVM;
    // Not "no secure channel needed": some hosts (libnvme 1.3) then ask for one.
    entry.requirements = requirements::FLOW_CONTROL_OPTIONAL;
    if port.settings.tls {
        entry.requirements |= requirements::SECURE_CHANNEL;
        entry.transport_specific[0] = SECURITY_TLS_1_3;
    }
    entry.port_id = port.settings.id.into();
    entry.controller_id = CONTROLLER_ID_DYNAMIC.into();
    entry.admin_queue_size = ADMIN_QUEUE_ENTRIES.into();
    entry.service = padded(&address.port().to_string());
    entry.address = padded(&address.ip().to_string());
    entry.subsystem_nqn = terminated(subsystem_nqn);
    entry
}
