//! What a node announces by multicast DNS: to whom, that it ends, and what keeps it from that.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use mdns_sd::{Receiver, ResolvedService, ServiceDaemon, ServiceEvent};
use rustix::process::{Pid, Signal, kill_process};

use crate::network::Machine;
use crate::support::{processor_ticks, wait_until};
use crate::{Network, Served, discovered};

const KIND: &str = "_nvme-disc._tcp.local.";

/// Below the two minutes after which what nobody announces any more is forgotten.
const BEFORE_IT_IS_FORGOTTEN: Duration = Duration::from_secs(60);

/// How long an idle node is watched, and the most processor time that it may use: one hundredth,
/// and twice that because the clock ticks in hundredths of a second.
const WATCHED: Duration = Duration::from_secs(10);
const TICKS_MAX: u64 = 20;

/// Somebody who looks for discovery.
struct Reader {
    /// Looks for as long as it is there.
    _daemon: ServiceDaemon,
    events: Receiver<ServiceEvent>,
    found: BTreeMap<String, String>,
    /// NQNs of discovery that were announced.
    nqns: BTreeSet<String>,
}

impl Reader {
    fn on(machine: &Machine) -> Reader {
        machine.run(|| {
            let daemon = ServiceDaemon::new().unwrap();
            let events = daemon.browse(KIND).unwrap();
            Reader {
                _daemon: daemon,
                events,
                found: BTreeMap::new(),
                nqns: BTreeSet::new(),
            }
        })
    }

    /// What is announced now: instances, each with its port, its text, and addresses.
    fn found(&mut self) -> BTreeMap<String, String> {
        for event in self.events.try_iter() {
            match event {
                ServiceEvent::ServiceResolved(service) => {
                    let nqn = service.get_property_val_str("NQN").unwrap();
                    self.nqns.insert(nqn.to_owned());
                    self.found
                        .insert(label(&service.fullname), in_words(&service));
                }
                ServiceEvent::ServiceRemoved(_, name) => {
                    self.found.remove(&label(&name));
                }
                _ => {}
            }
        }
        self.found.clone()
    }

    fn finds(&mut self, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(name, rest)| {
            let rest = rest.replacen(' ', " tcp ", 1);
            ((*name).to_owned(), rest)
        });
        let expected: BTreeMap<_, _> = expected.collect();
        wait_until(&format!("{expected:?}"), || self.found() == expected);
    }
}

/// The name of an instance without its kind, and without what tells it from another node's.
fn label(name: &str) -> String {
    let name = name.trim_end_matches(KIND).trim_end_matches('.');
    let (name, identity) = name.rsplit_once('-').unwrap();
    assert_eq!(identity.len(), 8, "{name}");
    name.to_owned()
}

fn in_words(service: &ResolvedService) -> String {
    let transport = service.get_property_val_str("p").unwrap();
    let addresses = service.get_addresses().iter();
    let mut addresses: Vec<_> = addresses.map(|ip| ip.to_ip_addr()).collect();
    addresses.sort();
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let addresses = addresses.join(" ");
    format!("{} {transport} {addresses}", service.get_port())
}

fn settings(ports: &[&str]) -> String {
    let ports = ports.iter().map(|port| format!("[[nvme.ports]]\n{port}\n"));
    let ports: String = ports.collect();
    format!(
        "[node]\nname = \"vault\"\n[nvme]\nmdns = true\n{ports}\
         [api]\nlisten = \"[::]:4400\"\n"
    )
}

const EVERYWHERE: [&str; 2] = ["listen = \"0.0.0.0:4420\"", "listen = \"[::]:4420\""];
const HERE: &str = "https://127.0.0.1:4400";

