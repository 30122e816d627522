//! YCSB by go-ycsb on a Cassandra of as many nodes as the target has devices, each with log and
//! data on its own.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::cassandra::{Cluster, version};
use super::mounted::Mounted;
use super::{DatabaseError, DatabaseRun, operations};
use crate::experiment::Measured;
use crate::load::Stop;
use crate::plan::{Cassandra, Ycsb};
use crate::processor::ProcessorWatch;
use crate::program::{system, tool, watched};

/// Where go-ycsb keeps its records.
const KEYSPACE: &str = "ycsb";

/// How many records there are.
const COUNT: &str = "SELECT count(*) FROM ycsb.usertable";

/// Fields of a record, as YCSB has them unless told otherwise.
const FIELDS: u64 = 10;

/// How often go-ycsb says how far it is.
const INTERVAL_SECONDS: u64 = 1;

/// A cluster on one target.
pub(crate) struct YcsbTarget {
    cluster: Cluster,
    tuning: Cassandra,
    directory: TempDir,
    /// Whether the records are there that loads other than inserts ask for.
    filled: Cell<bool>,
    // Unmounted once the nodes are gone.
    _places: Vec<Mounted>,
}

impl YcsbTarget {
    /// What takes part.
    pub(crate) fn programs() -> Result<Vec<String>, DatabaseError> {
        Ok(vec![version()?, "go-ycsb".to_owned()])
    }

    /// Makes a file system on each device, which overwrites what is there, and starts a node on
    /// each; `None` when stopped.
    pub(crate) fn start(
        devices: &[PathBuf],
        tuning: &Cassandra,
        stop: &Stop,
    ) -> Result<Option<YcsbTarget>, DatabaseError> {
        let mut places = Vec::new();
        for device in devices {
            // As patient as with drives at full speed: nodes write through the page cache, which
            // would take all of a small load at once, and leave its checking waiting for minutes.
            places.push(Mounted::make(device, 1.0)?);
        }
        let directory = tempfile::Builder::new().prefix("flashyard-lab-").tempdir();
        let directory = directory.map_err(system("making a directory"))?;
        let data: Vec<PathBuf> = places.iter().map(|place| place.path().to_owned()).collect();
        let cluster = Cluster::start(&data, directory.path(), tuning, stop)?;
        Ok(cluster.map(|cluster| YcsbTarget {
            cluster,
            tuning: tuning.clone(),
            directory,
            filled: Cell::new(false),
            _places: places,
        }))
    }

    /// Runs a load, and counts the records after one of inserts; `None` when stopped.
    pub(crate) fn run(
        &self,
        run: &DatabaseRun<'_>,
        watch: &mut dyn FnMut(Duration),
    ) -> Result<Option<Measured>, DatabaseError> {
        let load = run.case.database.ycsb;
        let inserts = load == Ycsb::Insert;
        if inserts {
            self.make_table()?;
        } else if !self.filled.get() {
            // An experiment that goes on where it was has a new cluster.
            self.make_table()?;
            let mut fill = self.go_ycsb(Ycsb::Insert, run.case.database.users);
            let Some(text) = watched(&mut fill, run.stop, &mut |_| {})? else {
                return Ok(None);
            };
            self.count(&operations::measured(&text, INTERVAL_SECONDS as f64)?)?;
            self.filled.set(true);
        }
        let mut processes = run.processes.to_vec();
        processes.extend(self.cluster.processes());
        let processors = ProcessorWatch::start(processes);
        let text = watched(
            &mut self.go_ycsb(load, run.case.database.users),
            run.stop,
            watch,
        );
        let processors = processors.end();
        let Some(text) = text? else {
            return Ok(None);
        };
        let mut measured = operations::measured(&text, INTERVAL_SECONDS as f64)?;
        measured.processors = processors;
        if inserts {
            measured.conditions_held = Some(self.count(&measured)?);
            self.filled.set(true);
        }
        Ok(Some(measured))
    }

