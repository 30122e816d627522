//! [`Report`]: what a run found, as data (serialises to JSON) and as text.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::job::JobReport;
use super::statistics::{Counts, Statistics};
use super::workload::Workload;

/// The latency distribution of one direction, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p99_9_us: f64,
    /// 99.99th percentile.
    pub p99_99_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// What the reads, or the writes, of a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionReport {
    /// Completed I/Os in the measured time.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// I/Os that failed.
    pub errors: u64,
    /// From submission (open loop: from when it was due) to completion.
    pub latency: Latency,
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Counts from 0, in measured time.
    pub second: u64,
    /// Reads completed in it.
    pub read_iops: u64,
    /// Writes completed in it.
    pub write_iops: u64,
    /// Bytes read in it.
    pub read_bytes: u64,
    /// Bytes written in it.
    pub written_bytes: u64,
    /// Longest latency in it.
    pub max_us: f64,
    /// I/Os by latency: element `n` counts those from 2^n to 2^(n+1) microseconds, the first
    /// those from 0; nothing was longer than the last.
    pub latency_counts: Vec<u32>,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verification {
    /// Blocks read and judged.
    pub blocks_checked: u64,
    /// Of those, blocks with an acknowledged write that had to be there.
    pub blocks_acknowledged: u64,
    /// Blocks that held what they must not.
    pub mismatches: u64,
    /// The first few mismatches in words.
    pub examples: Vec<String>,
}

/// How many mismatches or errors are kept in words.
pub(crate) const EXAMPLES: usize = 10;

impl Verification {
    /// Adds another job's.
    pub fn add(&mut self, other: &Verification) {
        self.blocks_checked += other.blocks_checked;
        self.blocks_acknowledged += other.blocks_acknowledged;
        self.mismatches += other.mismatches;
        let room = EXAMPLES.saturating_sub(self.examples.len());
        self.examples
            .extend(other.examples.iter().take(room).cloned());
    }
}

/// What a run of all jobs found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What the load was put on, as the caller named it.
    pub target: String,
    /// What was asked for.
    pub workload: Workload,
    /// Measured seconds: ramp time and verification pass not included.
    pub elapsed_seconds: f64,
    /// True when the run was ended from outside before its time.
    pub interrupted: bool,
    /// Reads, if there were any.
    pub read: Option<DirectionReport>,
    /// Writes, if there were any.
    pub write: Option<DirectionReport>,
    /// Second by second.
    pub series: Vec<Second>,
    /// What verification found, when it was asked for.
    pub verification: Option<Verification>,
    /// The first few failures in words.
    pub errors: Vec<String>,
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

impl DirectionReport {
    fn of(counts: &Counts, elapsed_seconds: f64) -> Option<DirectionReport> {
        if counts.ios == 0 && counts.errors == 0 {
            return None;
        }
        let per_second = |count: u64| {
            if elapsed_seconds > 0.0 {
                count as f64 / elapsed_seconds
            } else {
                0.0
            }
        };
        let at = |percent| microseconds(counts.percentile_ns(percent));
        Some(DirectionReport {
            ios: counts.ios,
            bytes: counts.bytes,
            iops: per_second(counts.ios),
            bytes_per_second: per_second(counts.bytes),
            errors: counts.errors,
            latency: Latency {
                mean_us: counts.mean_ns() / 1000.0,
                p50_us: at(50.0),
                p90_us: at(90.0),
                p95_us: at(95.0),
                p99_us: at(99.0),
                p99_9_us: at(99.9),
                p99_99_us: at(99.99),
                max_us: microseconds(counts.longest_ns()),
            },
        })
    }
}

impl Report {
    /// The report of several jobs of one workload.
    pub fn of_jobs(target: String, workload: Workload, reports: Vec<JobReport>) -> Report {
        let mut statistics = Statistics::new();
        let mut verification: Option<Verification> = None;
        let mut errors = Vec::new();
        let mut elapsed = Duration::ZERO;
        let mut interrupted = false;
        for report in reports {
            statistics.add(&report.statistics);
            elapsed = elapsed.max(report.elapsed);
            interrupted |= report.interrupted;
            if let Some(found) = &report.verification {
                verification.get_or_insert_default().add(found);
            }
            errors.extend(report.errors);
        }
        errors.truncate(EXAMPLES);
        let mut report = Report::new(target, workload, &statistics, elapsed);
        report.interrupted = interrupted;
        report.verification = verification;
        report.errors = errors;
        report
    }

    /// The report of `statistics`, gathered over `elapsed`.
    pub fn new(
        target: String,
        workload: Workload,
        statistics: &Statistics,
        elapsed: Duration,
    ) -> Report {
        let elapsed_seconds = elapsed.as_secs_f64();
        let series = (0..)
            .zip(&statistics.seconds)
            .map(|(second, counts)| Second {
                second,
                read_iops: counts.reads,
                write_iops: counts.writes,
                read_bytes: counts.read_bytes,
                written_bytes: counts.written_bytes,
                max_us: microseconds(counts.longest_ns),
                latency_counts: without_end(&counts.latency_counts),
            })
            .collect();
        Report {
            target,
            workload,
            elapsed_seconds,
            interrupted: false,
            read: DirectionReport::of(&statistics.reads, elapsed_seconds),
            write: DirectionReport::of(&statistics.writes, elapsed_seconds),
            series,
            verification: None,
            errors: Vec::new(),
        }
    }

