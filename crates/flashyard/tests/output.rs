//! Every command of the program with a standard output that takes nothing: a full one, one whose
//! reader has gone, and one that was closed. The commands are those that help texts name, so that a
//! new one has to be in the table. Attaching needs root.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/commands.rs"]
mod commands;
mod support;

use std::fs::File;
use std::process::{Command, Output, Stdio};

use commands::Shows::{self, Answer, Data, Nothing, Once, Refused};
use commands::{COMMANDS, commands_of_help};
use server::tokens::ADMIN_TOKEN_FILE;
use support::{Node, flashyard, text};
use tempfile::TempDir;

/// A data sheet's figures, as the page on the drive model shows them.
const FIGURES: &str = "
name = \"My drive\"
capacity_tb = 7.68
drive_writes_per_day = 1
warranty_years = 5
pcie_generation = 5
sequential_read_gb_s = 14.5
sequential_write_gb_s = 7.1
random_read_kiops = 2536
random_write = [{ namespace_tb = 7.68, kiops = 309 }, { namespace_tb = 6.4, kiops = 582 }]
mix = [{ namespace_tb = 7.68, read_percent = 70, outstanding = 64, kiops = 693 }]
";

/// A standard output that takes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sink {
    Full = 1,
    Gone = 2,
    Closed = 3,
}

impl Sink {
    const ALL: [Sink; 3] = [Sink::Full, Sink::Gone, Sink::Closed];

    /// The program with this as its standard output.
    fn program(self) -> Command {
        if self == Sink::Closed {
            let mut shell = Command::new("sh");
            shell.args([
                "-c",
                "exec \"$0\" \"$@\" >&-",
                env!("CARGO_BIN_EXE_flashyard"),
            ]);
            return shell;
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        program.stdout(self.open());
        program
    }

    fn open(self) -> Stdio {
        match self {
            Sink::Full => File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into(),
            Sink::Gone => {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                writer.into()
            }
            Sink::Closed => unreachable!("a shell closes it"),
        }
    }
}

/// A node, and what commands need beside it.
struct Scene {
    node: Node,
    directory: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let node = Node::configured("");
        // Their snapshots are in nobody's way.
        node.answer(&["drive", "add", "kept", "--memory", "64MiB"]);
        let create = ["pool", "create", "kept", "--level", "raid0"];
        node.answer(&[&create[..], &["--drives", "kept"]].concat());
        for n in [1, 2, 3] {
            let kept = format!("kept{n}");
            let create = ["volume", "create", &kept, "--pool", "kept"];
            node.answer(&[&create[..], &["--size", "4MiB"]].concat());
            node.answer(&["drive", "add", &format!("f{n}"), "--memory", "64MiB"]);
            node.answer(&["token", "create", &format!("spare{n}"), "--role", "viewer"]);
            let pair = ["a", "b"].map(|drive| format!("{drive}{n}"));
            for drive in &pair {
                node.answer(&["drive", "add", drive, "--memory", "64MiB"]);
            }
            let create = ["pool", "create", &format!("pair{n}"), "--level", "raid1"];
            node.answer(&[&create[..], &["--drives", &pair.join(",")]].concat());
        }
        let scene = Scene {
            node,
            directory: tempfile::tempdir().unwrap(),
        };
        scene.make_files();
        scene
    }

    /// What commands read: a stream, figures of a drive, results of the laboratory.
    fn make_files(&self) {
        let file = |name: &str| self.directory.path().join(name);
        self.node.answer(&["volume", "snapshot", "kept1", "sent"]);
        let mut send = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        send.args(["--node", &self.node.endpoints().api, "--token-file"])
            .arg(self.node.path().join(ADMIN_TOKEN_FILE))
            .args(["snapshot", "send", "sent"])
            .stdout(File::create(file("stream")).unwrap());
        assert!(send.status().unwrap().success());
        std::fs::write(file("figures.toml"), FIGURES).unwrap();
        let results = file("results.json");
        let run = ["lab", "run", "namespace", "--size", "smoke", "--results"];
        let run = flashyard(&[&run[..], &[results.to_str().unwrap()]].concat());
        assert!(run.status.success(), "{run:?}");
    }

    /// The command with what stands for its place holders.
    fn arguments(&self, command: &str, sink: Sink) -> Vec<String> {
        let directory = self.directory.path().to_str().unwrap();
        let token = self.node.path().join(ADMIN_TOKEN_FILE);
        let number = (sink as u8).to_string();
        let word = |word: &str| {
            let volume = || {
                let name = format!("v{number}").parse().unwrap();
                let nqn = self.node.client().volume(&name).unwrap().nqn;
                format!("tcp://{}/{nqn}", self.node.endpoints().nvme[0])
            };
            match word {
                "{volume}" => volume(),
                "{node}" => self.node.endpoints().api.clone(),
                "{token}" => token.to_str().unwrap().to_owned(),
                word => word.replace("{n}", &number).replace("{dir}", directory),
            }
        };
        command.split(' ').map(word).collect()
    }

