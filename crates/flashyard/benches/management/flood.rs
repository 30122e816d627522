//! [`Flood`]: what comes at a node's management side, from threads on CPU 1 that come after
//! everything else there but what they flood.

use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{Name, VolumeSpec};
use client::{Client, Login};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Threads of each kind of flood.
const THREADS: usize = 4;

/// As the node's control plane stands behind its data path, so that neither starves the other.
const NICENESS: i32 = 19;

/// More host names than a body may have room for.
const TOO_MANY_HOSTS: usize = 150_000;

/// How many addresses slow clients come from: together they want more places than there are.
const SLOW_ADDRESSES: u8 = 10;

/// How many connections each of them wants.
const SLOW_OF_ADDRESS: usize = 64;

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Prometheus, once a second: no attack.
    Scrapes,
    /// Lists of all volumes, with a good token.
    Lists,
    /// Requests with a wrong token.
    WrongTokens,
    /// Bodies that are larger than any request needs.
    LargeBodies,
    /// TLS handshakes, and nothing after them.
    Handshakes,
    /// All connections that there may be, which say one byte every few seconds.
    SlowClients,
}

/// Every kind.
pub const KINDS: [Kind; 6] = [
    Kind::Scrapes,
    Kind::Lists,
    Kind::WrongTokens,
    Kind::LargeBodies,
    Kind::Handshakes,
    Kind::SlowClients,
];

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Scrapes => "scraped every second",
            Kind::Lists => "lists of 1,000 volumes",
            Kind::WrongTokens => "wrong tokens",
            Kind::LargeBodies => "bodies of 2 MB",
            Kind::Handshakes => "TLS handshakes",
            Kind::SlowClients => "640 slow clients",
        })
    }
}

/// Threads that flood a node until this ends.
pub struct Flood {
    ended: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Flood {
    /// Starts to flood the node of `login` with all of `kinds`.
    pub fn start(kinds: &[Kind], login: &Login) -> Flood {
        let (ended, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let one_each = |kind: &Kind| match kind {
            Kind::Scrapes | Kind::SlowClients => 1,
            _ => THREADS,
        };
        let all = kinds.iter().flat_map(|kind| vec![*kind; one_each(kind)]);
        let threads = all.map(|kind| {
            let (login, ended, done) = (login.clone(), Arc::clone(&ended), Arc::clone(&done));
            std::thread::spawn(move || {
                step_back()?;
                let go_on = || !ended.load(Ordering::Relaxed);
                flood(kind, &login, &go_on, &done)
            })
        });
        Flood {
            threads: threads.collect(),
            ended,
            done,
        }
    }

    /// Ends it; gives how many requests, or connections, there were.
    pub fn end(self) -> Result<u64> {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let ended = thread.join().ok();
            ended.context("a thread of the flood panicked")??;
        }
        Ok(self.done.load(Ordering::Relaxed))
    }
}

fn step_back() -> Result<()> {
    setpriority_process(None, NICENESS)?;
    let mut processor = CpuSet::new();
    processor.set(1);
    Ok(sched_setaffinity(None, &processor)?)
}

fn flood(kind: Kind, login: &Login, go_on: &impl Fn() -> bool, done: &AtomicU64) -> Result<()> {
    if kind == Kind::SlowClients {
        return slowly(login, go_on, done);
    }
    let token = match kind {
        Kind::WrongTokens => Some("fy_wrong".into()),
        _ => login.token.clone(),
    };
    let client = Client::with(&Login {
        token,
        ..login.clone()
    })?;
    let name: Name = "x".parse()?;
    let large = VolumeSpec {
        hosts: vec!["some-host".parse()?; TOO_MANY_HOSTS],
        ..VolumeSpec::default()
    };
    while go_on() {
        // Refusals are what is wanted of some of them, and lost connections what becomes of others.
        match kind {
            Kind::Scrapes => {
                drop(client.figures()?);
                std::thread::sleep(Duration::from_secs(1));
            }
            Kind::Lists => drop(client.volumes()),
            Kind::WrongTokens => drop(client.status()),
            Kind::LargeBodies => drop(client.create_volume(&name, &large)),
            Kind::Handshakes => drop(Client::certificate_of(&login.url)),
            Kind::SlowClients => {}
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Holds every connection that it gets, and gets new ones for those that the node ends.
fn slowly(login: &Login, go_on: &impl Fn() -> bool, done: &AtomicU64) -> Result<()> {
    let address = login.url.trim_start_matches("https://").parse()?;
    let mut held: Vec<(Ipv4Addr, TcpStream)> = Vec::new();
    while go_on() {
        for last in 1..=SLOW_ADDRESSES {
            let from = Ipv4Addr::new(127, 0, 2, last);
            for _ in held.iter().filter(|(of, _)| *of == from).count()..SLOW_OF_ADDRESS {
                let Ok(stream) = connect_from(from, address) else {
                    break;
                };
                done.fetch_add(1, Ordering::Relaxed);
                held.push((from, stream));
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        // The first byte of a TLS record, and no more.
        held.retain_mut(|(_, stream)| stream.write_all(&[22]).is_ok());
    }
    Ok(())
}

fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(from.into(), 0))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}
