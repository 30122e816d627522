//! A node that starts, stops or dies loses no host: whoever comes at the wrong instant is told to
//! come again, or finds nobody there, and I/O goes on once the node is back. `make restarts-long`
//! does the same two hundred times over (`FLASHYARD_RESTARTS`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/polling.rs"]
mod polling;
mod support;

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::Buffer;
use polling::{Polled, Polling, Random};
use server::tokens::ADMIN_TOKEN_FILE;
use support::{Node, flashyard, name, text};

const BLOCK: usize = 4096;

/// How often nodes are restarted here.
fn restarts() -> u32 {
    let asked = std::env::var("FLASHYARD_RESTARTS").ok();
    asked.map_or(3, |number| number.parse().unwrap())
}

/// A node with a raid5 pool of files, a volume `data` of it, and a volume `whole` that is a drive,
/// which serves on the same ports after every start.
fn node() -> Node {
    let node = Node::configured("");
    for drive in ["a", "b", "c", "d"] {
        let path = node.path().canonicalize().unwrap().join(drive);
        let path = path.to_str().unwrap();
        node.answer(&["drive", "add", drive, path, "--size", "64MiB"]);
    }
    let drives = ["--level", "raid5", "--drives", "a,b,c"];
    node.answer(&[&["pool", "create", "p"], &drives[..]].concat());
    let allowed = ["--allow", "any"];
    let data = ["volume", "create", "data", "--pool", "p", "--size", "16MiB"];
    node.answer(&[&data[..], &allowed].concat());
    let whole = ["volume", "create", "whole", "--drive", "d"];
    node.answer(&[&whole[..], &allowed].concat());
    node
}

/// Ends the node and starts it again, at random instants, killed or stopped by turns. Every third
/// time a drive of the pool comes later than the node.
fn restart(node: &mut Node, random: &mut Random, round: u32) {
    random.pause(1500);
    if round.is_multiple_of(2) {
        node.kill();
    } else {
        assert!(node.terminate().success());
    }
    let (there, aside) = (node.path().join("a"), node.path().join("aside"));
    let late = round % 3 == 2;
    if late {
        std::fs::rename(&there, &aside).unwrap();
    }
    random.pause(1000);
    node.start();
    if late {
        random.pause(1000);
        std::fs::rename(&aside, &there).unwrap();
    }
}

#[test]
fn at_every_instant_hosts_may_come_again_to_one_core() {
    hosts_may_come_again("0");
}

#[test]
fn at_every_instant_hosts_may_come_again_to_two_cores() {
    hosts_may_come_again("0,1");
}

fn hosts_may_come_again(cores: &str) {
    let mut node = node();
    assert!(node.terminate().success(), "{}", node.log());
    node.start_on(cores);
    let address = node.endpoints().nvme[0];
    let nqns = ["data", "whole"].map(|volume| node.client().volume(&name(volume)).unwrap().nqn);
    let polled = nqns.clone().map(|nqn| Polled { nqn, alone: true });
    let polling = Polling::start(&[address], &polled, &nqns);
    let mut random = Random(1);
    for round in 0..restarts() {
        restart(&mut node, &mut random, round);
    }
    std::thread::sleep(Duration::from_secs(1));
    polling.end();
}

/// A volume that is attached, and detached when dropped.
struct Attached {
    arguments: Vec<String>,
    device: PathBuf,
    log: PathBuf,
}

