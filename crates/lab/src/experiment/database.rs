//! Loads of databases: each target gets a file system and a copy of the data, for its loads one
//! after the other.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::Duration;

use super::execute::{Ran, Round, Watch};
use super::{Event, Execution, LabError, Results};
use crate::database::{DatabaseRun, TpccBench, TpccTarget, YcsbTarget};
use crate::plan::{Runner, Target};
use crate::session::{Session, SessionOptions};

/// Databases that have been loaded, to be copied.
#[derive(Default)]
pub(super) struct Databases {
    tpcc: OnceCell<TpccBench>,
}

/// A target, ready for loads; its file systems go before the files they are on.
enum Bench<'a> {
    Tpcc(
        TpccTarget<'a>,
        #[expect(dead_code, reason = "removes files when dropped")] Made,
    ),
    Ycsb(
        YcsbTarget,
        #[expect(dead_code, reason = "removes files when dropped")] Made,
    ),
}

/// Files that were made for a target, removed with this.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            // What cannot be removed stays where the plan said it would be.
            drop(std::fs::remove_file(path));
        }
    }
}

impl Databases {
    /// Runs the round's cases; returns early when stopped.
    pub(super) fn run(
        &self,
        execution: &Execution<'_>,
        results: &mut Results,
        round: &Round<'_>,
        watch: Watch<'_>,
    ) -> Result<(), LabError> {
        let target = round.target;
        let Some(bench) = self.open(execution, target, watch)? else {
            return Ok(());
        };
        execution.each(results, round, watch, &mut |case, watch| {
            watch(Event::Begin {
                what: &case.label,
                target: target.label(),
            });
            let whole = case.workload.runtime.unwrap_or_default() + case.workload.ramp_time;
            let mut passed = |passed: Duration| {
                let part = passed.as_secs_f64() / whole.as_secs_f64().max(0.001);
                watch(Event::Share(part.min(1.0)));
            };
            let run = DatabaseRun {
                case,
                processes: &execution.processes,
                stop: &execution.stop,
            };
            let observed = execution.observe(target, None);
            let measured = match &bench {
                Bench::Tpcc(place, _) => place.run(&run, &mut passed),
                Bench::Ycsb(cluster, _) => cluster.run(&run, &mut passed),
            };
            Ok(measured?.map(|mut measured| {
                observed.end(&mut measured);
                let steady = None;
                Ran { steady, measured }
            }))
        })
    }

    /// Prepares the target; `None` when stopped.
    fn open(
        &self,
        execution: &Execution<'_>,
        target: &Target,
        watch: Watch<'_>,
    ) -> Result<Option<Bench<'_>>, LabError> {
        let stop = &execution.stop;
        let begin = |what| Event::Begin {
            what,
            target: target.label(),
        };
        if execution.plan.run.runner == Runner::Cassandra {
            let (made, devices) = devices(execution, target)?;
            watch(begin("starting Cassandra"));
            let cluster = YcsbTarget::start(&devices, &execution.plan.cassandra, stop)?;
            return Ok(cluster.map(|cluster| Bench::Ycsb(cluster, Made(made))));
        }
        let Some(bench) = self.tpcc(execution, watch)? else {
            return Ok(None);
        };
        let (made, devices) = devices(execution, target)?;
        watch(begin("copying the database"));
        let Some(device) = devices.first() else {
            return Ok(None);
        };
        let place = bench.on(device, target.dilation.unwrap_or(1.0), stop)?;
        Ok(place.map(|place| Bench::Tpcc(place, Made(made))))
    }

    fn tpcc(
        &self,
        execution: &Execution<'_>,
        watch: Watch<'_>,
    ) -> Result<Option<&TpccBench>, LabError> {
        if self.tpcc.get().is_none() {
            watch(Event::Begin {
                what: "loading warehouses",
                target: "all",
            });
            let Some(bench) = TpccBench::load(execution.plan, &execution.stop, &mut |_| {})? else {
                return Ok(None);
            };
            return Ok(Some(self.tpcc.get_or_init(|| bench)));
        }
        Ok(self.tpcc.get())
    }
}

/// The target's files and devices, once it is sure that they may be overwritten; and those that
/// were made.
fn devices(
    execution: &Execution<'_>,
    target: &Target,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), LabError> {
    let options = SessionOptions {
        target: target.clone(),
        profile: None,
        seed: execution.plan.run.seed,
        writes: true,
        destroy: execution.destroy.clone(),
        own: Vec::new(),
    };
    let failed = |source| LabError::Session {
        target: target.name.clone(),
        source,
    };
    let made = Session::open(&options).map_err(failed)?.release();
    Ok((made, target.paths.clone()))
}
