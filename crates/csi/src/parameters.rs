//! Parameters of storage classes and volume attributes classes.

mod demands;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use api::{
    BURST_MS_MAX, BlockSize, LIMIT_BYTES_PER_SECOND_MIN, LIMIT_IOPS_MIN, LIMIT_MAX, Limits, Name,
    PortTransport, Size,
};
use tonic::Status;

pub use self::demands::Demands;

/// What sidecars add for logs; nothing here depends on it.
const OF_SIDECARS: &str = "csi.storage.k8s.io/";

/// Most I/O queues that a host asks for: what a node takes.
const QUEUES_MAX: u16 = 128;

const GIB: u64 = 1 << 30;

/// File systems that volumes get.
pub const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// Parameters of a storage class alone.
const OF_CLASSES: [&str; 9] = [
    "pool",
    "fsType",
    "blockSize",
    "sharing",
    "hostAuth",
    "tls",
    TRANSPORT,
    "queues",
    "numReplicas",
];

/// How machines come to the node.
pub const TRANSPORT: &str = "transport";

/// Whether space is kept.
const SPACE: &str = "provisioningType";

/// Parameters that a volume attributes class may have too.
const MUTABLE: [&str; 12] = [
    "maxIOPS",
    "maxReadIOPS",
    "maxWriteIOPS",
    "maxBandwidth",
    "maxReadBandwidth",
    "maxWriteBandwidth",
    "maxIOPSPerGB",
    "maxBWPerGB",
    "minIOPS",
    "desiredIOPSPerGB",
    "burstMs",
    SPACE,
];

/// Parameters of KumoScale's classes that change nothing here: the values that say what is so in
/// any case, and why others are refused.
const OF_KUMOSCALE: [(&str, &[&str], &str); 6] = [
    (
        "desiredBWPerGB",
        &["0"],
        "nodes promise commands a second, by desiredIOPSPerGB, and no bytes",
    ),
    (
        "maxReplicaDownTime",
        &["0"],
        "a volume has one copy, which its pool repairs",
    ),
    (
        "reservedSpacePercentage",
        &["0"],
        "snapshots take space when it is written; provisioningType THICK keeps it for a volume",
    ),
    (
        "sameRackAllowed",
        &["false", "true"],
        "a volume has one copy, wherever it is",
    ),
    (
        "spanAllowed",
        &["true"],
        "a pool spreads every volume over its drives",
    ),
    (
        "writable",
        &["true"],
        "volumes of snapshots are writable; readOnly of a pod's volume protects it",
    ),
];

/// What a storage class says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// The pool that volumes are made in; none: the one with the most room.
    pub pool: Option<Name>,
    /// The file system of volumes that are mounted without saying which.
    pub file_system: Option<String>,
    /// The size of logical blocks.
    pub block_size: BlockSize,
    /// Volumes of a pool are in one subsystem, to which a host connects once.
    pub shared: bool,
    /// What hosts have to prove.
    pub demands: Demands,
    /// How hosts connect.
    pub transport: PortTransport,
    /// I/O queues that a host asks for.
    pub queues: Option<u16>,
    /// What may change later.
    pub mutable: Changes,
}

/// What a class says of limits and space; what it does not say stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Space is kept for all of the volume.
    pub reserved: Option<bool>,
    /// Each with its number; none: there is to be no such bound.
    limits: Vec<(Bound, Option<u64>)>,
}

/// One bound of a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Iops,
    ReadIops,
    WriteIops,
    Bandwidth,
    ReadBandwidth,
    WriteBandwidth,
    IopsPerGib,
    BandwidthPerGib,
    MinimumIops,
    MinimumIopsPerGib,
    BurstMs,
}

impl Bound {
    fn of(key: &str) -> Option<Bound> {
        Some(match key {
            "maxIOPS" => Bound::Iops,
            "maxReadIOPS" => Bound::ReadIops,
            "maxWriteIOPS" => Bound::WriteIops,
            "maxBandwidth" => Bound::Bandwidth,
            "maxReadBandwidth" => Bound::ReadBandwidth,
            "maxWriteBandwidth" => Bound::WriteBandwidth,
            "maxIOPSPerGB" => Bound::IopsPerGib,
            "maxBWPerGB" => Bound::BandwidthPerGib,
            "minIOPS" => Bound::MinimumIops,
            "desiredIOPSPerGB" => Bound::MinimumIopsPerGib,
            "burstMs" => Bound::BurstMs,
            _ => return None,
        })
    }

