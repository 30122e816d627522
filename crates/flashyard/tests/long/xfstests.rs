//! xfstests on volumes of a raid6 pool, beside plain loop devices of the same size and blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fickle::FickleDrive;
use serde::Serialize;

use super::attached::Attached;
use super::outcomes::{Outcome, Outcomes, Totals, ours, outcomes, totals};
use super::raid6::make_pool;
use super::suite::{FileSystem, PlainLoop, Suite};
use super::support::Node;
use super::trouble::Trouble;
use super::{random, setting};

const GIB: u64 = 1 << 30;

/// Of each of the two devices.
const DEVICE_BYTES: u64 = 2 * GIB;

/// Of each of seven drives: both volumes, and enough beside that to go on without one.
const DRIVE_BYTES: u64 = 3 * GIB / 2;

/// What runs where nothing befalls the node, unless `XFSTESTS_TESTS` says otherwise.
const ALL: &str = "-g generic/auto";

/// The groups whose common tests run in trouble, of which there are three for each of the four:
/// those that read and write, and do so in little time.
const IN_TROUBLE: [&str; 3] = ["auto", "rw", "quick"];

/// One way to run the suite.
#[derive(Clone, Copy)]
struct Case {
    file_system: FileSystem,
    block_bytes: u32,
    trouble: Trouble,
}

/// The result of a case, as it is kept.
#[derive(Serialize)]
struct Report {
    file_system: &'static str,
    block_bytes: u32,
    trouble: String,
    /// How often it came.
    troubles: u32,
    volume: Totals,
    plain_loop: Totals,
    /// Tests that fail on the volume alone.
    ours: Vec<String>,
    outcomes: Vec<Row>,
}

/// A test, and what became of it on each.
#[derive(Serialize)]
struct Row {
    test: String,
    volume: Option<Outcome>,
    plain_loop: Option<Outcome>,
}

/// Where results are kept.
fn results() -> PathBuf {
    let results = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("xfstests");
    std::fs::create_dir_all(&results).unwrap();
    results
}

impl Case {
    fn name(self) -> String {
        let (file_system, block_bytes) = (self.file_system.name(), self.block_bytes);
        format!("{file_system}-{block_bytes}-{:?}", self.trouble).to_lowercase()
    }

    /// What runs, in words of the suite.
    fn tests(self) -> String {
        let usual = match self.trouble {
            Trouble::None => ALL.to_owned(),
            _ => Suite::in_groups(&IN_TROUBLE),
        };
        setting("XFSTESTS_TESTS", usual)
    }

    /// Fails if the volume fails where the loop device does not.
    fn run(self) {
        let (volume, troubles) = self.on_volumes();
        let reference = self.on_plain_loops();
        let ours = ours(&reference, &volume);
        let names = reference.keys().chain(volume.keys());
        let names: BTreeSet<&String> = names.collect();
        let rows = names.into_iter().map(|test| Row {
            test: test.clone(),
            volume: volume.get(test).cloned(),
            plain_loop: reference.get(test).cloned(),
        });
        let report = Report {
            file_system: self.file_system.name(),
            block_bytes: self.block_bytes,
            trouble: format!("{:?}", self.trouble),
            troubles,
            volume: totals(&volume),
            plain_loop: totals(&reference),
            ours: ours.keys().cloned().collect(),
            outcomes: rows.collect(),
        };
        let path = results().join(self.name()).with_extension("json");
        std::fs::write(&path, serde_json::to_vec_pretty(&report).unwrap()).unwrap();
        println!("{}", report.table());
        println!("all of it: {}", path.display());
        assert!(ours.is_empty(), "fails on the volume alone: {ours:#?}");
        if self.trouble != Trouble::None {
            assert!(troubles > 0, "nothing befell the node");
        }
    }

