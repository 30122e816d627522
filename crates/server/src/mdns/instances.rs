//! [`Instances`]: the service instances that stand for the ports of a node, and what is said of
//! each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use api::{Name, PortTransport};
use mdns_sd::ServiceInfo;
use node::Nqn;
use uuid::Uuid;

/// The most bytes of an instance's name (RFC 6763 §4.1.1).
const LABEL_BYTES_MAX: usize = 63;

/// A port of the node, as far as it is announced.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// How hosts come.
    pub transport: PortTransport,
    /// Where it listens.
    pub bound: SocketAddr,
    /// What hosts are told instead.
    pub advertise: Option<SocketAddr>,
}

/// What one service instance stands for: every address of one port number of one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    over_rdma: bool,
    pub port: u16,
}

/// Service instances, with the addresses of each.
pub type Instances = BTreeMap<Instance, BTreeSet<IpAddr>>;

/// The node that is announced.
pub struct Announced {
    /// Its name, which people see.
    pub name: Name,
    /// Its identity, a part of every name. The machine may answer to its own.
    pub uuid: Uuid,
    /// The NQN of its discovery subsystem, which hosts connect to.
    pub discovery_nqn: Nqn,
}

impl Instance {
    /// Its type and its transport, as hosts look for them. RDMA is RoCE, which is over UDP.
    fn kind(self) -> (&'static str, &'static str) {
        match self.over_rdma {
            false => ("_nvme-disc._tcp.local.", "tcp"),
            true => ("_nvme-disc._udp.local.", "roce"),
        }
    }
}

/// The service instances of these ports. A port that listens everywhere has the addresses of its
/// family among those of `machine`, which others may use. Addresses of this machine alone and of
/// one link are for nobody else.
pub fn instances(offers: impl IntoIterator<Item = Offer>, machine: &[IpAddr]) -> Instances {
    let mut found = Instances::new();
    for offer in offers {
        let at = offer.advertise.unwrap_or(offer.bound);
        let mut addresses = match at.ip() {
            ip if ip.is_unspecified() => machine.to_vec(),
            ip => vec![ip],
        };
        addresses.retain(|ip| ip.is_ipv4() == at.is_ipv4() && is_for_others(*ip));
        let instance = Instance {
            over_rdma: offer.transport == PortTransport::Rdma,
            port: at.port(),
        };
        found.entry(instance).or_default().extend(addresses);
    }
    found
}

fn is_for_others(ip: IpAddr) -> bool {
    let of_a_link = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !ip.is_loopback() && !of_a_link
}

