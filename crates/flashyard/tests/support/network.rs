//! Machines with several interfaces: network name spaces, joined by links. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::text;

/// A network name space, with its loopback interface; gone when dropped.
pub struct Machine(String);

impl Machine {
    pub fn new() -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let machine = Machine(format!("flashyard-{}-{number}", std::process::id()));
        ip(&["netns", "add", &machine.0]);
        machine.ip(&["link", "set", "lo", "up"]);
        machine
    }

    /// Joins an interface of this machine with one of `other`; both are called `name`, and have the
    /// addresses that are given.
    pub fn join(&self, other: &Machine, name: &str, ours: &[&str], theirs: &[&str]) {
        let link = ["link", "add", name, "type", "veth", "peer", "name", name];
        self.ip(&[&link[..], &["netns", &other.0]].concat());
        for (machine, addresses) in [(self, ours), (other, theirs)] {
            machine.ip(&["link", "set", name, "addrgenmode", "none"]);
            for address in addresses {
                let add = ["address", "add", address, "dev", name];
                let more: &[&str] = if address.contains(':') {
                    &["nodad"]
                } else {
                    &[]
                };
                machine.ip(&[&add[..], more].concat());
            }
            machine.ip(&["link", "set", name, "up"]);
        }
    }

    /// The program `ip` on that machine.
    pub fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0], arguments].concat());
    }

    /// A program on that machine, with this machine's files.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    /// Does something on a thread that is on that machine.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let work = || {
                let network = File::open(self.path()).unwrap();
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(network.as_fd(), kind).unwrap();
                work()
            };
            scope.spawn(work).join().unwrap()
        })
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "ip {arguments:?}: {said}");
}
