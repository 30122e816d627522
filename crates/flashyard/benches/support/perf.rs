//! `flashyard perf` as a benchmark's load, on CPU 1.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::node::{FLASHYARD, Node, run_json};

impl Node {
    /// `flashyard perf` on a volume, on CPU 1.
    pub fn perf(&self, volume: &str, words: &str) -> Result<Command> {
        let mut command = Command::new(FLASHYARD);
        command
            .args([
                "perf",
                &self.target(volume)?,
                "--cores",
                "1",
                "--norandommap",
            ])
            .args(words.split(' '));
        Ok(command)
    }
}

/// What one run of one row came to.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// I/Os per second.
    pub iops: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// 99th percentile of latency.
    pub p99_us: f64,
}

impl fmt::Display for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample {
            iops,
            mean_us,
            p99_us,
        } = self;
        write!(
            formatter,
            "{iops:.0} IOPS, mean {mean_us:.1} us, p99 {p99_us:.1} us"
        )
    }
}

/// Runs `flashyard perf`; gives the figures of `direction`.
pub fn measure(command: &mut Command, direction: &str) -> Result<Sample> {
    let report = run_json(command)?;
    let found = &report[direction];
    let number = |value: &Value| value.as_f64().context("perf: a figure is missing");
    Ok(Sample {
        iops: number(&found["iops"])?,
        mean_us: number(&found["latency"]["mean_us"])?,
        p99_us: number(&found["latency"]["p99_us"])?,
    })
}
