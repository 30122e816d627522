//! The tables of a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::answer::Answer;
use super::metric::{Metric, Unit};
use super::words::{many, optional, word};
use super::ycsb::{Cassandra, Ycsb};
use crate::load::{Pattern, Verify};

/// An experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Short: lower-case letters, digits and hyphens.
    pub name: String,
    /// One line.
    pub title: String,
    /// What the experiment asks.
    pub question: String,
    /// Where the published figures are from.
    #[serde(default)]
    pub source: Option<String>,
    /// The published set-up, line by line: what, and which.
    #[serde(default)]
    pub setup: Vec<(String, String)>,
    /// How it is done, a paragraph each.
    #[serde(default)]
    pub method: Vec<String>,
    /// What the result cannot tell, a paragraph each.
    #[serde(default)]
    pub limits: Vec<String>,
    /// The target that ratios are to; without it there are none.
    #[serde(default)]
    pub baseline: Option<String>,
    /// How loads are run.
    #[serde(default)]
    pub run: Run,
    /// What is done to a target before it is measured.
    #[serde(default)]
    pub precondition: Precondition,
    /// What is collected beside the loads' own figures.
    #[serde(default)]
    pub collect: Collect,
    /// What to run on.
    #[serde(rename = "target")]
    pub targets: Vec<Target>,
    /// What to run.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadTable>,
    /// What was published.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What answers the question; without it, every ratio to the baseline.
    #[serde(default, rename = "answer")]
    pub answers: Vec<Answer>,
    /// What TPC-C is run on.
    #[serde(default)]
    pub tpcc: Tpcc,
    /// What YCSB is run on.
    #[serde(default)]
    pub cassandra: Cassandra,
    /// How much network a node needs for its drives.
    #[serde(default)]
    pub sizing: Option<Sizing>,
    /// A claim about endurance to be examined on the model.
    #[serde(default)]
    pub endurance: Option<Endurance>,
    /// Values of the sizes `smoke`, `small` and `full`, by dotted key.
    #[serde(default)]
    pub size: BTreeMap<String, BTreeMap<String, toml::Value>>,
}

/// `[run]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// What runs the loads.
    pub runner: Runner,
    /// How often everything is run at least.
    pub repetitions: u32,
    /// How often at most: what the plan's sentences rest on is repeated until they are sure.
    pub repetitions_max: Option<u32>,
    /// Half the 95% interval, in percent of the ratio, with which a sentence is sure.
    pub within_percent: f64,
    /// After this time nothing is repeated beyond the least.
    #[serde(deserialize_with = "optional")]
    pub time_max: Option<Duration>,
    /// Measured time of a load.
    #[serde(deserialize_with = "word")]
    pub runtime: Duration,
    /// Time before that is not measured.
    #[serde(deserialize_with = "word")]
    pub ramp: Duration,
    /// What is random follows from this and the repetition.
    pub seed: u64,
    /// Virtual time: how long to measure, in writes of the whole namespace.
    pub passes: f64,
    /// Virtual time: capacity factor, beside the one that the drive's profile asks for.
    pub scale: f64,
    /// Virtual time: how closely time is modelled.
    pub fidelity: ssd::Fidelity,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            runner: Runner::Builtin,
            repetitions: 3,
            repetitions_max: None,
            within_percent: 15.0,
            time_max: None,
            runtime: Duration::from_secs(30),
            ramp: Duration::from_secs(2),
            seed: 1,
            passes: 1.0,
            scale: 1.0,
            fidelity: ssd::Fidelity::default(),
        }
    }
}

/// The most repetitions where a plan says nothing: they narrow the interval of a figure that
/// varies by a sixth to what a plan wants by default.
const REPETITIONS_MAX: u32 = 12;

/// Fewer than these have no interval that is of use: a plan that asks for so few gets just these.
const REPETITIONS_OF_USE: u32 = 3;

impl Run {
    /// How often something is run at most.
    pub fn most_repetitions(&self) -> u32 {
        self.repetitions_max.unwrap_or(match self.repetitions {
            few if few < REPETITIONS_OF_USE => few,
            many => many.max(REPETITIONS_MAX),
        })
    }
}

/// What runs the loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runner {
    /// The load generator of this program.
    Builtin,
    /// fio, on files and block devices.
    Fio,
    /// TPC-C by go-tpc on a MariaDB, on block devices.
    Tpcc,
    /// YCSB by go-ycsb on a Cassandra, a node on each block device.
    Cassandra,
}

