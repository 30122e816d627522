//! `flashyard sim` tries worlds and says what came of them.

mod support;

use support::{flashyard, text};

#[test]
fn the_simulator_runs_from_the_command_line() {
    for scenario in ["any", "calm", "crowded", "wide", "liars", "trials"] {
        let arguments = ["--output", "json", "sim", "--seed", "7", "--runs", "2"];
        let output = flashyard(&[&arguments[..], &["--scenario", scenario]].concat());
        let said = text(&output.stdout);
        assert!(output.status.success(), "{scenario}: {output:?}");
        assert!(said.contains("\"failures\": []"), "{scenario}: {said}");
        assert!(said.contains("\"seeds\": 2"), "{scenario}: {said}");
    }
    // Nothing that was tried has not gone well.
    let none = flashyard(&["sim", "--runs", "0"]);
    let said = text(&none.stderr);
    assert_eq!(none.status.code(), Some(2), "{said}");
    assert!(said.contains("--runs") && said.contains("1.."), "{said}");
}
