//! Volumes as block devices of this host, through FUSE and a loop device: a file system on one,
//! verified I/O, a clean end, and an end after a crash. Needs root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal};
use server::tokens::ADMIN_TOKEN_FILE;
use support::{Node, flashyard, text};
use tempfile::TempDir;

/// A node with one volume, large enough for XFS, and a place to remember what is attached.
struct Host {
    node: Node,
    directory: TempDir,
}

impl Host {
    fn new() -> Host {
        let node = Node::configured("");
        node.answer(&["drive", "add", "fast", "--memory", "400MiB"]);
        node.answer(&[
            "volume", "create", "data", "--drive", "fast", "--allow", "any",
        ]);
        Host {
            node,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let (directory, api) = (
            self.directory.path().join("attached"),
            &self.node.endpoints().api,
        );
        let directory = directory.to_str().unwrap();
        let token_file = self.node.path().join(ADMIN_TOKEN_FILE);
        let token_file = token_file.to_str().unwrap();
        let mut usual = vec!["--directory", directory, "--node", api];
        usual.extend(["--token-file", token_file]);
        flashyard(&[arguments, &usual[..]].concat())
    }

    fn attach(&self) -> PathBuf {
        let attached = self.run(&["attach", "data", "--method", "fuse"]);
        assert!(attached.status.success(), "{}", text(&attached.stderr));
        PathBuf::from(text(&attached.stdout).trim())
    }

    /// What remembers the attachment, as JSON.
    fn state(&self) -> Option<serde_json::Value> {
        let path = self.directory.path().join("attached/data.json");
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    }

    fn assert_gone(&self) {
        assert_eq!(self.state(), None);
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(
            !mounts.contains(self.directory.path().to_str().unwrap()),
            "{mounts}"
        );
        let loops = tool("losetup", &["--list"]);
        assert!(
            !loops.contains(self.directory.path().to_str().unwrap()),
            "{loops}"
        );
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // After a failure; after success there is nothing to detach.
        self.run(&["detach", "data"]);
    }
}

fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    text(&output.stdout)
}

fn mounted(device: &Path, at: &Path, work: impl FnOnce()) {
    let (device, at) = (device.to_str().unwrap(), at.to_str().unwrap());
    tool("mount", &[device, at]);
    work();
    tool("umount", &[at]);
}

#[test]
fn a_file_system_on_an_attached_volume_keeps_what_fio_wrote() {
    let host = Host::new();
    let device = host.attach();
    let name = device.to_str().unwrap();
    // Past the page cache, with the volume's own blocks.
    let facts = tool(
        "losetup",
        &["--noheadings", "--output", "DIO,LOG-SEC", name],
    );
    assert_eq!(facts.split_whitespace().collect::<Vec<_>>(), ["1", "4096"]);
    tool("mkfs.xfs", &["-q", name]);
    let at = tempfile::tempdir().unwrap();
    let file = at.path().join("file");
    let fio = |extra: &[&str]| {
        let file = format!("--filename={}", file.display());
        let usual = [
            "--name=verify",
            &file,
            "--size=64m",
            "--bs=4k",
            "--iodepth=32",
            "--direct=1",
            "--ioengine=io_uring",
            "--rw=randwrite",
            "--verify_state_save=0",
            "--verify=crc32c",
        ];
        tool("fio", &[&usual[..], extra].concat());
    };
    mounted(&device, at.path(), || {
        fio(&["--do_verify=1"]);
        let refused = host.run(&["detach", "data"]);
        assert_eq!(refused.status.code(), Some(1));
        let error = text(&refused.stderr);
        assert!(error.contains("is mounted on"), "{error}");
    });
    let again = host.run(&["attach", "data", "--method", "fuse"]);
    assert!(text(&again.stderr).contains(&format!("is attached as {name}")));
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
    // Everything went to the volume: it is there when it is attached anew.
    let device = host.attach();
    mounted(&device, at.path(), || fio(&["--verify_only=1"]));
    tool("xfs_repair", &["-n", device.to_str().unwrap()]);
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
    let refused = host.run(&["detach", "data"]);
    assert!(text(&refused.stderr).contains("data is not attached"));
}

#[test]
fn what_served_it_may_die_and_it_is_detached_or_attached_anew() {
    let host = Host::new();
    let kill = || {
        let pid = host.state().unwrap()["way"]["fuse"]["pid"]
            .as_i64()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        while Path::new(&format!("/proc/{}/fd", pid.as_raw_nonzero())).exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    host.attach();
    kill();
    let detached = host.run(&["detach", "data"]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    host.assert_gone();
    host.attach();
    kill();
    // Attaching cleans up first.
    let device = host.attach();
    tool(
        "dd",
        &[
            "if=/dev/zero",
            &format!("of={}", device.display()),
            "bs=4k",
            "count=8",
        ],
    );
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
}

#[test]
fn what_cannot_be_attached_is_said() {
    let host = Host::new();
    let refused = host.run(&["attach", "nothing", "--method", "fuse"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    let address = format!(
        "tcp://{}/nqn.2026-11.example:none",
        host.node.endpoints().nvme[0]
    );
    let refused = host.run(&["attach", &address, "--method", "fuse"]);
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    assert!(
        error.contains("ended at its start") && error.contains("nqn.2026"),
        "{error}"
    );
    host.assert_gone();
}
