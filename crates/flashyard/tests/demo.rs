//! The demonstration: it ends well by itself, and leaves nothing when it is interrupted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{flashyard, text};

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn every_acknowledged_write_survives_the_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let verb = [
        "demo",
        "--runtime",
        "1s",
        "--directory",
        path,
        "--output",
        "json",
    ];
    let shown = flashyard(&verb);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let results: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(results["measurements"].as_array().unwrap().len(), 5);
    for run in results["measurements"].as_array().unwrap() {
        assert!(run["iops"].as_f64().unwrap() > 0.0, "{run}");
    }
    let survival = &results["survival"];
    assert!(
        survival["acknowledged_blocks"].as_u64().unwrap() > 0,
        "{survival}"
    );
    assert_eq!(survival["acknowledged_blocks"], survival["verified_blocks"]);
    let damage = &results["damage"];
    assert_eq!(damage["verified_blocks"], survival["verified_blocks"]);
    for found in ["corrupted_bytes", "moved_bytes", "repaired_blocks"] {
        assert!(damage[found].as_u64().unwrap() > 0, "{damage}");
    }
    assert!(is_empty(directory.path()));
}

#[test]
fn an_interrupt_leaves_no_process_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut program = Command::new(env!("CARGO_BIN_EXE_flashyard"));
    program.args(["demo", "--directory", path.to_str().unwrap()]);
    let mut demo = program.stderr(Stdio::null()).spawn().unwrap();
    let endpoints = loop {
        let made = std::fs::read_dir(path).unwrap().next();
        let state = made.map(|entry| entry.unwrap().path());
        if let Some(Ok(found)) = state.map(|path| server::endpoints::Endpoints::read(&path)) {
            break found;
        }
        assert!(
            demo.try_wait().unwrap().is_none(),
            "the demonstration ended"
        );
        std::thread::sleep(Duration::from_millis(10));
    };
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert!(is_empty(path));
    assert!(!Path::new(&format!("/proc/{}", endpoints.pid)).exists());
}