    fn run(&self, arguments: &[String], sink: Sink) -> Output {
        let (file, arguments): (Vec<&String>, Vec<&String>) =
            arguments.iter().partition(|word| word.starts_with('<'));
        let input = file
            .first()
            .map_or(Stdio::null(), |file| File::open(&file[1..]).unwrap().into());
        let mut program = sink.program();
        program
            .env("FLASHYARD_NODE", &self.node.endpoints().api)
            .env(
                "FLASHYARD_TOKEN_FILE",
                self.node.path().join(ADMIN_TOKEN_FILE),
            )
            .env("XDG_CONFIG_HOME", self.directory.path())
            .env("RUST_BACKTRACE", "1")
            .stdin(input)
            .stderr(Stdio::piped())
            .args(arguments);
        program.spawn().unwrap().wait_with_output().unwrap()
    }
}

#[test]
fn every_command_is_here() {
    let missing: Vec<String> = commands_of_help()
        .into_keys()
        .filter(|verb| {
            let is = |(command, _): &(&str, Shows)| {
                *command == verb || command.starts_with(&format!("{verb} "))
            };
            !COMMANDS.iter().any(is)
        })
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

/// What is wrong with how a command ended.
fn fault(shows: Shows, sink: Sink, output: &Output) -> Option<String> {
    let said = text(&output.stderr);
    if said.contains("panicked") {
        return Some("it panics".to_owned());
    }
    let (code, told) = match (shows, sink) {
        (Refused(code, _), _) => (code, false),
        (Nothing, _) | (Answer, Sink::Gone) | (Answer | Data, Sink::Closed) => (0, false),
        (Answer, Sink::Full) | (Once | Data, _) => (1, true),
    };
    if output.status.code() != Some(code) {
        let why = if let Refused(_, why) = shows { why } else { "" };
        return Some(format!("it ends with {}, not {code} {why}", output.status));
    }
    (told != said.contains("standard output")).then(|| format!("told: {}", !told))
}

#[test]
fn every_command_ends_as_documented_where_its_output_takes_nothing() {
    let scene = Scene::new();
    let mut wrong = Vec::new();
    for (command, shows) in COMMANDS {
        for sink in Sink::ALL {
            // It takes long, and shows what it has to say as the others do.
            if command.starts_with("demo ") && sink != Sink::Full {
                continue;
            }
            let arguments = scene.arguments(command, sink);
            let output = scene.run(&arguments, sink);
            if let Some(fault) = fault(*shows, sink, &output) {
                let said = text(&output.stderr);
                wrong.push(format!("{command}, {sink:?}: {fault}; it says {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What could not be shown was not made.
    let client = scene.node.client();
    let tokens = client.tokens().unwrap().items;
    assert!(
        tokens
            .iter()
            .all(|token| !["t1", "t2", "t3"].contains(&token.name.as_str()))
    );
    let hosts = client.hosts().unwrap().items;
    assert!(
        hosts.iter().all(|host| host.key.is_none() && !host.tls),
        "{hosts:?}"
    );
}

#[test]
fn help_and_wrong_usage_end_as_documented_too() {
    let scene = Scene::new();
    let cases = [
        ("--help", 1, 0),
        ("--version", 1, 0),
        ("volume create --help", 1, 0),
        ("help token", 1, 0),
        ("nonsense", 2, 2),
        ("status --nonsense", 2, 2),
    ];
    for (command, full, gone) in cases {
        for (sink, code) in [(Sink::Full, full), (Sink::Gone, gone), (Sink::Closed, gone)] {
            let output = scene.run(&scene.arguments(command, sink), sink);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{command}, {sink:?}: {output:?}"
            );
        }
    }
    // `top` goes on for ever where somebody reads.
    let top = scene.run(&["top".to_owned()], Sink::Gone);
    assert_eq!(top.status.code(), Some(0), "{top:?}");
}

/// A standard error that takes nothing changes no exit code.
#[test]
fn a_full_standard_error_changes_nothing() {
    let cases: [(&[&str], i32); 4] = [
        (&["--node", "http://127.0.0.1:1", "status"], 3),
        (&["--node", "", "status"], 2),
        (&["nonsense"], 2),
        (&["completion", "bash"], 0),
    ];
    for (arguments, code) in cases {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        let status = program
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(full)
            .status();
        assert_eq!(status.unwrap().code(), Some(code), "{arguments:?}");
    }
}

/// Where a disk fills up or a pipe breaks after a secret was made, that is taken back. A device
/// that nobody sees is as bad.
#[test]
fn a_secret_is_not_made_for_an_output_that_nobody_sees() {
    let scene = Scene::new();
    let null = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
        let token = scene.node.path().join(ADMIN_TOKEN_FILE);
        let connection = ["--node", &scene.node.endpoints().api, "--token-file"];
        let output = program.args(connection).arg(token).args(arguments);
        output.stdout(Stdio::null()).output().unwrap()
    };
    let made = null(&["token", "create", "unseen", "--role", "viewer"]);
    assert_eq!(made.status.code(), Some(1), "{made:?}");
    assert!(text(&made.stderr).contains("null device"), "{made:?}");
    assert!(null(&["token", "list"]).status.success());
    let tokens = scene.node.answer(&["token", "list"]);
    assert!(!tokens.contains("unseen"), "{tokens}");
}