    /// Once for all cases of one file system and block size that run the same, and once for all if
    /// `XFSTESTS_REFERENCE=kept` takes what is there from earlier.
    fn on_plain_loops(self) -> Outcomes {
        static DONE: Mutex<BTreeMap<String, Outcomes>> = Mutex::new(BTreeMap::new());
        let (tests, file_system) = (self.tests(), self.file_system.name());
        let part = if tests == ALL { "" } else { "-part" };
        let name = format!("{file_system}-{}-loop{part}", self.block_bytes);
        let log = results().join(&name).with_extension("log");
        let mut done = DONE.lock().unwrap();
        let run = || {
            if setting("XFSTESTS_REFERENCE", String::new()) == "kept" {
                return outcomes(&std::fs::read_to_string(&log).unwrap());
            }
            let plain = || PlainLoop::new(DEVICE_BYTES, self.block_bytes);
            let (test, scratch) = (plain(), plain());
            let suite = Suite::new(self.file_system, &tests);
            suite.run(test.device(), scratch.device(), &log)
        };
        done.entry(name).or_insert_with(run).clone()
    }

    /// Also how often the trouble came.
    fn on_volumes(self) -> (Outcomes, u32) {
        let fails = self.trouble == Trouble::FailingDrive;
        let drive = fails.then(|| FickleDrive::new(DRIVE_BYTES));
        let path = drive.as_ref().map(FickleDrive::path);
        let mut node = Node::configured("[pools]\ndrive_wait_seconds = 0\n");
        let others: Vec<(&str, &Path)> =
            path.iter().map(|path| ("fickle", path.as_path())).collect();
        let files = 7 - others.len() as u32;
        make_pool(&node, files, &DRIVE_BYTES.to_string(), &others);
        let attached = ["test", "scratch"].map(|volume| {
            let (size, block) = (DEVICE_BYTES.to_string(), self.block_bytes.to_string());
            let create = [
                "volume", "create", volume, "--pool", "pool", "--size", &size,
            ];
            node.answer(&[&create[..], &["--block-size", &block, "--allow", "any"]].concat());
            Attached::new(&node, volume)
        });
        let log = results().join(self.name()).with_extension("log");
        let suite = Suite::new(self.file_system, &self.tests());
        let [test, scratch] = &attached;
        let work = || suite.run(test.device(), scratch.device(), &log);
        let done = self
            .trouble
            .beside(&mut node, drive.as_ref(), random(), work);
        for one in &attached {
            one.detach();
        }
        // Fails if a block is lost.
        println!("{}", node.answer(&["pool", "scrub", "pool", "--wait"]));
        done
    }
}

impl Report {
    /// For people: how many of each kind, and what does not pass on either.
    fn table(&self) -> String {
        let of = |totals: &Totals| {
            let Totals {
                passed,
                failed,
                not_run,
            } = totals;
            format!("{passed:>7} {failed:>7} {not_run:>8}")
        };
        let head = format!(
            "{}, blocks of {}, {} x {}\n{:12} {:>7} {:>7} {:>8}",
            self.file_system,
            self.block_bytes,
            self.troubles,
            self.trouble,
            "",
            "passed",
            "failed",
            "not run"
        );
        let mut lines = vec![head];
        lines.push(format!("{:12} {}", "volume", of(&self.volume)));
        lines.push(format!("{:12} {}", "plain loop", of(&self.plain_loop)));
        for row in &self.outcomes {
            let failed = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Failed(_)));
            let words = match (failed(&row.volume), failed(&row.plain_loop)) {
                (false, false) => continue,
                (true, true) => "fails on both",
                (true, false) => "fails on the volume",
                (false, true) => "fails on the plain loop device",
            };
            lines.push(format!("{:12} {words}", row.test));
        }
        lines.join("\n")
    }
}

fn run(file_system: FileSystem, block_bytes: u32, trouble: Trouble) {
    Case {
        file_system,
        block_bytes,
        trouble,
    }
    .run();
}

/// Every file system with every block size, for each trouble.
macro_rules! cases {
    ($($name:ident: $trouble:expr,)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn xfs_with_blocks_of_4096() {
                run(FileSystem::Xfs, 4096, $trouble);
            }

            #[test]
            fn xfs_with_blocks_of_512() {
                run(FileSystem::Xfs, 512, $trouble);
            }

            #[test]
            fn ext4_with_blocks_of_4096() {
                run(FileSystem::Ext4, 4096, $trouble);
            }

            #[test]
            fn ext4_with_blocks_of_512() {
                run(FileSystem::Ext4, 512, $trouble);
            }
        }
    )+};
}

cases! {
    undisturbed: Trouble::None,
    while_the_node_is_killed: Trouble::Kills,
    while_a_drive_fails: Trouble::FailingDrive,
    while_the_pool_is_scrubbed: Trouble::Scrub,
}
