//! Nothing that only informs stops what hosts get: every output that there is, and everything that
//! may become of one. Needs root, to mount file systems that fill up, fail and hang.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/attached.rs"]
mod attached;
#[path = "informing/attachment.rs"]
mod attachment;
#[path = "informing/outputs.rs"]
mod outputs;
#[path = "informing/receivers.rs"]
mod receivers;
#[path = "support/reserving.rs"]
mod reserving;
#[path = "informing/served.rs"]
mod served;
mod support;
#[path = "informing/trial.rs"]
mod trial;

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use served::{Served, Small, events, full, serving_a_volume, with_a_volume};
use support::{flashyard, free_address, name, text, tool, wait_for, wait_until};

/// Makes changes until no more are taken; gives the paths of those that were refused.
fn until_refused(node: &Served) -> Vec<String> {
    // The file has free pages at first, and what a refused change would have taken.
    let (mut refused, mut in_a_row) = (Vec::new(), 0);
    for number in 0..400 {
        let host = format!("h{number}");
        let output = node.add_host(&host);
        in_a_row = if output.status.success() {
            0
        } else {
            in_a_row + 1
        };
        if in_a_row > 0 {
            let said = text(&output.stderr);
            assert!(said.contains("No space left on device"), "{said}");
            refused.push(format!("/v1/hosts/{host}"));
        }
        if in_a_row == 5 {
            break;
        }
    }
    assert_eq!(in_a_row, 5, "a full disk refuses changes");
    refused
}

#[test]
fn a_full_state_directory_refuses_changes_and_recovers_by_itself() {
    let (small, elsewhere) = (Small::new(), tempfile::tempdir().unwrap());
    let mut node = with_a_volume(&small, elsewhere.path());
    small.fill();
    let refused = until_refused(&node);
    let hosts = node.client().hosts().unwrap().items.len();
    node.serves("v");
    let status = node.answer(&["status"]);
    assert!(status.contains("the state cannot be written"), "{status}");
    assert!(events(&node).contains("the state cannot be written"));
    wait_until("the metric", || {
        node.metric("flashyard_state_writable") == 0.0
    });
    wait_until("what waits", || {
        node.metric("flashyard_audit_waiting_entries") > 0.0
    });
    node.answer(&["audit", "list"]);

    small.free();
    let added = node.add_host("after");
    assert!(added.status.success(), "{added:?}");
    let status = node.answer(&["status"]);
    assert!(!status.contains("the state cannot"), "{status}");
    wait_until("nothing waits", || {
        node.metric("flashyard_state_writable") == 1.0
            && node.metric("flashyard_audit_waiting_entries") == 0.0
    });
    assert!(events(&node).contains("the state can be written again"));
    // Every refused change is in the audit log, in order, and none is twice.
    let log = node.client().audit(0).unwrap().items;
    let paths: Vec<&str> = log.iter().map(|entry| entry.path.as_str()).collect();
    let failed = log.iter().filter(|entry| entry.status >= 500);
    let failed: Vec<&str> = failed.map(|entry| entry.path.as_str()).collect();
    assert_eq!(failed, refused, "{paths:?}");
    assert_eq!(*paths.last().unwrap(), "/v1/hosts/after");
    assert_eq!(node.client().hosts().unwrap().items.len(), hosts + 1);

    // What was refused is not there after a restart either.
    node.kill();
    let before = hosts + 1;
    node.quietly();
    assert_eq!(node.client().hosts().unwrap().items.len(), before);
    node.serves("v");
}

/// Figures that find no room are counted and said, and nothing else notices. They are recorded
/// again once there is some.
#[test]
fn a_history_that_finds_no_room_stops_nothing() {
    let (small, elsewhere) = (Small::new(), tempfile::tempdir().unwrap());
    let node = with_a_volume(&small, elsewhere.path());
    small.fill();
    wait_until("the problem", || {
        node.answer(&["status"])
            .contains("the history of figures is not written: No space left on device")
    });
    node.serves("v");
    wait_until("the metric", || {
        node.metric("flashyard_history_failures_total") > 0.0
    });
    assert!(events(&node).contains("the history of figures is not written"));
    let written = node.metric("flashyard_history_writes_total");
    small.free();
    wait_until("it is written", || {
        node.metric("flashyard_history_writes_total") > written
    });
    wait_until("no problems", || node.answer(&["status"]).contains("none"));
    assert!(events(&node).contains("the history of figures is written again"));
    node.serves("v");
    wait_until("it is read", || {
        let shown = node.answer_to("/v1/history?kind=volume&names=v&seconds=120");
        let (_, reads) = shown.split_once("read_iops").unwrap();
        let (reads, _) = reads.split_once(']').unwrap();
        reads.contains(|c: char| ('1'..='9').contains(&c))
    });
    assert!(
        node.metric("flashyard_history_bytes") < node.metric("flashyard_history_bytes_max"),
        "the bound is kept"
    );
}

