//! TPC-C by go-tpc on a MariaDB whose data is on the target.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::mariadb::{Server, Tuning, initialise, version};
use super::mounted::Mounted;
use super::{DatabaseError, DatabaseRun, consistency, transactions};
use crate::experiment::Measured;
use crate::load::Stop;
use crate::plan::Plan;
use crate::processor::ProcessorWatch;
use crate::program::{ProgramError, system, tool, watched};

/// The buffer pool while data is loaded.
const LOADING_BYTES: u64 = 512 << 20;

/// Users that load data: more do not help two processors.
const LOADING_USERS: u32 = 2;

/// The interval of the series.
const INTERVAL_SECONDS: u64 = 1;

/// The database with its warehouses, loaded once and copied to each target.
pub(crate) struct TpccBench {
    loaded: TempDir,
    warehouses: u32,
}

/// The copy of it on one target.
pub(crate) struct TpccTarget<'a> {
    bench: &'a TpccBench,
    place: Mounted,
}

impl TpccBench {
    /// What takes part.
    pub(crate) fn programs() -> Result<[String; 2], DatabaseError> {
        let mut command = Command::new(tool("go-tpc"));
        let go_tpc = crate::program::answer(command.arg("version"))?;
        let mut lines = go_tpc
            .lines()
            .filter_map(|line| line.strip_prefix("Release version: "));
        let go_tpc = format!("go-tpc {}", lines.next().unwrap_or_default());
        Ok([version()?, go_tpc])
    }

    /// Loads the warehouses into a directory of this machine; `None` when stopped.
    pub(crate) fn load(
        plan: &Plan,
        stop: &Stop,
        watch: &mut dyn FnMut(Duration),
    ) -> Result<Option<TpccBench>, DatabaseError> {
        let loaded = tempfile::Builder::new().prefix("flashyard-lab-").tempdir();
        let loaded = loaded.map_err(system("making a directory"))?;
        let warehouses = plan.tpcc.warehouses;
        let bench = TpccBench { loaded, warehouses };
        initialise(bench.loaded.path())?;
        let tuning = Tuning {
            buffer_pool_bytes: LOADING_BYTES,
            durable: false,
        };
        let Some(server) = Server::start(bench.loaded.path(), tuning, stop)? else {
            return Ok(None);
        };
        let mut command = bench.go_tpc(&server, LOADING_USERS);
        // Its own check takes minutes on MariaDB; ours follows every load.
        let done = watched(command.args(["prepare", "--no-check"]), stop, watch)?;
        if done.is_none() {
            return Ok(None);
        }
        consistency::check(&server)?;
        server.end(stop);
        Ok(Some(bench))
    }

    fn go_tpc(&self, server: &Server, users: u32) -> Command {
        let mut command = Command::new(tool("go-tpc"));
        command.args(["tpcc", "--host", "127.0.0.1", "--user", "root"]);
        command.args(["--db", consistency::DATABASE, "--output", "json"]);
        command.arg(format!("--port={}", server.port));
        command.arg(format!("--warehouses={}", self.warehouses));
        command.arg(format!("--threads={users}"));
        command.current_dir(self.loaded.path());
        command
    }

    /// Copies the database to a new file system on `device`, which takes `dilation` times as long
    /// as what it stands for; overwrites what is there. `None` when stopped.
    pub(crate) fn on(
        &self,
        device: &Path,
        dilation: f64,
        stop: &Stop,
    ) -> Result<Option<TpccTarget<'_>>, DatabaseError> {
        let place = Mounted::make(device, dilation)?;
        let target = TpccTarget { bench: self, place };
        let mut copy = Command::new("cp");
        copy.arg("--recursive")
            .arg(self.loaded.path())
            .arg(target.data());
        let mut sync = Command::new("sync");
        sync.arg("--file-system").arg(target.place.path());
        for command in [&mut copy, &mut sync] {
            if watched(command, stop, &mut |_| {})?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(target))
    }
}

impl TpccTarget<'_> {
    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    /// Runs a load and checks the data after it; `None` when stopped.
    pub(crate) fn run(
        &self,
        run: &DatabaseRun<'_>,
        watch: &mut dyn FnMut(Duration),
    ) -> Result<Option<Measured>, DatabaseError> {
        let tuning = Tuning {
            buffer_pool_bytes: run.case.database.buffer_pool_bytes,
            durable: true,
        };
        let Some(server) = Server::start(&self.data(), tuning, run.stop)? else {
            return Ok(None);
        };
        let load = &run.case.workload;
        let ramp = load.ramp_time;
        if !ramp.is_zero()
            && self
                .transactions(&server, run, ramp, &mut *watch)?
                .is_none()
        {
            return Ok(None);
        }
        let mut processes = run.processes.to_vec();
        processes.push(("mariadbd".to_owned(), server.pid()));
        let processors = ProcessorWatch::start(processes);
        let runtime = load.runtime.unwrap_or_default();
        let mut after_ramp = |passed| watch(ramp + passed);
        let text = self.transactions(&server, run, runtime, &mut after_ramp);
        let processors = processors.end();
        let Some(text) = text? else {
            return Ok(None);
        };
        let mut measured = transactions::measured(&text, INTERVAL_SECONDS as f64)?;
        measured.processors = processors;
        measured.conditions_held = Some(consistency::check(&server)?);
        server.end(run.stop);
        Ok(Some(measured))
    }

    fn transactions(
        &self,
        server: &Server,
        run: &DatabaseRun<'_>,
        time: Duration,
        watch: &mut dyn FnMut(Duration),
    ) -> Result<Option<String>, ProgramError> {
        let mut command = self.bench.go_tpc(server, run.case.database.users);
        // A deadlock is rolled back and counted, not the end of its user.
        command.args(["run", "--ignore-error"]);
        command.arg(format!("--time={}ms", time.as_millis()));
        command.arg(format!("--interval={INTERVAL_SECONDS}s"));
        watched(&mut command, run.stop, watch)
    }
}
