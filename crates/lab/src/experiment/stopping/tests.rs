//! The rule on made-up figures whose noise is known, from fixed seeds: how often is enough, what is
//! repeated, and what the intervals are worth that come of it.

use std::time::Duration;

use super::*;
use crate::experiment::{Answered, Doubt, Ended, Machine, Measured, RunResult, Standing, answered};
use crate::load::{DirectionReport, SplitMix};

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

[[target]]
name = "other"
kind = "emulated"
profile = "cm7-r-7.68"

[[workload]]
name = "w"

[[answer]]
label = "new over old"
says = "New makes {ratio} times"
workload = "w"
target = "new"

[[answer]]
label = "other over old"
workload = "w"
target = "other"
"#;

/// The true ratio of `new` over `old`.
const RATIO: f64 = 1.3;

fn plan(changes: &[&str]) -> (Plan, Results) {
    let changes: Vec<_> = changes.iter().map(|text| text.parse().unwrap()).collect();
    let (plan, text) = Plan::parse("p", PLAN, None, &changes).unwrap();
    let mut results = Results::new(text, None);
    results.machine = Machine::default();
    (plan, results)
}

/// Normally distributed around 0, with deviation 1: twelve even ones, less their mean.
fn noise(random: &mut SplitMix) -> f64 {
    let even = |random: &mut SplitMix| random.below(1 << 32) as f64 / 4_294_967_296.0;
    (0..12).map(|_| even(random)).sum::<f64>() - 6.0
}

fn measured(iops: f64) -> Measured {
    let read = DirectionReport {
        iops,
        ..DirectionReport::default()
    };
    Measured {
        read: Some(read),
        ..Measured::default()
    }
}

/// Runs what comes next, whose figures vary by this share of theirs, until it is enough.
fn repeat(plan: &Plan, results: &mut Results, share: f64, seed: u64) {
    let mut random = SplitMix::new(seed);
    while let Some(Next { repetition, pairs }) = next(plan, results) {
        for (workload, target) in pairs {
            let mean = if target == "new" {
                100.0 * RATIO
            } else {
                100.0
            };
            let iops = (mean * (1.0 + share * noise(&mut random))).max(1.0);
            results.runs.push(RunResult {
                workload,
                target,
                repetition,
                steady: None,
                measured: measured(iops),
            });
        }
        results.spent_seconds += 10.0;
    }
    results.end();
}

fn made(results: &Results, target: &str) -> usize {
    results
        .runs
        .iter()
        .filter(|run| run.target == target)
        .count()
}

fn heading(plan: &Plan, results: &Results) -> Answered {
    answered(plan, results).remove(0)
}

#[test]
fn noise_decides_how_often_and_a_ratio_is_sure_or_says_why_not() {
    let mut before = 0.0;
    for share in [0.0, 0.02, 0.05, 0.1, 0.2, 0.4] {
        let mut repetitions = Vec::new();
        for seed in 0..200 {
            let (plan, mut results) = plan(&[]);
            repeat(&plan, &mut results, share, seed);
            let (count, found) = (made(&results, "new"), heading(&plan, &results));
            assert_eq!(made(&results, "old"), count);
            // What no sentence rests on is run as often as the plan wants at least.
            assert_eq!(made(&results, "other"), 3);
            assert!((3..=12).contains(&count), "{count}");
            let [_, high] = found.interval.unwrap();
            let within = high / found.ratio - 1.0 <= 0.15;
            assert_eq!(found.standing == Standing::Settled, within, "{found:?}");
            if !within {
                let why = Doubt::Wide {
                    allowed_percent: 15.0,
                    repetitions: 12,
                    ended: Ended::Repetitions,
                };
                assert_eq!(found.doubts, [why]);
            }
            repetitions.push(count as f64);
        }
        let mean = repetitions.iter().sum::<f64>() / repetitions.len() as f64;
        assert!(mean >= before, "{mean} repetitions with noise of {share}");
        before = mean;
    }
    assert!(before > 11.0, "{before}");
}

#[test]
fn no_repetition_is_made_once_it_is_enough() {
    for seed in 0..100 {
        let (plan, mut results) = plan(&[]);
        repeat(&plan, &mut results, 0.1, seed);
        let last = results.runs.iter().map(|run| run.repetition).max().unwrap();
        if last >= 3 {
            results.runs.retain(|run| run.repetition < last);
            let before = heading(&plan, &results);
            assert_eq!(before.standing, Standing::NotCompared, "seed {seed}");
        }
    }
}