/// A change that wipes a drive is made whole or not at all.
#[test]
fn nothing_is_wiped_that_could_not_be_remembered() {
    let (small, elsewhere) = (Small::new(), tempfile::tempdir().unwrap());
    let node = with_a_volume(&small, elsewhere.path());
    let used = elsewhere.path().join("used");
    File::create(&used).unwrap().set_len(64 << 20).unwrap();
    tool("mkfs.ext4", &["-q", used.to_str().unwrap()]);
    node.answer(&["drive", "add", "used", used.to_str().unwrap()]);
    let before = std::fs::read(&used).unwrap();
    small.fill();
    until_refused(&node);
    let volume = ["volume", "create", "w", "--drive", "used", "--allow", "any"];
    let pool = [
        "pool", "create", "p", "--level", "raid0", "--drives", "used",
    ];
    for wiping in [&volume[..], &pool] {
        let refused = node.ask(&[wiping, &["--force"]].concat());
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("nothing is wiped"), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert!(std::fs::read(&used).unwrap() == before, "{wiping:?}");
    }
    small.free();
    node.answer(&[&volume[..], &["--force"]].concat());
    assert!(std::fs::read(&used).unwrap() != before);
}

#[test]
fn a_node_starts_on_a_full_and_on_a_read_only_directory() {
    let (small, elsewhere) = (Small::new(), tempfile::tempdir().unwrap());
    let mut node = with_a_volume(&small, elsewhere.path());
    // Once ended in order, once not: then the state has to be looked through first.
    for (killed, how) in [(false, "full"), (true, "full"), (false, "ro"), (true, "ro")] {
        match killed {
            false => assert_eq!(node.end(), 0, "{how}"),
            true => node.kill(),
        }
        match how {
            "ro" => wait_until("nobody writes", || {
                let status = Command::new("mount")
                    .args(["-o", "remount,ro"])
                    .arg(small.path())
                    .stderr(Stdio::null())
                    .status();
                status.unwrap().success()
            }),
            _ => small.fill(),
        }
        node.check();
        node.quietly();
        node.serves("v");
        wait_until("the problem", || {
            node.answer(&["status"])
                .contains("endpoints.json cannot be written")
        });
        assert!(
            events(&node).contains("endpoints.json cannot be written"),
            "{how}"
        );
        if how == "ro" {
            let refused = node.add_host("none");
            assert_eq!(refused.status.code(), Some(1));
            let said = text(&refused.stderr);
            assert!(said.contains("Read-only file system"), "{said}");
        }
        match how {
            "ro" => small.remount("rw"),
            _ => small.free(),
        }
        wait_until("the file", || small.path().join("endpoints.json").exists());
        let added = node.add_host(&format!("{how}{killed}"));
        assert!(added.status.success(), "{how} {killed}: {added:?}");
        wait_until("no problems", || node.answer(&["status"]).contains("none"));
    }
}