impl Attached {
    fn new(node: &Node, volume: &str) -> Attached {
        let directory = node.path().join("attached");
        let token = node.path().join(ADMIN_TOKEN_FILE);
        let words = [
            volume,
            "--directory",
            directory.to_str().unwrap(),
            "--node",
            &node.endpoints().api,
            "--token-file",
            token.to_str().unwrap(),
        ];
        let arguments = words.map(str::to_owned).to_vec();
        let mut attached = Attached {
            arguments,
            device: PathBuf::new(),
            log: directory.join(format!("{volume}.log")),
        };
        let done = attached.run(&["attach", "--method", "fuse"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        attached.device = PathBuf::from(text(&done.stdout).trim());
        attached
    }

    fn run(&self, verb: &[&str]) -> std::process::Output {
        let arguments = self.arguments.iter().map(String::as_str);
        flashyard(&verb.iter().copied().chain(arguments).collect::<Vec<_>>())
    }

    /// What `flashyard attached` says of it.
    fn listed(&self) -> serde_json::Value {
        let directory = self.log.parent().unwrap().to_str().unwrap();
        let listed = flashyard(&["attached", "--output", "json", "--directory", directory]);
        assert!(listed.status.success(), "{}", text(&listed.stderr));
        serde_json::from_slice::<serde_json::Value>(&listed.stdout).unwrap()[0].take()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.run(&["detach"]);
    }
}

/// Past the page cache.
fn open(device: &Path) -> File {
    let mut options = File::options();
    let direct = rustix::fs::OFlags::DIRECT.bits();
    options.read(true).write(true).custom_flags(direct as i32);
    options.open(device).unwrap()
}

/// Writes blocks at random, and at times reads one, until told to stop; what each was given last.
fn writes(device: &Path, stop: &AtomicBool) -> Result<Vec<u64>, String> {
    let file = open(device);
    let blocks = 1024;
    let mut given = vec![0_u64; blocks as usize];
    let mut random = Random(7);
    let mut stamp = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let block = random.below(blocks);
        let mut buffer = Buffer::zeroed(BLOCK);
        if stamp.is_multiple_of(8) {
            let read = file.read_exact_at(&mut buffer, block * BLOCK as u64);
            read.map_err(|error| format!("reading block {block}: {error}"))?;
            let found = u64::from_le_bytes(buffer[..8].try_into().unwrap());
            if found != given[block as usize] {
                return Err(format!("block {block} has {found}, not what it was given"));
            }
        }
        stamp += 1;
        buffer[..8].copy_from_slice(&stamp.to_le_bytes());
        let written = file.write_all_at(&buffer, block * BLOCK as u64);
        written.map_err(|error| format!("writing block {block}: {error}"))?;
        given[block as usize] = stamp;
    }
    Ok(given)
}

/// No I/O error, no lost block, and what happened is in the log.
#[test]
fn an_attached_volume_rides_out_restarts() {
    let mut node = node();
    let attached = Attached::new(&node, "data");
    let stop = AtomicBool::new(false);
    let given = std::thread::scope(|scope| {
        let writer = scope.spawn(|| writes(&attached.device, &stop));
        let mut random = Random(2);
        for round in 0..restarts() {
            restart(&mut node, &mut random, round);
        }
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    let given = given.unwrap();
    let file = open(&attached.device);
    for (block, stamp) in given.into_iter().enumerate() {
        let mut buffer = Buffer::zeroed(BLOCK);
        file.read_exact_at(&mut buffer, (block * BLOCK) as u64)
            .unwrap();
        assert_eq!(buffer[..8], stamp.to_le_bytes(), "block {block}");
    }
    drop(file);
    let log = std::fs::read_to_string(&attached.log).unwrap();
    assert!(log.contains("the connection is lost"), "{log}");
    assert!(log.contains("connected again"), "{log}");
    assert!(!log.contains("gave up"), "{log}");
}

/// A host that is shut out is told so in the log and by the node, I/O fails, and works again once
/// the host is let in.
#[test]
fn a_host_that_is_shut_out_says_so_and_comes_back() {
    let node = node();
    let attached = Attached::new(&node, "data");
    let file = open(&attached.device);
    let block = Buffer::zeroed(BLOCK);
    file.write_all_at(&block, 0).unwrap();
    node.answer(&["volume", "deny", "data", "any"]);
    support::wait_until("I/O fails", || file.write_all_at(&block, 0).is_err());
    let log = || std::fs::read_to_string(&attached.log).unwrap();
    support::wait_until("the log says why", || {
        log().contains("gave up") && log().contains("CONNECT_INVALID_HOST")
    });
    let events = node.answer(&["event", "list"]);
    assert!(
        events.contains("was refused: it is not allowed"),
        "{events}"
    );
    let again = attached.run(&["attach", "--method", "fuse"]);
    let said = text(&again.stderr);
    assert!(
        said.contains("is attached as") && said.contains("gave up"),
        "{said}"
    );
    let listed = attached.listed();
    assert_eq!(listed["condition"], "gave_up", "{listed}");
    assert!(
        listed["why"].to_string().contains("CONNECT_INVALID_HOST"),
        "{listed}"
    );
    assert!(listed["since"].is_string(), "{listed}");
    node.answer(&["volume", "allow", "data", "any"]);
    support::wait_until("I/O works again", || file.write_all_at(&block, 0).is_ok());
    support::wait_until("the log says so", || log().contains("connected again"));
    support::wait_until("the list says so", || {
        attached.listed()["condition"] == "connected"
    });
}

/// While the node is away, and when nobody serves the volume any more.
#[test]
fn the_list_of_attachments_says_how_each_stands() {
    let mut node = node();
    let attached = Attached::new(&node, "data");
    let stands = |condition: &str| {
        support::wait_until(condition, || attached.listed()["condition"] == condition);
    };
    stands("connected");
    assert_eq!(
        attached.listed()["device"],
        attached.device.to_str().unwrap()
    );
    let status = |node: &Node| {
        let directory = attached.log.parent().unwrap().to_str().unwrap();
        node.answer(&["status", "--directory", directory])
    };
    let said = status(&node);
    assert!(said.ends_with("attached to this host: 1\n"), "{said}");
    node.kill();
    stands("reconnecting");
    node.start();
    stands("connected");
    let pid = attached.listed()["way"]["fuse"]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    stands("gone");
    let said = status(&node);
    let expected = "attached to this host: 1, 1 of them without its node\n  data: gone";
    assert!(said.contains(expected), "{said}");
    drop(attached);
}
