//! Strangers on the network: nobody gets anything, or anything of anybody else's, before a proof.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod everything;
mod flood;
mod peer;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use access::Secret;
use api::{HostKeyRequest, HostSpec, Role, TokenSpec};
use client::{Client, Login};
use initiator::{ConnectOptions, Controller, Credentials};
use nvme::authentication::Negotiate;
use nvme::command::SglDescriptor;
use nvme::log::{GetLogPage, LogPage};
use nvme::pdu::PduType;
use nvme::{AdminOpcode, IoOpcode, SubmissionEntry};
use reactor::{Reactor, ReactorConfig};
use zerocopy::IntoBytes;

use everything::VICTIM;
use peer::{Claim, Peer, authentication, capsule, connected_from, status};
use support::{Node, http, name, wait_until};

const MIB: u64 = 1 << 20;
/// Of the answer to Connect: the host has to authenticate.
const AUTHENTICATE: u64 = 1 << 17;

/// Memory of the node's process that is resident, bytes.
fn resident(node: &Node) -> u64 {
    let path = format!("/proc/{}/status", node.endpoints().pid);
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.trim().parse::<u64>().unwrap() << 10
}

/// What `work` adds to the node's resident memory.
fn growth<T>(node: &Node, work: impl FnOnce() -> T) -> (u64, T) {
    let before = resident(node);
    let made = work();
    (resident(node).saturating_sub(before), made)
}

/// A secret of the victim's for the node.
fn key_of_victim(node: &Node) -> String {
    node.answer(&["host", "add", "victim", "--nqn", VICTIM]);
    let made = node.answer(&["host", "key", "victim", "--generate", "-o", "json"]);
    let made: api::NewHostKey = serde_json::from_str(&made).unwrap();
    made.secret.reveal().to_owned()
}

/// Whether somebody is served by the demo volume.
fn serves(node: &Node) -> bool {
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    Reactor::io_uring(ReactorConfig::default())
        .unwrap()
        .run(async {
            let options = ConnectOptions::new("nqn.2026-11.example:honest");
            let Ok(controller) = Controller::connect(address, &nqn, options).await else {
                return false;
            };
            let served = controller.active_namespaces().await.is_ok();
            controller.disconnect().await;
            served
        })
}

/// A queue that names a controller whose host has proved itself, and proves nothing: it does not
/// count among that controller's queues, is asked for no data, and ends no connection but its own.
#[test]
fn a_queue_without_a_proof_touches_nobodys_association() {
    let node = Node::develop(&["--cores", "0"]);
    let secret = key_of_victim(&node);
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions {
            credentials: Some(Credentials::new(secret.parse::<Secret>().unwrap(), None)),
            // It says nothing while the strangers are at work.
            keep_alive: None,
            ..ConnectOptions::new(VICTIM)
        };
        let host_id = options.host_id;
        let victim = Controller::connect(address, &nqn, options).await.unwrap();
        let session = || {
            let sessions = node.client().sessions().unwrap().items;
            let found = sessions.into_iter().find(|found| found.host_nqn == VICTIM);
            found.map(|found| (found.controller_id, found.queues))
        };
        let (controller_id, queues) = session().unwrap();
        for queue_id in 70..90 {
            let mut stranger = Peer::initialized(address).unwrap();
            let claim = Claim {
                host_nqn: VICTIM,
                host_id,
                subsystem_nqn: &nqn,
                controller_id,
                queue_id,
                queue_entries: 2,
                ..Claim::default()
            };
            let answer = stranger.connect(&claim).unwrap();
            assert_eq!(status(&answer), 0);
            assert_ne!(answer.entry.result.get() & AUTHENTICATE, 0);
            assert_eq!(session(), Some((controller_id, queues)));
            let write = SubmissionEntry::new(IoOpcode::WRITE.0, 1, SglDescriptor::transport(4096));
            stranger.send(&capsule(&write, &[]).repeat(20));
            let said = stranger.all_until_closed();
            assert!(!said.contains(&PduType::READY_TO_TRANSFER), "{said:?}");
        }
        assert_eq!(session(), Some((controller_id, queues)));
        assert_eq!(victim.active_namespaces().await.unwrap(), [1]);
        victim.disconnect().await;
    });
}

/// A client with a new token of a tenant's operator.
fn operator(node: &Node, tenant: &str) -> Client {
    let spec = TokenSpec {
        role: Role::Operator,
        tenant: Some(name(tenant)),
        expires: None,
    };
    let made = node.client().create_token(&name(tenant), &spec).unwrap();
    let login = Login {
        url: node.endpoints().api.clone(),
        token: made.secret,
        certificate: None,
    };
    Client::with(&login).unwrap()
}

