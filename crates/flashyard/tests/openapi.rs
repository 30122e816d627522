//! The node against its own description of the REST API: schemathesis makes requests up, right and
//! wrong ones, and compares what comes back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/load.rs"]
mod load;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use load::{clean, target, verified_load};
use support::{Node, text};

/// Seconds after which no new request is made up; the longest phase alone takes about sixty.
const SECONDS: &str = "90";

fn schemathesis() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let program = target.join("schemathesis/bin/schemathesis");
    assert!(
        program.exists(),
        "{} is missing: .ci/install --schemathesis",
        program.display()
    );
    program
}

/// Requests of the second test; as many seeds as one wants are tried by hand.
const ODD_REQUESTS: &str = "1500";
const ODD_SEED: &str = "20261126";

/// How many operations the line that begins with `label` counts.
fn count(report: &str, label: &str) -> usize {
    let line = report.lines().find_map(|line| {
        let numbers = line.trim().strip_prefix(label)?;
        numbers.trim().split('/').next()?.parse().ok()
    });
    line.unwrap_or_else(|| panic!("no {label} in:\n{report}"))
}

#[test]
fn the_node_does_what_its_description_says() {
    let node = Node::develop(&["--drives", "2"]);
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi");
    let scratch = tempfile::tempdir().unwrap();
    let output = Command::new(schemathesis())
        .arg("--config-file")
        .arg(settings.join("schemathesis.toml"))
        .arg("run")
        .arg(format!("{}/openapi.json", node.endpoints().api))
        .arg("--header")
        .arg(format!("Authorization: Bearer {}", node.admin_token()))
        .args(["--max-time", SECONDS, "--no-color"])
        .env("PYTHONPATH", &settings)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCRATCH", scratch.path())
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let report = text(&output.stdout);
    assert!(output.status.success(), "{report}{}", text(&output.stderr));
    let operations = count(&report, "Tested:");
    assert!(operations > 60 && operations == count(&report, "Selected:"));
    // Had the token been lost on the way, only refusals would have been looked at.
    assert!(node.client().status().is_ok(), "{report}");
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

/// Requests with odd values about few objects, of which many are there: no fault of the node, no
/// answer that is not described, and what the node serves beside it is served to the end.
#[test]
fn odd_requests_about_few_objects_break_nothing() {
    let node = Node::develop(&["--drives", "4"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi/odd_requests.py");
    let scratch = tempfile::tempdir().unwrap();
    let serves = || {
        clean(
            &verified_load(target(&node, "demo"), 4096, 500),
            "beside it",
        )
    };
    serves();
    let (api, token) = (node.endpoints().api.clone(), node.admin_token());
    let seed = std::env::var("ODD_SEED").unwrap_or_else(|_| ODD_SEED.to_owned());
    let requests = std::env::var("ODD_REQUESTS").unwrap_or_else(|_| ODD_REQUESTS.to_owned());
    let output = Command::new(schemathesis().with_file_name("python"))
        .arg(script)
        .args([&api, &token, &seed, &requests])
        .arg(scratch.path())
        .output()
        .unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "seed {seed}: {said}");
    assert!(!node.log().contains("panicked"), "{}", node.log());
    assert!(node.client().status().is_ok());
    serves();
}
