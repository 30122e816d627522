//! Each reason for which a ratio is not compared, in every form of a report and in a comparison of
//! results: it is named, and no ratio stands without an interval or as if it could be quoted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lab::experiment::{Flash, Machine, Measured, Results, RunResult, Verdict, answered, compare};
use lab::load::DirectionReport;
use lab::plan::Plan;
use lab::processor::ProcessorSecond;
use lab::report::{csv, html, markdown};

const PLAN: &str = r#"
name = "made-up"
title = "t"
question = "q"
baseline = "old"
run.repetitions_max = 4
run.time_max = "1h"

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

[[answer]]
label = "new over old"
says = "New makes {ratio} times"
workload = "w"
target = "new"
published = 1.5
"#;

/// What a run came to beside its rates.
#[derive(Clone, Copy, Default)]
struct Host {
    late_percent: f64,
    busy_percent: f64,
}

fn results(old: &[f64], new: &[f64], host: Host) -> (Plan, Results) {
    let (plan, text) = Plan::parse("p", PLAN, None, &[]).unwrap();
    let mut results = Results::new(text, None);
    results.machine = Machine::default();
    for (target, rates) in [("old", old), ("new", new)] {
        for (repetition, iops) in (0..).zip(rates) {
            let read = DirectionReport {
                iops: *iops,
                ..DirectionReport::default()
            };
            let measured = Measured {
                read: Some(read),
                flash: Some(Flash {
                    late_percent: Some(host.late_percent),
                    ..Flash::default()
                }),
                processors: vec![ProcessorSecond {
                    machine_percent: host.busy_percent,
                    ..ProcessorSecond::default()
                }],
                ..Measured::default()
            };
            results.runs.push(RunResult {
                workload: "w".to_owned(),
                target: target.to_owned(),
                repetition,
                steady: None,
                measured,
            });
        }
    }
    results.end();
    (plan, results)
}

const NARROW: [&[f64]; 2] = [&[100.0, 101.0, 99.0], &[160.0, 161.0, 159.0]];
const WIDE: [&[f64]; 2] = [&[100.0, 180.0, 120.0, 100.0], &[160.0, 260.0, 120.0, 200.0]];

/// Ratios that the page shows as measured, beside the one in the chart's legend.
fn measured(page: &str) -> usize {
    page.matches("<circle class=measured").count() - 1
}

/// That every form names this reason and quotes no ratio.
fn is_named(plan: &Plan, results: &Results, reason: &str) {
    let said = answered(plan, results).remove(0).said.unwrap().to_string();
    let page = html(plan, results).unwrap();
    let text = markdown(plan, results);
    let lines = csv(plan, results);
    for (form, shown) in [
        ("said", &said),
        ("page", &page),
        ("Markdown", &text),
        ("CSV", &lines),
    ] {
        assert!(shown.contains(reason), "{form}: {reason}\n{shown}");
    }
    assert!(said.starts_with("Not compared: "), "{said}");
    assert!(
        said.contains("published 1.50, which this run neither confirms"),
        "{said}"
    );
    assert!(
        page.contains("<span class=\"badge open\">not compared</span>"),
        "{page}"
    );
    assert_eq!(measured(&page), 0, "{page}");
    assert!(text.contains("| new over old | not compared | "), "{text}");
    let rate = lines
        .lines()
        .find(|line| line.contains(",new,rate,"))
        .unwrap();
    assert_eq!(rate.split(',').nth(10), Some(""), "{rate}");
}

#[test]
fn one_repetition() {
    let (plan, results) = results(&[100.0], &[160.0], Host::default());
    is_named(&plan, &results, "one repetition has no interval");
    let said = answered(&plan, &results).remove(0).said.unwrap();
    assert_eq!(said.says, "Not compared: new over old");
    for shown in [html(&plan, &results).unwrap(), markdown(&plan, &results)] {
        assert!(!shown.contains("1.60"), "{shown}");
        assert!(shown.contains("160 (once)"), "{shown}");
    }
}

#[test]
fn as_many_repetitions_as_the_plan_allows() {
    let (plan, results) = results(WIDE[0], WIDE[1], Host::default());
    let reason = "wider than ±15% after 4 repetitions, as many as the plan allows";
    is_named(&plan, &results, reason);
}