    /// Numbers that a node takes.
    fn range(self) -> RangeInclusive<u64> {
        match self {
            Bound::Iops | Bound::ReadIops | Bound::WriteIops | Bound::MinimumIops => {
                LIMIT_IOPS_MIN..=LIMIT_MAX
            }
            Bound::Bandwidth | Bound::ReadBandwidth | Bound::WriteBandwidth => {
                LIMIT_BYTES_PER_SECOND_MIN..=LIMIT_MAX
            }
            Bound::IopsPerGib | Bound::BandwidthPerGib | Bound::MinimumIopsPerGib => 1..=LIMIT_MAX,
            Bound::BurstMs => 1..=BURST_MS_MAX.into(),
        }
    }

    /// What else than a number in the range is allowed, and what is said of the number's unit.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Bound::BurstMs => ("", ""),
            // KumoScale counts kilobytes: a number alone would be a thousandth of what it was.
            Bound::BandwidthPerGib => ("0, ", " bytes a second with a unit, such as 10MiB"),
            _ if self.is_bytes() => ("0, ", " bytes a second, such as 100MiB"),
            _ => ("0, ", ""),
        }
    }

    /// The number that a class gives; zero: no such bound. None: it cannot be that.
    fn number(self, value: &str) -> Option<u64> {
        if self.is_bytes() {
            let unitless = value.trim().bytes().all(|byte| byte.is_ascii_digit());
            let bytes = value.parse::<Size>().ok()?.0;
            let ambiguous = unitless && bytes > 0 && self == Bound::BandwidthPerGib;
            return (!ambiguous).then_some(bytes);
        }
        value.parse().ok()
    }

    fn is_bytes(self) -> bool {
        matches!(
            self,
            Bound::Bandwidth
                | Bound::ReadBandwidth
                | Bound::WriteBandwidth
                | Bound::BandwidthPerGib
        )
    }
}

fn wrong(key: &str, value: &str, allowed: &str) -> Status {
    let value: String = value.chars().take(64).collect();
    Status::invalid_argument(format!("parameter {key} is {value:?}; allowed: {allowed}"))
}

impl Parameters {
    /// What a storage class says.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` that names the parameter, what it is, and what is allowed.
    pub fn read(map: &HashMap<String, String>) -> Result<Parameters, Status> {
        let mut read = Parameters::default();
        for (key, value) in sorted(map) {
            if !key.starts_with(OF_SIDECARS) && !read.mutable.take(key, value)? {
                read.take(key, value)?;
            }
        }
        match read.transport {
            PortTransport::Rdma if read.demands.tls => {
                Err(wrong("tls", "required", "none, as transport is rdma"))
            }
            _ => Ok(read),
        }
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), Status> {
        match key {
            "pool" => {
                let named = |error: api::NameError| wrong(key, value, &error.to_string());
                self.pool = Some(value.parse().map_err(named)?);
            }
            "fsType" if FILE_SYSTEMS.contains(&value) => {
                self.file_system = Some(value.to_owned());
            }
            "fsType" => return Err(wrong(key, value, "ext4, xfs")),
            "blockSize" => {
                let size = value.parse().ok().and_then(|n: u32| n.try_into().ok());
                self.block_size = size.ok_or_else(|| wrong(key, value, "512, 4096"))?;
            }
            "sharing" => {
                self.shared = match value {
                    "shared" => true,
                    "dedicated" => false,
                    _ => return Err(wrong(key, value, "dedicated, shared")),
                }
            }
            "hostAuth" => {
                self.demands.dhchap = match value {
                    "dhchap" => true,
                    "none" => false,
                    _ => return Err(wrong(key, value, "none, dhchap")),
                }
            }
            "tls" => {
                self.demands.tls = match value {
                    "required" => true,
                    "none" => false,
                    _ => return Err(wrong(key, value, "none, required")),
                }
            }
            TRANSPORT => self.transport = transport(value)?,
            "queues" => self.queues = Some(queues(value)?),
            "numReplicas" if value == "1" => {}
            "numReplicas" => {
                let why = "1: a volume is in one pool, whose redundancy keeps it";
                return Err(wrong(key, value, why));
            }
            _ => return of_kumoscale(key, value),
        }
        Ok(())
    }

    /// What a host has to know of this, for calls that bring a volume's context.
    pub fn context(&self) -> HashMap<String, String> {
        let mut context = HashMap::new();
        if let Some(file_system) = &self.file_system {
            context.insert("fsType".to_owned(), file_system.clone());
        }
        if let Some(queues) = self.queues {
            context.insert("queues".to_owned(), queues.to_string());
        }
        if self.transport != PortTransport::default() {
            context.insert(TRANSPORT.to_owned(), self.transport.word().to_owned());
        }
        self.demands.tell(&mut context);
        context
    }
}

