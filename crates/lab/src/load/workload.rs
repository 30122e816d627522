//! [`Workload`]: what a job does, in fio's words.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use block::Geometry;
use serde::{Deserialize, Serialize, Serializer};

use super::offsets::Offsets;
use super::random::mix;

/// fio's `rw`: the order of addresses and the directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential, mixed by [`Workload::read_percent`].
    ReadWrite,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random, mixed by [`Workload::read_percent`].
    RandRw,
}

const PATTERNS: [(&str, Pattern); 6] = [
    ("read", Pattern::Read),
    ("write", Pattern::Write),
    ("rw", Pattern::ReadWrite),
    ("randread", Pattern::RandRead),
    ("randwrite", Pattern::RandWrite),
    ("randrw", Pattern::RandRw),
];

impl Pattern {
    /// True when addresses are drawn at random.
    pub fn is_random(self) -> bool {
        matches!(
            self,
            Pattern::RandRead | Pattern::RandWrite | Pattern::RandRw
        )
    }

    /// True when the workload writes at all (a mixed one may still be all reads).
    pub fn writes(self) -> bool {
        !matches!(self, Pattern::Read | Pattern::RandRead)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PATTERNS.iter().find(|(_, pattern)| pattern == self);
        formatter.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Pattern {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Pattern, WorkloadError> {
        let text = if text == "readwrite" { "rw" } else { text };
        PATTERNS
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, pattern)| *pattern)
            .ok_or_else(|| WorkloadError::Pattern(text.to_owned()))
    }
}

/// fio's `verify`: what is written and checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Nothing is stamped and nothing is checked.
    #[default]
    None,
    /// Every block written is stamped and every block read is checked ([`super::Stamp`]).
    Crc32c,
}

impl FromStr for Verify {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Verify, WorkloadError> {
        match text {
            "none" => Ok(Verify::None),
            "crc32c" => Ok(Verify::Crc32c),
            _ => Err(WorkloadError::Verify(text.to_owned())),
        }
    }
}

/// What every job does. Sizes in bytes; each job works on its own queue depth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// `--rw`.
    #[serde(rename = "rw")]
    pub pattern: Pattern,
    /// `--rwmixread`: percentage of reads in the mixed patterns.
    pub read_percent: u8,
    /// `--bs`: bytes per I/O, a multiple of the device's block.
    pub transfer_bytes: u32,
    /// `--iodepth`: I/Os that a job keeps in flight.
    pub depth: u32,
    /// `--numjobs`.
    pub jobs: u32,
    /// `--offset`: where the region starts, from the start of the device.
    pub offset_bytes: u64,
    /// `--size`: how long the region is; absent means to the end of the device.
    pub size_bytes: Option<u64>,
    /// `--runtime`: measured time. Absent: one pass over the region, or `number_ios`.
    #[serde(rename = "runtime_seconds", serialize_with = "optional_seconds")]
    pub runtime: Option<Duration>,
    /// `--ramp-time`: run this long before measuring.
    #[serde(rename = "ramp_time_seconds", serialize_with = "seconds")]
    pub ramp_time: Duration,
    /// `--number-ios`: each job ends after this many I/Os.
    pub number_ios: Option<u64>,
    /// `--rate-iops`: open loop. Each job issues this many I/Os per second at even distances;
    /// latency counts from the moment an I/O was due, whether or not a slot was free then.
    pub rate_iops: Option<u64>,
    /// `--seed`: chooses addresses, directions and content.
    pub seed: u64,
    /// Random patterns visit every position once per pass (false: `--norandommap`).
    pub random_map: bool,
    /// `--verify`.
    pub verify: Verify,
    /// `--continue-on-error`: count failed I/Os and go on.
    pub continue_on_error: bool,
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn optional_seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serializer.serialize_some(&duration.as_secs_f64()),
        None => serializer.serialize_none(),
    }
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            pattern: Pattern::RandRead,
            read_percent: 50,
            transfer_bytes: 4096,
            depth: 1,
            jobs: 1,
            offset_bytes: 0,
            size_bytes: None,
            runtime: None,
            ramp_time: Duration::ZERO,
            number_ios: None,
            rate_iops: None,
            seed: 1,
            random_map: true,
            verify: Verify::None,
            continue_on_error: false,
        }
    }
}

