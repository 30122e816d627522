//! The state directory: private from its first instant, not empty without a word, and the way back
//! for those who lost the admin's token. And the limit of open files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{Metadata, read_dir};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use client::{Client, Login};
use server::endpoints::Endpoints;
use server::tokens::{ADMIN_TOKEN_FILE, read_admin_token};
use support::{Node, flashyard, text, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_flashyard");

/// What is in a directory, with what is below it.
fn everything(directory: &Path) -> Vec<(PathBuf, Metadata)> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        // What is gone again by now was of no concern.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            let entries = read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
        found.push((path, metadata));
    }
    found
}

/// Those that others than their owner may read or write, while a node starts that has no umask,
/// and afterwards.
fn open_to_others(state: &Path, start: &str) -> Vec<PathBuf> {
    let mut program = Command::new("sh");
    program.args([
        "-c",
        &format!("umask 000; exec \"$0\" serve {start}"),
        PROGRAM,
    ]);
    program.args(["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"]);
    program.env("XDG_CONFIG_HOME", state);
    let mut process = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut wrong = Vec::new();
    wait_for("the node starts", || {
        let open = everything(state).into_iter().filter(|(_, metadata)| {
            let mode = metadata.permissions().mode();
            mode & 0o077 != 0
        });
        wrong.extend(open.map(|(path, _)| path));
        Endpoints::read(state).ok()
    });
    process.kill().unwrap();
    process.wait().unwrap();
    wrong.sort();
    wrong.dedup();
    wrong
}

#[test]
fn everything_is_private_from_its_first_instant_whatever_the_umask() {
    let directory = tempfile::tempdir().unwrap();
    let (settings, state) = (
        directory.path().join("settings"),
        directory.path().join("a/state"),
    );
    std::fs::write(
        &settings,
        format!("state_directory = \"{}\"\n", state.display()),
    )
    .unwrap();
    let configured = format!("--config {}", settings.display());
    assert_eq!(open_to_others(&state, &configured), [] as [PathBuf; 0]);
    assert!(everything(&state).len() > 4, "the certificate as well");

    let files = directory.path().join("files");
    let dev = |place: &Path, more: &str| format!("--dev {} {more}", place.display());
    assert_eq!(
        open_to_others(&files, &dev(&files, "--drive-size 16MiB")),
        [] as [PathBuf; 0]
    );
    let models = directory.path().join("models");
    let emulated = dev(&models, "--drives 1 --profile cm7-r-7.68 --scale 0.00001");
    let open = open_to_others(&models, &emulated);
    let directories: Vec<_> = open.iter().filter(|path| path.is_dir()).collect();
    assert!(directories.is_empty(), "{directories:?}");
}

