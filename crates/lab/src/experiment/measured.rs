//! [`Measured`]: what one load on one target came to, whichever way it was run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use ssd::Outcome;

use super::Observed;
use crate::load::{DirectionReport, Latency, Report};
use crate::plan::{Metric, Unit};
use crate::processor::ProcessorSecond;

/// One load's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Measured time, on the target's clock.
    pub seconds: f64,
    /// Reads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read: Option<DirectionReport>,
    /// Writes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write: Option<DirectionReport>,
    /// What it did over time.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub series: Vec<Sample>,
    /// What happened to the flash, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flash: Option<Flash>,
    /// What drives and nodes told before and after.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observed: Option<Observed>,
    /// Processor use, each second.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub processors: Vec<ProcessorSecond>,
    /// What a database did, by kind of transaction or operation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub operations: BTreeMap<String, Operation>,
    /// The one of them whose latency is the load's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub main_operation: Option<String>,
    /// What became of the first one that failed, where the load tells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_error: Option<String>,
    /// Conditions of its data's consistency that were checked afterwards, and held.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub conditions_held: Option<u32>,
    /// Blocks whose content was checked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verified_blocks: Option<u64>,
}

/// One kind of what a database did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// How many succeeded.
    pub count: u64,
    /// A second.
    pub per_second: f64,
    /// How many failed: deadlocks, for one.
    pub errors: u64,
    /// From its begin to its commit.
    pub latency: Latency,
}

/// A piece of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it ended, from the start of measuring.
    pub ends_at_seconds: f64,
    /// Reads a second in it.
    pub read_iops: f64,
    /// Writes a second in it.
    pub write_iops: f64,
    /// I/Os by latency: element `n` counts those from 2^n to 2^(n+1) microseconds (the first
    /// from 0); empty where that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub latency_counts: Vec<u32>,
}

/// What happened to the flash while a load was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flash {
    /// Media writes per host write, of a load that wrote.
    pub write_amplification: f64,
    /// Drive writes per day of the namespace that the warranted media writes then allow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drive_writes_per_day: Option<f64>,
    /// What the host may write over the warranty, in 10^12 bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub terabytes_written: Option<f64>,
    /// Days until worn out at this load, without a pause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub days_to_wear_out: Option<f64>,
    /// Requests that an emulated drive completed a tenth late or more, in percent: where these
    /// are many, the figure is the host's, not the drive's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_percent: Option<f64>,
}

impl Measured {
    /// From the load generator.
    pub fn from_report(report: &Report) -> Measured {
        let sample = |second: &crate::load::Second| Sample {
            ends_at_seconds: second.second as f64 + 1.0,
            read_iops: second.read_iops as f64,
            write_iops: second.write_iops as f64,
            latency_counts: second.latency_counts.clone(),
        };
        // What remains of a second is no second.
        let whole = report.elapsed_seconds.floor().max(1.0) as usize;
        Measured {
            seconds: report.elapsed_seconds,
            read: report.read,
            write: report.write,
            series: report.series.iter().take(whole).map(sample).collect(),
            verified_blocks: report
                .verification
                .as_ref()
                .map(|found| found.blocks_checked),
            ..Measured::default()
        }
    }

    /// From the drive model.
    pub fn from_outcome(outcome: &Outcome, block_bytes: u32, read_share: f64) -> Measured {
        let direction = |iops: f64, latency: Option<ssd::Latency>| {
            (iops > 0.0).then(|| DirectionReport {
                ios: (iops * outcome.simulated_seconds).round() as u64,
                bytes: (iops * outcome.simulated_seconds * f64::from(block_bytes)) as u64,
                iops,
                bytes_per_second: iops * f64::from(block_bytes),
                errors: 0,
                latency: latency.map_or_else(Latency::default, latency_of),
            })
        };
        let sample = |interval: &ssd::Interval| Sample {
            ends_at_seconds: interval.ends_at_seconds,
            read_iops: interval.iops * read_share,
            write_iops: interval.iops * (1.0 - read_share),
            latency_counts: Vec::new(),
        };
        let endurance = outcome.endurance.as_ref();
        Measured {
            seconds: outcome.simulated_seconds,
            read: direction(outcome.read_iops, outcome.read_latency),
            write: direction(outcome.write_iops, outcome.write_latency),
            series: outcome.intervals.iter().map(sample).collect(),
            flash: outcome
                .write_amplification
                .map(|write_amplification| Flash {
                    write_amplification,
                    drive_writes_per_day: endurance.map(|found| found.drive_writes_per_day),
                    terabytes_written: endurance.map(|found| found.host_bytes / ssd::TERABYTE),
                    days_to_wear_out: endurance.map(|found| found.days_to_wear_out),
                    late_percent: None,
                }),
            ..Measured::default()
        }
    }