/// Whoever operates a tenant cannot say that a host is its own, and cut it off so from others.
#[test]
fn a_tenant_claims_no_host_of_others() {
    let node = Node::develop(&["--cores", "0"]);
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    let acme = operator(&node, "acme");
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions::new(VICTIM);
        let victim = Controller::connect(address, &nqn, options).await.unwrap();
        let host = HostSpec {
            nqn: VICTIM.into(),
            tenant: None,
        };
        let claimed = acme.add_host(&name("mine"), &host);
        assert!(claimed.is_err(), "{claimed:?}");
        let keyed = acme.generate_host_key(&name("mine"), &HostKeyRequest::default());
        assert!(keyed.is_err(), "{keyed:?}");
        // The refusal is the same whether somebody has the host or not.
        node.answer(&["host", "add", "victim", "--nqn", VICTIM]);
        let known = acme.add_host(&name("mine"), &host);
        assert_eq!(
            claimed.unwrap_err().to_string(),
            known.unwrap_err().to_string()
        );
        assert_eq!(victim.active_namespaces().await.unwrap(), [1]);
        victim.disconnect().await;
    });
}

/// A tenant says what its host has to prove on what is the tenant's, and nowhere else: it neither
/// ends what the host has elsewhere, nor keeps it from there, nor has its host named there.
#[test]
fn keys_of_a_tenants_host_count_on_what_is_the_tenants() {
    let node = Node::develop(&["--cores", "0", "--drives", "2"]);
    let address = node.endpoints().nvme[0];
    let demo = node.client().volume(&name("demo")).unwrap().nqn;
    node.answer(&["host", "add", "theirs", "--nqn", VICTIM, "--tenant", "acme"]);
    let create = ["volume", "create", "own", "--drive", "d1"];
    node.answer(&[&create[..], &["--tenant", "acme", "--allow", "theirs"]].concat());
    let own = node.client().volume(&name("own")).unwrap().nqn;
    let acme = operator(&node, "acme");
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = || ConnectOptions::new(VICTIM);
        let elsewhere = Controller::connect(address, &demo, options()).await;
        let elsewhere = elsewhere.unwrap();
        let before = Controller::connect(address, &own, options()).await;
        let before = before.unwrap();
        let request = HostKeyRequest::default();
        let key = acme.generate_host_key(&name("theirs"), &request).unwrap();
        assert_eq!(elsewhere.active_namespaces().await.unwrap(), [1]);
        assert!(before.active_namespaces().await.is_err());
        let unproven = Controller::connect(address, &own, options()).await;
        assert!(unproven.is_err());
        let again = Controller::connect(address, &demo, options()).await;
        again.unwrap().disconnect().await;
        let secret = key.secret.reveal().parse::<Secret>().unwrap();
        let proving = ConnectOptions {
            credentials: Some(Credentials::new(secret, None)),
            ..options()
        };
        let proven = Controller::connect(address, &own, proving).await.unwrap();
        proven.disconnect().await;
        elsewhere.disconnect().await;
    });
    node.answer(&["volume", "deny", "demo", "any"]);
    let refused = [
        node.ask(&["volume", "allow", "demo", "theirs"]),
        node.ask(&["drive", "grant", "d0", "theirs"]),
    ];
    for refused in refused {
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("belongs to tenant acme"), "{refused:?}");
    }
}

/// Whoever asks for arithmetic in a host's name, from many addresses, leaves the host its turn.
#[test]
fn arithmetic_for_strangers_leaves_a_host_its_turn() {
    let node = Node::develop(&["--cores", "0"]);
    let secret = key_of_victim(&node);
    let address = node.endpoints().nvme[0];
    let nqn = node.client().volume(&name("demo")).unwrap().nqn;
    let offer = Negotiate::new(7, &[1, 2, 3], &[0, 1, 2, 3, 4, 5]);
    let send = authentication(offer.as_bytes());
    // The node computes for them: what they send is taken.
    let mut one = Peer::initialized(address).unwrap();
    let claim = Claim {
        host_nqn: VICTIM,
        ..Claim::default()
    };
    one.connect(&claim).unwrap();
    let taken = one.command(send.entry(), offer.as_bytes()).unwrap();
    assert_eq!(status(&taken), 0);
    let asking = (0..400_u32).filter_map(|number| {
        let source = IpAddr::from([127, 0, 0, 2 + (number % 8) as u8]);
        let mut stranger = Peer::initialized_over(connected_from(source, address).ok()?)?;
        let claim = Claim {
            host_nqn: VICTIM,
            ..Claim::default()
        };
        let answer = stranger.connect(&claim)?;
        assert_ne!(answer.entry.result.get() & AUTHENTICATE, 0);
        stranger.send(&capsule(send.entry(), offer.as_bytes()));
        Some(stranger)
    });
    let asking: Vec<Peer> = asking.collect();
    assert!(asking.len() > 200, "{}", asking.len());
    let reactor = Reactor::io_uring(ReactorConfig::default()).unwrap();
    reactor.run(async {
        let options = ConnectOptions {
            credentials: Some(Credentials::new(secret.parse::<Secret>().unwrap(), None)),
            ..ConnectOptions::new(VICTIM)
        };
        let victim = Controller::connect(address, &nqn, options).await.unwrap();
        assert_eq!(victim.active_namespaces().await.unwrap(), [1]);
        victim.disconnect().await;
    });
    drop(asking);
}

