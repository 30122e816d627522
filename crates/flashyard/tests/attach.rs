//! Volumes as block devices of this host, through FUSE and a loop device: a file system on one,
//! verified I/O, a clean end, and an end after a crash; with FUSE's requests read, and over
//! io_uring where the kernel has that. Needs root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/offer.rs"]
mod offer;
mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use block::Buffer;
use offer::Offer;
use rustix::process::{Pid, Signal};
use server::tokens::ADMIN_TOKEN_FILE;
use support::{Node, flashyard, free_address, text, tool};
use tempfile::TempDir;

/// A node with one volume, large enough for XFS, and a place to remember what is attached.
struct Host {
    node: Node,
    directory: TempDir,
    offer: Offer,
}

impl Host {
    fn new(io_uring: bool) -> Host {
        Host::of(Node::configured(""), io_uring)
    }

    fn of(node: Node, io_uring: bool) -> Host {
        let offer = Offer::set(io_uring);
        node.answer(&["drive", "add", "fast", "--memory", "400MiB"]);
        node.answer(&[
            "volume", "create", "data", "--drive", "fast", "--allow", "any",
        ]);
        Host {
            node,
            directory: tempfile::tempdir().unwrap(),
            offer,
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
        let said = text(&attached.stderr);
        assert!(attached.status.success(), "{said}");
        let requests = self.offer.requests;
        assert_eq!(self.way()["requests"], requests);
        let over = ["FUSE without io_uring (", "FUSE over io_uring\n"];
        assert!(
            said.contains(over[usize::from(requests == "io_uring")]),
            "{said}"
        );
        PathBuf::from(text(&attached.stdout).trim())
    }

    /// What remembers the attachment, as JSON.
    fn state(&self) -> Option<serde_json::Value> {
        let path = self.directory.path().join("attached/data.json");
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    }

    fn way(&self) -> serde_json::Value {
        self.state().unwrap()["way"]["fuse"].clone()
    }

    /// Kills what serves the volume, and waits until nothing of it is left.
    fn kill(&self) {
        let pid = i32::try_from(self.way()["pid"].as_i64().unwrap()).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        while Path::new(&format!("/proc/{}/fd", pid.as_raw_nonzero())).exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
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

#[test]
fn a_place_that_is_relative_behind_a_link_and_has_blanks_is_left_as_any_other() {
    let host = Host::new(false);
    let here = host.directory.path();
    std::fs::create_dir(here.join("a place")).unwrap();
    std::os::unix::fs::symlink("a place", here.join("a link")).unwrap();
    let token = host.node.path().join(ADMIN_TOKEN_FILE);
    let run = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        program
            .args(arguments)
            .args(["--directory", "a link/attached"]);
        program.args(["--node", &host.node.endpoints().api, "--token-file"]);
        let output = program.arg(&token).current_dir(here).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        text(&output.stdout)
    };
    let device = run(&["attach", "data", "--method", "fuse"]);
    assert!(tool("losetup", &["--list"]).contains(device.trim()));
    assert!(run(&["attached"]).contains(device.trim()));
    run(&["detach", "data"]);
    host.assert_gone();
    assert!(!tool("losetup", &["--list"]).contains("a place"));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("a\\040place"), "{mounts}");
}

fn mounted(device: &Path, at: &Path, work: impl FnOnce()) {
    let (device, at) = (device.to_str().unwrap(), at.to_str().unwrap());
    tool("mount", &[device, at]);
    work();
    tool("umount", &[at]);
}

#[test]
fn a_file_system_on_an_attached_volume_keeps_what_fio_wrote() {
    keeps_what_fio_wrote(false);
}

#[test]
fn over_io_uring_a_file_system_keeps_what_fio_wrote() {
    keeps_what_fio_wrote(true);
}

fn keeps_what_fio_wrote(io_uring: bool) {
    let host = Host::new(io_uring);
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
    may_die(false);
}

#[test]
fn over_io_uring_what_served_it_may_die() {
    may_die(true);
}

fn may_die(io_uring: bool) {
    let host = Host::new(io_uring);
    host.attach();
    host.kill();
    let detached = host.run(&["detach", "data"]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    host.assert_gone();
    host.attach();
    host.kill();
    // Attaching cleans up first.
    let device = host.attach();
    let of = format!("of={}", device.display());
    tool("dd", &["if=/dev/zero", &of, "bs=4k", "count=8"]);
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
}

/// The volume is reached by each of two ports in turn, while nothing is by the other.
#[test]
fn what_serves_it_goes_on_by_another_port() {
    let other = free_address().to_string();
    let listen = support::listen().into_iter();
    let listen = listen.chain(["--listen".to_owned(), other]);
    let node = Node::configured_with("api.protocol = \"http\"", listen);
    let host = Host::of(node, false);
    let device = host.attach();
    let address = host.state().unwrap()["address"].clone();
    assert_eq!(address.as_str().unwrap().split(' ').count(), 2, "{address}");
    let disk = OpenOptions::new().read(true).write(true).open(&device);
    let disk = disk.unwrap();
    for number in 0..4u8 {
        let (closed, open) = if number % 2 == 0 {
            ("1", "2")
        } else {
            ("2", "1")
        };
        for (port, path) in [(open, "optimized"), (closed, "inaccessible")] {
            host.node.answer(&["port", "set", port, "--path", path]);
        }
        disk.write_all_at(&[number; 4096], 8192).unwrap();
        disk.sync_all().unwrap();
        assert_eq!(host.node.client().sessions().unwrap().items.len(), 1);
    }
    drop(disk);
    let from = format!("if={}", device.display());
    let found = tool("dd", &[&from, "bs=4k", "skip=2", "count=1", "iflag=direct"]);
    assert_eq!(found.as_bytes(), [3; 4096]);
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
}

#[test]
fn what_served_it_may_die_under_load() {
    dies_under_load(false);
}

#[test]
fn over_io_uring_what_served_it_may_die_under_load() {
    dies_under_load(true);
}

/// Requests that the dead process had, and those that wait for it, fail; nobody waits for ever.
fn dies_under_load(io_uring: bool) {
    let host = Host::new(io_uring);
    let device = host.attach();
    let name = format!("--filename={}", device.display());
    let mut load = Command::new("fio");
    load.args(["--name=load", &name, "--rw=randrw", "--bs=4k"]);
    load.args(["--iodepth=64", "--direct=1", "--ioengine=io_uring"]);
    load.args(["--time_based", "--runtime=600", "--output=/dev/null"]);
    // A line for each request that fails, in the end.
    let mut load = load.stderr(Stdio::null()).spawn().unwrap();
    let path = Path::new("/sys/block").join(device.file_name().unwrap());
    let done = || {
        let text = std::fs::read_to_string(path.join("stat")).unwrap();
        let reads = text.split_whitespace().next().unwrap();
        reads.parse::<u64>().unwrap()
    };
    let before = done();
    while done() < before + 1000 {
        assert!(load.try_wait().unwrap().is_none(), "fio ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    host.kill();
    assert!(!load.wait().unwrap().success());
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
}

/// Every size and place of a transfer, of the file itself: parts of blocks, the end, the largest.
#[test]
fn transfers_of_any_size_and_place_are_what_was_written() {
    for io_uring in [false, true] {
        let host = Host::new(io_uring);
        host.attach();
        let path = host.directory.path().join("attached/data.mount/volume");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let size = file.metadata().unwrap().len();
        let mut data = Buffer::new(5 << 20);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        data.fill_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005);
            random = random.wrapping_add(1);
            (random >> 56) as u8
        });
        let start = size - data.len() as u64;
        for (from, bytes) in [(0, 3 << 20), (3 << 20, 4096), ((3 << 20) + 4096, 2 << 20)] {
            let part = &data[from..(from + bytes).min(data.len())];
            file.write_all_at(part, start + from as u64).unwrap();
        }
        let refused = file.write_all_at(&[1; 100], start + 1).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
        file.sync_all().unwrap();
        for (from, bytes) in [
            (0, 5 << 20),
            (1, 4096),
            (4000, 300_000),
            ((5 << 20) - 10, 10),
        ] {
            let mut read = vec![0; bytes];
            let asked = bytes.min(data.len() - from);
            file.read_exact_at(&mut read[..asked], start + from as u64)
                .unwrap();
            assert_eq!(read[..asked], data[from..from + asked], "{from} {bytes}");
        }
        assert_eq!(file.read_at(&mut [0; 10], size).unwrap(), 0);
        drop(file);
        assert!(host.run(&["detach", "data"]).status.success());
        host.assert_gone();
    }
}

/// As an administrator ends a connection whose server hangs.
#[test]
fn an_aborted_connection_ends_what_serves_it() {
    for io_uring in [false, true] {
        let host = Host::new(io_uring);
        host.attach();
        let pid = host.way()["pid"].as_i64().unwrap();
        let mount = host.directory.path().join("attached/data.mount");
        let number = rustix::fs::minor(rustix::fs::stat(&mount).unwrap().st_dev);
        let connections = tempfile::tempdir().unwrap();
        let at = connections.path().to_str().unwrap();
        tool("mount", &["-t", "fusectl", "fusectl", at]);
        let abort = connections.path().join(format!("{number}/abort"));
        let aborted = std::fs::write(abort, "1");
        tool("umount", &[at]);
        aborted.unwrap();
        while Path::new(&format!("/proc/{pid}/fd")).exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(host.run(&["detach", "data"]).status.success());
        host.assert_gone();
    }
}

/// Of what an attach made that was killed before it could remember it, nothing is left, and the
/// volume is attached once.
#[test]
fn what_an_interrupted_attach_left_is_taken_away() {
    let host = Host::new(false);
    host.attach();
    let left = host.way()["pid"].as_i64().unwrap();
    std::fs::remove_file(host.directory.path().join("attached/data.json")).unwrap();
    host.attach();
    let loops = tool("losetup", &["--noheadings", "--output", "BACK-FILE"]);
    let directory = host.directory.path().to_str().unwrap();
    let ours = loops.lines().filter(|line| line.contains(directory));
    assert_eq!(ours.count(), 1, "{loops}");
    while Path::new(&format!("/proc/{left}/fd")).exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(host.run(&["detach", "data"]).status.success());
    host.assert_gone();
}

/// Of several that attach one volume at once, one does, and the others are told.
#[test]
fn those_who_attach_one_volume_at_once_take_turns() {
    let host = Host::new(false);
    let api = host.node.client().volume(&support::name("data")).unwrap();
    let address = host.node.endpoints().nvme[0];
    let target = format!("tcp://{address}/{}?nsid={}", api.nqn, api.nsid);
    // Two addresses of one volume are paths to it.
    let call = [
        "attach", &target, &target, "--name", "disk", "--method", "fuse",
    ];
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| host.run(&call))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let attached = outputs.iter().filter(|output| output.status.success());
    assert_eq!(attached.count(), 1, "{outputs:?}");
    for output in outputs.iter().filter(|output| !output.status.success()) {
        let said = text(&output.stderr);
        assert!(said.contains("disk is attached as /dev/loop"), "{said}");
    }
    let other = format!("tcp://{address}/{}?nsid=2", api.nqn);
    let refused = host.run(&["attach", &target, &other, "--method", "fuse"]);
    assert!(text(&refused.stderr).contains("no paths to one volume"));
    assert!(host.run(&["detach", "disk"]).status.success());
    let left = std::fs::read_dir(host.directory.path().join("attached")).unwrap();
    assert_eq!(left.count(), 0);
    host.assert_gone();
}

#[test]
fn what_cannot_be_attached_is_said() {
    let host = Host::new(false);
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
