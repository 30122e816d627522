//! [`Flood`]: everything that peers without a key may do to a node, all of it at once and as fast
//! as they can.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nvme::authentication::Negotiate;
use nvme::fabrics::Connect;
use nvme::log::{GetLogPage, LogPage};
use nvme::{AdminOpcode, IoOpcode, SubmissionEntry};
use nvme::{Status, command::SglDescriptor};
use zerocopy::IntoBytes;

use super::peer::{Claim, Peer, authentication, capsule, connected_from, status};

/// Connections that one kind of attack holds open.
const HELD: usize = 300;

/// Behind everybody else who has something to do on this machine.
pub const NICE: i32 = 19;

/// What strangers know of a node and of its host: all of it goes over the wire in the clear.
pub struct Facts {
    pub nvme: SocketAddr,
    pub api: SocketAddr,
    /// A host that has a key, and is connected.
    pub victim: String,
    pub victim_id: [u8; 16],
    pub controller_id: u16,
    /// Its volume.
    pub volume: String,
    /// A drive that some other host administers.
    pub drive: String,
}

/// Strangers at work, until stopped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    attackers: Vec<(&'static str, Arc<AtomicU64>, JoinHandle<()>)>,
}

pub type Attack = fn(&Facts, &mut Strangers);

pub const ATTACKS: [(&str, Attack); 13] = [
    ("silent connections", silent),
    ("discovery that is never left", lingering),
    ("discovery that is asked for ever", inquisitive),
    ("answers that nobody fetches", unread),
    ("wrong commands", wrong),
    ("refused hosts", refused),
    ("refused hosts of a drive", refused_by_drive),
    ("queues of somebody else's controller", intruding),
    ("arithmetic", computing),
    ("noise", noise),
    ("connections to the API", api_held),
    ("wrong tokens", guessing),
    ("long requests", api_noise),
];

impl Flood {
    /// Begins, from all of these addresses of this machine's.
    pub fn begin(facts: &Arc<Facts>, addresses: &[IpAddr]) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let attackers = ATTACKS.map(|(name, attack)| {
            let rounds = Arc::new(AtomicU64::new(0));
            let mut strangers = Strangers {
                addresses: addresses.to_vec(),
                rounds: Arc::clone(&rounds),
                stop: Arc::clone(&stop),
            };
            let facts = Arc::clone(facts);
            let attacker = std::thread::spawn(move || {
                // Other machines would take no processor from the node.
                rustix::process::nice(NICE).unwrap();
                attack(&facts, &mut strangers);
            });
            (name, rounds, attacker)
        });
        Flood {
            stop,
            attackers: attackers.into(),
        }
    }

    /// Ends it. Gives how often each kind of attack was tried; all connections are closed.
    pub fn end(self) -> Vec<(&'static str, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.attackers.into_iter().map(|(name, rounds, attacker)| {
            attacker.join().unwrap();
            (name, rounds.load(Ordering::Relaxed))
        });
        ended.collect()
    }
}

/// Where attacks of one kind come from.
pub struct Strangers {
    addresses: Vec<IpAddr>,
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Strangers {
    /// The address to come from next; `None` once it is enough.
    fn next(&mut self) -> Option<IpAddr> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let index = round as usize % self.addresses.len();
        (!self.stop.load(Ordering::Relaxed)).then(|| self.addresses[index])
    }

    /// The next connection that is initialized; tries until there is one.
    fn peer(&mut self, facts: &Facts) -> Option<Peer> {
        loop {
            let stream = connected_from(self.next()?, facts.nvme);
            let peer = stream.ok().and_then(Peer::initialized_over);
            if let Some(peer) = peer {
                // The node may take nothing more: that is no reason to wait for it.
                let limit = Some(Duration::from_millis(500));
                peer.stream.set_read_timeout(limit).unwrap();
                peer.stream.set_write_timeout(limit).unwrap();
                return Some(peer);
            }
        }
    }

    fn guest(&mut self, facts: &Facts) -> Option<Peer> {
        loop {
            if let Some(guest) = self.peer(facts)?.discover(u32::MAX) {
                return Some(guest);
            }
        }
    }

    fn client(&mut self, facts: &Facts) -> Option<TcpStream> {
        loop {
            if let Ok(stream) = connected_from(self.next()?, facts.api) {
                let limit = Some(Duration::from_millis(500));
                stream.set_read_timeout(limit).unwrap();
                stream.set_write_timeout(limit).unwrap();
                return Some(stream);
            }
        }
    }
}

/// Keeps the latest.
fn hold<T>(held: &mut VecDeque<T>, latest: T) {
    if held.len() == HELD {
        held.pop_front();
    }
    held.push_back(latest);
}

fn silent(facts: &Facts, strangers: &mut Strangers) {
    let mut held = VecDeque::new();
    while let Some(address) = strangers.next() {
        if let Ok(stream) = connected_from(address, facts.nvme) {
            hold(&mut held, stream);
        }
    }
}

fn lingering(facts: &Facts, strangers: &mut Strangers) {
    let mut held = VecDeque::new();
    while let Some(guest) = strangers.guest(facts) {
        hold(&mut held, guest);
    }
}

