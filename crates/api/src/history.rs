//! What objects did and how they were over the last 30 days, in figures.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Name;

/// What a history is of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HistoryKind {
    /// The node: all of its volumes together.
    #[default]
    Node,
    /// Volumes.
    Volume,
    /// Pools.
    Pool,
    /// Drives.
    Drive,
}

/// A figure of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryMetric {
    /// Read commands per second: the mean.
    ReadIops,
    /// Write commands per second: the mean.
    WriteIops,
    /// Read and write commands per second: the mean.
    Iops,
    /// Bytes read per second: the mean.
    ReadBytesPerSecond,
    /// Bytes written per second: the mean.
    WriteBytesPerSecond,
    /// All but one in a hundred reads took at most this long, in microseconds: the worst interval.
    ReadLatencyP99Us,
    /// All but one in a hundred writes took at most this long: the worst interval.
    WriteLatencyP99Us,
    /// Bytes that a pool holds: the last.
    UsedBytes,
    /// Bytes that a pool can hold: the last.
    UsableBytes,
    /// Members of a pool that are missing or have failed: the most.
    MissingDrives,
    /// Whether a drive was open: 0 if it was not at any time.
    Online,
    /// Share of a drive's rated endurance that is used up, in percent: the last.
    PercentageUsed,
    /// Spare flash of a drive, in percent of its rated spare: the last.
    AvailableSparePercent,
    /// Operations that failed through the drive's fault: the sum.
    Errors,
}

/// Which history to show; the query of `GET /v1/history`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// What the objects are.
    pub kind: HistoryKind,
    /// Names of objects, with commas between them: up to 100, and none for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<String>,
    /// Seconds between two points: 10 for up to an hour, 60 for up to a day, 900 for up to 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 10, maximum = 900)]
    pub step: Option<u32>,
    /// How far back to go, in seconds: all that there is with that step, unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 10, maximum = 2592000)]
    pub seconds: Option<u32>,
}

/// Histories of objects of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Seconds between two points.
    pub step_seconds: u32,
    /// When the first point's interval ended, in UTC (RFC 3339); each later one is a step later.
    #[schema(format = DateTime)]
    pub first: String,
    /// The objects, in the order in which they were asked for.
    pub objects: Vec<ObjectHistory>,
}

/// The history of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectHistory {
    /// Its name.
    pub name: Name,
    /// Its figures.
    pub series: Vec<HistorySeries>,
}

/// The history of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistorySeries {
    /// The figure.
    pub metric: HistoryMetric,
    /// Its values, oldest first, within a thousandth; null where nothing was recorded.
    pub values: Vec<Option<f64>>,
}
