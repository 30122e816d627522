//! `flashyard sim`: seeded simulation of the pool over drives that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;
use sim::{Options, Report};

use crate::exit;
use crate::output::{Output, properties};
use crate::progress::Progress;

/// More than anybody waits for: days of a large machine.
const RUNS_MAX: u64 = 1_000_000_000;

#[derive(Args)]
pub struct Sim {
    /// First seed; each seed is a world of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many seeds to try
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=RUNS_MAX))]
    runs: u64,
    /// Scenario of the worlds
    #[arg(long, value_enum, default_value = "any")]
    scenario: Scenario,
    /// Open the pool with up to so many shards, another number each time
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=8))]
    shards: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scenario {
    /// As the seed says
    Any,
    /// Drives lose what was not flushed, and do nothing else wrong
    Calm,
    /// Volumes outgrow the pool
    Crowded,
    /// Segments over 8 to 32 drives
    Wide,
    /// Hosts stand still, and others take the pool from them by force
    Rivals,
    /// Drives lose writes, ignore flushes, read old data, and say nothing of it
    Liars,
    /// Any drives are not ready for reads for some seconds
    Outages,
    /// One drive does one thing wrong, with redundancy left or with none
    Trials,
}

/// What was found, for people and programs.
#[derive(Serialize)]
struct Summary {
    first_seed: u64,
    seeds: u64,
    failures: Vec<String>,
    crashes: u64,
    requests: u64,
    refused: u64,
    changes: u64,
    relocated_blocks: u64,
    rebalanced_blocks: u64,
    reconstructed_blocks: u64,
    takeovers: u64,
    outages: u64,
}

impl Sim {
    pub fn run(&self, output: Output) -> ExitCode {
        let progress = Progress::start();
        let mut total = Report::default();
        let mut failures = Vec::new();
        let mut seeds = 0;
        for run in 0..self.runs {
            let seed = self.seed.saturating_add(run);
            // A broken invariant is a panic: it must name its seed as well.
            let caught = catch_unwind(AssertUnwindSafe(|| match self.scenario {
                Scenario::Trials => sim::promises::run(seed),
                _ => sim::run(&self.options(seed)),
            }));
            match caught {
                Ok(Ok(report)) => total.add(&report),
                Ok(Err(found)) => failures.push(found),
                Err(_) => failures.push(format!("seed={seed}: an invariant is broken")),
            }
            seeds += 1;
            if !progress.at((run + 1) as f64 / self.runs as f64) {
                break;
            }
        }
        drop(progress);
        let failed = failures.len();
        let summary = Summary {
            first_seed: self.seed,
            seeds,
            failures,
            crashes: total.crashes,
            requests: total.requests,
            refused: total.refused,
            changes: total.changes,
            relocated_blocks: total.relocated,
            rebalanced_blocks: total.rebalanced,
            reconstructed_blocks: total.reconstructed,
            takeovers: total.takeovers,
            outages: total.outages,
        };
        output.show(&summary, describe);
        match failed {
            0 => exit::done(),
            failed => exit::failed(&format!("{failed} of {seeds} seeds failed")),
        }
    }

    fn options(&self, seed: u64) -> Options {
        let options = Options {
            shards_max: self.shards,
            ..Options::new(seed)
        };
        match self.scenario {
            Scenario::Any | Scenario::Trials => options,
            Scenario::Calm => Options {
                bad_drives: false,
                ..options
            },
            Scenario::Crowded => Options {
                crowded: Some(true),
                ..options
            },
            Scenario::Wide => Options {
                wide: Some(true),
                ..options
            },
            Scenario::Rivals => Options {
                rivals: true,
                ..options
            },
            Scenario::Liars => Options {
                liars: true,
                ..options
            },
            Scenario::Outages => Options {
                outages: true,
                ..options
            },
        }
    }
}

fn describe(summary: &Summary) -> String {
    let number = |value: u64| value.to_string();
    let mut text = properties(&[
        ("seeds", number(summary.seeds)),
        ("power failures", number(summary.crashes)),
        ("requests", number(summary.requests)),
        ("refused", number(summary.refused)),
        ("changes", number(summary.changes)),
        ("blocks moved", number(summary.relocated_blocks)),
        ("blocks rebalanced", number(summary.rebalanced_blocks)),
        ("blocks rebuilt", number(summary.reconstructed_blocks)),
        ("takeovers", number(summary.takeovers)),
        ("outages", number(summary.outages)),
        ("failures", number(summary.failures.len() as u64)),
    ]);
    for failure in &summary.failures {
        text.push_str(&format!("\n{failure}"));
    }
    text
}
