//! Help texts, as snapshots: a changed word is a change somebody reads.
//!
//! `INSTA_UPDATE=always cargo test -p flashyard --test help` writes them anew.

mod support;

use support::{flashyard, text};

#[test]
fn help_is_as_documented() {
    let verbs: &[&[&str]] = &[
        &[],
        &["serve"],
        &["status"],
        &["drive"],
        &["drive", "add"],
        &["volume"],
        &["volume", "create"],
        &["volume", "allow"],
        &["host"],
        &["host", "add"],
        &["host", "key"],
        &["host", "tls-key"],
        &["session"],
        &["event"],
        &["event", "list"],
        &["login"],
        &["token", "create"],
        &["demo"],
    ];
    for verb in verbs {
        let mut arguments = verb.to_vec();
        arguments.push("--help");
        let output = flashyard(&arguments);
        assert!(output.status.success(), "{output:?}");
        let name = ["help", &verb.join("_")].join("_");
        insta::assert_snapshot!(name, text(&output.stdout));
    }
}
