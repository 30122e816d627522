use super::*;
use crate::flash::Isolation;
use crate::profiles;

fn run(profile: &Profile, namespace_tb: f64, load: Load, fidelity: Fidelity) -> Outcome {
    let mut study = Study::new(profile, (namespace_tb * 1e12) as u64, load);
    study.fidelity = fidelity;
    study.scale /= 4.0;
    study.passes = 0.6;
    study.run(&mut |_| true).unwrap().unwrap()
}

fn load(rw: &str, block_bytes: u32, jobs: u32, depth: u32) -> Load {
    Load::new(rw, 70, block_bytes)
        .unwrap()
        .with_depth(jobs, depth)
}

/// The proof that the cheap fidelities may stand for the expensive one.
#[test]
fn the_three_fidelities_agree_within_3_percent() {
    let read_intensive = profiles::named("cm7-r-7.68").unwrap();
    let mixed_use = profiles::named("cm7-v-6.4").unwrap();
    let cases = [
        (&read_intensive, 7.68, load("read", 131_072, 1, 32)),
        (&read_intensive, 7.68, load("write", 131_072, 1, 32)),
        (&read_intensive, 7.68, load("randread", 4096, 16, 32)),
        (&read_intensive, 7.68, load("randread", 4096, 8, 4)),
        (&read_intensive, 7.68, load("randread", 4096, 8, 16)),
        (&read_intensive, 7.68, load("randwrite", 4096, 8, 4)),
        (&read_intensive, 5.76, load("randwrite", 4096, 8, 4)),
        (&mixed_use, 6.4, load("randwrite", 4096, 8, 4)),
        (&read_intensive, 7.68, load("randrw", 4096, 8, 8)),
        (&read_intensive, 6.4, load("randrw", 4096, 8, 8)),
        (&mixed_use, 6.4, load("randrw", 4096, 8, 8)),
        (&read_intensive, 6.4, load("randrw", 4096, 8, 4)),
    ];
    for (profile, namespace_tb, load) in cases {
        let [closed, timeline, event] = [Fidelity::ClosedForm, Fidelity::Timeline, Fidelity::Event]
            .map(|fidelity| run(profile, namespace_tb, load, fidelity).iops);
        for (one, other) in [(closed, timeline), (timeline, event), (closed, event)] {
            let difference = (one / other - 1.0).abs();
            assert!(
                difference < 0.03,
                "{load:?} {namespace_tb}: {closed} {timeline} {event}"
            );
        }
    }
}

#[test]
fn one_seed_gives_one_result_and_another_seed_nearly_the_same() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let outcome = |seed, fidelity| {
        let mut study = Study::new(&profile, 6_400_000_000_000, load("randrw", 4096, 8, 8));
        study.scale /= 8.0;
        study.seed = seed;
        study.fidelity = fidelity;
        study.run(&mut |_| true).unwrap().unwrap()
    };
    for fidelity in [Fidelity::Timeline, Fidelity::Event] {
        let first = outcome(1, fidelity);
        assert_eq!(first, outcome(1, fidelity));
        let other = outcome(2, fidelity);
        assert_ne!(first, other);
        assert!((first.iops / other.iops - 1.0).abs() < 0.02);
    }
}

#[test]
fn latency_and_depth_obey_littles_law() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    for fidelity in [Fidelity::Timeline, Fidelity::Event] {
        let outcome = run(&profile, 7.68, load("randrw", 4096, 8, 8), fidelity);
        let (read, write) = (
            outcome.read_latency.unwrap(),
            outcome.write_latency.unwrap(),
        );
        let outstanding =
            (outcome.read_iops * read.mean_us + outcome.write_iops * write.mean_us) / 1e6;
        assert!(
            (outstanding / 64.0 - 1.0).abs() < 0.02,
            "{fidelity:?}: {outstanding}"
        );
        assert!(read.p50_us <= read.p99_us && read.p99_us <= read.p99_99_us);
    }
}

#[test]
fn reading_what_was_never_written_costs_no_flash_and_shows() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let mut study = Study::new(&profile, 1_000_000_000_000, load("randread", 4096, 1, 1));
    study.precondition = Precondition::Purge;
    let outcome = study.run(&mut |_| true).unwrap().unwrap();
    assert_eq!(outcome.mapped_share, 0.0);
    assert!(outcome.read_latency.unwrap().mean_us < profile.nand.read_us);
}