impl Announced {
    /// An instance as the responder takes it. Its names are nobody else's, so it is not asked
    /// whether they are (RFC 6762 §8.1). The responder would ask again whenever addresses change,
    /// and take its own answers for somebody else's.
    pub fn describe(
        &self,
        instance: Instance,
        addresses: &BTreeSet<IpAddr>,
    ) -> mdns_sd::Result<ServiceInfo> {
        let (kind, transport) = instance.kind();
        let uuid = self.uuid.to_string();
        let end = format!("-{}-{}", instance.port, &uuid[..8]);
        // Names are of ASCII.
        let room = LABEL_BYTES_MAX - end.len();
        let label: String = self.name.as_str().chars().take(room).collect();
        let label = label + &end;
        let host = format!("{uuid}-{transport}-{}.local.", instance.port);
        let properties = [("p", transport), ("NQN", self.discovery_nqn.as_str())];
        let addresses: Vec<IpAddr> = addresses.iter().copied().collect();
        let port = instance.port;
        let mut info =
            ServiceInfo::new(kind, &label, &host, &addresses[..], port, &properties[..])?;
        info.set_requires_probe(false);
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: [&str; 3] = ["192.0.2.1", "198.51.100.1", "2001:db8::1"];

    /// Where ports listen and what they are announced as; which instances stand for them.
    const CASES: [(&str, &str); 9] = [
        ("tcp 192.0.2.1:1 -", "tcp 1 192.0.2.1"),
        ("tcp 0.0.0.0:1 -", "tcp 1 192.0.2.1 198.51.100.1"),
        ("tcp [::]:1 -", "tcp 1 2001:db8::1"),
        (
            "tcp 0.0.0.0:1 -, tcp [::]:1 -",
            "tcp 1 192.0.2.1 198.51.100.1 2001:db8::1",
        ),
        ("tcp 0.0.0.0:1 203.0.113.1:7", "tcp 7 203.0.113.1"),
        (
            "tcp 192.0.2.1:1 -, tcp 192.0.2.1:2 -",
            "tcp 1 192.0.2.1, tcp 2 192.0.2.1",
        ),
        (
            "tcp 192.0.2.1:1 -, rdma 192.0.2.1:1 -",
            "tcp 1 192.0.2.1, roce 1 192.0.2.1",
        ),
        // Nobody else can use these.
        ("tcp 127.0.0.1:1 -, tcp [::1]:1 -", "tcp 1"),
        ("tcp [fe80::1%7]:1 -", "tcp 1"),
    ];

    #[test]
    fn instances_have_the_addresses_that_others_can_use() {
        let machine = MACHINE.map(|ip| ip.parse().unwrap());
        for (ports, expected) in CASES {
            let offers = ports.split(", ").map(|port| {
                let [transport, bound, advertise] = port.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("three words in {port}");
                };
                Offer {
                    transport: transport.parse().unwrap(),
                    bound: node::parse_address(bound).unwrap(),
                    advertise: advertise.parse().ok(),
                }
            });
            let found = instances(offers, &machine);
            let found = found.iter().map(|(instance, addresses)| {
                let words = [instance.kind().1.to_owned(), instance.port.to_string()];
                let addresses = addresses.iter().map(IpAddr::to_string);
                words
                    .into_iter()
                    .chain(addresses)
                    .collect::<Vec<_>>()
                    .join(" ")
            });
            assert_eq!(found.collect::<Vec<_>>().join(", "), expected, "{ports}");
        }
    }

    fn described(name: &str, over_rdma: bool) -> ServiceInfo {
        let uuid = "40c6d68f-9c68-4516-86ce-6d6339a33cf7".parse().unwrap();
        let announced = Announced {
            name: name.parse().unwrap(),
            uuid,
            discovery_nqn: node::discovery_nqn(uuid),
        };
        let instance = Instance {
            over_rdma,
            port: 4420,
        };
        let addresses = [[192, 0, 2, 1].into()].into();
        announced.describe(instance, &addresses).unwrap()
    }

    /// As TP8009 has it.
    #[test]
    fn an_instance_says_transport_and_discovery() {
        let tcp = described("vault", false);
        assert_eq!(
            tcp.get_fullname(),
            "vault-4420-40c6d68f._nvme-disc._tcp.local."
        );
        assert_eq!(tcp.get_port(), 4420);
        assert_eq!(tcp.get_property_val_str("p"), Some("tcp"));
        let nqn = "nqn.2026-11.example.flashyard.discovery:40c6d68f-9c68-4516-86ce-6d6339a33cf7";
        assert_eq!(tcp.get_property_val_str("nqn"), Some(nqn));
        let host = "40c6d68f-9c68-4516-86ce-6d6339a33cf7-tcp-4420.local.";
        assert_eq!(tcp.get_hostname(), host);
        let rdma = described("vault", true);
        assert_eq!(
            rdma.get_fullname(),
            "vault-4420-40c6d68f._nvme-disc._udp.local."
        );
        assert_eq!(rdma.get_property_val_str("p"), Some("roce"));
        assert_ne!(rdma.get_hostname(), host);
    }

    #[test]
    fn a_long_name_is_cut_and_keeps_port_and_identity() {
        let name = "x".repeat(63);
        let long = described(&name, false);
        let label = long.get_fullname().split('.').next().unwrap();
        assert_eq!(label, format!("{}-4420-40c6d68f", &name[..49]));
    }
}