/// `[tpcc]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tpcc {
    /// Warehouses, of about 100 MB each.
    pub warehouses: u32,
}

impl Default for Tpcc {
    fn default() -> Tpcc {
        Tpcc { warehouses: 4 }
    }
}

/// `[precondition]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Precondition {
    /// Deallocate everything first.
    pub purge: bool,
    /// How often everything is written in order, 128 KiB at a time.
    pub fill_passes: u32,
    /// Repeat each load in rounds until five in a row agree, before it is measured.
    pub steady: bool,
    /// A round lasts this long, and
    #[serde(deserialize_with = "word")]
    pub round: Duration,
    /// at least until this share of the target has been written (loads that write).
    pub round_drive_writes: f64,
    /// Rounds after which it is measured without agreement, and said so.
    pub rounds_max: u32,
}

impl Default for Precondition {
    fn default() -> Precondition {
        Precondition {
            purge: false,
            fill_passes: 0,
            steady: false,
            round: Duration::from_secs(60),
            round_drive_writes: 0.4,
            rounds_max: 25,
        }
    }
}

/// `[collect]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Collect {
    /// Processor time of this program, of a node it started and of the machine, per second.
    pub processors: bool,
    /// Host and media writes of emulated drives.
    pub health: bool,
}

impl Default for Collect {
    fn default() -> Collect {
        Collect {
            processors: true,
            health: true,
        }
    }
}

/// The share of an array or a pool that is used where the plan says nothing, in percent: a log
/// needs room to clean.
const USED_PERCENT: u32 = 50;

/// `[[target]]`; which keys a kind takes is in `check`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// How the plan names it.
    pub name: String,
    /// How reports name it; the name if absent.
    #[serde(default)]
    pub label: Option<String>,
    /// What it is.
    pub kind: TargetKind,
    /// Files or block devices.
    #[serde(default)]
    pub paths: Vec<PathBuf>,
    /// Files that do not exist are made of this size, and removed afterwards.
    #[serde(default, deserialize_with = "optional")]
    pub size: Option<u64>,
    /// `tcp://HOST:PORT/NQN?nsid=N`, or `rdma://` with the same, one a volume.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// A drive's profile, by name or path.
    #[serde(default)]
    pub profile: Option<String>,
    /// How many emulated drives.
    #[serde(default)]
    pub drives: Option<u32>,
    /// Bytes of the drive's one namespace; by default its capacity.
    #[serde(default, deserialize_with = "optional")]
    pub namespace: Option<u64>,
    /// Capacity factor of emulated drives.
    #[serde(default)]
    pub scale: Option<f64>,
    /// Emulated drives take this many times as long as the real ones.
    #[serde(default)]
    pub dilation: Option<f64>,
    /// Emulated drives are one of so many parts of the real ones: as much slower, and as prompt.
    #[serde(default)]
    pub slice: Option<u32>,
    /// The flash's state before, where not given by the load.
    #[serde(default)]
    pub flash: Option<ssd::Precondition>,
    /// PCI Express generation of the slot the drives are in.
    #[serde(default)]
    pub slot: Option<u32>,
    /// The clock that emulated drives go by.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// The in-place array's strip.
    #[serde(default, deserialize_with = "optional")]
    pub strip: Option<u32>,
    /// The pool's level.
    #[serde(default)]
    pub level: Option<Level>,
    /// How a node is reached; by TCP if absent.
    #[serde(default)]
    pub transport: Option<Transport>,
    /// Share of the array's or pool's capacity that is used, in percent.
    #[serde(default)]
    pub used_percent: Option<u32>,
}

impl Target {
    /// What reports call it.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    /// What of an array's or pool's `bytes` is used, in whole mebibytes.
    pub fn used_of(&self, bytes: u64) -> u64 {
        let percent = u64::from(self.used_percent.unwrap_or(USED_PERCENT));
        let bytes = bytes / 100 * percent;
        (bytes - bytes % (1 << 20)).max(1 << 20)
    }
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// The drive model in virtual time, without data.
    Model,
    /// Files or block devices.
    File,
    /// Volumes over NVMe/TCP or NVMe/RDMA.
    Volume,
    /// Emulated drives, with data.
    Emulated,
    /// The same behind a node: a process that serves each, or with `level` a pool of them, as a
    /// volume over NVMe/TCP or, with `transport`, NVMe/RDMA.
    Node,
    /// RAID 6 in place over emulated drives or files.
    InplaceRaid6,
    /// A volume of a pool over emulated drives or files.
    Pool,
}