/// On every link those addresses that can be used there, also those that come later.
#[test]
fn hosts_find_a_node_and_hear_that_it_goes() {
    let Network { node, host } = Network::new();
    let ports = [
        EVERYWHERE[0],
        EVERYWHERE[1],
        "listen = \"198.51.100.1:4421\"",
    ];
    let mut served = Served::start(&node, &settings(&ports));
    let mut reader = Reader::on(&host);
    let other = ("vault-4421", "4421 198.51.100.1");
    let all = "4420 192.0.2.1 198.51.100.1 2001:db8:1::1 2001:db8:2::1";
    reader.finds(&[("vault-4420", all), other]);
    let there = ["192.0.2.1 4420", "198.51.100.1 4421"];
    assert_eq!(discovered(&host, "192.0.2.1:4420"), there);
    let own = served.status(&node, HERE).discovery_nqn;
    assert_eq!(reader.nqns, BTreeSet::from([own]));
    let events = served.answer(&node, HERE, &["event", "list"]);
    assert!(
        events.contains("announced by mDNS as vault-4421-"),
        "{events}"
    );
    for (machine, address) in [(&host, "203.0.113.9/24"), (&node, "203.0.113.1/24")] {
        machine.ip(&["address", "add", address, "dev", "storage"]);
    }
    let more = "4420 192.0.2.1 198.51.100.1 203.0.113.1 2001:db8:1::1 2001:db8:2::1";
    reader.finds(&[("vault-4420", more), other]);
    let pid = served.process.id();
    let before = processor_ticks(pid);
    std::thread::sleep(WATCHED);
    let used = processor_ticks(pid) - before;
    assert!(used <= TICKS_MAX, "{used} ticks in {WATCHED:?}");

    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let stopped = Instant::now();
    assert!(served.process.wait().unwrap().success());
    reader.finds(&[]);
    assert!(stopped.elapsed() < BEFORE_IT_IS_FORGOTTEN);
}

/// What is advertised is announced on the link that has its network, and on no other.
#[test]
fn an_advertised_address_is_announced_where_it_can_be_used() {
    let Network { node, host } = Network::new();
    let near = "listen = \"192.0.2.1:4420\"\nadvertise = \"198.51.100.1:5000\"";
    let far = "listen = \"192.0.2.1:4421\"\nadvertise = \"203.0.113.7:5001\"";
    let served = Served::start(&node, &settings(&[near, far]));
    let mut reader = Reader::on(&host);
    let expected = [("vault-5000", "5000 198.51.100.1")];
    reader.finds(&expected);
    let problem = "hosts do not find the node by mDNS: no link takes port 5001 at 203.0.113.7";
    wait_until(problem, || served.status(&node, HERE).problems == [problem]);
    reader.finds(&expected);
}

/// It serves those who know it, and says that others cannot find it.
#[test]
fn a_node_without_a_network_is_found_once_it_has_one() {
    let (node, host) = (Machine::new(), Machine::new());
    let served = Served::start(&node, &settings(&EVERYWHERE));
    let problem = "hosts do not find the node by mDNS: no port has an address for other machines";
    wait_until(problem, || served.status(&node, HERE).problems == [problem]);
    assert_eq!(discovered(&node, "127.0.0.1:4420"), ["127.0.0.1 4420"]);
    node.join(&host, "late", &["192.0.2.1/24"], &["192.0.2.9/24"]);
    let mut reader = Reader::on(&host);
    reader.finds(&[("vault-4420", "4420 192.0.2.1")]);
    wait_until("no problem", || {
        served.status(&node, HERE).problems.is_empty()
    });
    let events = served.answer(&node, HERE, &["event", "list"]);
    assert!(
        events.contains("hosts find the node by mDNS again"),
        "{events}"
    );
}

/// Another program has the port of mDNS for itself.
#[test]
fn a_node_that_cannot_announce_serves_on_and_tries_again() {
    let Network { node, host } = Network::new();
    let taken = node.run(|| UdpSocket::bind("[::]:5353").unwrap());
    let served = Served::start(&node, &settings(&["listen = \"192.0.2.1:4420\""]));
    let mut reader = Reader::on(&host);
    let problem = "hosts do not find the node by mDNS: no link takes port 4420 at 192.0.2.1";
    wait_until(problem, || served.status(&node, HERE).problems == [problem]);
    assert_eq!(discovered(&host, "192.0.2.1:4420"), ["192.0.2.1 4420"]);
    assert_eq!(reader.found(), BTreeMap::new());
    drop(taken);
    reader.finds(&[("vault-4420", "4420 192.0.2.1")]);
    wait_until("no problem", || {
        served.status(&node, HERE).problems.is_empty()
    });
}
