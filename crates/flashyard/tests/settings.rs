//! Settings on the command line: the sample is printed and correct, mistakes end with code 2.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn flashyard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flashyard"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_printed_default_settings_are_correct() {
    let printed = flashyard(&["serve", "--print-default-config"]);
    assert!(printed.status.success());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flashyard.toml");
    std::fs::write(&path, printed.stdout).unwrap();
    let checked = flashyard(&[
        "serve",
        "--check-config",
        "--config",
        path.to_str().unwrap(),
    ]);
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn a_wrong_setting_ends_with_code_2_and_names_file_line_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flashyard.toml");
    std::fs::write(&path, "[log]\nlevel = \"loud\"\n").unwrap();
    let checked = flashyard(&[
        "serve",
        "--check-config",
        "--config",
        path.to_str().unwrap(),
    ]);
    assert_eq!(checked.status.code(), Some(2));
    let message = String::from_utf8(checked.stderr).unwrap();
    for part in ["flashyard.toml", "line 2", "level", "loud", "`debug`"] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn a_missing_settings_file_is_named() {
    let checked = flashyard(&["serve", "--check-config", "--config", "/no/such/file.toml"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(
        String::from_utf8(checked.stderr)
            .unwrap()
            .contains("/no/such/file.toml")
    );
}