#[test]
fn a_namespace_or_load_that_cannot_be_is_refused_by_name() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let good = Study::new(&profile, 6_400_000_000_000, load("randwrite", 4096, 1, 1));
    let refused = |study: Study| {
        let error = study.run(&mut |_| true).unwrap_err();
        assert!(
            matches!(error, ProfileError::Load(_) | ProfileError::Scale { .. }),
            "{error}"
        );
    };
    refused(Study {
        namespace_bytes: 7_680_000_000_001,
        ..good.clone()
    });
    refused(Study {
        namespace_bytes: 0,
        ..good.clone()
    });
    refused(Study {
        namespace_bytes: 4096,
        load: load("write", 1 << 24, 64, 1),
        ..good.clone()
    });
    refused(Study {
        passes: f64::NAN,
        ..good.clone()
    });
    refused(Study {
        scale: 0.0,
        ..good.clone()
    });
    refused(Study {
        scale: 1e-9,
        ..good.clone()
    });
    refused(Study {
        load: load("randwrite", 4096, 0, 1),
        ..good.clone()
    });
}

#[test]
fn a_study_stops_when_told_to() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let study = Study::new(&profile, 6_400_000_000_000, load("randwrite", 4096, 1, 1));
    assert_eq!(study.run(&mut |_| false), Ok(None));
}

/// The first drive write after a sequential fill goes to spare that cleaning has not yet had to
/// touch; then throughput falls to a fraction.
#[test]
fn random_writes_after_a_sequential_fill_run_over_the_write_cliff() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let mut study = Study::new(&profile, 7_680_000_000_000, load("randwrite", 4096, 8, 4));
    study.scale /= 4.0;
    study.precondition = Precondition::Sequential;
    study.warm_up = 0.0;
    study.passes = 2.0;
    let outcome = study.run(&mut |_| true).unwrap().unwrap();
    let (first, last) = (outcome.intervals[3], outcome.intervals[98]);
    assert_eq!(first.write_amplification, 1.0);
    assert!((last.write_amplification - 3.69).abs() < 0.4, "{last:?}");
    assert!(first.iops > 4.0 * last.iops, "{first:?} {last:?}");
    assert!(outcome.intervals.len() >= 99);
}

#[test]
fn hot_data_by_handles_of_its_own_wears_the_flash_less_and_uniform_data_does_not() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let measure = |hot: Option<&str>, handles: u8, isolation: Isolation| {
        let load = Load {
            hot: hot.map(|hot| hot.parse().unwrap()),
            ..load("randwrite", 4096, 8, 4)
        };
        let mut study = Study::new(&profile, profile.capacity_bytes(), load);
        study.placement = Placement { handles, isolation };
        study.precondition = Precondition::Sequential;
        (study.warm_up, study.scale) = (8.0, study.scale / 8.0);
        study
            .run(&mut |_| true)
            .unwrap()
            .unwrap()
            .write_amplification
            .unwrap()
    };
    let mixed = measure(Some("90/10"), 1, Isolation::Initially);
    let initially = measure(Some("90/10"), 2, Isolation::Initially);
    let persistently = measure(Some("90/10"), 2, Isolation::Persistently);
    assert!(initially < mixed, "{initially} against {mixed}");
    assert!(persistently < mixed * 0.9, "{persistently} against {mixed}");
    let (one, four) = (
        measure(None, 1, Isolation::Initially),
        measure(None, 4, Isolation::Persistently),
    );
    assert!((four / one - 1.0).abs() < 0.05, "{four} against {one}");
}

#[test]
fn what_has_no_formula_is_refused_by_name() {
    let profile = profiles::named("cm7-r-7.68").unwrap();
    let mut study = Study::new(
        &profile,
        profile.capacity_bytes(),
        load("randwrite", 4096, 1, 1),
    );
    study.placement.handles = 2;
    let refused = study.run(&mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("no formula"), "{refused}");
    study.precondition = Precondition::Sequential;
    study.fidelity = Fidelity::ClosedForm;
    let refused = study.run(&mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("no formula"), "{refused}");
    study.fidelity = Fidelity::Timeline;
    study.placement.handles = 255;
    study.placement.isolation = Isolation::Persistently;
    let refused = study.run(&mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("only"), "{refused}");
}
