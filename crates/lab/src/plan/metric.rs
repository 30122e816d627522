//! What figures are of, and in which units.

use serde::{Deserialize, Serialize};

/// What a load's main figure is shown in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Thousands of I/Os a second.
    #[default]
    #[serde(rename = "K IOPS")]
    KiloIops,
    /// I/Os a second.
    #[serde(rename = "IOPS")]
    Iops,
    /// 10^9 bytes a second.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// 10^6 bytes a second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Transactions of every kind a minute.
    #[serde(rename = "tpm")]
    TransactionsPerMinute,
    /// A database's operations a second.
    #[serde(rename = "ops/s")]
    OperationsPerSecond,
}

/// What a figure is of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The load's rate, in its unit.
    #[default]
    Rate,
    /// TPC-C's new orders a minute.
    NewOrdersPerMinute,
    /// Mean latency of the direction that matters, microseconds.
    MeanLatency,
    /// The latency that 95 of a hundred did not exceed, microseconds.
    P95Latency,
    /// 99 of a hundred, microseconds.
    P99Latency,
    /// Media writes per host write.
    WriteAmplification,
    /// Drive writes per day that the media writes allow.
    DriveWritesPerDay,
    /// Processors busy, in percent of the machine.
    ProcessorPercent,
}

impl Unit {
    /// As reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Unit::KiloIops => "K IOPS",
            Unit::Iops => "IOPS",
            Unit::GigabytesPerSecond => "GB/s",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::TransactionsPerMinute => "tpm",
            Unit::OperationsPerSecond => "ops/s",
        }
    }
}

impl Metric {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Rate => "rate",
            Metric::NewOrdersPerMinute => "new orders a minute",
            Metric::MeanLatency => "mean latency",
            Metric::P95Latency => "p95 latency",
            Metric::P99Latency => "p99 latency",
            Metric::WriteAmplification => "write amplification",
            Metric::DriveWritesPerDay => "drive writes per day",
            Metric::ProcessorPercent => "processors busy",
        }
    }

    /// What it is in; a rate's unit is the load's.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Rate => "",
            Metric::NewOrdersPerMinute => "tpmC",
            Metric::MeanLatency => "us mean",
            Metric::P95Latency => "us p95",
            Metric::P99Latency => "us p99",
            Metric::WriteAmplification => "WAF",
            Metric::DriveWritesPerDay => "DWPD",
            Metric::ProcessorPercent => "% CPU",
        }
    }

    /// Whether a higher value is the better one.
    pub fn more_is_better(self) -> bool {
        use Metric::{DriveWritesPerDay, NewOrdersPerMinute, Rate};
        matches!(self, Rate | NewOrdersPerMinute | DriveWritesPerDay)
    }
}
