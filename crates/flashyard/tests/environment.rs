//! What the environment says, and what files with tokens hold.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Output};

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
    program.env("XDG_CONFIG_HOME", "/nonexistent");
    program.envs(variables.iter().copied());
    program.args(arguments).output().unwrap()
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
    // The same of every file that holds a secret.
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let cases: [&[&str]; 5] = [
        &["login", &api, "--token-file", file],
        &["host", "key", "h", "--set", file],
        &["host", "key", "h", "--set", file, "--controller", file],
        &["host", "tls-key", "h", "--set", file],
        &[
            "perf",
            "tcp://127.0.0.1:1/nqn.2014-08.org.example:x",
            "--tls-key",
            file,
        ],
    ];
    for arguments in cases {
        let output = with(&[], arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains(file) && said.contains("2 lines"),
            "{arguments:?}: {said}"
        );
    }
}