/// Whoever is not admitted to a drive leaves nothing behind in the node.
#[test]
fn refused_hosts_of_a_drive_leave_nothing() {
    let emulated = ["--profile", "cm7-r-7.68", "--scale", "0.00001"];
    let arguments = [&["--drives", "2", "--cores", "0"], &emulated[..]].concat();
    let node = Node::develop(&arguments);
    node.answer(&["host", "add", "lab", "--nqn", "nqn.2026-11.example:lab"]);
    let said = node.answer(&["drive", "grant", "d1", "lab"]);
    let nqn = said
        .split_whitespace()
        .find(|word| word.contains(":drive:"));
    let nqn = nqn.unwrap().trim_end_matches('.').to_owned();
    let address = node.endpoints().nvme[0];
    let refuse = |from: u32, to: u32| {
        for number in from..to {
            let mut stranger = Peer::initialized(address).unwrap();
            for attempt in 0..3 {
                let host_nqn = format!("nqn.2026-11.example:{number:0150}-{attempt}");
                let claim = Claim {
                    host_nqn: &host_nqn,
                    subsystem_nqn: &nqn,
                    controller_id: 1,
                    queue_id: 1,
                    ..Claim::default()
                };
                assert_ne!(status(&stranger.connect(&claim).unwrap()), 0);
            }
        }
    };
    // How many connections linger at a time depends on how busy the machine is, and so does when
    // there have been as many as ever are. A leak grows in each round.
    let mut grown = Vec::new();
    while grown.last().is_none_or(|grown| *grown >= MIB) {
        assert!(grown.len() < 16, "{grown:?} bytes");
        let from = 4000 * grown.len() as u32;
        grown.push(growth(&node, || refuse(from, from + 4000)).0);
    }
}

/// More connections than there are places, of those that take the longest without a word: a host
/// is served all the same, and the log has a line for some of them only.
#[test]
fn strangers_do_not_take_every_place() {
    let node = Node::develop(&["--cores", "0"]);
    let address = node.endpoints().nvme[0];
    let strangers: Vec<Peer> = (0..4200)
        .filter_map(|_| Peer::discovering(address, u32::MAX))
        .collect();
    assert!(strangers.len() > 100, "{}", strangers.len());
    assert!(serves(&node), "the strangers have every place");
    let lines = node.log().lines().count();
    assert!(lines < 100, "{lines} lines");
    wait_until("they have made room for each other", || {
        let (_, figures) = http::request(&node, "GET", "/metrics", "");
        let series = "flashyard_connections_displaced_total ";
        let line = figures.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap().parse::<f64>().unwrap() > 3000.0
    });
}

/// Answers that nobody fetches do not pile up, however much was asked for.
#[test]
fn discovery_keeps_little_for_whoever_does_not_read() {
    let node = Node::develop(&["--cores", "0"]);
    let address = node.endpoints().nvme[0];
    let ask = GetLogPage::new(LogPage::DISCOVERY, 0, 0, 1 << 20);
    let (grown, strangers) = growth(&node, || {
        let strangers = (0..60).map(|_| {
            let mut stranger = Peer::discovering(address, u32::MAX).unwrap();
            stranger.send(&capsule(ask.entry(), &[]).repeat(20));
            stranger
        });
        let strangers: Vec<Peer> = strangers.collect();
        // What the node does with it has been done once somebody else is served.
        assert!(serves(&node));
        std::thread::sleep(Duration::from_secs(1));
        strangers
    });
    assert!(grown < 40 * MIB, "{} MiB", grown / MIB);
    drop(strangers);
}

/// Nor do refusals of commands that are wrong: who does not read is not read from.
#[test]
fn whoever_does_not_read_is_not_read_from() {
    let node = Node::develop(&["--cores", "0"]);
    let mut stranger = Peer::discovering(node.endpoints().nvme[0], u32::MAX).unwrap();
    let limit = Some(Duration::from_secs(2));
    stranger.stream.set_write_timeout(limit).unwrap();
    let mut wrong =
        SubmissionEntry::new(AdminOpcode::IDENTIFY.0, 0, SglDescriptor::transport(4096));
    wrong.data.kind = 0xff;
    let flood = capsule(&wrong, &[]).repeat(1000);
    let (grown, sent) = growth(&node, || {
        let sent = (0..4000).take_while(|_| stranger.stream.write_all(&flood).is_ok());
        sent.count()
    });
    assert!(sent < 4000, "the node took everything");
    assert!(grown < 16 * MIB, "{} MiB", grown / MIB);
    wait_until("others are served", || serves(&node));
}

/// Everything above and more, at once and at full speed, from one address and from eight: the node
/// takes little memory for it, goes on serving, loses no event and no entry of its audit log, and
/// keeps nothing of it.
#[test]
fn everything_at_once_costs_little_and_leaves_nothing() {
    everything::withstand(Duration::from_secs(5));
}
