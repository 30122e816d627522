//! Verified sequential and random I/O on one volume, measured.

use std::time::{Duration, Instant};

use api::Volume;
use initiator::ConnectOptions;
use lab::load::{Pattern, PerfOptions, Report, Stop, Verify, Workload};

use super::display::Display;
use super::process::NodeProcess;
use super::results::Measurement;
use super::{DemoError, target, unless_stopped};

/// Who the load generator says it is.
pub const HOST_NQN: &str = "nqn.2026-11.example.flashyard:demo";

/// How much of a volume is used: larger than caches, small enough to read back in a moment.
const REGION_BYTES: u64 = 256 << 20;

const KIB: u32 = 1024;

/// What is measured: name, pattern, bytes per I/O, queue depth.
const RUNS: [(&str, Pattern, u32, u32); 5] = [
    ("sequential write 128 KiB", Pattern::Write, 128 * KIB, 16),
    ("sequential read 128 KiB", Pattern::Read, 128 * KIB, 16),
    ("random write 4 KiB", Pattern::RandWrite, 4 * KIB, 32),
    ("random read 4 KiB", Pattern::RandRead, 4 * KIB, 32),
    ("random 70/30 4 KiB", Pattern::RandRw, 4 * KIB, 32),
];

/// Runs all of them on the first volume, one after the other. Reads are verified against the
/// writes before them: one journal goes along.
pub fn all(
    node: &NodeProcess,
    volumes: &[Volume],
    runtime: Duration,
    stop: &Stop,
    display: &Display,
) -> Result<Vec<Measurement>, DemoError> {
    let Some(volume) = volumes.first() else {
        return Ok(Vec::new());
    };
    display
        .step("Measuring verified I/O: every block written is stamped, every block read checked");
    let mut measurements = Vec::new();
    for (name, pattern, transfer_bytes, depth) in RUNS {
        let workload = Workload {
            pattern,
            read_percent: 70,
            transfer_bytes,
            depth,
            size_bytes: Some(REGION_BYTES),
            runtime: Some(runtime),
            random_map: false,
            verify: Verify::Crc32c,
            ..Workload::default()
        };
        let options = PerfOptions {
            target: target(node, volume),
            connect: ConnectOptions::new(HOST_NQN),
            workload,
            cores: Vec::new(),
            journal: Some(node.scratch("measured.journal")),
        };
        measurements.push(one(node, name, &options, stop, display)?);
    }
    Ok(measurements)
}

fn one(
    node: &NodeProcess,
    name: &str,
    options: &PerfOptions,
    stop: &Stop,
    display: &Display,
) -> Result<Measurement, DemoError> {
    let expected = options.workload.runtime.unwrap_or_default();
    let mut bar = display.bar(name, expected);
    let mut processor = Processor::start(node);
    let report = lab::load::run(options, stop, |snapshot| {
        processor.sample(node, expected);
        bar.show(snapshot);
    })?;
    bar.clear();
    unless_stopped(stop)?;
    if !report.is_clean() {
        return Err(DemoError::Lost(format!("{name}:\n{report}")));
    }
    let measurement = Measurement::new(name, &report, processor.percent());
    display.done(&summary(&measurement, &report));
    Ok(measurement)
}

fn summary(measurement: &Measurement, report: &Report) -> String {
    let blocks = report
        .verification
        .as_ref()
        .map_or(0, |found| found.blocks_checked);
    format!(
        "{:26} {:>8.0} IOPS {:>7.0} MB/s, {blocks} blocks verified",
        measurement.name, measurement.iops, measurement.megabytes_per_second
    )
}

/// The node's share of a processor while a run is measured, not while it is read back.
struct Processor {
    started: Instant,
    before: Duration,
    used: Duration,
    passed: Duration,
}

impl Processor {
    fn start(node: &NodeProcess) -> Processor {
        Processor {
            started: Instant::now(),
            before: node.processor_time(),
            used: Duration::ZERO,
            passed: Duration::ZERO,
        }
    }

    fn sample(&mut self, node: &NodeProcess, runtime: Duration) {
        let passed = self.started.elapsed();
        if passed <= runtime {
            self.used = node.processor_time().saturating_sub(self.before);
            self.passed = passed;
        }
    }

    fn percent(&self) -> f64 {
        100.0 * self.used.as_secs_f64() / self.passed.as_secs_f64().max(0.001)
    }
}