/// What the head of the module says: ending once it is narrow costs an interval some of its worth.
#[test]
fn the_intervals_that_end_it_hold_the_true_ratio() {
    let (mut settled, mut held) = (0, 0);
    for seed in 0..2000 {
        let (plan, mut results) = plan(&[]);
        repeat(&plan, &mut results, 0.08, seed);
        let found = heading(&plan, &results);
        if found.standing == Standing::Settled {
            let [low, high] = found.interval.unwrap();
            settled += 1;
            held += usize::from((low..=high).contains(&RATIO));
        }
    }
    assert!(settled > 1900, "{settled}");
    let percent = 100.0 * held as f64 / settled as f64;
    assert!((91.0..=97.0).contains(&percent), "{percent}%");
}

#[test]
fn the_time_that_the_plan_allows_ends_it_after_the_least() {
    let (plan, mut results) = plan(&["run.time_max=45s"]);
    repeat(&plan, &mut results, 0.4, 7);
    // Three are made whatever they take, and a fourth and a fifth before the 45 seconds are over.
    assert_eq!(made(&results, "new"), 5);
    let found = heading(&plan, &results);
    let expected =
        "wider than ±15% after 5 repetitions, when the time that the plan allows was over";
    assert_eq!(found.doubts[0].to_string(), expected);
    assert_eq!(plan.run.time_max, Some(Duration::from_secs(45)));
    results.ended = None;
    assert_eq!(left(&plan, &results), (0, results.runs.len()));
}

#[test]
fn what_the_host_decided_is_not_repeated() {
    for (late, busy) in [(Some(20.0), 10.0), (None, 97.0)] {
        let (plan, mut results) = plan(&[]);
        while let Some(Next { repetition, pairs }) = next(&plan, &results) {
            for (workload, target) in pairs {
                let mut measured = measured(100.0 + 60.0 * f64::from(repetition));
                measured.flash = Some(crate::experiment::Flash {
                    late_percent: late,
                    ..Default::default()
                });
                measured.processors = vec![crate::processor::ProcessorSecond {
                    machine_percent: busy,
                    ..Default::default()
                }];
                results.runs.push(RunResult {
                    workload,
                    target,
                    repetition,
                    steady: None,
                    measured,
                });
            }
        }
        assert_eq!(made(&results, "new"), 3);
        let found = heading(&plan, &results);
        assert_eq!(found.standing, Standing::NotCompared);
        let host = |doubt: &Doubt| matches!(doubt, Doubt::Host { .. });
        assert!(found.doubts.iter().any(host), "{:?}", found.doubts);
    }
}

#[test]
fn plans_say_how_often_and_how_sure() {
    // Fewer than three have no interval of use: then there are just so many.
    let (few, mut results) = plan(&["run.repetitions=2"]);
    repeat(&few, &mut results, 0.4, 3);
    assert_eq!((made(&results, "new"), made(&results, "other")), (2, 2));
    let (more, mut results) = plan(&["run.repetitions=2", "run.repetitions_max=4"]);
    repeat(&more, &mut results, 0.4, 3);
    assert_eq!((made(&results, "new"), made(&results, "other")), (4, 2));
    let (rough, mut results) = plan(&["run.within_percent=100"]);
    repeat(&rough, &mut results, 0.2, 3);
    assert_eq!(made(&results, "new"), 3);
    for (change, expected) in [
        (
            "run.repetitions_max=2",
            "has to be from run.repetitions to 100",
        ),
        ("run.within_percent=0.5", "has to be from 1 to 100"),
        ("run.time_max=long", "'long' is not a time"),
    ] {
        let refused = Plan::parse("p", PLAN, None, &[change.parse().unwrap()]);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_run_that_was_stopped_goes_on_with_what_it_lacks() {
    let (plan, mut whole) = plan(&[]);
    repeat(&plan, &mut whole, 0.2, 12);
    assert!(made(&whole, "new") > 4, "{}", made(&whole, "new"));
    for kept in 0..whole.runs.len() {
        let mut results = whole.clone();
        results.ended = None;
        results.runs.truncate(kept);
        let (lacking, all) = left(&plan, &results);
        assert!(
            lacking <= all && (lacking > 0 || kept > 9),
            "{lacking} of {all}"
        );
        repeat(&plan, &mut results, 0.1, 13);
        assert_eq!(made(&results, "other"), 3);
        assert!((3..=12).contains(&made(&results, "new")));
        assert_eq!(left(&plan, &results).0, 0);
    }
}