#[test]
fn the_time_that_the_plan_allows() {
    let (plan, mut results) = results(&WIDE[0][..3], &WIDE[1][..3], Host::default());
    results.spent_seconds = 3601.0;
    let reason = "after 3 repetitions, when the time that the plan allows was over";
    is_named(&plan, &results, reason);
}

#[test]
fn results_that_are_not_complete() {
    let (plan, mut results) = results(&WIDE[0][..3], &WIDE[1][..3], Host::default());
    results.ended = None;
    is_named(
        &plan,
        &results,
        "after 3 repetitions, and the run is not complete",
    );
}

#[test]
fn a_host_that_was_busy_or_late() {
    for (late_percent, busy_percent, reason) in [
        (14.0, 20.0, "this host decided it: 14% of the I/O was late"),
        (0.0, 97.0, "this host decided it: processors were 97% busy"),
        (
            6.0,
            95.0,
            "6% of the I/O was late and processors were 95% busy",
        ),
    ] {
        let host = Host {
            late_percent,
            busy_percent,
        };
        let (plan, results) = results(NARROW[0], NARROW[1], host);
        is_named(&plan, &results, reason);
        for shown in [html(&plan, &results).unwrap(), markdown(&plan, &results)] {
            assert!(shown.contains("% (not compared)"), "{shown}");
        }
    }
}

/// A ratio over nothing is none; a reader is told which question has no answer.
#[test]
fn a_side_that_completed_nothing() {
    for [old, new] in [[&[0.0; 3][..], NARROW[1]], [NARROW[0], &[0.0; 3]]] {
        let (plan, results) = results(old, new, Host::default());
        for shown in [html(&plan, &results).unwrap(), markdown(&plan, &results)] {
            let reason = "Not answered, as a side has no figure, or 0: new over old.";
            assert!(shown.contains(reason), "{shown}");
        }
    }
}

#[test]
fn what_is_sure_is_quoted_in_every_form() {
    let host = Host {
        late_percent: 4.9,
        busy_percent: 89.0,
    };
    let (plan, results) = results(NARROW[0], NARROW[1], host);
    let said = answered(&plan, &results)
        .remove(0)
        .said
        .unwrap()
        .to_string();
    assert!(
        said.starts_with("New makes 1.60 times (95%: 1.57 to 1.64);"),
        "{said}"
    );
    let (page, text) = (html(&plan, &results).unwrap(), markdown(&plan, &results));
    assert_eq!(measured(&page), 1, "{page}");
    assert!(
        text.contains("| new over old | 1.60 | 95%: 1.57 to 1.64 | 1.50 |"),
        "{text}"
    );
    for shown in [said, page, text, csv(&plan, &results)] {
        assert!(!shown.to_lowercase().contains("not compared:"), "{shown}");
        assert!(!shown.contains("not compared<"), "{shown}");
    }
}

#[test]
fn a_comparison_says_what_it_does_not_compare_and_why() {
    let whole = |rates: [&[f64]; 2], host| results(rates[0], rates[1], host).1;
    let rate = |before: &Results, after: &Results| {
        let mut found = compare(before, after, 0.0).unwrap();
        (found.changes.remove(0), found.ratios.remove(0))
    };
    let sure = whole(NARROW, Host::default());
    let (change, ratio) = rate(&sure, &sure);
    assert_eq!(change.verdict, Verdict::NoDifference);
    assert_eq!(ratio.after.to_string(), "1.600 (1.566 to 1.635)");
    let late = Host {
        late_percent: 14.0,
        busy_percent: 0.0,
    };
    for (other, reason) in [
        (
            whole([&[100.0], &[160.0]], Host::default()),
            "one repetition has no interval",
        ),
        (
            whole(WIDE, Host::default()),
            "wider than ±15% after 3 repetitions",
        ),
        (
            whole(NARROW, late),
            "this host decided it: 14% of the I/O was late",
        ),
    ] {
        for (before, after) in [(&sure, &other), (&other, &sure)] {
            let (change, ratio) = rate(before, after);
            assert_eq!(change.verdict, Verdict::NotCompared, "{reason}");
            let why: Vec<String> = change.doubts.iter().map(ToString::to_string).collect();
            assert!(why.iter().any(|why| why.contains(reason)), "{why:?}");
            let shown = [ratio.before.to_string(), ratio.after.to_string()];
            assert!(shown.contains(&"not compared".to_owned()), "{shown:?}");
        }
    }
}