    /// Both directions' sum of what `of` gives.
    fn sum(&self, of: fn(&DirectionReport) -> f64) -> f64 {
        // From 0: an empty sum of floats would be -0.
        let directions = self.read.iter().chain(&self.write);
        directions.map(of).fold(0.0, |sum, one| sum + one)
    }

    /// I/Os a second, or a database's operations.
    pub fn iops(&self) -> f64 {
        let operations = self.operations.values();
        let operations: f64 = operations.map(|operation| operation.per_second).sum();
        self.sum(|direction| direction.iops) + operations
    }

    /// The rate, in `unit`.
    pub fn rate(&self, unit: Unit) -> f64 {
        match unit {
            Unit::Iops | Unit::OperationsPerSecond => self.iops(),
            Unit::TransactionsPerMinute => self.iops() * 60.0,
            Unit::KiloIops => self.iops() / 1e3,
            Unit::GigabytesPerSecond => self.sum(|direction| direction.bytes_per_second) / 1e9,
            Unit::MegabytesPerSecond => self.sum(|direction| direction.bytes_per_second) / 1e6,
        }
    }

    /// The value of `metric`, where it is known. Latencies are those of reads, if there are any.
    pub fn metric(&self, metric: Metric, unit: Unit) -> Option<f64> {
        let direction = self.read.as_ref().or(self.write.as_ref());
        let named = |name: &str| self.operations.get(name);
        let operation = self.main_operation.as_deref().and_then(named);
        let latency = direction.map(|direction| direction.latency);
        let latency = latency.or(operation.map(|operation| operation.latency));
        let latency = latency.filter(|latency| latency.mean_us > 0.0);
        match metric {
            Metric::Rate => Some(self.rate(unit)),
            Metric::NewOrdersPerMinute => named("NEW_ORDER").map(|one| one.per_second * 60.0),
            Metric::MeanLatency => latency.map(|latency| latency.mean_us),
            Metric::P95Latency => latency.map(|latency| latency.p95_us),
            Metric::P99Latency => latency.map(|latency| latency.p99_us),
            Metric::WriteAmplification => self.flash.map(|flash| flash.write_amplification),
            Metric::DriveWritesPerDay => self.flash.and_then(|flash| flash.drive_writes_per_day),
            Metric::ProcessorPercent => mean(self.processors.iter().map(|one| one.machine_percent)),
        }
    }

    /// Mean processor use by process, in percent of one processor.
    pub fn processor_means(&self) -> BTreeMap<String, f64> {
        let names = self.processors.first().map(|second| second.percent.keys());
        let of = |name: &String| {
            let values = self
                .processors
                .iter()
                .filter_map(|one| one.percent.get(name));
            Some((name.clone(), mean(values.copied())?))
        };
        names.into_iter().flatten().filter_map(of).collect()
    }
}

fn latency_of(latency: ssd::Latency) -> Latency {
    Latency {
        mean_us: latency.mean_us,
        p50_us: latency.p50_us,
        p90_us: latency.p90_us,
        p95_us: latency.p95_us,
        p99_us: latency.p99_us,
        p99_9_us: latency.p99_9_us,
        p99_99_us: latency.p99_99_us,
        max_us: latency.max_us,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        (sum, count) = (sum + value, count + 1);
    }
    (count > 0).then(|| sum / f64::from(count))
}