/// How a node is reached: by TCP on loopback, or by RDMA at the machine's first device for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

/// The clock that emulated drives go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The machine's.
    Real,
    /// Virtual: the host costs nothing, and every run is the same.
    Virtual,
}

/// How a pool keeps data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Striped, no redundancy.
    Raid0,
    /// Mirrored.
    Raid1,
    /// One drive may be lost.
    Raid5,
    /// Two drives may be lost.
    Raid6,
}

/// `[[workload]]`: fio's words; `rw`, `bs`, `depth` and `jobs` may be lists, which makes one load
/// of every combination.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadTable {
    /// How the plan names it.
    pub name: String,
    /// How reports name it; the name if absent.
    #[serde(default)]
    pub label: Option<String>,
    /// Pattern.
    #[serde(default, deserialize_with = "many")]
    pub rw: Vec<Pattern>,
    /// Bytes per I/O.
    #[serde(default, deserialize_with = "many")]
    pub bs: Vec<u32>,
    /// I/Os that a job keeps in flight.
    #[serde(default, deserialize_with = "many")]
    pub depth: Vec<u32>,
    /// Jobs per drive or volume of the target.
    #[serde(default, deserialize_with = "many")]
    pub jobs: Vec<u32>,
    /// Reads in a hundred, of the mixed patterns.
    #[serde(default)]
    pub read_percent: Option<u8>,
    /// Length of the region; by default the whole target.
    #[serde(default, deserialize_with = "optional")]
    pub region: Option<u64>,
    /// Open loop: I/Os a second of each job.
    #[serde(default)]
    pub rate_iops: Option<u64>,
    /// Measured time, where not that of `[run]`.
    #[serde(default, deserialize_with = "optional")]
    pub runtime: Option<Duration>,
    /// Time before that which is not measured, where not that of `[run]`.
    #[serde(default, deserialize_with = "optional")]
    pub ramp: Option<Duration>,
    /// `none` or `crc32c`.
    #[serde(default)]
    pub verify: Option<Verify>,
    /// A fio job file of one's own, whose `filename` is `${TARGET}`.
    #[serde(default)]
    pub fio_file: Option<PathBuf>,
    /// The one of its jobs to run; all if absent.
    #[serde(default)]
    pub fio_section: Option<String>,
    /// A database's users at once.
    #[serde(default)]
    pub users: Option<u32>,
    /// The memory in which a database keeps pages.
    #[serde(default, deserialize_with = "optional")]
    pub buffer_pool: Option<u64>,
    /// What YCSB does.
    #[serde(default)]
    pub ycsb: Option<Ycsb>,
    /// Names of the targets it runs on; all if absent.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// What the table and the bars show.
    #[serde(default)]
    pub unit: Unit,
}

/// `[[published]]`: a figure to put beside ours.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// A load, by its expanded name.
    pub workload: String,
    /// A target.
    pub target: String,
    /// What the figure is of.
    #[serde(default)]
    pub metric: Metric,
    /// The figure, in the load's unit, or the metric's.
    pub value: f64,
    /// The error that ours is held to; without it, it is only shown.
    #[serde(default)]
    pub within_percent: Option<f64>,
    /// How much of a test it is.
    #[serde(default)]
    pub basis: Option<String>,
}

/// `[sizing]`: ports for drives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizing {
    /// What one drive reads in order, in 10^9 bytes a second.
    pub drive_gb_s: f64,
    /// What one port carries each way, in 10^9 bits a second.
    pub port_gbit_s: f64,
    /// Numbers of drives.
    pub drives: Vec<u32>,
    /// The published network for each, in 10^9 bits a second.
    #[serde(default)]
    pub published_gbit_s: Vec<f64>,
}

/// `[endurance]`: "with a smaller namespace this drive wears like one sold for more".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    /// The load that wears.
    pub workload: String,
    /// The drive with the smaller namespace.
    pub target: String,
    /// The drive sold for more writes.
    pub beside: String,
    /// The writes per day it is sold for.
    pub drive_writes_per_day: f64,
}
