//! Plans: what is read, what is refused and where, what changes change.

use std::time::Duration;

use super::*;
use crate::load::Pattern;

const TEXT: &str = r#"name = "mine"
title = "A drive of mine"
question = "How fast is it?"
baseline = "one"

[run]
runtime = "2s"

[[target]]
name = "one"
kind = "emulated"
profile = "cm7-r-7.68"
scale = 0.0001

[[target]]
name = "two"
kind = "file"
paths = ["/dev/nvme9n9"]

[[workload]]
name = "random"
rw = ["randread", "randrw"]
bs = ["4k", "64k"]
depth = 32

[[published]]
workload = "random-randread-4k"
target = "one"
value = 2536

[size.smoke]
"run.runtime" = "100ms"
"target.one.scale" = 0.00001
"#;

fn parse(text: &str, size: Option<&str>, changes: &[&str]) -> Result<Plan, PlanError> {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Plan::parse("mine.toml", text, size, &changes).map(|(plan, _)| plan)
}

fn refusal(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    parse(&TEXT.replacen(from, to, 1), None, &[])
        .unwrap_err()
        .to_string()
}

#[test]
fn lists_become_combinations_with_names() {
    let plan = parse(TEXT, None, &[]).unwrap();
    let cases = plan.cases();
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let expected = [
        "random-randread-4k",
        "random-randread-64k",
        "random-randrw-4k",
        "random-randrw-64k",
    ];
    assert_eq!(names, expected);
    let last = &cases[3].workload;
    assert_eq!((last.pattern, last.depth), (Pattern::RandRw, 32));
    assert_eq!((last.transfer_bytes, last.jobs), (65_536, 1));
    assert_eq!(last.runtime, Some(Duration::from_secs(2)));
    assert_eq!(cases[3].label, "random, randrw, 64 KiB");
}

#[test]
fn sizes_and_changes_override_in_this_order() {
    let plan = parse(TEXT, Some("smoke"), &[]).unwrap();
    assert_eq!(plan.run.runtime, Duration::from_millis(100));
    assert_eq!(plan.targets[0].scale, Some(0.000_01));
    let changes = [
        "run.runtime=7s",
        "target.*.label=x=y",
        "workload.random.depth=[1, 4]",
    ];
    let plan = parse(TEXT, Some("smoke"), &changes)
        .unwrap_err()
        .to_string();
    assert!(
        plan.contains("workload.random.depth") || plan.contains("random-randread-4k"),
        "{plan}"
    );
    let plan = parse(TEXT, Some("smoke"), &changes[..2]).unwrap();
    assert_eq!(plan.run.runtime, Duration::from_secs(7));
    assert!(plan.targets.iter().all(|target| target.label() == "x=y"));
    let changes = ["run.ramp=1s", "workload.random.ramp=3s"];
    let plan = parse(TEXT, None, &changes).unwrap();
    assert_eq!(plan.cases()[0].workload.ramp_time, Duration::from_secs(3));
}

#[test]
fn the_text_of_a_changed_plan_makes_the_same_plan() {
    let change = ["run.seed=9".parse().unwrap()];
    let (plan, text) = Plan::parse("mine.toml", TEXT, Some("smoke"), &change).unwrap();
    assert_eq!(Plan::parse("again", &text, None, &[]).unwrap().0, plan);
    assert_eq!(plan.run.seed, 9);
}

#[test]
fn a_typo_is_named_with_its_line_and_column() {
    let cases = [
        (
            "runtime = \"2s\"",
            "runtme = \"2s\"",
            "mine.toml:7:1: unknown field `runtme`",
        ),
        ("\"2s\"", "\"2x\"", "mine.toml:7:11: '2x' is not a time"),
        (
            "\"randread\",",
            "\"radread\",",
            "mine.toml:22:7: rw: 'radread' is none of read",
        ),
        (
            "\"emulated\"",
            "\"emulatd\"",
            "mine.toml:11:8: unknown variant `emulatd`",
        ),
        (
            "baseline = \"one\"",
            "baseline = \"on\"",
            "mine.toml:4:1: no target is named on; there",
        ),
        (
            "scale = 0.0001",
            "paths = [\"x\"]",
            "mine.toml:13:1: does not belong to this kind",
        ),
        (
            "scale = 0.0001",
            "transport = \"rdma\"",
            "mine.toml:13:1: does not belong to this kind",
        ),
        (
            "name = \"two\"",
            "name = \"Two\"",
            "mine.toml:16:1: \"Two\" is no name",
        ),
        (
            "target = \"one\"\nv",
            "target = \"three\"\nv",
            "mine.toml:28:1: no target is named three",
        ),
        (
            "\"run.runtime\" =",
            "\"run.runtme\" =",
            "mine.toml:32:1: unknown field `runtme`",
        ),
        (
            "\"target.one.scale\"",
            "\"target.on.scale\"",
            "no target is named on; there are: one, t",
        ),
        (
            "[size.smoke]",
            "[size.tiny]",
            "no size is called tiny; allowed: smoke, small, full",
        ),
        (
            "depth = 32",
            "depth = 0",
            "mine.toml:24:1: has to be above 0",
        ),
        ("depth = 32", "depth = -1", "-1 is below 0"),
        ("name = \"mine\"", "name = \"mine", "mine.toml:1:"),
    ];
    for (from, to, expected) in cases {
        let found = refusal(from, to);
        assert!(found.contains(expected), "{to}: {found}");
    }
}

#[test]
fn a_path_adds_no_line_to_a_job_file() {
    let text = "name = \"p\"\ntitle = \"t\"\nquestion = \"q\"\nrun.runner = \"fio\"\n\
                [[target]]\nname = \"d\"\nkind = \"file\"\n\
                paths = [\"x\\nexec_prerun=touch y\"]\nsize = \"16m\"\n\
                [[workload]]\nname = \"w\"\nrw = \"read\"\n";
    let error = parse(text, None, &[]).unwrap_err().to_string();
    assert!(error.contains("control characters"), "{error}");
}

#[test]
fn a_wrong_change_is_named_as_it_was_given() {
    let refused = |change: &str| parse(TEXT, None, &[change]).unwrap_err().to_string();
    let found = refused("run.runtme=3s");
    assert!(
        found.starts_with("--set run.runtme=\"3s\": unknown field"),
        "{found}"
    );
    assert!(refused("target.three.scale=1").contains("no target is named three"));
    assert!(refused("target.one.scale.x=1").contains("holds no other keys"));
    assert!("run.seed".parse::<Change>().is_err());
    let found = parse(TEXT, Some("full"), &[]).unwrap_err().to_string();
    assert!(found.contains("no size full; it has: smoke"), "{found}");
}

#[test]
fn every_shipped_plan_is_one_at_every_size() {
    for name in names() {
        for size in ["smoke", "small", "full"] {
            let (plan, _) = Plan::open(name, Some(size), &[]).unwrap();
            assert_eq!(plan.name, name);
        }
    }
    let error = Plan::open("nonsense", None, &[]).unwrap_err().to_string();
    assert!(error.contains("namespace"), "{error}");
}
