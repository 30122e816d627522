//! What the environment says, and what files with tokens hold.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/commands.rs"]
mod commands;
mod support;

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use commands::{COMMANDS, commands_of_help};
use server::tokens::ADMIN_TOKEN_FILE;
use support::{Node, flashyard, text};

/// Every variable that help texts name, with a value that no command likes.
const VARIABLES: &[(&str, &str)] = &[
    ("FLASHYARD_NODE", "no address"),
    ("FLASHYARD_TOKEN_FILE", "/nonexistent/token"),
];

fn with(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
    for (name, _) in VARIABLES {
        program.env_remove(name);
    }
    program.env("XDG_CONFIG_HOME", "/proc/nonexistent");
    program.envs(variables.iter().copied());
    program.args(arguments).stdin(Stdio::null());
    program.output().unwrap()
}

#[test]
fn every_variable_is_here() {
    let help = text(&flashyard(&["--help"]).stdout);
    let serve = text(&flashyard(&["serve", "--help"]).stdout);
    let named: BTreeSet<&str> = [&help, &serve]
        .iter()
        .flat_map(|help| help.split("[env: ").skip(1))
        .filter_map(|rest| rest.split([']', '=']).next())
        .collect();
    let here = VARIABLES.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, here);
}

/// An empty variable is one that is not set, to every command that would use it.
#[test]
fn empty_counts_as_not_set() {
    let node = Node::configured("");
    let token_file = node.path().join(ADMIN_TOKEN_FILE);
    let (api, token_file) = (&node.endpoints().api, token_file.to_str().unwrap());
    for (empty, _) in VARIABLES {
        let arguments = ["--node", api, "--token-file", token_file, "status"];
        let output = with(&[(empty, "")], &arguments);
        assert!(output.status.success(), "{empty}: {output:?}");
        let output = with(&[(empty, "")], &["--node", "http://127.0.0.1:1", "status"]);
        assert_eq!(output.status.code(), Some(3), "{empty}: {output:?}");
    }
    // Nothing is said of where the node is, so it is sought at its usual place.
    let output = with(&[("FLASHYARD_NODE", "")], &["status"]);
    let said = text(&output.stderr);
    assert!(!said.contains("node address"), "{said}");
    // What somebody types is taken at its word.
    let output = with(&[], &["--node", "", "status"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Commands that ask no node have nothing to do with what says which.
#[test]
fn variables_do_not_concern_commands_without_a_node() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let commands: [&[&str]; 9] = [
        &["serve", "--check-config"],
        &["serve", "--print-default-config"],
        &["ssd", "profiles"],
        &["lab", "list"],
        &["completion", "zsh"],
        &["manual", place],
        &["sim", "--runs", "1", "--scenario", "calm"],
        &["token", "reset-admin", "--state", place],
        &["help"],
    ];
    for command in commands {
        for variable in VARIABLES {
            for value in [variable.1, ""] {
                let output = with(&[(variable.0, value)], command);
                assert!(
                    output.status.success(),
                    "{command:?}, {variable:?}: {output:?}"
                );
            }
        }
    }
}

/// Commands that ask no node, or none that a variable names.
const WITHOUT_NODE: [&str; 18] = [
    "serve",
    "attached",
    "detach",
    "perf",
    "token reset-admin",
    "login",
    "ssd profiles",
    "ssd simulate",
    "ssd sweep",
    "ssd fit",
    "lab list",
    "lab run",
    "lab report",
    "lab compare",
    "completion",
    "manual",
    "sim",
    "demo",
];

/// Every command either asks the node that a variable names, and says what is wrong with that, or
/// says nothing of it.
#[test]
fn every_command_heeds_the_variables_or_has_nothing_to_do_with_them() {
    for (command, _) in COMMANDS {
        let command = command.split(" <").next().unwrap().replace("{n}", "1");
        let command = command.replace("{dir}", "/proc/nonexistent");
        let command = command.replace("{volume}", "tcp://127.0.0.1:1/nqn.2014-08.org.example:x");
        let command = command.replace("{node}", "http://127.0.0.1:1");
        let command = command.replace("{token}", "/nonexistent/other");
        let is = |verb: &&str| command.starts_with(&format!("{verb} ")) || command == **verb;
        let heeds = !WITHOUT_NODE.iter().any(is);
        let arguments: Vec<&str> = command.split(' ').collect();
        for variable in VARIABLES {
            let output = with(&[*variable], &arguments);
            let said = text(&output.stderr);
            assert_eq!(
                said.contains(variable.1),
                heeds,
                "{command}, {variable:?}: {said}"
            );
            if heeds {
                assert_eq!(
                    output.status.code(),
                    Some(2),
                    "{command}, {variable:?}: {said}"
                );
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_token_file_is_said_and_the_file_named() {
    let node = Node::configured("");
    let secret = node.admin_token();
    let path = node.path().join("token");
    let file = path.to_str().unwrap();
    let api = node.endpoints().api.clone();
    let ask = |contents: &[u8]| {
        std::fs::write(&path, contents).unwrap();
        [
            with(&[], &["--node", &api, "--token-file", file, "status"]),
            with(
                &[("FLASHYARD_TOKEN_FILE", file)],
                &["--node", &api, "status"],
            ),
        ]
    };
    for good in [
        secret.clone(),
        format!("\u{feff}{secret}\r\n"),
        format!("\n  {secret} \t\n\n"),
    ] {
        for output in ask(good.as_bytes()) {
            assert!(output.status.success(), "{good:?}: {output:?}");
        }
    }
    let utf_16: Vec<u8> = "\u{feff}fy"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cases: [(&[u8], &str); 6] = [
        (b"", "empty"),
        (b"fy_1\nfy_2\n", "2 lines"),
        (b"fy_1 fy_2", "a blank or a control character"),
        (b"fy_\x07", "a blank or a control character"),
        (b"fy_\xff\n", "no UTF-8 text from byte 3 on"),
        (&utf_16, "UTF-16"),
    ];
    for (contents, problem) in cases {
        for output in ask(contents) {
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{contents:?}: {said}");
            assert!(
                said.contains(file) && said.contains(problem),
                "{contents:?}: {said}"
            );
        }
    }
}

/// Options that name a file which holds no secret.
const NO_SECRET: [&str; 8] = [
    "--config",
    "--results",
    "--save",
    "--svg",
    "--syslog-ca",
    "--to",
    "--token-file",
    "--verify-journal",
];

/// How commands with options for secrets are called.
const CALLS: [&str; 9] = [
    "attach tcp://127.0.0.1:1/nqn.2014-08.org.example:x",
    "csi --endpoint unix://DIR/csi.sock",
    "host key h",
    "host tls-key h",
    "login http://127.0.0.1:1",
    "perf tcp://127.0.0.1:1/nqn.2014-08.org.example:x",
    "snapshot send s",
    "volume receive v --pool p",
    "volume replicate v --to http://127.0.0.1:9 --pool p --every 1h",
];

/// Options of a command that name a file with a secret, by its help. What all commands have is left
/// out.
fn secret_options(help: &str) -> Vec<String> {
    let own = help.split("\nNode:\n").next().unwrap();
    let lines = own.lines().map(str::trim);
    let named = lines.filter_map(|line| line.strip_suffix(" <FILE>"));
    let named = named.filter_map(|option| option.split(' ').next_back());
    let secret = named.filter(|option| !NO_SECRET.contains(option));
    secret.map(str::to_owned).collect()
}

/// Each file that holds a secret, by whichever option of whichever command, is named with what is
/// wrong with it.
#[test]
fn what_is_wrong_with_a_file_of_a_secret_is_said_and_the_file_named() {
    let node = Node::configured("");
    let directory = node.path().to_str().unwrap();
    let file = |called: &str, contents: &str| {
        let path = node.path().join(called);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let wrong = file("wrong", "one\ntwo\n");
    let good = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let good = file("good", good);
    let token_file = node.path().join(ADMIN_TOKEN_FILE);
    let variables = [
        ("FLASHYARD_NODE", node.endpoints().api.as_str()),
        ("FLASHYARD_TOKEN_FILE", token_file.to_str().unwrap()),
    ];
    let mut tried = BTreeSet::new();
    for (verb, help) in commands_of_help() {
        for option in secret_options(&help) {
            let call = CALLS
                .iter()
                .find(|call| call.starts_with(&format!("{verb} ")));
            let call = call.unwrap_or_else(|| panic!("no call of {verb}, which has {option}"));
            let call = call.replace("DIR", directory);
            let mut arguments: Vec<&str> = call.split(' ').collect();
            match option.as_str() {
                "--controller" => arguments.extend(["--set", &good]),
                "--controller-secret-file" => arguments.extend(["--dhchap-secret-file", &good]),
                _ => {}
            }
            arguments.extend([option.as_str(), &wrong]);
            let output = with(&variables, &arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(
                said.contains(&wrong) && said.contains("2 lines"),
                "{arguments:?}: {said}"
            );
            tried.insert(verb.clone());
        }
    }
    let login = ["login", &node.endpoints().api, "--token-file", &wrong];
    let output = with(&[], &login);
    let said = text(&output.stderr);
    assert!(said.contains(&wrong) && said.contains("2 lines"), "{said}");
    tried.insert("login".to_owned());
    assert_eq!(
        tried.len(),
        CALLS.len(),
        "calls that nobody needs: {tried:?}"
    );
}
