//! Completion scripts and manual pages come from the same description as the command line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::{flashyard, text};

#[test]
fn every_shell_gets_a_script_that_knows_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let script = flashyard(&["completion", shell]);
        assert!(script.status.success(), "{script:?}");
        let script = text(&script.stdout);
        for word in ["volume", "token", "revoke"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let written = flashyard(&["manual", directory.path().to_str().unwrap()]);
    assert!(written.status.success(), "{written:?}");
    for page in [
        "flashyard.1",
        "flashyard-volume-create.1",
        "flashyard-token-create.1",
    ] {
        let page = directory.path().join(page);
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(".SH NAME"), "{page}");
    }
}
