//! What a volume or a tenant may do, and what a volume is sure of: quality of service.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The lowest limit of commands a second: a host's full queue of 1024 is done in ten seconds.
pub const LIMIT_IOPS_MIN: u64 = 100;

/// The lowest limit of bytes a second.
pub const LIMIT_BYTES_PER_SECOND_MIN: u64 = 1 << 20;

/// The highest limit or minimum: what every reader of JSON takes as it is.
pub const LIMIT_MAX: u64 = (1 << 53) - 1;

/// The longest burst.
pub const BURST_MS_MAX: u32 = 60_000;

/// What rates are in a hundredth of a second starts at once after a pause, unless told otherwise:
/// also what a node that is late may catch up with.
const BURST_MS: u32 = 10;

/// At most this much in one direction; where several bounds are given, the lowest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Commands a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 9007199254740991u64)]
    pub iops: Option<u64>,
    /// Commands a second for each GiB of the volume, so that it grows with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub iops_per_gib: Option<u64>,
    /// Bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1048576, maximum = 9007199254740991u64)]
    pub bytes_per_second: Option<u64>,
    /// Bytes a second for each GiB of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub bytes_per_second_per_gib: Option<u64>,
}

/// What a volume, or a tenant's volumes together, may do; the body of
/// `PUT /v1/volumes/{name}/limits` and `PUT /v1/tenants/{name}/limits`. What is absent is not
/// limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Reads.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub read: Limit,
    /// Writes.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub write: Limit,
    /// Reads and writes together.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub total: Limit,
    /// After a pause, what the rates are in this many milliseconds starts at once.
    #[serde(default = "burst_ms")]
    #[schema(minimum = 1, maximum = 60000)]
    pub burst_ms: u32,
    /// Commands a second, of 8 KiB or less, that the volume is to get whatever the others of its
    /// pool do; a larger command counts as several. What is left is shared in proportion to this.
    /// Of a tenant: what its volumes get together, in each pool, those aside that have a minimum
    /// of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100, maximum = 9007199254740991u64)]
    pub minimum_iops: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            read: Limit::default(),
            write: Limit::default(),
            total: Limit::default(),
            burst_ms: BURST_MS,
            minimum_iops: None,
        }
    }
}

impl Limits {
    /// True when nothing is limited and nothing is promised.
    pub fn is_unlimited(&self) -> bool {
        self.minimum_iops.is_none() && [self.read, self.write, self.total].iter().all(is_unlimited)
    }
}

fn is_unlimited(limit: &Limit) -> bool {
    *limit == Limit::default()
}

fn burst_ms() -> u32 {
    BURST_MS
}
