//! What a plan's types cannot say: names that exist, keys that belong to a kind, ranges.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::schema::{Clock, Plan, Runner, Target, TargetKind, WorkloadTable};
use crate::load::Verify;

/// What is wrong, and with which key.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) path: Vec<String>,
    pub(super) message: String,
}

/// The smallest buffer pool that MariaDB starts with, and a little.
const SMALLEST_POOL: u64 = 8 << 20;

/// The smallest heap in which Cassandra does some work.
const SMALLEST_HEAP: u64 = 256 << 20;

/// How many times as long as the drive one may take that is emulated; a slower one never answers,
/// as far as databases can tell.
const DILATION: RangeInclusive<f64> = 0.01..=1000.0;

type Checked = Result<(), Broken>;

fn broken(path: &[&str], message: impl Into<String>) -> Broken {
    Broken {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        message: message.into(),
    }
}

/// Checks a condition.
fn hold(condition: bool, path: &[&str], message: impl Into<String>) -> Checked {
    if condition {
        Ok(())
    } else {
        Err(broken(path, message))
    }
}

impl Plan {
    /// The first thing found wrong.
    pub(super) fn check(&self) -> Checked {
        name_is_one(&self.name, &["name"])?;
        hold(
            !self.targets.is_empty(),
            &["target"],
            "a plan needs a [[target]]",
        )?;
        hold(
            !self.workloads.is_empty(),
            &["workload"],
            "a plan needs a [[workload]]",
        )?;
        self.check_names()?;
        self.check_run()?;
        for target in &self.targets {
            self.check_target(target)?;
        }
        self.check_workloads()?;
        self.check_references()
    }

    fn check_names(&self) -> Checked {
        let mut seen = BTreeSet::new();
        for target in &self.targets {
            let path = ["target", target.name.as_str(), "name"];
            name_is_one(&target.name, &path)?;
            hold(
                seen.insert(&target.name),
                &path,
                "another target has this name",
            )?;
        }
        let mut seen = BTreeSet::new();
        for table in &self.workloads {
            name_is_one(&table.name, &["workload", &table.name, "name"])?;
        }
        for case in self.cases() {
            let message = format!("another workload is called {}", case.name);
            hold(
                seen.insert(case.name.clone()),
                &["workload", &case.name],
                message,
            )?;
        }
        Ok(())
    }

    fn check_run(&self) -> Checked {
        let run = &self.run;
        let count = "has to be from 1 to 100";
        hold(
            (1..=100).contains(&run.repetitions),
            &["run", "repetitions"],
            count,
        )?;
        let most = run.repetitions_max;
        let most = most.is_none_or(|most| (run.repetitions..=100).contains(&most));
        let message = "has to be from run.repetitions to 100";
        hold(most, &["run", "repetitions_max"], message)?;
        let within = (1.0..=100.0).contains(&run.within_percent);
        let message = "has to be from 1 to 100";
        hold(within, &["run", "within_percent"], message)?;
        hold(
            !run.runtime.is_zero(),
            &["run", "runtime"],
            "has to be above 0",
        )?;
        let passes = run.passes > 0.0 && run.passes <= 1000.0;
        hold(
            passes,
            &["run", "passes"],
            "has to be above 0, at most 1000",
        )?;
        let scale = run.scale > 0.0 && run.scale <= 1.0;
        hold(scale, &["run", "scale"], "has to be above 0, at most 1")?;
        let before = &self.precondition;
        let rounds = (5..=1000).contains(&before.rounds_max);
        let message = "has to be from 5 to 1000: five rounds have to agree";
        hold(rounds, &["precondition", "rounds_max"], message)?;
        let writes = (0.0..=100.0).contains(&before.round_drive_writes);
        let message = "has to be from 0 to 100";
        hold(writes, &["precondition", "round_drive_writes"], message)
    }

    fn check_target(&self, target: &Target) -> Checked {
        use TargetKind::{Emulated, File, InplaceRaid6, Model, Node, Pool, Volume};
        let kind = target.kind;
        let drives = target.profile.is_some();
        let files = !target.paths.is_empty();
        let name = target.name.as_str();
        let at = |key| ["target", name, key];
        let array = matches!(kind, InplaceRaid6 | Pool);
        let keys: [(&str, bool, bool); 15] = [
            ("paths", files, kind == File || array && !drives),
            ("size", target.size.is_some(), files),
            ("addresses", !target.addresses.is_empty(), kind == Volume),
            (
                "profile",
                drives,
                matches!(kind, Model | Emulated | Node) || array,
            ),
            ("drives", target.drives.is_some(), drives && kind != Model),
            (
                "namespace",
                target.namespace.is_some(),
                drives && kind != Node,
            ),
            ("scale", target.scale.is_some(), drives && kind != Model),
            (
                "dilation",
                target.dilation.is_some(),
                drives && kind != Model,
            ),
            ("slice", target.slice.is_some(), drives),
            ("flash", target.flash.is_some(), drives && kind != Node),
            ("slot", target.slot.is_some(), drives && kind != Node),
            (
                "clock",
                target.clock.is_some(),
                drives && !matches!(kind, Model | Node),
            ),
            ("strip", target.strip.is_some(), kind == InplaceRaid6),
            ("level", target.level.is_some(), matches!(kind, Pool | Node)),
            ("transport", target.transport.is_some(), kind == Node),
        ];
        for (key, given, allowed) in keys {
            let message = format!("does not belong to this kind of target ({})", word(kind));
            hold(!given || allowed, &at(key), message)?;
        }
        let needs = match kind {
            File => (files, "paths"),
            Volume => (!target.addresses.is_empty(), "addresses"),
            Model | Emulated | Node => (drives, "profile"),
            InplaceRaid6 | Pool => (drives || files, "profile"),
        };
        let message = format!("a target of this kind ({}) needs `{}`", word(kind), needs.1);
        hold(needs.0, &["target", name], message)?;
        // A line's end in a job file would begin an option of fio's.
        let controls = |path: &PathBuf| path.to_string_lossy().contains(char::is_control);
        let message = "a path must not have control characters";
        hold(!target.paths.iter().any(controls), &at("paths"), message)?;
        check_ranges(target)?;
        self.check_runner(target)
    }

