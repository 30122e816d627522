//! Compare and Write from hosts on several cores: one step for every other command on its blocks,
//! whichever core and host that comes from.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use access::{AllowedHosts, Nqn};
use block::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};
use initiator::{ConnectOptions, Controller, Namespace};
use nvme_target::{Administration, Answer, DriveNamespace, DriveReport, NamespaceChange, Target};
use reactor::Task;

use crate::cores::start;
use crate::device::Memory;
use crate::{HOST, SUBSYSTEM, namespace, nqn, simulate, subsystem};

const DRIVE: &str = "nqn.2024-01.io.flashyard:test:drive";
const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:0a1d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// The block that hosts fight for.
const BLOCK: Lba = Lba(5);

type Cores = Vec<(Target<Memory>, SocketAddr, Rc<Memory>)>;

/// The namespace as a host has it that comes to one core.
async fn seen_at(address: SocketAddr, subsystem: &str, host: &str) -> Namespace {
    let controller = Controller::connect(address, subsystem, ConnectOptions::new(host));
    controller.await.unwrap().namespace(1).await.unwrap()
}

/// Targets of this many cores over one device that takes its time, and a host at each.
async fn hosts(cores: usize) -> (Cores, Vec<Namespace>) {
    let cores = start(cores);
    let mut hosts = Vec::new();
    for (_, address, device) in &cores {
        device.delay.set(Duration::from_micros(50));
        hosts.push(seen_at(*address, SUBSYSTEM, HOST).await);
    }
    (cores, hosts)
}

/// What a block holds: who wrote it in one go, and how often it was incremented since.
fn filled(origin: u32, count: u32) -> Buffer {
    let mut buffer = Buffer::zeroed(4096);
    buffer[..4].copy_from_slice(&origin.to_le_bytes());
    buffer[4..8].copy_from_slice(&count.to_le_bytes());
    buffer
}

async fn held(host: &Namespace) -> Result<(u32, u32), IoError> {
    let (buffer, read) = host.read(BLOCK, Buffer::new(4096)).await;
    read?;
    let number = |at: usize| u32::from_le_bytes(buffer[at..at + 4].try_into().unwrap());
    Ok((number(0), number(4)))
}

/// Increments the block by Compare and Write, once.
async fn increment(host: &Namespace) -> Result<(), IoError> {
    loop {
        let (origin, count) = held(host).await?;
        let (old, new) = (filled(origin, count), filled(origin, count + 1));
        match host.compare_and_write(BLOCK, old, new).await.2 {
            Err(IoError::CompareFailure) => {}
            other => return other,
        }
    }
}

/// Has every host increment the block this often, from two tasks each.
fn increment_from_all(hosts: &[Namespace], times: u32) -> Vec<Task<()>> {
    let twice = hosts.iter().chain(hosts).cloned();
    let tasks = twice.map(|host| {
        reactor::spawn(async move {
            for _ in 0..times {
                increment(&host).await.unwrap();
            }
        })
    });
    tasks.collect()
}

/// Of counts that hosts of three cores add to at once, none is lost.
#[test]
fn no_increment_from_any_core_is_lost() {
    for (seed, cores) in [(80, 1), (81, 2), (82, 3)] {
        simulate(seed, async {
            let (_cores, hosts) = hosts(cores).await;
            for task in increment_from_all(&hosts, 25) {
                task.await;
            }
            assert_eq!(held(&hosts[0]).await, Ok((0, 50 * cores as u32)));
        });
    }
}

/// What a host wrote without comparing is there once that is answered: a Compare and Write of
/// another core compared with it, or ended before it. The same for zeroes and for deallocation.
#[test]
fn nothing_lands_between_compare_and_write() {
    simulate(83, async {
        let (_cores, hosts) = hosts(2).await;
        for writer in hosts.clone() {
            let adding = increment_from_all(&hosts, 60);
            let range = BlockRange::new(BLOCK, 1);
            for round in 1..=60 {
                let filling = writer.write(BLOCK, filled(round, 0), Durability::Cached);
                filling.await.1.unwrap();
                assert_eq!(held(&writer).await.unwrap().0, round, "a write is lost");
                if round % 2 == 0 {
                    writer.deallocate(range).await.unwrap();
                } else {
                    let zeroing = writer.write_zeroes(range, Durability::Cached);
                    zeroing.await.unwrap();
                }
                assert_eq!(held(&writer).await.unwrap().0, 0, "zeroes are lost");
            }
            for task in adding {
                task.await;
            }
        }
    });
}

/// Increments the block until that is refused; gives how often it was not.
async fn increments_until_refused(host: Namespace) -> u32 {
    let mut done = 0;
    while increment(&host).await.is_ok() {
        done += 1;
    }
    done
}

