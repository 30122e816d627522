//! A host that attaches a volume has the name that nvme-cli gives it, proves its secret, has the
//! node prove one, and encrypts. Needs root, as attaching does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use access::Secret;
use support::{Node, text};
use tempfile::TempDir;

const NAME_FILE: &str = "/etc/nvme/hostnqn";

/// A node, and a place to remember what is attached.
struct Host {
    node: Node,
    directory: TempDir,
}

impl Host {
    /// With a volume `demo` for every host.
    fn new(extra: &[&str]) -> Host {
        Host {
            node: Node::develop(&[&["--level", "none"], extra].concat()),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self, verb: &str, extra: &[&str]) -> Output {
        let directory = self.directory.path().join("attached");
        let usual = [verb, "demo", "--directory", directory.to_str().unwrap()];
        self.node.ask(&[&usual[..], extra].concat())
    }

    fn attach(&self, extra: &[&str]) -> Result<PathBuf, String> {
        let attached = self.run("attach", &[&["--method", "fuse"], extra].concat());
        match attached.status.success() {
            true => Ok(text(&attached.stdout).trim().into()),
            false => Err(text(&attached.stderr)),
        }
    }

    fn detach(&self) {
        let detached = self.run("detach", &[]);
        assert!(detached.status.success(), "{}", text(&detached.stderr));
    }

    fn file(&self, name: &str, secret: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, format!("{secret}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The command line of what serves the volume.
    fn command_line(&self) -> String {
        let path = self.directory.path().join("attached/demo.json");
        let state: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let pid = state["way"]["fuse"]["pid"].as_i64().unwrap();
        text(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap())
    }

    /// Makes what this host is called the only name that may see the volume; it is made if the
    /// machine has none, as the first `attach` does.
    fn allow_this_host_alone(&self) -> String {
        if !Path::new(NAME_FILE).exists() {
            self.attach(&[]).unwrap();
            self.detach();
        }
        let nqn = std::fs::read_to_string(NAME_FILE)
            .unwrap()
            .trim()
            .to_owned();
        self.node.answer(&["host", "add", "this", "--nqn", &nqn]);
        self.node.answer(&["volume", "allow", "demo", "this"]);
        self.node.answer(&["volume", "deny", "demo", "any"]);
        nqn
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // After a failure; after success there is nothing to detach.
        self.run("detach", &[]);
    }
}

/// Writes to the device and reads that back from the volume.
fn works(device: &Path) {
    let of = format!("of={}", device.display());
    let write = ["if=/dev/urandom", &of, "bs=4k", "count=16", "oflag=direct"];
    let done = Command::new("dd").args(write).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn this_host_is_what_nvme_cli_calls_it_unless_it_is_told_otherwise() {
    let host = Host::new(&[]);
    let nqn = host.allow_this_host_alone();
    works(&host.attach(&[]).unwrap());
    let sessions = host.node.client().sessions().unwrap().items;
    let names: Vec<_> = sessions.iter().map(|session| &session.host_nqn).collect();
    assert_eq!(names, [&nqn]);
    host.detach();
    let stranger = host.attach(&["--host-nqn", "nqn.2026-11.example:stranger"]);
    assert!(stranger.unwrap_err().contains("refused"));
}

#[test]
fn secrets_are_proved_both_ways_again_after_the_node_died_and_shown_to_nobody() {
    let mut host = Host::new(&[]);
    host.allow_this_host_alone();
    let generate = [
        "host",
        "key",
        "this",
        "--generate",
        "--mutual",
        "-o",
        "json",
    ];
    let made: api::NewHostKey = serde_json::from_str(&host.node.answer(&generate)).unwrap();
    let secret = host.file("secret", made.secret.reveal());
    let controller = made.controller_secret.as_ref().unwrap().reveal();
    let controller = host.file("controller", controller);
    let other = host.file("other", &Secret::generate(None).reveal());
    let both = ["--dhchap-secret-file", &secret, "--controller-secret-file"];
    for (extra, said) in [
        (&[][..], "wants this host to authenticate"),
        (
            &["--dhchap-secret-file", &other],
            "the controller refuses this host",
        ),
        (
            &[&both[..], &[&other]].concat(),
            "this host refuses the controller",
        ),
        (
            &["--dhchap-secret-file", NAME_FILE],
            "not of the form DHHC-1",
        ),
        (
            &["--controller-secret-file", &controller],
            "--dhchap-secret-file",
        ),
    ] {
        let refused = host.attach(extra).unwrap_err();
        assert!(refused.contains(said), "{extra:?}: {refused}");
    }
    let device = host.attach(&[&both[..], &[&controller]].concat()).unwrap();
    works(&device);
    let line = host.command_line();
    assert!(
        line.contains("attach-serve") && !line.contains("DHHC"),
        "{line}"
    );
    host.node.kill();
    host.node.start();
    works(&device);
    host.detach();
    // The kernel's host bounds no group, so it is not asked to.
    let bounded = ["--method", "kernel", "--dhchap-group-min", "ffdhe3072"];
    let all = [&bounded[..], &both, &[&controller]].concat();
    let refused = host.run("attach", &all);
    let said = text(&refused.stderr);
    assert!(said.contains("takes no --dhchap-group-min"), "{said}");
    // The load generator is a host like any other.
    let nqn = host
        .node
        .client()
        .volume(&support::name("demo"))
        .unwrap()
        .nqn;
    let target = format!("tcp://{}/{nqn}", host.node.endpoints().nvme[0]);
    let name = std::fs::read_to_string(NAME_FILE).unwrap();
    let perf = [
        "perf",
        &target,
        "--number-ios",
        "10",
        "--host-nqn",
        name.trim(),
    ];
    host.node
        .answer(&[&perf[..], &both, &[&controller]].concat());
    assert!(!host.node.ask(&perf).status.success());
}

#[test]
fn a_key_makes_the_connection_one_under_tls() {
    let mut host = Host::new(&["--tls"]);
    let status = host.node.client().status().unwrap();
    assert_eq!(status.nvme_tls_addresses, status.nvme_addresses);
    let refused = host.attach(&[]).unwrap_err();
    assert!(refused.contains("without --tls-key-file"), "{refused}");
    let clear = Host::new(&[]);
    let nqn = clear.allow_this_host_alone();
    host.node.answer(&["host", "add", "this", "--nqn", &nqn]);
    let generate = ["host", "tls-key", "this", "--generate", "-o", "json"];
    let made: api::NewTlsKey = serde_json::from_str(&host.node.answer(&generate)).unwrap();
    let key = ["--tls-key-file", &host.file("key", made.key.reveal())];
    let device = host.attach(&key).unwrap();
    works(&device);
    assert!(!host.command_line().contains("NVMeTLSkey"));
    host.node.kill();
    host.node.start();
    works(&device);
    let refused = host.run("attach", &[&["--method", "kernel"], &key[..]].concat());
    assert!(!refused.status.success());
    host.detach();
    let refused = clear.attach(&key).unwrap_err();
    assert!(refused.contains("under TLS"), "{refused}");
}
