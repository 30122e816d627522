//! Servers that playbooks set up: a network name space each, with a file system, processes and a
//! host name of its own, on top of this machine's files. Needs root.

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::network::Machine;
use crate::support::{text, wait_for};

/// What a server does first: all that it changes is in memory, and it has nothing of Flashyard's.
/// Then it waits for processes that end, as init does. `$0` is a folder of its own.
const BEGIN: &str = "
mount -t tmpfs server $0 && mkdir $0/upper $0/work $0/root &&
mount -t overlay -o lowerdir=/,upperdir=$0/upper,workdir=$0/work server $0/root &&
cd $0/root && rm -rf etc/nvme etc/flashyard usr/bin/flashyard var/lib/flashyard &&
mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys &&
mount -t tmpfs run run && hostname $1 && mkdir run/before && pivot_root . run/before &&
umount --lazy run/before && rmdir run/before &&
exec bash -c 'while true; do sleep 1000 & wait; done'
";

/// A server; it ends with all its processes when dropped.
pub struct Server {
    pub network: Machine,
    _folder: tempfile::TempDir,
    holder: Child,
    /// The first of its processes.
    pub pid: i32,
}

impl Server {
    pub fn new(name: &str) -> Server {
        let network = Machine::new();
        let folder = tempfile::tempdir().unwrap();
        let mut unshare = network.command("unshare");
        unshare.args(["--mount", "--pid", "--uts", "--fork", "--kill-child"]);
        unshare.args(["--propagation", "private", "sh", "-c", BEGIN]);
        unshare.arg(folder.path()).arg(name).stdin(Stdio::null());
        let holder = unshare.spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let pid = wait_for("the server begins", || {
            let child = fs::read_to_string(&children).ok()?;
            let child = child.split_whitespace().next()?;
            let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
            (name == "bash\n").then(|| child.parse().unwrap())
        });
        Server {
            network,
            _folder: folder,
            holder,
            pid,
        }
    }

    /// A shell's command on the server.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string(), "--mount", "--net"]);
        command.args(["--uts", "--pid", "--root", "--wdns=/", "sh", "-c", line]);
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// What it prints, which must succeed.
    pub fn answer(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The kernel ends all others with the first process.
        let first = Pid::from_raw(self.pid).unwrap();
        let _ = kill_process(first, Signal::KILL);
        let _ = self.holder.wait();
    }
}
