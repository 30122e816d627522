//! Limits, as `flashyard volume limit` and `flashyard tenant limit` take and show them.

use api::{Limit, Limits, Size};
use clap::Args;

/// A limit that is not given is removed.
#[derive(Args)]
pub struct Bounds {
    /// Read IOPS limit
    #[arg(long, value_name = "IOPS")]
    read_iops: Option<u64>,
    /// Write IOPS limit
    #[arg(long, value_name = "IOPS")]
    write_iops: Option<u64>,
    /// IOPS limit, of reads and writes together
    #[arg(long, value_name = "IOPS")]
    iops: Option<u64>,
    /// IOPS limit for each GiB of the volume
    #[arg(long, value_name = "IOPS")]
    iops_per_gib: Option<u64>,
    /// Read bandwidth limit in bytes per second, such as 200MB
    #[arg(long, value_name = "SIZE")]
    read_bandwidth: Option<Size>,
    /// Write bandwidth limit
    #[arg(long, value_name = "SIZE")]
    write_bandwidth: Option<Size>,
    /// Bandwidth limit, of reads and writes together
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<Size>,
    /// Bandwidth limit for each GiB of the volume
    #[arg(long, value_name = "SIZE")]
    bandwidth_per_gib: Option<Size>,
    /// Burst: after a pause, the I/O of this time at the limit's rate starts at once
    #[arg(long, value_name = "MILLISECONDS", default_value_t = Limits::default().burst_ms)]
    burst: u32,
    /// Minimum IOPS, in commands of 8 KiB or less, whatever the other volumes of the pool do; a
    /// tenant's volumes without a minimum of their own share it, in each pool
    #[arg(long, value_name = "IOPS")]
    minimum_iops: Option<u64>,
}

impl Bounds {
    /// As the node takes them.
    pub fn limits(&self) -> Limits {
        let one = |iops: Option<u64>, bandwidth: Option<Size>| Limit {
            iops,
            bytes_per_second: bandwidth.map(Size::bytes),
            ..Limit::default()
        };
        Limits {
            read: one(self.read_iops, self.read_bandwidth),
            write: one(self.write_iops, self.write_bandwidth),
            total: Limit {
                iops_per_gib: self.iops_per_gib,
                bytes_per_second_per_gib: self.bandwidth_per_gib.map(Size::bytes),
                ..one(self.iops, self.bandwidth)
            },
            burst_ms: self.burst,
            minimum_iops: self.minimum_iops,
        }
    }
}

/// Limits and a minimum, in words.
pub fn in_words(limits: &Limits) -> String {
    let mut words = Vec::new();
    for (direction, bounds) in [
        ("read", &limits.read),
        ("write", &limits.write),
        ("total", &limits.total),
    ] {
        let iops = bounds.iops.map(|rate| format!("{rate} IOPS"));
        let scaled = bounds.iops_per_gib.map(|rate| format!("{rate} IOPS/GiB"));
        let bytes = bounds.bytes_per_second;
        let bytes = bytes.map(|rate| format!("{}/s", Size(rate)));
        let grown = bounds.bytes_per_second_per_gib;
        let grown = grown.map(|rate| format!("{}/s/GiB", Size(rate)));
        for bound in [iops, scaled, bytes, grown].into_iter().flatten() {
            words.push(format!("{direction} {bound}"));
        }
    }
    if let Some(minimum) = limits.minimum_iops {
        words.push(format!("minimum {minimum} IOPS"));
    }
    match words.as_slice() {
        [] => "none".to_owned(),
        words => words.join(", "),
    }
}