    /// Runners that are other programs need block devices.
    fn check_runner(&self, target: &Target) -> Checked {
        let own = self.run.runner == Runner::Builtin;
        let possible = matches!(target.kind, TargetKind::File | TargetKind::Node);
        let message = "this runner works on targets of the kinds file and node";
        hold(own || possible, &["target", &target.name, "kind"], message)
    }

    fn check_database(&self, table: &WorkloadTable) -> Checked {
        let tpcc = self.run.runner == Runner::Tpcc;
        let cassandra = self.run.runner == Runner::Cassandra;
        let database = tpcc || cassandra;
        let at = |key| ["workload", table.name.as_str(), key];
        let keys = [
            ("rw", !table.rw.is_empty(), !database),
            ("bs", !table.bs.is_empty(), !database),
            ("depth", !table.depth.is_empty(), !database),
            ("jobs", !table.jobs.is_empty(), !database),
            ("read_percent", table.read_percent.is_some(), !database),
            ("region", table.region.is_some(), !database),
            ("rate_iops", table.rate_iops.is_some(), !database),
            ("verify", table.verify.is_some(), !database),
            ("users", table.users.is_some(), database),
            ("buffer_pool", table.buffer_pool.is_some(), tpcc),
            ("ycsb", table.ycsb.is_some(), cassandra),
            ("runtime", table.runtime.is_some(), !cassandra),
            ("ramp", table.ramp.is_some(), !cassandra),
        ];
        for (key, given, allowed) in keys {
            hold(
                !given || allowed,
                &at(key),
                "does not belong to this runner",
            )?;
        }
        let users = table.users.is_none_or(|users| (1..=1000).contains(&users));
        hold(users, &at("users"), "has to be from 1 to 1000")?;
        let pool = table.buffer_pool.is_none_or(|bytes| bytes >= SMALLEST_POOL);
        hold(pool, &at("buffer_pool"), "has to be 8m or more")?;
        let before = &self.precondition;
        for (key, given) in [
            ("purge", before.purge),
            ("fill_passes", before.fill_passes > 0),
            ("steady", before.steady),
        ] {
            let message = "does not belong to this runner, which makes file systems";
            hold(!(database && given), &["precondition", key], message)?;
        }
        let own = &self.cassandra;
        let heap = own.heap >= SMALLEST_HEAP;
        hold(heap, &["cassandra", "heap"], "has to be 256m or more")?;
        let users = u64::from(table.users.unwrap_or(1));
        for (key, count) in [("records", own.records), ("operations", own.operations)] {
            let message = "has to be at least as many as users";
            hold(!cassandra || count >= users, &["cassandra", key], message)?;
        }
        let size = (100..=1 << 20).contains(&own.record_bytes);
        hold(
            size,
            &["cassandra", "record_bytes"],
            "has to be from 100 to 1m",
        )?;
        let replication = (1..=3).contains(&own.replication);
        hold(
            replication,
            &["cassandra", "replication"],
            "has to be from 1 to 3",
        )?;
        let warehouses = (1..=10_000).contains(&self.tpcc.warehouses);
        hold(
            warehouses,
            &["tpcc", "warehouses"],
            "has to be from 1 to 10000",
        )
    }

    fn check_workloads(&self) -> Checked {
        let virtual_time = |target: &Target| {
            target.kind == TargetKind::Model || target.clock == Some(Clock::Virtual)
        };
        for table in &self.workloads {
            let name = table.name.as_str();
            let at = |key| ["workload", name, key];
            self.check_database(table)?;
            let percent = table.read_percent.is_none_or(|percent| percent <= 100);
            hold(percent, &at("read_percent"), "has to be from 0 to 100")?;
            for (key, list) in [
                ("depth", &table.depth),
                ("jobs", &table.jobs),
                ("bs", &table.bs),
            ] {
                hold(!list.contains(&0), &at(key), "has to be above 0")?;
            }
            let file = table.fio_file.is_none() || self.run.runner == Runner::Fio;
            hold(file, &at("fio_file"), "needs run.runner = \"fio\"")?;
            let modelled = self.targets.iter().any(virtual_time);
            let verified = table.verify.is_some_and(|verify| verify != Verify::None);
            let message = "a modelled target keeps no data to verify";
            hold(!(verified && modelled), &at("verify"), message)?;
        }
        Ok(())
    }