fn inquisitive(facts: &Facts, strangers: &mut Strangers) {
    let ask = GetLogPage::new(LogPage::DISCOVERY, 0, 0, 4096);
    while let Some(mut guest) = strangers.guest(facts) {
        while !strangers.stop.load(Ordering::Relaxed) && guest.command(ask.entry(), &[]).is_some() {
            strangers.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn unread(facts: &Facts, strangers: &mut Strangers) {
    let ask = GetLogPage::new(LogPage::DISCOVERY, 0, 0, 1 << 20);
    let mut held = VecDeque::new();
    while let Some(mut guest) = strangers.guest(facts) {
        guest.send(&capsule(ask.entry(), &[]).repeat(20));
        hold(&mut held, guest);
    }
}

fn wrong(facts: &Facts, strangers: &mut Strangers) {
    let mut entry = SubmissionEntry::new(AdminOpcode::IDENTIFY.0, 0, SglDescriptor::transport(64));
    entry.data.kind = 0xff;
    let flood = capsule(&entry, &[]).repeat(1000);
    while let Some(mut guest) = strangers.guest(facts) {
        while !strangers.stop.load(Ordering::Relaxed) && guest.stream.write_all(&flood).is_ok() {
            strangers.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Tries to connect under ever new names, as often as one connection may.
fn try_names(peer: &mut Peer, number: u64, claim: &Claim) {
    for attempt in 0..3 {
        let host_nqn = format!("nqn.2026-11.example:{number:0150}-{attempt}");
        let claim = Claim {
            host_nqn: &host_nqn,
            ..*claim
        };
        match peer.connect(&claim) {
            Some(answer) => assert_ne!(status(&answer), 0, "{host_nqn} was let in"),
            None => return,
        }
    }
}

fn refused(facts: &Facts, strangers: &mut Strangers) {
    while let Some(mut peer) = strangers.peer(facts) {
        let claim = Claim {
            subsystem_nqn: &facts.volume,
            ..Claim::default()
        };
        try_names(&mut peer, strangers.rounds.load(Ordering::Relaxed), &claim);
    }
}

fn refused_by_drive(facts: &Facts, strangers: &mut Strangers) {
    while let Some(mut peer) = strangers.peer(facts) {
        let claim = Claim {
            subsystem_nqn: &facts.drive,
            controller_id: facts.controller_id,
            queue_id: 1,
            ..Claim::default()
        };
        try_names(&mut peer, strangers.rounds.load(Ordering::Relaxed), &claim);
    }
}

fn intruding(facts: &Facts, strangers: &mut Strangers) {
    let write = SubmissionEntry::new(IoOpcode::WRITE.0, 1, SglDescriptor::transport(4096));
    while let Some(mut peer) = strangers.peer(facts) {
        let queue_id = 2 + (strangers.rounds.load(Ordering::Relaxed) % 100) as u16;
        let claim = Claim {
            host_nqn: &facts.victim,
            host_id: facts.victim_id,
            subsystem_nqn: &facts.volume,
            controller_id: facts.controller_id,
            queue_id,
            queue_entries: 2,
            ..Claim::default()
        };
        if peer.connect(&claim).is_some() {
            peer.send(&capsule(&write, &[]).repeat(20));
            let _ = peer.next_pdu();
        }
    }
}

fn computing(facts: &Facts, strangers: &mut Strangers) {
    let offer = Negotiate::new(7, &[1, 2, 3], &[0, 1, 2, 3, 4, 5]);
    let send = authentication(offer.as_bytes());
    while let Some(mut peer) = strangers.peer(facts) {
        let claim = Claim {
            host_nqn: &facts.victim,
            ..Claim::default()
        };
        if peer.connect(&claim).is_some() {
            let _ = peer.command(send.entry(), offer.as_bytes());
        }
    }
}

fn noise(facts: &Facts, strangers: &mut Strangers) {
    let random = sim::Random::new(31);
    while let Some(address) = strangers.next() {
        let Ok(mut stream) = connected_from(address, facts.nvme) else {
            continue;
        };
        let bytes: Vec<u8> = (0..4096).map(|_| random.below(256) as u8).collect();
        let _ = stream.write_all(&bytes);
        // And a Connect that is none.
        let connect = Connect::new(0, 31, 0);
        if let Some(mut peer) = strangers.peer(facts) {
            let short = peer.command(connect.entry(), &bytes[..512]);
            let invalid = Status::DATA_SGL_LENGTH_INVALID;
            assert!(short.is_none_or(|answer| status(&answer) & 0x7ff == invalid.0));
        }
    }
}

fn api_held(facts: &Facts, strangers: &mut Strangers) {
    let mut held = VecDeque::new();
    while let Some(mut client) = strangers.client(facts) {
        let _ = client.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: n\r\n");
        hold(&mut held, client);
    }
}

fn guessing(facts: &Facts, strangers: &mut Strangers) {
    while let Some(mut client) = strangers.client(facts) {
        let number = strangers.rounds.load(Ordering::Relaxed);
        let head = format!("DELETE /v1/volumes/{number} HTTP/1.1\r\nHost: n\r\n");
        let token = format!("Authorization: Bearer fy_{number}\r\nConnection: close\r\n\r\n");
        let _ = client.write_all((head + &token).as_bytes());
        let mut answer = [0; 4096];
        let _ = client.read(&mut answer);
    }
}

fn api_noise(facts: &Facts, strangers: &mut Strangers) {
    let long = "a".repeat(200_000);
    while let Some(mut client) = strangers.client(facts) {
        let _ = client.write_all(format!("PUT /v1/volumes/{long} HTTP/1.1\r\n").as_bytes());
        let mut answer = [0; 4096];
        let _ = client.read(&mut answer);
    }
}
