//! helm over the chart of the driver.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// All that a program printed.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Runs `program` to its end, with `input` to read.
pub fn run(mut command: Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let written = child.stdin.take().unwrap().write_all(input.as_bytes());
    written.unwrap();
    child.wait_with_output().unwrap()
}

/// Where programs are that only tests run.
pub fn tools() -> PathBuf {
    PathBuf::from(std::env::var_os("FLASHYARD_LAB_TOOLS").unwrap())
}

/// helm, which finds no settings of whoever runs the test; `values` are its last `--values`.
pub fn helm(words: &[&str], values: &str) -> Output {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/flashyard-csi");
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(tools().join("helm"));
    command
        .args(words)
        .arg(chart)
        .args(["--namespace", "flashyard", "--kube-version", "1.37.0"])
        .args(["--values", "-"])
        .env("HOME", home.path())
        .env("KUBECONFIG", "/nonexistent");
    run(command, values)
}

/// What the chart is with `values`.
pub fn rendered(values: &str) -> String {
    let output = helm(&["template", "flashyard"], values);
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}