/// Nothing is compared and written while a core lacks the namespace. Where it goes and comes under
/// hosts that do so, all of them get an answer, and what was answered counts.
#[test]
fn a_namespace_comes_and_goes_under_compare_and_write() {
    simulate(84, async {
        let (cores, hosts) = hosts(3).await;
        let mut added = 0;
        for round in 0..30 {
            let adding = hosts.iter().cloned().map(increments_until_refused);
            let adding: Vec<_> = adding.map(reactor::spawn).collect();
            reactor::sleep(Duration::from_micros(2000 + 23 * round)).await;
            let (target, ..) = &cores[round as usize % 3];
            let removed = target.remove_namespace(&nqn(SUBSYSTEM), 1).await;
            for task in adding {
                added += task.await;
            }
            let device = removed.unwrap();
            target
                .add_namespace(&nqn(SUBSYSTEM), namespace(1), device)
                .unwrap();
            assert_eq!(held(&hosts[0]).await, Ok((0, added)), "round {round}");
        }
        assert!(added > 30, "{added} increments");
    });
}

/// A drive with one namespace, which is as [`start`] makes devices.
struct Drive;

impl Administration for Drive {
    fn report(&self) -> Answer<DriveReport> {
        let shared = DriveNamespace {
            nsid: 1,
            blocks: 64,
            block_bytes: 4096,
            shared: true,
            identity: [1; 16],
        };
        let report = DriveReport {
            namespace_id_max: 1,
            namespaces: vec![shared],
            ..DriveReport::default()
        };
        Box::pin(async { Ok(report) })
    }

    fn change(&self, _: &Nqn, _: NamespaceChange) -> Answer<u32> {
        Box::pin(async { Ok(1) })
    }
}

/// A namespace of a drive that several hosts have attached, on one core and on two.
#[test]
fn hosts_share_a_namespace_of_a_drive() {
    for (seed, count) in [(85, 1), (86, 2)] {
        simulate(seed, async {
            let cores = start(count);
            let mut hosts = Vec::new();
            for (target, _, device) in &cores {
                let settings = subsystem(DRIVE, AllowedHosts::Any);
                target.add_drive(settings, Rc::new(Drive)).unwrap();
                for host in [HOST, OTHER_HOST] {
                    let (drive, host) = (nqn(DRIVE), nqn(host));
                    target
                        .attach_namespace(&drive, &host, namespace(1), Rc::clone(device))
                        .unwrap();
                }
                device.delay.set(Duration::from_micros(50));
            }
            for (_, address, _) in &cores {
                for host in [HOST, OTHER_HOST] {
                    hosts.push(seen_at(*address, DRIVE, host).await);
                }
            }
            for task in increment_from_all(&hosts, 25) {
                task.await;
            }
            assert_eq!(held(&hosts[0]).await, Ok((0, 50 * hosts.len() as u32)));

            // One host goes; the other goes on.
            for (target, _, device) in &cores {
                let (drive, other) = (nqn(DRIVE), nqn(OTHER_HOST));
                let gone = target.detach_namespace(&drive, &other, 1).await;
                assert!(Rc::ptr_eq(&gone.unwrap(), device));
            }
            increment(&hosts[0]).await.unwrap();
            increment(&hosts[1]).await.unwrap_err();
        });
    }
}

/// What waits for the blocks of another's Compare and Write when its own connection ends is not
/// carried out: its host may have sent it again elsewhere. Neither is what waits for the lock, and
/// others have that lock then.
#[test]
fn who_is_gone_has_nothing_done_that_waited() {
    simulate(87, async {
        let (cores, hosts) = hosts(2).await;
        let mut leaving = Vec::new();
        for (_, address, device) in &cores {
            leaving.push(seen_at(*address, SUBSYSTEM, HOST).await);
            device.delay.set(Duration::from_millis(10));
        }
        let locking = hosts[0].clone();
        let locking = reactor::spawn(async move {
            let (old, new) = (filled(0, 0), filled(1, 0));
            locking.compare_and_write(BLOCK, old, new).await.2
        });
        reactor::sleep(Duration::from_millis(2)).await;
        for (writer, comparer) in leaving.iter().cloned().zip(leaving.clone()) {
            drop(reactor::spawn(async move {
                let written = writer.write(BLOCK, filled(2, 0), Durability::Cached);
                assert!(written.await.1.is_err(), "who is gone hears nothing");
            }));
            drop(reactor::spawn(async move {
                let (old, new) = (filled(1, 0), filled(3, 0));
                let done = comparer.compare_and_write(BLOCK, old, new).await.2;
                assert!(done.is_err(), "who is gone hears nothing");
            }));
        }
        reactor::sleep(Duration::from_millis(2)).await;
        assert!(!locking.is_finished());
        for host in leaving {
            host.controller().disconnect().await;
        }
        locking.await.unwrap();
        for (_, _, device) in &cores {
            device.delay.set(Duration::ZERO);
        }
        reactor::sleep(Duration::from_millis(100)).await;
        assert_eq!(held(&hosts[1]).await, Ok((1, 0)));
        for host in &hosts {
            increment(host).await.unwrap();
        }
        assert_eq!(held(&hosts[0]).await, Ok((1, 2)));
    });
}
