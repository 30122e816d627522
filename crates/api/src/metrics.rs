//! What the node does now and did lately, in figures.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Name;

/// Which history to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MetricsQuery {
    /// Seconds between two points: 1 shows the last five minutes, 10 the last hour
    #[serde(default)]
    #[param(minimum = 1, maximum = 10)]
    pub interval: Option<u32>,
}

/// What hosts did in one direction, reading or writing, over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Commands per second.
    pub operations_per_second: f64,
    /// Half of the commands took at most this long, in microseconds; 0 without commands.
    pub latency_p50_us: f64,
    /// All but one in a hundred took at most this long.
    pub latency_p99_us: f64,
}

/// The node over one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricsPoint {
    /// When the interval ended, in UTC (RFC 3339).
    #[schema(format = DateTime)]
    pub time: String,
    /// What hosts read.
    pub read: Flow,
    /// What hosts wrote.
    pub write: Flow,
    /// Share of the interval that the busiest core was at work, 0 to 1.
    pub busy: f64,
    /// What pools hold, in bytes.
    pub used_bytes: u64,
    /// What pools can hold, in bytes.
    pub usable_bytes: u64,
}

/// A volume over the last second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeMetrics {
    /// The volume.
    pub name: Name,
    /// What hosts read.
    pub read: Flow,
    /// What hosts wrote.
    pub write: Flow,
    /// Bytes that it holds and no snapshot does, as its pool last said, within a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_bytes: Option<u64>,
}

/// A core over the last second, in shares of its time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoreMetrics {
    /// At work.
    pub busy: f64,
    /// Watching for something to do.
    pub polling: f64,
}

/// What the node does now and did lately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Metrics {
    /// Seconds between two points.
    pub interval_seconds: u32,
    /// The node's last intervals, oldest first.
    pub points: Vec<MetricsPoint>,
    /// Every volume, by name.
    pub volumes: Vec<VolumeMetrics>,
    /// Every core that runs the data path.
    pub cores: Vec<CoreMetrics>,
    /// Hosts' sessions.
    pub sessions: u64,
    /// Queue pairs of these sessions.
    pub queue_pairs: u64,
}