    /// An empty table, which go-ycsb finds and every node knows: it would make one itself, and not
    /// wait until they do.
    fn make_table(&self) -> Result<(), DatabaseError> {
        let mut cql = self.cluster.connect(0)?;
        cql.run(&format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"))?;
        cql.run(&format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', \
             'replication_factor': {}}}",
            self.tuning.replication
        ))?;
        let fields = (0..FIELDS).map(|field| format!(", FIELD{field} VARCHAR"));
        cql.run(&format!(
            "CREATE TABLE {KEYSPACE}.usertable (YCSB_KEY VARCHAR PRIMARY KEY{})",
            fields.collect::<String>()
        ))?;
        self.cluster.wait_until_all_answer(COUNT)
    }

    /// Every insert that was acknowledged is there.
    fn count(&self, measured: &Measured) -> Result<u32, DatabaseError> {
        let acknowledged = measured
            .operations
            .get("INSERT")
            .map_or(0, |insert| insert.count);
        let found = self.cluster.connect(0)?.number(COUNT)?;
        if u64::try_from(found).is_ok_and(|found| found >= acknowledged) {
            return Ok(1);
        }
        Err(DatabaseError::Inconsistent(format!(
            "{acknowledged} inserts were acknowledged, {found} records are there"
        )))
    }

    fn go_ycsb(&self, load: Ycsb, users: u32) -> Command {
        let mut command = Command::new(tool("go-ycsb"));
        command.arg(if load == Ycsb::Insert { "load" } else { "run" });
        command.arg("cassandra").current_dir(self.directory.path());
        let mut set = |name: &str, value: &str| {
            command.arg("--prop").arg(format!("{name}={value}"));
        };
        set("cassandra.cluster", &self.cluster.addresses());
        set("cassandra.keyspace", KEYSPACE);
        set("workload", "core");
        set("outputstyle", "json");
        // It says what became of an operation that failed.
        set("silence", "false");
        set("threadcount", &users.to_string());
        set("recordcount", &self.tuning.records.to_string());
        set("operationcount", &self.tuning.operations.to_string());
        let field_bytes = self.tuning.record_bytes / FIELDS;
        set("fieldcount", &FIELDS.to_string());
        set("fieldlength", &field_bytes.to_string());
        // Two minutes: nodes of a busy machine take each other for dead for a moment, and a record
        // that is missing would be missed by every load after this one.
        set("core_workload_insertion_retry_limit", "40");
        set("core_workload_insertion_retry_interval", "3");
        // Its profiler, which would listen everywhere.
        set("debug.pprof", "127.0.0.1:0");
        for (name, value) in properties(load) {
            set(name, value);
        }
        command.arg(format!("--interval={INTERVAL_SECONDS}"));
        command
    }
}

/// What YCSB's workloads are: shares of reads and so on, and which records are asked for.
fn properties(load: Ycsb) -> &'static [(&'static str, &'static str)] {
    match load {
        Ycsb::Insert => &[],
        Ycsb::A => &[
            ("readproportion", "0.5"),
            ("updateproportion", "0.5"),
            ("requestdistribution", "zipfian"),
        ],
        Ycsb::B => &[
            ("readproportion", "0.95"),
            ("updateproportion", "0.05"),
            ("requestdistribution", "zipfian"),
        ],
        Ycsb::C => &[
            ("readproportion", "1"),
            ("updateproportion", "0"),
            ("requestdistribution", "zipfian"),
        ],
        Ycsb::D => &[
            ("readproportion", "0.95"),
            ("updateproportion", "0"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "latest"),
        ],
        Ycsb::E => &[
            ("readproportion", "0"),
            ("updateproportion", "0"),
            ("scanproportion", "0.95"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "zipfian"),
            ("maxscanlength", "100"),
            ("scanlengthdistribution", "uniform"),
        ],
        Ycsb::F => &[
            ("readproportion", "0.5"),
            ("updateproportion", "0"),
            ("readmodifywriteproportion", "0.5"),
            ("requestdistribution", "zipfian"),
        ],
    }
}
