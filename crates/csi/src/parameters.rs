//! Parameters of storage classes and volume attributes classes.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use api::{
    BURST_MS_MAX, BlockSize, LIMIT_BYTES_PER_SECOND_MIN, LIMIT_IOPS_MIN, LIMIT_MAX, Limits, Name,
    Size,
};
use tonic::Status;

/// What sidecars add for logs; nothing here depends on it.
const OF_SIDECARS: &str = "csi.storage.k8s.io/";

/// Most I/O queues that a host asks for: what a node takes.
const QUEUES_MAX: u16 = 128;

const GIB: u64 = 1 << 30;

/// File systems that volumes get.
pub const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// Every parameter, as messages list them.
const ALLOWED: &str = "pool, fsType, blockSize, provisioningType, sharing, hostAuth, queues, \
    numReplicas, and those that may change";

/// Those that a volume attributes class may have too.
const MUTABLE: &str = "maxIOPS, maxReadIOPS, maxWriteIOPS, maxBandwidth, maxReadBandwidth, \
    maxWriteBandwidth, maxIOPSPerGB, maxBWPerGB, minIOPS, desiredIOPSPerGB, burstMs, \
    provisioningType";

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
    /// Hosts have to prove a secret.
    pub host_auth: bool,
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
    limits: Vec<(Bound, u64)>,
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
        Ok(read)
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
                self.host_auth = match value {
                    "dhchap" => true,
                    "none" => false,
                    _ => return Err(wrong(key, value, "none, dhchap")),
                }
            }
            "queues" => self.queues = Some(queues(value)?),
            "numReplicas" if value == "1" => {}
            "numReplicas" => {
                let why = "1: a volume is in one pool, whose redundancy keeps it";
                return Err(wrong(key, value, why));
            }
            _ => {
                let key: String = key.chars().take(64).collect();
                let message =
                    format!("parameter {key:?} is unknown; allowed: {ALLOWED}: {MUTABLE}");
                return Err(Status::invalid_argument(message));
            }
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
        if self.host_auth {
            context.insert("hostAuth".to_owned(), "dhchap".to_owned());
        }
        context
    }
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
                let message = format!("parameter {key:?} does not change; allowed: {MUTABLE}");
                return Err(Status::invalid_argument(message));
            }
        }
        Ok(read)
    }

    /// Takes a parameter; false: it is none of these.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, Status> {
        if key == "provisioningType" {
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
        let number = match bound.is_bytes() {
            true => value.parse::<Size>().ok().map(|size| size.0),
            false => value.parse().ok(),
        };
        let range = bound.range();
        let number = number.filter(|number| range.contains(number));
        let number = number.ok_or_else(|| {
            let unit = if bound.is_bytes() {
                " bytes a second, such as 100MiB"
            } else {
                ""
            };
            let allowed = format!("{} to {}{unit}", range.start(), range.end());
            wrong(key, value, &allowed)
        })?;
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
        for (bound, number) in &self.limits {
            let some = Some(*number);
            match bound {
                Bound::Iops => limits.total.iops = some,
                Bound::IopsPerGib => limits.total.iops_per_gib = some,
                Bound::Bandwidth => limits.total.bytes_per_second = some,
                Bound::BandwidthPerGib => limits.total.bytes_per_second_per_gib = some,
                Bound::ReadIops => limits.read.iops = some,
                Bound::ReadBandwidth => limits.read.bytes_per_second = some,
                Bound::WriteIops => limits.write.iops = some,
                Bound::WriteBandwidth => limits.write.bytes_per_second = some,
                Bound::MinimumIops => limits.minimum_iops = some,
                Bound::MinimumIopsPerGib => {
                    let all = number.saturating_mul(bytes.div_ceil(GIB));
                    limits.minimum_iops = Some(all.clamp(LIMIT_IOPS_MIN, LIMIT_MAX));
                }
                Bound::BurstMs => limits.burst_ms = u32::try_from(*number).unwrap_or(BURST_MS_MAX),
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
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_class_says_what_volumes_are() {
        let read = Parameters::read(&map(&[
            ("pool", "fast"),
            ("fsType", "xfs"),
            ("blockSize", "512"),
            ("provisioningType", "THICK"),
            ("numReplicas", "1"),
            ("sharing", "shared"),
            ("queues", "8"),
            ("maxIOPSPerGB", "500"),
            ("maxBandwidth", "100MiB"),
            ("desiredIOPSPerGB", "100"),
            ("csi.storage.k8s.io/pvc/name", "data"),
        ]))
        .unwrap();
        assert_eq!((read.block_size, read.shared), (BlockSize::Bytes512, true));
        assert_eq!(read.mutable.reserved, Some(true));
        let limits = read.mutable.limits(Limits::default(), 3 * GIB);
        assert_eq!(limits.total.iops_per_gib, Some(500));
        assert_eq!(limits.total.bytes_per_second, Some(100 << 20));
        assert_eq!(limits.minimum_iops, Some(300));
        assert_eq!(read.context(), map(&[("fsType", "xfs"), ("queues", "8")]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (key, value, says) in [
            ("pool", "No Pool", "pool"),
            ("fsType", "ntfs", "ext4, xfs"),
            ("blockSize", "1024", "512, 4096"),
            ("provisioningType", "fat", "THIN, THICK"),
            ("numReplicas", "2", "redundancy"),
            ("sharing", "both", "dedicated, shared"),
            ("hostAuth", "yes", "none, dhchap"),
            ("queues", "0", "1 to 128"),
            ("queues", "129", "1 to 128"),
            ("maxIOPS", "many", "100 to"),
            ("maxIOPS", "99", "100 to"),
            ("maxBandwidth", "1KiB", "1048576 to"),
            ("maxBWPerGB", "fast", "bytes a second"),
            ("burstMs", "60001", "1 to 60000"),
            ("unheardOf", "1", "unheardOf"),
        ] {
            let refused = Parameters::read(&map(&[(key, value)])).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            let message = refused.message();
            assert!(message.contains(key) && message.contains(says), "{message}");
        }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let before = Limits {
            minimum_iops: Some(200),
            ..Limits::default()
        };
        let change = Changes::read(&map(&[("maxReadIOPS", "1000")])).unwrap();
        let after = change.limits(before, GIB);
        assert_eq!(
            (after.minimum_iops, after.read.iops),
            (Some(200), Some(1000))
        );
        let refused = Changes::read(&map(&[("pool", "fast")])).unwrap_err();
        assert!(refused.message().contains("pool"));
    }

    fn file(name: &str) -> String {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    }

    /// Classes to begin with are what this driver takes.
    #[test]
    fn classes_of_the_manifests_are_taken() {
        let classes = file("deploy/kubernetes/classes.yaml");
        let mut taken = 0;
        for class in classes.split("---\n") {
            let Some((_, parameters)) = class.split_once("\nparameters:\n") else {
                continue;
            };
            let lines = parameters.lines().take_while(|line| line.starts_with("  "));
            let pairs = lines.map(|line| line.trim().split_once(": ").unwrap());
            let pairs: Vec<_> = pairs.map(|(k, v)| (k, v.trim_matches('"'))).collect();
            match class.contains("kind: VolumeAttributesClass") {
                true => drop(Changes::read(&map(&pairs)).unwrap()),
                false => drop(Parameters::read(&map(&pairs)).unwrap()),
            }
            taken += pairs.len();
        }
        assert!(taken >= 6, "{taken}");
    }

    /// The manual lists every parameter.
    #[test]
    fn the_manual_lists_every_parameter() {
        let manual = file("docs/kubernetes.md");
        let all = format!("{ALLOWED}, {MUTABLE}");
        for name in all.split(", ").filter(|name| !name.contains(' ')) {
            assert!(manual.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn what_is_said_later_counts() {
        let first = Changes::read(&map(&[("maxIOPS", "1000"), ("provisioningType", "THIN")]));
        let later = Changes::read(&map(&[("maxIOPS", "2000")])).unwrap();
        let both = first.unwrap().then(&later);
        let limits = both.limits(Limits::default(), GIB);
        assert_eq!(
            (limits.total.iops, both.reserved),
            (Some(2000), Some(false))
        );
    }
}