    fn check_references(&self) -> Checked {
        let targets: Vec<&str> = self.targets.iter().map(|one| one.name.as_str()).collect();
        let cases: Vec<String> = self.cases().into_iter().map(|case| case.name).collect();
        let target = |name: &str, path: &[&str]| {
            let message = format!(
                "no target is named {name}; there are: {}",
                targets.join(", ")
            );
            hold(targets.contains(&name), path, message)
        };
        let workload = |name: &str, path: &[&str]| {
            let message = format!(
                "no workload is named {name}; there are: {}",
                cases.join(", ")
            );
            hold(cases.iter().any(|case| case == name), path, message)
        };
        if let Some(sizing) = &self.sizing {
            let rates = sizing.drive_gb_s > 0.0 && sizing.port_gbit_s > 0.0;
            hold(
                rates,
                &["sizing"],
                "drive_gb_s and port_gbit_s have to be above 0",
            )?;
            let lists = [0, sizing.drives.len()].contains(&sizing.published_gbit_s.len());
            let message = "has to have as many elements as drives";
            hold(lists, &["sizing", "published_gbit_s"], message)?;
        }
        if let Some(baseline) = &self.baseline {
            target(baseline, &["baseline"])?;
        }
        for table in &self.workloads {
            for name in table.targets.iter().flatten() {
                target(name, &["workload", &table.name, "targets"])?;
            }
        }
        for (index, published) in self.published.iter().enumerate() {
            let index = index.to_string();
            workload(&published.workload, &["published", &index, "workload"])?;
            target(&published.target, &["published", &index, "target"])?;
        }
        self.check_answers(&workload, &target)?;
        if let Some(claim) = &self.endurance {
            workload(&claim.workload, &["endurance", "workload"])?;
            for (key, name) in [("target", &claim.target), ("beside", &claim.beside)] {
                target(name, &["endurance", key])?;
                let modelled = self
                    .targets
                    .iter()
                    .any(|target| target.name == *name && target.kind == TargetKind::Model);
                hold(modelled, &["endurance", key], "has to be of the kind model")?;
            }
        }
        Ok(())
    }
}

type ByName<'a> = &'a dyn Fn(&str, &[&str]) -> Checked;

impl Plan {
    fn check_answers(&self, workload: ByName<'_>, target: ByName<'_>) -> Checked {
        for (index, answer) in self.answers.iter().enumerate() {
            let index = index.to_string();
            let at = |key| ["answer", index.as_str(), key];
            let says = answer.says.as_deref().unwrap_or("{ratio}");
            let message = "has to hold {ratio} once";
            let once = says.matches("{ratio}").count() == 1;
            hold(once, &at("says"), message)?;
            let over = answer.over(self.baseline.as_deref());
            let message = "is needed where the plan has no baseline";
            hold(over.is_some(), &at("over_target"), message)?;
            let sides = [
                (Some(answer.own()), ["workload", "target"]),
                (over, ["over_workload", "over_target"]),
            ];
            for (side, [load, on]) in sides {
                let Some(side) = side else { continue };
                workload(side.workload, &at(load))?;
                target(side.target, &at(on))?;
            }
        }
        Ok(())
    }
}

/// Names are parts of dotted keys and of file names.
fn name_is_one(name: &str, path: &[&str]) -> Checked {
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let good = name.starts_with(allowed) && name.chars().all(|one| allowed(one) || one == '-');
    let message = format!("{name:?} is no name: lower-case letters, digits and hyphens");
    hold(good, path, message)
}

/// Numbers of a target.
fn check_ranges(target: &Target) -> Checked {
    let at = |key| ["target", target.name.as_str(), key];
    let used = target
        .used_percent
        .is_none_or(|used| (1..=100).contains(&used));
    hold(used, &at("used_percent"), "has to be from 1 to 100")?;
    let slice = target.slice.is_none_or(|parts| (1..=128).contains(&parts));
    hold(slice, &at("slice"), "has to be from 1 to 128")?;
    let dilation = target
        .dilation
        .is_none_or(|times| DILATION.contains(&times));
    hold(dilation, &at("dilation"), "has to be from 0.01 to 1000")?;
    let count = target.drives.is_none_or(|count| (1..=64).contains(&count));
    hold(count, &at("drives"), "has to be from 1 to 64")
}

/// The kind as plans write it.
fn word(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Model => "model",
        TargetKind::File => "file",
        TargetKind::Volume => "volume",
        TargetKind::Emulated => "emulated",
        TargetKind::Node => "node",
        TargetKind::InplaceRaid6 => "inplace-raid6",
        TargetKind::Pool => "pool",
    }
}
