//! Whole experiments: the shipped plans against what was published, other targets and runners,
//! interruption, and what must not be overwritten.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use lab::experiment::{Event, Execution, Results, Verdict, claim, compare, figures};
use lab::load::Stop;
use lab::plan::{Change, Metric, Plan};
use lab::report::html;
use tempfile::TempDir;

fn plan(name: &str, size: Option<&str>, changes: &[&str]) -> (Plan, String) {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Plan::open(name, size, &changes).unwrap()
}

fn execution<'a>(plan: &'a Plan, directory: &TempDir, stop: &Stop) -> Execution<'a> {
    Execution {
        plan,
        destroy: Vec::new(),
        output: directory.path().join("results.json"),
        processes: vec![("lab".to_owned(), std::process::id())],
        node: None,
        stop: stop.clone(),
    }
}

fn run(plan: &Plan, text: &str) -> Result<Results, String> {
    let directory = tempfile::tempdir().unwrap();
    let execution = execution(plan, &directory, &Stop::default());
    let mut results = Results::new(text.to_owned(), None);
    match execution.run(&mut results, &mut |_| {}) {
        Ok(true) => Ok(results),
        Ok(false) => Err("not complete".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A plan of the user's own, in a file.
fn written(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("mine.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// The acceptance of the drive model: every published figure of the namespace experiment within
/// its bound.
#[test]
fn the_namespace_experiment_meets_every_published_figure() {
    let (plan, text) = plan("namespace", Some("smoke"), &[]);
    let results = run(&plan, &text).unwrap();
    let figures = figures(&plan, &results);
    let rates = figures
        .iter()
        .filter(|figure| figure.metric == Metric::Rate);
    let rates: Vec<_> = rates.collect();
    // Six loads on three drives, and random writes on two more namespaces.
    assert_eq!(rates.len(), 20);
    assert_eq!(
        rates
            .iter()
            .filter(|figure| figure.published.is_some())
            .count(),
        15
    );
    for figure in &figures {
        assert!(figure.holds(), "{}: {:?}", figure.workload, figure.sample);
    }
    let smaller = rates
        .iter()
        .find(|one| one.workload == "random-write" && one.target.name == "cm7-r-6400gb")
        .unwrap();
    assert!((smaller.published_ratio.unwrap() - 582.0 / 309.0).abs() < 1e-9);
    assert!(
        (smaller.ratio.as_ref().unwrap().ratio - 1.88).abs() < 0.04,
        "{:?}",
        smaller.ratio
    );
    let claim = claim(&plan, &results).unwrap();
    assert!(
        (claim.endurance.drive_writes_per_day - 2.26).abs() < 0.02,
        "{claim:?}"
    );
    assert!((claim.endurance.range.0 - 1.85).abs() < 0.02, "{claim:?}");
    assert!(
        (claim.endurance.true_at_tb - 5.79).abs() < 0.02,
        "{claim:?}"
    );
    assert!(claim.to_string().contains("wear:"));
    let page = html(&plan, &results).unwrap();
    for part in [
        "With a 6.4 TB namespace the CM7-R makes 1.8",
        "; published 1.88, ",
        "EPYC 9534",
        "<svg",
        "published 582",
        "What it cannot tell",
        "wear:",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Nothing is fetched: the page is whole.
    assert!(!page.contains("src=") && !page.contains("<link"));
}

#[test]
fn the_raid6_experiment_runs_on_arrays_in_place_and_on_a_log() {
    let (mut plan, text) = plan("raid6", Some("smoke"), &[]);
    // The command line starts nodes: its tests have the one that is served.
    plan.targets
        .retain(|target| target.kind != lab::plan::TargetKind::Node);
    let results = run(&plan, &text).unwrap();
    assert_eq!(results.runs.len(), 15);
    assert!(results.runs.iter().all(|run| run.measured.iops() > 0.0));
    assert!(
        figures(&plan, &results)
            .iter()
            .any(|figure| figure.published_ratio.is_some())
    );
    let page = html(&plan, &results).unwrap();
    for part in [
        "latency",
        "log (a pool of level raid6)",
        "write amplification",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_sizing_table_is_the_published_one() {
    let (plan, _) = plan("network", None, &[]);
    let needs = lab::experiment::sizing(&plan);
    assert_eq!(needs.len(), 6);
    for need in &needs {
        assert_eq!(Some(need.network_gbit_s), need.published_gbit_s, "{need:?}");
    }
    let (own, _) = self::plan(
        "network",
        None,
        &["sizing.port_gbit_s=25", "sizing.published_gbit_s=[]"],
    );
    let own = lab::experiment::sizing(&own);
    assert_eq!((own[0].ports, own[0].network_gbit_s), (2, 50.0));
}

#[test]
fn the_simulated_random_writes_and_mixes_meet_the_published_ones() {
    let (mut plan, text) = plan("namespace", Some("small"), &[]);
    let wanted = |name: &str| name == "random-write" || name == "mix";
    plan.workloads.retain(|workload| wanted(&workload.name));
    plan.published
        .retain(|published| wanted(&published.workload));
    let results = run(&plan, &text).unwrap();
    let figures = figures(&plan, &results);
    assert_eq!(
        figures
            .iter()
            .filter(|figure| figure.published.is_some())
            .count(),
        6
    );
    for figure in &figures {
        assert!(figure.holds(), "{}: {:?}", figure.workload, figure.sample);
    }
    // Page by page there are latencies, and a series over time.
    assert!(
        figures
            .iter()
            .any(|figure| figure.metric == Metric::P99Latency)
    );
    assert!(
        results
            .runs
            .iter()
            .all(|run| run.measured.series.len() > 90)
    );
}

const EMULATED: &str = r#"
name = "mine"
title = "A drive of mine, whole and in part"
question = "Does the smaller namespace write faster?"
baseline = "whole"

[run]
runtime = "200ms"
ramp = "20ms"
repetitions = 2

[precondition]
purge = true
fill_passes = 1
steady = true
round = "20ms"
round_drive_writes = 0.4

[[target]]
name = "whole"
kind = "emulated"
profile = "cm7-r-7.68"
scale = 0.00001
clock = "virtual"

[[target]]
name = "part"
kind = "emulated"
profile = "cm7-r-7.68"
scale = 0.00001
namespace = "6400GB"
clock = "virtual"

[[workload]]
name = "random-write"
rw = "randwrite"
jobs = 2
depth = 16
"#;

#[test]
fn drives_in_virtual_time_are_preconditioned_to_the_steady_state() {
    let (plan, text) = Plan::parse("mine.toml", EMULATED, None, &[]).unwrap();
    let results = run(&plan, &text).unwrap();
    assert_eq!(results.runs.len(), 4);
    for run in &results.runs {
        let steady = run.steady.as_ref().unwrap();
        assert!(steady.reached && steady.rounds.len() >= 5, "{steady:?}");
        let flash = run.measured.flash.unwrap();
        assert!(flash.write_amplification > 1.3, "{flash:?}");
        assert_eq!(flash.late_percent, Some(0.0));
    }
    let figures = figures(&plan, &results);
    let part = figures
        .iter()
        .find(|figure| figure.ratio.is_some())
        .unwrap();
    // The drive's figure is 1.88; one of a thousandth of the superblocks is not held to it.
    let ratio = part.ratio.as_ref().unwrap().ratio;
    assert!(ratio > 1.3, "{ratio}");
    // The same seeds give the same figures: nothing differs, and nothing is called different.
    let again = run(&plan, &text).unwrap();
    let found = compare(&results, &again, 0.0).unwrap();
    assert!(found.changes.iter().all(|change| change.change == 0.0));
    assert!(
        found
            .changes
            .iter()
            .all(|one| one.verdict == Verdict::NoDifference)
    );
}

#[test]
fn an_interrupted_experiment_goes_on_where_it_was() {
    let (plan, text) = Plan::parse("mine.toml", EMULATED, None, &[]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let interrupted = execution(&plan, &directory, &stop);
    let mut results = Results::new(text, None);
    let done = interrupted.run(&mut results, &mut |event| {
        if matches!(event, Event::Done(_)) {
            stop.stop();
        }
    });
    assert!(!done.unwrap());
    assert_eq!(interrupted.left(&results), (3, 4));
    let mut kept = Results::load(&interrupted.output).unwrap();
    assert_eq!((kept.runs.len(), &kept.ended), (1, &None));
    let resumed = execution(&plan, &directory, &Stop::default());
    let mut done = 0;
    let complete = resumed.run(&mut kept, &mut |event| {
        done += usize::from(matches!(event, Event::Done(_)));
    });
    assert!(complete.unwrap());
    assert_eq!((done, kept.runs.len()), (3, 4));
    let kept = Results::load(&resumed.output).unwrap();
    assert_eq!((kept.runs.len(), kept.ended.is_some()), (4, true));
}

const ARRAYS: &str = r#"
name = "arrays"
title = "A log and RAID 6 in place"
question = "Which writes faster?"
baseline = "in-place"
run.runtime = "50ms"
run.ramp = "5ms"
run.repetitions = 1
precondition.fill_passes = 1

[[target]]
name = "in-place"
kind = "inplace-raid6"
profile = "cm7-r-7.68"
drives = 6
scale = 0.00001
flash = "purge"
clock = "virtual"

[[target]]
name = "log"
kind = "pool"
level = "raid6"
profile = "cm7-r-7.68"
drives = 6
scale = 0.00001
flash = "purge"
clock = "virtual"

[[workload]]
name = "random"
rw = ["randread", "randwrite"]
jobs = 2
depth = 8
region = "16m"
"#;

#[test]
fn arrays_and_pools_are_targets_too() {
    let (plan, text) = Plan::parse("arrays.toml", ARRAYS, None, &[]).unwrap();
    let results = run(&plan, &text).unwrap();
    assert_eq!(results.runs.len(), 4);
    assert!(results.runs.iter().all(|run| run.measured.iops() > 0.0));
}

fn on_file(path: &Path, extra: &str) -> String {
    format!(
        "name = \"file\"\ntitle = \"A file\"\nquestion = \"How fast?\"\n{extra}\n\
         run.runtime = \"300ms\"\nrun.ramp = \"50ms\"\nrun.repetitions = 2\n\
         [[target]]\nname = \"file\"\nkind = \"file\"\npaths = [\"{}\"]\nsize = \"32m\"\n\
         [[workload]]\nname = \"mix\"\nrw = \"randrw\"\nread_percent = 70\ndepth = 8\n",
        path.display()
    )
}

fn run_file(text: &str, destroy: &[String]) -> Result<Results, String> {
    let (plan, text) = Plan::parse("file.toml", text, None, &[]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut execution = execution(&plan, &directory, &Stop::default());
    execution.destroy = destroy.to_vec();
    let mut results = Results::new(text, None);
    let done = execution.run(&mut results, &mut |_| {});
    done.map(|_| results).map_err(|error| error.to_string())
}

#[test]
fn a_file_that_is_not_there_is_made_verified_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive");
    let text = on_file(&path, "") + "verify = \"crc32c\"\n";
    let results = run_file(&text, &[]).unwrap();
    assert_eq!(results.runs.len(), 2);
    let measured = &results.runs[0].measured;
    assert!(measured.read.unwrap().ios > 0 && measured.write.unwrap().ios > 0);
    assert!(measured.verified_blocks.unwrap() > 0);
    assert!(!measured.processors.is_empty());
    assert!(!path.exists());
}

#[test]
fn what_holds_data_is_overwritten_only_when_it_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive");
    let mut bytes = vec![0; 32 << 20];
    bytes[..4].copy_from_slice(b"XFSB");
    std::fs::write(&path, &bytes).unwrap();
    let refused = run_file(&on_file(&path, ""), &[]).unwrap_err();
    assert!(refused.contains("an XFS file system"), "{refused}");
    assert!(
        refused.contains(&format!("--destroy {}", path.display())),
        "{refused}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    // Reading it is no harm.
    let reads = on_file(&path, "").replace("randrw", "randread");
    run_file(&reads, &[]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    run_file(&on_file(&path, ""), &[path.display().to_string()]).unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn fio_runs_the_plans_loads_and_job_files_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive");
    let own = directory.path().join("own.fio");
    let job = "[global]\ndirect=1\nsize=8m\nbs=8k\ntime_based\nruntime=300ms\n[first]\n\
               rw=randread\n[second]\nrw=randwrite\n";
    std::fs::write(&own, job).unwrap();
    let text = on_file(&path, "run.runner = \"fio\"\nprecondition.fill_passes = 1")
        + &format!(
            "[[workload]]\nname = \"own\"\nfio_file = \"{}\"\nfio_section = \"second\"\n",
            own.display()
        );
    let results = run_file(&text, &[]).unwrap();
    assert!(
        results.programs[0].starts_with("fio-"),
        "{:?}",
        results.programs
    );
    assert_eq!(results.runs.len(), 4);
    for run in &results.runs {
        let write = run.measured.write.unwrap();
        assert!(
            write.ios > 0 && write.latency.p99_us >= write.latency.p50_us,
            "{write:?}"
        );
        assert_eq!(run.measured.read.is_some(), run.workload == "mix");
    }
    assert!(!path.exists());
}

#[test]
fn a_plan_of_ones_own_is_read_from_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path(), EMULATED);
    let name = path.to_str().unwrap();
    assert_eq!(plan(name, None, &["run.seed=4"]).0.run.seed, 4);
    let broken = written(directory.path(), &EMULATED.replace("depth", "dept"));
    let error = Plan::open(broken.to_str().unwrap(), None, &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("mine.toml:38:1: unknown field `dept`"),
        "{error}"
    );
}
