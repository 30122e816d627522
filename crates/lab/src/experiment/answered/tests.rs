//! The committed results, and results that are made up, are answered as they allow and no further.

use std::path::Path;

use super::*;
use crate::experiment::{Machine, Measured};
use crate::load::DirectionReport;

const PLAN: &str = r#"
name = "made-up"
title = "t"
question = "q"
baseline = "old"

[[target]]
name = "old"
kind = "emulated"
profile = "cm7-r-7.68"

[[target]]
name = "new"
kind = "emulated"
profile = "cm7-r-7.68"

[[workload]]
name = "w"
unit = "IOPS"

[[published]]
workload = "w"
target = "old"
value = 100

[[published]]
workload = "w"
target = "new"
value = 150

[[answer]]
label = "new over old"
says = "New makes {ratio} times"
workload = "w"
target = "new"
"#;

/// Results of so many I/Os a second, repetition by repetition.
fn results(text: &str, old: &[f64], new: &[f64]) -> (Plan, Results) {
    let (plan, text) = Plan::parse("p", text, None, &[]).unwrap();
    let mut results = Results::new(text, None);
    results.machine = Machine::default();
    for (target, rates) in [("old", old), ("new", new)] {
        for (repetition, iops) in (0..).zip(rates) {
            let read = DirectionReport {
                iops: *iops,
                ..DirectionReport::default()
            };
            results.runs.push(RunResult {
                workload: "w".to_owned(),
                target: target.to_owned(),
                repetition,
                steady: None,
                measured: Measured {
                    read: Some(read),
                    ..Measured::default()
                },
            });
        }
    }
    (plan, results)
}

fn one(old: &[f64], new: &[f64]) -> Answered {
    let (plan, results) = results(PLAN, old, new);
    answered(&plan, &results).remove(0)
}

#[test]
fn an_interval_beyond_one_settles_it() {
    // Means good to 0.58% and 0.36%: by hand, 3 degrees of freedom, 3.182 * 0.0068 = 2.2%.
    let found = one(&[100.0, 101.0, 99.0], &[160.0, 161.0, 159.0]);
    assert_eq!(found.standing, Standing::Settled);
    let sentence = found.said.unwrap().to_string();
    assert_eq!(
        sentence,
        "New makes 1.60 times (95%: 1.57 to 1.64); published 1.50, in the same direction."
    );
}

#[test]
fn no_difference_is_an_answer_if_it_is_sure() {
    let found = one(&[100.0, 101.0, 99.0], &[100.0, 101.0, 99.0]);
    assert_eq!(found.standing, Standing::Settled);
    let sentence = found.said.unwrap().to_string();
    assert!(
        sentence.ends_with("published 1.50, of which nothing is seen here."),
        "{sentence}"
    );
}

#[test]
fn repetitions_that_disagree_settle_nothing() {
    let found = one(&[100.0, 200.0], &[220.0, 230.0]);
    assert_eq!(found.standing, Standing::NotCompared);
    let sentence = found.said.unwrap().to_string();
    assert!(
        sentence.starts_with("Not compared: New makes 1.50 times (95%: 0.0"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("which this run neither confirms nor refutes."),
        "{sentence}"
    );
    assert_eq!(found.repetitions, [2.2, 1.15]);
}

#[test]
fn one_repetition_has_no_interval_and_says_so() {
    let found = one(&[100.0], &[160.0]);
    assert_eq!((found.doubts, found.interval), (vec![Doubt::Once], None));
    let sentence = found.said.unwrap().to_string();
    assert!(
        sentence.starts_with("Not compared: new over old (one repetition has no interval)"),
        "{sentence}"
    );
    let virtual_time = PLAN.replace(
        "kind = \"emulated\"",
        "kind = \"emulated\"\nclock = \"virtual\"",
    );
    let (plan, results) = results(&virtual_time, &[100.0], &[160.0]);
    assert_eq!(answered(&plan, &results)[0].standing, Standing::Modelled);
}

#[test]
fn a_side_that_was_not_run_or_is_nothing_is_no_answer() {
    for (old, new, both_were_run) in [
        (&[][..], &[1.0][..], false),
        (&[1.0], &[], false),
        (&[0.0], &[1.0], true),
        (&[1.0], &[0.0], true),
    ] {
        let (plan, results) = results(PLAN, old, new);
        assert_eq!(answered(&plan, &results), [], "{old:?} {new:?}");
        let named = unanswered(&plan, &results) == ["new over old"];
        assert_eq!(named, both_were_run, "{old:?} {new:?}");
    }
    let (plan, results) = results(PLAN, &[1.0], &[2.0]);
    assert!(unanswered(&plan, &results).is_empty());
}

#[test]
fn a_plan_that_asks_nothing_is_answered_by_its_ratios() {
    let asked = PLAN.find("[[answer]]").unwrap();
    let (plan, results) = results(
        &PLAN[..asked],
        &[100.0, 101.0, 99.0],
        &[160.0, 161.0, 159.0],
    );
    let found = answered(&plan, &results);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].label, "w: new over old");
    let sentence = found[0].said.clone().unwrap().to_string();
    assert!(
        sentence.starts_with("new makes 1.60 times what old makes (w)"),
        "{sentence}"
    );
}

#[test]
fn an_answer_has_to_name_what_there_is() {
    for (from, to, expected) in [
        (
            "target = \"new\"\n",
            "target = \"newer\"\n",
            "no target is named newer",
        ),
        ("{ratio} times", "more", "has to hold {ratio} once"),
        (
            "baseline = \"old\"\n",
            "",
            "is needed where the plan has no baseline",
        ),
    ] {
        let asked = PLAN.find("[[answer]]").unwrap();
        let (head, tail) = PLAN.split_at(asked);
        let text = match from.starts_with("baseline") {
            true => format!("{}{tail}", head.replace(from, to)),
            false => format!("{head}{}", tail.replace(from, to)),
        };
        let error = Plan::parse("p", &text, None, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// What the committed results say first: the wording is read by people, so that a change of it is
/// a change that somebody decides on.
#[test]
fn committed_results_are_answered_as_far_as_they_go() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    for (name, standings) in [
        ("namespace", &[Standing::Modelled, Standing::Modelled][..]),
        (
            "raid6",
            &[Standing::Settled, Standing::Settled, Standing::NotCompared],
        ),
        (
            "network",
            &[
                Standing::Settled,
                Standing::NotCompared,
                Standing::NotCompared,
            ],
        ),
        ("cassandra", &[Standing::NotCompared; 2]),
        (
            "tpcc",
            &[
                Standing::NotCompared,
                Standing::NotCompared,
                Standing::Settled,
            ],
        ),
    ] {
        let results = Results::load(&folder.join(format!("{name}.json"))).unwrap();
        let found = answered(&results.plan().unwrap(), &results);
        let head: Vec<Standing> = found
            .iter()
            .filter(|one| one.said.is_some())
            .map(|one| one.standing)
            .collect();
        assert_eq!(head, standings, "{name}");
        for one in &found {
            let bare = one.interval.is_none() && one.repetitions.len() > 1;
            assert!(!bare, "{name}: {} has no interval", one.label);
        }
    }
}
