//! `flashyard ssd` as people see it: its help and its answers, as snapshots. Virtual time and a
//! seed: every run says the same.

mod support;

use support::{flashyard, text};

fn answer(arguments: &[&str]) -> String {
    let output = flashyard(&[&["ssd"], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn its_help_is_as_documented() {
    for verb in ["simulate", "sweep"] {
        insta::assert_snapshot!(format!("help_{verb}"), answer(&[verb, "--help"]));
    }
}

/// The same load on a drive without placement, and with a handle for what is hot.
#[test]
fn handles_keep_hot_data_apart() {
    let load = ["simulate", "cm7-r-7.68", "--hot", "90/10", "--warm-up", "3"];
    insta::assert_snapshot!("hot_data_mixed", answer(&load));
    let placed = ["--reclaim-unit-handles", "2", "--isolation", "persistently"];
    insta::assert_snapshot!("hot_data_placed", answer(&[&load[..], &placed].concat()));
    let sizes = ["--namespace", "5.76TB..7.68TB", "--points", "2"];
    let sweep = [&["sweep"], &load[1..], &placed, &sizes].concat();
    insta::assert_snapshot!("hot_data_sweep", answer(&sweep));
}

#[test]
fn bad_placement_is_explained() {
    let cases: [(&[&str], &str); 5] = [
        (&["--reclaim-unit-handles", "0"], "0 is not in 1..=255"),
        (
            &["--reclaim-unit-handles", "2", "--fidelity", "closed-form"],
            "no formula",
        ),
        (
            &["--hot", "90/10", "--precondition", "steady-random"],
            "no formula",
        ),
        (&["--hot", "90"], "90% of the requests to 10%"),
        (&["--hot", "90/10", "--rw", "write"], "only random requests"),
    ];
    for (arguments, expected) in cases {
        let refused = flashyard(&[&["ssd", "simulate", "cm7-r-7.68"], arguments].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