/// Why a [`Workload`] cannot run; each names the option and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Unknown pattern.
    #[error("rw: '{0}' is none of read, write, rw, randread, randwrite, randrw")]
    Pattern(String),
    /// Unknown verification.
    #[error("verify: '{0}' is none of none, crc32c")]
    Verify(String),
    /// Mix above 100.
    #[error("rwmixread: {0} is above 100")]
    ReadPercent(u8),
    /// Transfer size and device do not fit.
    #[error("bs: {transfer_bytes} is not a positive multiple of the block size {block_bytes}")]
    Transfer {
        /// Asked for.
        transfer_bytes: u32,
        /// The device's logical block.
        block_bytes: u32,
    },
    /// Depth out of range.
    #[error("iodepth: {0} is not from 1 to 65535")]
    Depth(u32),
    /// Job count out of range.
    #[error("numjobs: {0} is not from 1 to 1024")]
    Jobs(u32),
    /// More in flight than memory can hold.
    #[error(
        "bs, iodepth and numjobs: {needed_bytes} bytes in flight at once; {available_bytes} bytes \
         of memory are available"
    )]
    Memory {
        /// Bytes that would be in flight.
        needed_bytes: u64,
        /// Bytes that the system could give.
        available_bytes: u64,
    },
    /// The offset is no multiple of the block size.
    #[error("offset: {0} is not a multiple of the block size")]
    Offset(u64),
    /// The region does not lie within the device.
    #[error(
        "offset and size: the region from {offset_bytes} of {size_bytes} bytes exceeds the \
             device of {capacity_bytes} bytes"
    )]
    Region {
        /// Start.
        offset_bytes: u64,
        /// Length.
        size_bytes: u64,
        /// What there is.
        capacity_bytes: u64,
    },
    /// The region cannot hold one transfer for each job that needs its own part.
    #[error("size: {size_bytes} bytes are too few for {jobs} job(s) of {transfer_bytes} bytes")]
    TooSmall {
        /// Length of the region.
        size_bytes: u64,
        /// Number of jobs that share it.
        jobs: u32,
        /// Bytes per I/O.
        transfer_bytes: u32,
    },
    /// An open loop of zero.
    #[error("rate-iops: must be at least 1")]
    Rate,
}

/// The part of a device that one job works on, in its transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First logical block.
    pub start_block: u64,
    /// Logical blocks per transfer.
    pub transfer_blocks: u64,
    /// Number of transfers that fit.
    pub transfers: u64,
}

impl Region {
    /// Logical blocks covered.
    pub fn blocks(&self) -> u64 {
        self.transfers * self.transfer_blocks
    }
}

impl Workload {
    /// The region of job number `job`, once everything about the workload has been found to fit
    /// `geometry`. Jobs share the region, except that verified jobs each take an equal part,
    /// since two of them cannot know the order of each other's writes.
    ///
    /// # Errors
    /// The first [`WorkloadError`] found.
    pub fn region(&self, geometry: &Geometry, job: u32) -> Result<Region, WorkloadError> {
        self.check_counts()?;
        let block_bytes = u64::from(geometry.block_bytes);
        let transfer_bytes = u64::from(self.transfer_bytes);
        if transfer_bytes == 0 || !transfer_bytes.is_multiple_of(block_bytes) {
            return Err(WorkloadError::Transfer {
                transfer_bytes: self.transfer_bytes,
                block_bytes: geometry.block_bytes,
            });
        }
        if !self.offset_bytes.is_multiple_of(block_bytes) {
            return Err(WorkloadError::Offset(self.offset_bytes));
        }
        let capacity_bytes = geometry.capacity_bytes();
        let size_bytes = self
            .size_bytes
            .unwrap_or(capacity_bytes.saturating_sub(self.offset_bytes));
        let end = self.offset_bytes.checked_add(size_bytes);
        if end.is_none_or(|end| end > capacity_bytes) {
            return Err(WorkloadError::Region {
                offset_bytes: self.offset_bytes,
                size_bytes,
                capacity_bytes,
            });
        }
        let parts = if self.verify == Verify::None {
            1
        } else {
            u64::from(self.jobs)
        };
        let transfers = size_bytes / transfer_bytes / parts;
        if transfers == 0 {
            return Err(WorkloadError::TooSmall {
                size_bytes,
                jobs: self.jobs,
                transfer_bytes: self.transfer_bytes,
            });
        }
        let transfer_blocks = transfer_bytes / block_bytes;
        let part = if parts == 1 {
            0
        } else {
            u64::from(job) % parts
        };
        Ok(Region {
            start_block: self.offset_bytes / block_bytes + part * transfers * transfer_blocks,
            transfer_blocks,
            transfers,
        })
    }

    /// Whether this machine has the memory for what is in flight at once; the rest is checked
    /// against a device.
    ///
    /// # Errors
    /// [`WorkloadError`], before anything is allocated.
    pub fn check_memory(&self) -> Result<(), WorkloadError> {
        self.check_counts()?;
        let each = u64::from(self.depth) * u64::from(self.transfer_bytes);
        let needed_bytes = each.saturating_mul(self.jobs.into());
        match available_bytes() {
            Some(available_bytes) if needed_bytes > available_bytes => Err(WorkloadError::Memory {
                needed_bytes,
                available_bytes,
            }),
            _ => Ok(()),
        }
    }

    fn check_counts(&self) -> Result<(), WorkloadError> {
        if self.read_percent > 100 {
            return Err(WorkloadError::ReadPercent(self.read_percent));
        }
        if !(1..=65_535).contains(&self.depth) {
            return Err(WorkloadError::Depth(self.depth));
        }
        if !(1..=1024).contains(&self.jobs) {
            return Err(WorkloadError::Jobs(self.jobs));
        }
        if self.rate_iops == Some(0) {
            return Err(WorkloadError::Rate);
        }
        Ok(())
    }