/// Takes a parameter that changes nothing, where it says what is so in any case.
fn of_kumoscale(key: &str, value: &str) -> Result<(), Status> {
    match OF_KUMOSCALE.iter().find(|(name, ..)| *name == key) {
        Some((_, taken, _)) if taken.contains(&value) => Ok(()),
        Some((_, taken, why)) => Err(wrong(key, value, &format!("{}: {why}", taken.join(", ")))),
        None => {
            let key: String = key.chars().take(64).collect();
            let all = [&OF_CLASSES[..], &MUTABLE[..]].concat().join(", ");
            let message = format!("parameter {key:?} is unknown; allowed: {all}");
            Err(Status::invalid_argument(message))
        }
    }
}

/// How hosts connect.
pub fn transport(value: &str) -> Result<PortTransport, Status> {
    value
        .parse()
        .map_err(|_| wrong(TRANSPORT, value, "tcp, rdma"))
}

/// A number of I/O queues.
pub fn queues(value: &str) -> Result<u16, Status> {
    let count = value.parse().ok();
    let count = count.filter(|count| (1..=QUEUES_MAX).contains(count));
    count.ok_or_else(|| wrong("queues", value, "1 to 128"))
}

impl Changes {
    /// What a volume attributes class says.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` that names the parameter.
    pub fn read(map: &HashMap<String, String>) -> Result<Changes, Status> {
        let mut read = Changes::default();
        for (key, value) in sorted(map) {
            if !key.starts_with(OF_SIDECARS) && !read.take(key, value)? {
                let key: String = key.chars().take(64).collect();
                let message = format!(
                    "parameter {key:?} does not change; allowed: {}",
                    MUTABLE.join(", ")
                );
                return Err(Status::invalid_argument(message));
            }
        }
        Ok(read)
    }

    /// Takes a parameter; false: it is none of these.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, Status> {
        if key == SPACE {
            self.reserved = Some(match value.to_ascii_uppercase().as_str() {
                "THIN" => false,
                "THICK" => true,
                _ => return Err(wrong(key, value, "THIN, THICK")),
            });
            return Ok(true);
        }
        let Some(bound) = Bound::of(key) else {
            return Ok(false);
        };
        let range = bound.range();
        let (zero, unit) = bound.words();
        let number = match bound.number(value) {
            Some(0) if !zero.is_empty() => None,
            Some(number) if range.contains(&number) => Some(number),
            _ => {
                let allowed = format!("{zero}{} to {}{unit}", range.start(), range.end());
                return Err(wrong(key, value, &allowed));
            }
        };
        self.limits.push((bound, number));
        Ok(true)
    }

    /// The same, with what `later` says instead where it says something.
    #[must_use]
    pub fn then(mut self, later: &Changes) -> Changes {
        self.reserved = later.reserved.or(self.reserved);
        self.limits.extend_from_slice(&later.limits);
        self
    }

    /// What limits of a volume of `bytes` become of `before`.
    pub fn limits(&self, before: Limits, bytes: u64) -> Limits {
        let mut limits = before;
        for (bound, number) in self.limits.iter().copied() {
            match bound {
                Bound::Iops => limits.total.iops = number,
                Bound::IopsPerGib => limits.total.iops_per_gib = number,
                Bound::Bandwidth => limits.total.bytes_per_second = number,
                Bound::BandwidthPerGib => limits.total.bytes_per_second_per_gib = number,
                Bound::ReadIops => limits.read.iops = number,
                Bound::ReadBandwidth => limits.read.bytes_per_second = number,
                Bound::WriteIops => limits.write.iops = number,
                Bound::WriteBandwidth => limits.write.bytes_per_second = number,
                Bound::MinimumIops => limits.minimum_iops = number,
                Bound::MinimumIopsPerGib => {
                    let gib = bytes.div_ceil(GIB);
                    let all = number.map(|number| number.saturating_mul(gib));
                    limits.minimum_iops = all.map(|all| all.clamp(LIMIT_IOPS_MIN, LIMIT_MAX));
                }
                Bound::BurstMs => {
                    let number = number.and_then(|number| u32::try_from(number).ok());
                    limits.burst_ms = number.unwrap_or(BURST_MS_MAX);
                }
            }
        }
        limits
    }
}

/// In one order, so that the same mistakes give the same message.
fn sorted(map: &HashMap<String, String>) -> Vec<(&str, &str)> {
    let pairs = map.iter();
    let mut pairs: Vec<_> = pairs.map(|(k, v)| (k.as_str(), v.as_str())).collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests;