    /// True when no I/O failed and verification, if any, found nothing wrong.
    pub fn is_clean(&self) -> bool {
        let failed = |direction: &Option<DirectionReport>| {
            direction.as_ref().is_some_and(|found| found.errors > 0)
        };
        let mismatches = self
            .verification
            .as_ref()
            .map_or(0, |found| found.mismatches);
        self.errors.is_empty() && !failed(&self.read) && !failed(&self.write) && mismatches == 0
    }
}

/// The counts up to the last that is not zero.
fn without_end(counts: &[u32]) -> Vec<u32> {
    let used = counts.iter().rposition(|count| *count > 0);
    counts
        .iter()
        .take(used.map_or(0, |last| last + 1))
        .copied()
        .collect()
}

/// `1234567` as `1.23M`, and so on: four characters that a column of figures can be read by.
fn short(value: f64) -> String {
    match value {
        value if value >= 9_999_500.0 => format!("{:.1}M", value / 1e6),
        value if value >= 999_500.0 => format!("{:.2}M", value / 1e6),
        value if value >= 9_999.5 => format!("{:.1}K", value / 1e3),
        value => format!("{value:.0}"),
    }
}

fn latency(microseconds: f64) -> String {
    match microseconds {
        value if value >= 1e6 => format!("{:.2}s", value / 1e6),
        value if value >= 10_000.0 => format!("{:.1}ms", value / 1e3),
        value => format!("{value:.1}us"),
    }
}

/// The table's columns, as wide as their longest figure.
const COLUMNS: [&str; 11] = [
    "", "IOPS", "MB/s", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "errors",
];

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workload = &self.workload;
        writeln!(
            formatter,
            "{} on {}: {} bytes, queue depth {}, {} job(s), {:.1} s{}",
            workload.pattern,
            self.target,
            workload.transfer_bytes,
            workload.depth,
            workload.jobs,
            self.elapsed_seconds,
            if self.interrupted {
                " (interrupted)"
            } else {
                ""
            },
        )?;
        row(formatter, &COLUMNS.map(str::to_owned))?;
        for (name, direction) in [("read", &self.read), ("write", &self.write)] {
            let Some(found) = direction else { continue };
            let spread = &found.latency;
            row(
                formatter,
                &[
                    name.to_owned(),
                    short(found.iops),
                    short(found.bytes_per_second / 1e6),
                    latency(spread.mean_us),
                    latency(spread.p50_us),
                    latency(spread.p90_us),
                    latency(spread.p99_us),
                    latency(spread.p99_9_us),
                    latency(spread.p99_99_us),
                    latency(spread.max_us),
                    found.errors.to_string(),
                ],
            )?;
        }
        self.write_findings(formatter)
    }
}

fn row(formatter: &mut fmt::Formatter<'_>, cells: &[String; 11]) -> fmt::Result {
    let [name, rest @ ..] = cells;
    write!(formatter, "{name:<6}")?;
    for cell in rest {
        write!(formatter, "{cell:>10}")?;
    }
    writeln!(formatter)
}

impl Report {
    fn write_findings(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(found) = &self.verification {
            writeln!(
                formatter,
                "verified {} blocks, {} of them acknowledged writes: {} mismatches",
                found.blocks_checked, found.blocks_acknowledged, found.mismatches
            )?;
            for example in &found.examples {
                writeln!(formatter, "  {example}")?;
            }
        }
        for error in &self.errors {
            writeln!(formatter, "failed: {error}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Direction;
    use super::*;

    fn report() -> Report {
        let mut statistics = Statistics::new();
        for microseconds in 1..=2000 {
            let latency = Duration::from_micros(microseconds);
            let at = Duration::from_millis(microseconds);
            statistics.record(Direction::Read, 4096, latency, at);
        }
        let target = "memory".to_owned();
        Report::new(
            target,
            Workload::default(),
            &statistics,
            Duration::from_secs(2),
        )
    }

    #[test]
    fn rates_are_counts_over_elapsed_time() {
        let report = report();
        let read = report.read.unwrap();
        assert_eq!(read.iops, 1000.0);
        assert_eq!(read.bytes_per_second, 4_096_000.0);
        assert!((read.latency.mean_us - 1000.5).abs() < 0.01);
        assert_eq!(report.write, None);
        assert_eq!(report.series.len(), 3);
        assert_eq!(
            report
                .series
                .iter()
                .map(|second| second.read_iops)
                .sum::<u64>(),
            2000
        );
    }

    #[test]
    fn the_table_names_what_it_shows() {
        let mut report = report();
        report.verification = Some(Verification {
            mismatches: 1,
            ..Verification::default()
        });
        let text = report.to_string();
        for expected in ["randread on memory", "p99.99", "1000.5us", "1 mismatches"] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert!(!report.is_clean());
    }

    #[test]
    fn json_carries_the_words_of_the_command_line() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["workload"]["rw"], "randread");
        assert_eq!(json["read"]["ios"], 2000);
        assert!(json["read"]["latency"]["p99_9_us"].is_number());
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(short(999.4), "999");
        assert_eq!(short(12_345.0), "12.3K");
        assert_eq!(short(1_234_567.0), "1.23M");
        assert_eq!(latency(12.34), "12.3us");
        assert_eq!(latency(12_340.0), "12.3ms");
    }
}