    /// The percentage of reads, whatever the pattern.
    pub fn effective_read_percent(&self) -> u8 {
        match self.pattern {
            Pattern::Read | Pattern::RandRead => 100,
            Pattern::Write | Pattern::RandWrite => 0,
            Pattern::ReadWrite | Pattern::RandRw => self.read_percent,
        }
    }

    /// A seed for job `job`, different from every other job's.
    pub fn job_seed(&self, job: u32) -> u64 {
        mix(self.seed ^ mix(u64::from(job) + 1))
    }

    /// The addresses that job `job` visits in `region`, in order.
    pub fn offsets(&self, region: &Region, job: u32) -> Offsets {
        match (self.pattern.is_random(), self.random_map) {
            (false, _) => Offsets::sequential(region.transfers),
            (true, true) => Offsets::each_once(region.transfers, self.job_seed(job)),
            (true, false) => Offsets::uniform(region.transfers, self.job_seed(job)),
        }
    }

    /// How many I/Os a job issues before it ends by count; `None` when only time ends it.
    pub fn io_limit(&self, region: &Region) -> Option<u64> {
        match (self.number_ios, self.runtime) {
            (Some(count), _) => Some(count),
            (None, Some(_)) => None,
            (None, None) => Some(region.transfers),
        }
    }
}

/// Memory that the system could still give; `None` where it does not say.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(512, 8192).unwrap()
    }

    #[test]
    fn every_word_for_a_pattern_reads_back() {
        for (name, pattern) in PATTERNS {
            assert_eq!(name.parse::<Pattern>(), Ok(pattern));
            assert_eq!(pattern.to_string(), name);
        }
        assert_eq!("readwrite".parse::<Pattern>(), Ok(Pattern::ReadWrite));
        let error = "randtrim".parse::<Pattern>().unwrap_err().to_string();
        assert!(
            error.contains("rw: 'randtrim'") && error.contains("randwrite"),
            "{error}"
        );
    }

    #[test]
    fn the_region_is_the_device_unless_told_otherwise() {
        let workload = Workload::default();
        let region = workload.region(&geometry(), 0).unwrap();
        assert_eq!(
            region,
            Region {
                start_block: 0,
                transfer_blocks: 8,
                transfers: 1024
            }
        );
        let part = Workload {
            offset_bytes: 4096,
            size_bytes: Some(10_000),
            ..workload
        };
        let region = part.region(&geometry(), 0).unwrap();
        assert_eq!(
            region,
            Region {
                start_block: 8,
                transfer_blocks: 8,
                transfers: 2
            }
        );
    }

    #[test]
    fn verified_jobs_do_not_share_blocks() {
        let workload = Workload {
            verify: Verify::Crc32c,
            jobs: 3,
            ..Workload::default()
        };
        let regions: Vec<Region> = (0..3)
            .map(|job| workload.region(&geometry(), job).unwrap())
            .collect();
        for pair in regions.windows(2) {
            assert_eq!(pair[0].start_block + pair[0].blocks(), pair[1].start_block);
        }
        assert!(regions[2].start_block + regions[2].blocks() <= 8192);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let fits = Workload::default();
        let cases = [
            (
                Workload {
                    transfer_bytes: 1000,
                    ..fits.clone()
                },
                "bs: 1000",
            ),
            (
                Workload {
                    transfer_bytes: 0,
                    ..fits.clone()
                },
                "bs: 0",
            ),
            (
                Workload {
                    offset_bytes: 100,
                    ..fits.clone()
                },
                "offset: 100",
            ),
            (
                Workload {
                    size_bytes: Some(1 << 40),
                    ..fits.clone()
                },
                "offset and size",
            ),
            (
                Workload {
                    offset_bytes: 1 << 40,
                    ..fits.clone()
                },
                "offset and size",
            ),
            (
                Workload {
                    size_bytes: Some(4095),
                    ..fits.clone()
                },
                "size: 4095",
            ),
            (
                Workload {
                    depth: 0,
                    ..fits.clone()
                },
                "iodepth: 0",
            ),
            (
                Workload {
                    jobs: 0,
                    ..fits.clone()
                },
                "numjobs: 0",
            ),
            (
                Workload {
                    read_percent: 101,
                    ..fits.clone()
                },
                "rwmixread: 101",
            ),
            (
                Workload {
                    rate_iops: Some(0),
                    ..fits.clone()
                },
                "rate-iops",
            ),
        ];
        for (workload, expected) in cases {
            let error = workload.region(&geometry(), 0).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_job_without_time_or_count_makes_one_pass() {
        let workload = Workload::default();
        let region = workload.region(&geometry(), 0).unwrap();
        assert_eq!(workload.io_limit(&region), Some(1024));
        let timed = Workload {
            runtime: Some(Duration::from_secs(1)),
            ..workload
        };
        assert_eq!(timed.io_limit(&region), None);
        let counted = Workload {
            number_ios: Some(7),
            ..timed
        };
        assert_eq!(counted.io_limit(&region), Some(7));
    }
}
