//! fio's json+ answer.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::FioError;
use crate::experiment::{Measured, Sample};
use crate::load::{DirectionReport, Latency};

/// What of it we read.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    error: i64,
    read: Direction,
    write: Direction,
}

#[derive(Debug, Default, Deserialize)]
struct Direction {
    total_ios: u64,
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
    lat_ns: Latencies,
    clat_ns: Latencies,
}

#[derive(Debug, Default, Deserialize)]
struct Latencies {
    mean: f64,
    max: f64,
    /// I/Os by latency in nanoseconds; only where percentiles of this kind were asked for.
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

impl Answer {
    /// Reads what fio printed, which may begin with lines that are no JSON.
    pub(super) fn parse(text: &str) -> Result<Answer, FioError> {
        let start = text.find('{').unwrap_or(0);
        let answer: Answer = serde_json::from_str(&text[start..])
            .map_err(|error| FioError::Answer(error.to_string()))?;
        if let Some(job) = answer.jobs.iter().find(|job| job.error != 0) {
            return Err(FioError::Answer(format!(
                "a job ended with error {}",
                job.error
            )));
        }
        Ok(answer)
    }

    /// What all jobs came to together, with the series of `log`.
    pub(super) fn measured(&self, log: &str) -> Measured {
        let reads = || self.jobs.iter().map(|job| &job.read);
        let writes = || self.jobs.iter().map(|job| &job.write);
        let longest = reads()
            .chain(writes())
            .map(|direction| direction.runtime)
            .max();
        let seconds = longest.unwrap_or(0) as f64 / 1e3;
        Measured {
            seconds,
            read: together(reads(), seconds),
            write: together(writes(), seconds),
            series: series(log),
            ..Measured::default()
        }
    }
}

fn together<'a>(
    directions: impl Iterator<Item = &'a Direction>,
    seconds: f64,
) -> Option<DirectionReport> {
    let mut report = DirectionReport::default();
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    let mut total_ns = 0.0;
    for direction in directions {
        report.ios += direction.total_ios;
        report.bytes += direction.io_bytes;
        let latencies = &direction.lat_ns;
        total_ns += latencies.mean * direction.total_ios as f64;
        report.latency.max_us = report.latency.max_us.max(latencies.max / 1e3);
        // Total latency where there are bins of it, else completion latency.
        let counts = [&latencies.bins, &direction.clat_ns.bins];
        let counts = counts.into_iter().find(|counts| !counts.is_empty());
        for (ns, count) in counts.into_iter().flatten() {
            *bins.entry(ns.parse().unwrap_or(0)).or_default() += count;
        }
    }
    if report.ios == 0 {
        return None;
    }
    report.iops = report.ios as f64 / seconds.max(1e-3);
    report.bytes_per_second = report.bytes as f64 / seconds.max(1e-3);
    report.latency = Latency {
        mean_us: total_ns / report.ios as f64 / 1e3,
        ..percentiles(&bins, report.latency)
    };
    Some(report)
}

fn percentiles(bins: &BTreeMap<u64, u64>, known: Latency) -> Latency {
    let all: u64 = bins.values().sum();
    let at = |percent: f64| {
        let wanted = (all as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        let mut found = bins.iter().filter_map(|(ns, count)| {
            seen += count;
            (seen >= wanted).then_some(*ns as f64 / 1e3)
        });
        found.next().unwrap_or(0.0).min(known.max_us)
    };
    Latency {
        p50_us: at(50.0),
        p90_us: at(90.0),
        p95_us: at(95.0),
        p99_us: at(99.0),
        p99_9_us: at(99.9),
        p99_99_us: at(99.99),
        ..known
    }
}

/// Lines of `milliseconds, IOPS, direction, ...`, a line a job.
fn series(log: &str) -> Vec<Sample> {
    let mut seconds: BTreeMap<u64, Sample> = BTreeMap::new();
    for line in log.lines() {
        let fields: Vec<u64> = line.split(',').flat_map(|one| one.trim().parse()).collect();
        let [milliseconds, iops, direction, ..] = fields[..] else {
            continue;
        };
        let second = (milliseconds + 500) / 1000;
        let sample = seconds.entry(second).or_default();
        sample.ends_at_seconds = second as f64;
        match direction {
            0 => sample.read_iops += iops as f64,
            1 => sample.write_iops += iops as f64,
            _ => {}
        }
    }
    seconds.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTION: &str = r#"{"total_ios": 4, "io_bytes": 16384, "runtime": 2000,
        "lat_ns": {"mean": 2500.0, "max": 4000, "bins": {"1000": 1, "2000": 1, "3000": 1,
        "4000": 1}}, "clat_ns": {"mean": 2000.0, "max": 3900}}"#;
    const IDLE: &str = r#"{"total_ios": 0, "io_bytes": 0, "runtime": 0,
        "lat_ns": {"mean": 0.0, "max": 0}, "clat_ns": {"mean": 0.0, "max": 0}}"#;

    fn answer(error: u32) -> String {
        let job = format!("{{\"error\": {error}, \"read\": {DIRECTION}, \"write\": {IDLE}}}");
        format!("fio: a note\n{{\"jobs\": [{job}, {job}]}}")
    }

    #[test]
    fn jobs_are_added_up_and_percentiles_taken_from_their_bins() {
        let log = "1000, 3, 0, 4096\n1001, 1, 0, 4096\n2000, 4, 0, 4096\n2000, 9, 1, 4096\nx\n";
        let measured = Answer::parse(&answer(0)).unwrap().measured(log);
        let read = measured.read.unwrap();
        assert_eq!((read.ios, read.bytes, read.iops), (8, 32_768, 4.0));
        assert_eq!(read.latency.mean_us, 2.5);
        assert_eq!((read.latency.p50_us, read.latency.p99_us), (2.0, 4.0));
        assert_eq!(measured.write, None);
        let series: Vec<(f64, f64)> = measured
            .series
            .iter()
            .map(|sample| (sample.read_iops, sample.write_iops))
            .collect();
        assert_eq!(series, [(4.0, 0.0), (4.0, 9.0)]);
    }

    #[test]
    fn errors_and_other_answers_are_refused() {
        assert!(
            Answer::parse(&answer(5))
                .unwrap_err()
                .to_string()
                .contains("error 5")
        );
        assert!(Answer::parse("fio: no such job").is_err());
    }
}
