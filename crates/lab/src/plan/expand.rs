//! [`Case`]: one load of a plan, after lists have become combinations.

use std::path::PathBuf;

use super::metric::Unit;
use super::schema::{Plan, WorkloadTable};
use super::ycsb::Ycsb;
use crate::load::{Pattern, Verify, Workload};

/// The buffer pool of a database where the plan says nothing: MariaDB's own default.
const BUFFER_POOL_BYTES: u64 = 128 << 20;

/// What a database is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseLoad {
    /// Users at once.
    pub users: u32,
    /// Memory for pages.
    pub buffer_pool_bytes: u64,
    /// What YCSB does.
    pub ycsb: Ycsb,
}

/// One load.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The plan's name for it; where a list was given, with its value appended.
    pub name: String,
    /// What reports call it.
    pub label: String,
    /// What each job does; the jobs are those of one device.
    pub workload: Workload,
    /// The same for a database, of the runners that have one.
    pub database: DatabaseLoad,
    /// A fio job file to run in its place.
    pub fio_file: Option<PathBuf>,
    /// The job of that file.
    pub fio_section: Option<String>,
    /// Names of the targets it runs on; all if absent.
    pub targets: Option<Vec<String>>,
    /// What its rate is shown in.
    pub unit: Unit,
}

impl Case {
    /// Whether it runs on the target of this name.
    pub fn runs_on(&self, target: &str) -> bool {
        let listed = self.targets.as_ref();
        listed.is_none_or(|names| names.iter().any(|name| name == target))
    }
}

impl Plan {
    /// Every load of the plan.
    pub fn cases(&self) -> Vec<Case> {
        self.workloads
            .iter()
            .flat_map(|table| self.expand(table))
            .collect()
    }

    fn expand(&self, table: &WorkloadTable) -> Vec<Case> {
        let or = |list: &Vec<u32>, usual| {
            if list.is_empty() {
                vec![usual]
            } else {
                list.clone()
            }
        };
        let patterns = match table.rw.as_slice() {
            [] => vec![Pattern::RandRead],
            list => list.to_vec(),
        };
        let (sizes, depths, jobs) = (or(&table.bs, 4096), or(&table.depth, 1), or(&table.jobs, 1));
        let mut cases = Vec::new();
        for pattern in &patterns {
            for bytes in &sizes {
                for depth in &depths {
                    for count in &jobs {
                        let mut case = self.case(table);
                        let mut name = |listed: bool, name: String, label: String| {
                            if listed {
                                case.name.push_str(&format!("-{name}"));
                                case.label.push_str(&format!(", {label}"));
                            }
                        };
                        let word = pattern.to_string();
                        name(patterns.len() > 1, word.clone(), word);
                        name(sizes.len() > 1, short(*bytes), long(*bytes));
                        name(
                            depths.len() > 1,
                            format!("qd{depth}"),
                            format!("QD {depth}"),
                        );
                        name(jobs.len() > 1, format!("x{count}"), format!("{count} jobs"));
                        case.workload.pattern = *pattern;
                        case.workload.transfer_bytes = *bytes;
                        case.workload.depth = *depth;
                        case.workload.jobs = *count;
                        cases.push(case);
                    }
                }
            }
        }
        cases
    }

    fn case(&self, table: &WorkloadTable) -> Case {
        let workload = Workload {
            read_percent: table.read_percent.unwrap_or(70),
            size_bytes: table.region,
            runtime: Some(table.runtime.unwrap_or(self.run.runtime)),
            ramp_time: table.ramp.unwrap_or(self.run.ramp),
            rate_iops: table.rate_iops,
            seed: self.run.seed,
            random_map: false,
            verify: table.verify.unwrap_or(Verify::None),
            ..Workload::default()
        };
        Case {
            name: table.name.clone(),
            label: table.label.clone().unwrap_or_else(|| table.name.clone()),
            workload,
            database: DatabaseLoad {
                users: table.users.unwrap_or(1),
                buffer_pool_bytes: table.buffer_pool.unwrap_or(BUFFER_POOL_BYTES),
                ycsb: table.ycsb.unwrap_or_default(),
            },
            fio_file: table.fio_file.clone(),
            fio_section: table.fio_section.clone(),
            targets: table.targets.clone(),
            unit: table.unit,
        }
    }
}

/// `4k`, `1m`.
fn short(bytes: u32) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// `4 KiB`, `1 MiB`.
fn long(bytes: u32) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}