/// A first start has nothing to serve: it says why there can be none.
#[test]
fn a_first_start_on_a_full_directory_is_refused() {
    let (small, elsewhere) = (Small::new(), tempfile::tempdir().unwrap());
    let node = Served::new(small.path(), elsewhere.path());
    small.fill();
    let arguments: Vec<&str> = node.arguments.iter().map(String::as_str).collect();
    let refused = flashyard(&arguments);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("state.redb") && said.contains("No space left"),
        "{said}"
    );
    small.free();
    let left: Vec<_> = std::fs::read_dir(small.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Standard output and standard error: full, without a reader, and with one that never reads.
#[test]
fn a_node_serves_whatever_becomes_of_its_output_and_its_log() {
    let (_directory, mut node) = serving_a_volume();
    assert_eq!(node.end(), 0);
    node.arguments
        .extend(["--log-level".into(), "trace".into()]);
    let gone = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let mut readers = Vec::new();
    let mut unread = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // Full from the beginning.
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[b'.'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        readers.push(reader);
        Stdio::from(writer)
    };
    let outputs = [(full(), full()), (gone(), gone()), (unread(), unread())];
    for (round, (stdout, stderr)) in outputs.into_iter().enumerate() {
        node.start(stdout, stderr);
        node.serves("v");
        if round == 0 {
            let dropped = "flashyard_log_dropped_total";
            wait_for("lines that were refused", || {
                (node.metric(dropped) > 0.0).then_some(())
            });
        }
        assert_eq!(node.end(), 0, "round {round}");
    }
}

/// Another program has the REST API's address: hosts get what is theirs all the same, after an
/// orderly end and after a crash.
#[test]
fn a_node_serves_before_its_api_can_listen() {
    let (directory, mut node) = serving_a_volume();
    let nqn = node.client().volume(&name("v")).unwrap().nqn;
    let endpoints = node.state.join("endpoints.json");
    for killed in [false, true] {
        match killed {
            false => assert_eq!(node.end(), 0),
            true => node.kill(),
        }
        let other = TcpListener::bind(node.api).unwrap();
        node.check();
        let log = directory.path().join(format!("log-{killed}"));
        node.spawn(Stdio::null(), File::create(&log).unwrap().into());
        wait_until("a host reads and writes", || {
            node.load(&nqn).status.success()
        });
        let problem = "the REST API cannot listen at";
        wait_until("the log says it", || {
            std::fs::read_to_string(&log).unwrap().contains(problem)
        });
        wait_until("nobody is told of an API that is not", || {
            !endpoints.exists()
        });
        let place = node.state.to_str().unwrap();
        let reset = flashyard(&["token", "reset-admin", "--state", place]);
        let said = text(&reset.stdout);
        assert!(said.contains("has a new secret"), "{said}");

        drop(other);
        node.wait();
        wait_until("the file", || endpoints.exists());
        let events = events(&node);
        assert!(events.contains(problem), "{events}");
        assert!(events.contains("the REST API listens"), "{events}");
        let status = node.answer(&["status"]);
        assert!(!status.contains(problem), "{status}");
        assert!(node.load(&nqn).status.success());
    }
    // It ends in order also while it waits for the address.
    assert_eq!(node.end(), 0);
    let _other = TcpListener::bind(node.api).unwrap();
    node.spawn(Stdio::null(), Stdio::null());
    wait_until("a host reads and writes", || {
        node.load(&nqn).status.success()
    });
    assert_eq!(node.end(), 0);
}

/// Nothing waits for a node that has nothing yet: its first start says what is in the way.
#[test]
fn a_first_start_needs_the_address_of_its_api() {
    let directory = tempfile::tempdir().unwrap();
    let node = Served::new(&directory.path().join("state"), directory.path());
    let _other = TcpListener::bind(node.api).unwrap();
    let arguments: Vec<&str> = node.arguments.iter().map(String::as_str).collect();
    let refused = flashyard(&arguments);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    let expected = format!("REST API at {}: Address already in use", node.api);
    assert!(said.contains(&expected), "{said}");
    assert!(!node.state.join("state.redb").exists());
}

/// The program that has the address of a node under development does not get its token.
#[test]
fn no_login_is_kept_for_an_address_that_another_program_has() {
    let directory = tempfile::tempdir().unwrap();
    let [state, config, said] = ["state", "config", "said"].map(|name| directory.path().join(name));
    let api = free_address();
    let start = |expected: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        program.args(["serve", "--drives", "1", "--drive-size", "16MiB", "--dev"]);
        program.arg(&state).args(["--listen", "127.0.0.1:0"]);
        program.args(["--api-listen", &api.to_string()]);
        program.env("XDG_CONFIG_HOME", &config);
        program.stdout(File::create(&said).unwrap());
        let mut process = program.stderr(Stdio::null()).spawn().unwrap();
        wait_until("the node says how it is managed", || {
            std::fs::read_to_string(&said).unwrap().contains(expected)
        });
        process.kill().unwrap();
        process.wait().unwrap();
    };
    start("Manage it: flashyard --node");
    assert!(config.exists(), "a login is kept");
    std::fs::remove_dir_all(&config).unwrap();
    let _other = TcpListener::bind(api).unwrap();
    start("Manage it: flashyard login");
    assert!(!config.exists(), "no login is kept");
}