#[test]
fn an_empty_state_file_is_refused_with_the_way_on() {
    let mut node = Node::configured("");
    node.kill();
    let state = node.path().join("state.redb");
    std::fs::write(&state, "").unwrap();
    let settings = node.path().join("flashyard.toml");
    let start = ["serve", "--config", settings.to_str().unwrap()];
    let ports = ["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"];
    let refused = flashyard(&[&start[..], &ports].concat());
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    for part in [
        state.to_str().unwrap(),
        "is empty",
        "put a copy",
        "remove it",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // It was not touched, and the way on is one.
    assert_eq!(state.metadata().unwrap().len(), 0);
    std::fs::remove_file(&state).unwrap();
    node.start();
    let events = node.answer(&["event", "list"]);
    assert!(events.contains("this is a new node"), "{events}");
}

#[test]
fn a_lost_admin_token_is_made_anew_while_the_node_runs() {
    let mut node = Node::configured("");
    let former = node.client();
    let directory = node.path().to_str().unwrap().to_owned();
    node.answer(&["token", "create", "other", "--role", "admin"]);
    std::fs::remove_file(node.path().join(ADMIN_TOKEN_FILE)).unwrap();

    let reset = flashyard(&["token", "reset-admin", "--state", &directory]);
    assert!(reset.status.success(), "{reset:?}");
    assert!(text(&reset.stdout).contains("admin.token"), "{reset:?}");
    // The file's owner alone reads it; the token of before is worthless.
    let file = node.path().join(ADMIN_TOKEN_FILE).metadata().unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert!(former.status().is_err());
    let log = node.answer(&["audit", "list"]);
    assert!(log.contains("the state directory"), "{log}");
    assert!(node.answer(&["event", "list"]).contains("new secret"));

    // Also for a node that does not run: its start takes it.
    let before = read_admin_token(node.path()).unwrap();
    node.terminate();
    let reset = flashyard(&["token", "reset-admin", "--state", &directory]);
    assert!(
        text(&reset.stdout).contains("no node that runs"),
        "{reset:?}"
    );
    node.start();
    assert_ne!(read_admin_token(node.path()).unwrap(), before);
    node.answer(&["status"]);
}

#[test]
fn the_limit_of_open_files_is_raised_or_said_to_be_low() {
    let limits = |pid: u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        let words: Vec<String> = line
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        (words[3].clone(), words[4].clone())
    };
    let events = |limit: &str| {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let mut program = Command::new("sh");
        let script = format!(
            "ulimit -Sn 256; ulimit -Hn {limit}; exec \"$0\" serve --dev \"$1\" \
            --drives 1 --drive-size 16MiB --listen 127.0.0.1:0 --api-listen 127.0.0.1:0"
        );
        program.args(["-c", &script, PROGRAM]).arg(place);
        program.env("XDG_CONFIG_HOME", place);
        let mut process = program
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let endpoints = wait_for("the node", || Endpoints::read(place).ok());
        let (soft, hard) = limits(process.id());
        assert_eq!((soft.as_str(), hard.as_str()), (limit, limit));
        let client = Client::with(&Login {
            url: endpoints.api,
            token: Some(read_admin_token(place).unwrap()),
            certificate: None,
        });
        let events = client.unwrap().events(0).unwrap().items;
        process.kill().unwrap();
        process.wait().unwrap();
        events
            .iter()
            .any(|event| event.message.contains("files may be open at once"))
    };
    assert!(events("1024"), "too few, and nothing is said");
    assert!(!events("16384"), "enough");
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A node over `directory` whose settings name the key so, with the credentials there.
fn keyed(directory: &Path, state_key_file: &str) -> Command {
    let settings = directory.join("flashyard.toml");
    let state = directory.join("state");
    let written = format!(
        "state_directory = {state:?}\nstate_key_file = {state_key_file:?}\n\
         api.protocol = \"http\"\n"
    );
    std::fs::write(&settings, written).unwrap();
    let mut program = Command::new(PROGRAM);
    program.args(["serve", "--config"]).arg(settings);
    program.args(["--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"]);
    program.env("CREDENTIALS_DIRECTORY", directory.join("credentials"));
    program
}

/// Has the node run for as long as `ask` asks it something.
fn while_it_runs<T>(mut program: Command, state: &Path, ask: impl FnOnce(&[&str]) -> T) -> T {
    let quiet = program.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = quiet.spawn().unwrap();
    let url = wait_for("the node starts", || {
        let endpoints = Endpoints::read(state).ok()?;
        (endpoints.pid == process.id()).then_some(endpoints.api)
    });
    let token = state.join(ADMIN_TOKEN_FILE);
    let answer = ask(&["--node", &url, "--token-file", token.to_str().unwrap()]);
    process.kill().unwrap();
    process.wait().unwrap();
    answer
}

/// The state is encrypted with a credential of systemd's; without it, and with another, a start is
/// refused with the reason, and nothing is lost.
#[test]
fn a_credential_encrypts_the_state() {
    let directory = tempfile::tempdir().unwrap();
    let (path, state) = (directory.path(), directory.path().join("state"));
    let credential = path.join("credentials/state-key");
    std::fs::create_dir(path.join("credentials")).unwrap();
    std::fs::write(&credential, format!("{KEY}\n")).unwrap();
    let secret = while_it_runs(keyed(path, "state-key"), &state, |login| {
        let nqn = "nqn.2026-11.example:h";
        let added = flashyard(&[login, &["host", "add", "h", "--nqn", nqn]].concat());
        assert!(added.status.success(), "{added:?}");
        let make = ["host", "key", "h", "--generate", "-o", "json"];
        let made = flashyard(&[login, &make].concat());
        let made: api::NewHostKey = serde_json::from_slice(&made.stdout).unwrap();
        made.secret.reveal().to_owned()
    });
    let file = std::fs::read(state.join("state.redb")).unwrap();
    let mut parts = file.windows(secret.len());
    assert!(!parts.any(|part| part == secret.as_bytes()));

    let refused = |mut program: Command, said: &str| {
        let output = program.output().unwrap();
        let message = text(&output.stderr);
        assert!(
            !output.status.success() && message.contains(said),
            "{message}"
        );
        assert!(!message.contains("0011"), "{message}");
    };
    refused(keyed(path, ""), "no key was given");
    let mut without = keyed(path, "state-key");
    without.env_remove("CREDENTIALS_DIRECTORY");
    refused(without, "LoadCredential=");
    std::fs::write(&credential, KEY.replace('0', "a")).unwrap();
    refused(keyed(path, "state-key"), "not with the key");
    std::fs::write(&credential, KEY).unwrap();
    let there = while_it_runs(keyed(path, credential.to_str().unwrap()), &state, |login| {
        flashyard(&[login, &["host", "list"]].concat())
    });
    assert!(text(&there.stdout).contains("sha256"), "{there:?}");
}
