//! Drive models: what a namespace of a given size makes of a drive, before buying it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A drive whose model comes with the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DriveProfile {
    /// The profile's name.
    pub name: String,
    /// The drive's.
    pub drive: String,
    /// Capacity that the drive is sold with, in bytes.
    pub capacity_bytes: u64,
    /// Writes of that capacity per day that its maker warrants.
    pub drive_writes_per_day: f64,
    /// Generation of PCI Express.
    pub pcie_generation: u32,
    /// Values of the profile that nobody published: they are assumed.
    pub assumed: Vec<String>,
}

/// The order of requests, and what they do: fio's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessPattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential reads and writes.
    Rw,
    /// Random reads.
    Randread,
    /// Random writes.
    #[default]
    Randwrite,
    /// Random reads and writes.
    Randrw,
}

impl AccessPattern {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            AccessPattern::Read => "read",
            AccessPattern::Write => "write",
            AccessPattern::Rw => "rw",
            AccessPattern::Randread => "randread",
            AccessPattern::Randwrite => "randwrite",
            AccessPattern::Randrw => "randrw",
        }
    }
}

/// What the host asks of the modelled drive; the query of `GET /v1/profiles/{name}/curve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct CurveQuery {
    /// The order of requests, and what they do.
    #[param(default = "randwrite")]
    pub rw: AccessPattern,
    /// Reads in a hundred requests of `rw` and `randrw`.
    #[param(default = 70, maximum = 100)]
    pub read_percent: u8,
    /// Bytes in a request: a multiple of 4096.
    #[param(default = 4096, minimum = 4096, maximum = 16777216)]
    pub block_bytes: u32,
    /// Requests outstanding.
    #[param(default = 32, minimum = 1, maximum = 4096)]
    pub outstanding: u32,
    /// How many sizes, evenly spread over the upper half of the drive's capacity.
    #[param(default = 33, minimum = 2, maximum = 101)]
    pub points: u32,
}

impl Default for CurveQuery {
    fn default() -> CurveQuery {
        CurveQuery {
            rw: AccessPattern::default(),
            read_percent: 70,
            block_bytes: 4096,
            outstanding: 32,
            points: 33,
        }
    }
}

/// One size of the one namespace that is allocated; the rest of the drive serves as spare flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    /// Its size.
    pub namespace_bytes: u64,
    /// Requests a second in steady state.
    pub iops: f64,
    /// Mean latency of a request.
    pub mean_latency_us: f64,
    /// Media writes per host write; absent for a load without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// Bytes that the host may write until the drive's warranted media writes are used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_bytes: Option<f64>,
    /// The same as writes of the namespace per day of the warranty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_writes_per_day: Option<f64>,
    /// Days until then at this load, without a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_to_wear_out: Option<f64>,
}

/// What namespaces of several sizes make of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Curve {
    /// Each size, smallest first.
    pub points: Vec<CurvePoint>,
}
