//! Loads of databases: each target gets a file system and a copy of the data, for its loads one
//! after the other.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::Duration;

use super::execute::Watch;
use super::{Event, Execution, LabError, Results, RunResult};
use crate::database::{TpccBench, TpccRun};
use crate::plan::{Case, Target};
use crate::session::{Session, SessionOptions};

/// Databases that have been loaded, to be copied.
#[derive(Default)]
pub(super) struct Databases {
    tpcc: OnceCell<TpccBench>,
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
    /// Runs `cases` on `target`; returns early when stopped.
    pub(super) fn run(
        &self,
        execution: &Execution<'_>,
        results: &mut Results,
        target: &Target,
        cases: &[&Case],
        repetition: u32,
        watch: Watch<'_>,
    ) -> Result<(), LabError> {
        let Some(bench) = self.tpcc(execution, watch)? else {
            return Ok(());
        };
        let (made, devices) = devices(execution, target)?;
        let _made = Made(made);
        let begin = |what| Event::Begin {
            what,
            target: target.label(),
        };
        watch(begin("copying the database"));
        let Some(device) = devices.first() else {
            return Ok(());
        };
        let Some(place) = bench.on(device, &execution.stop)? else {
            return Ok(());
        };
        for case in cases {
            watch(begin(&case.label));
            let count = execution.count(results);
            let whole = case.workload.runtime.unwrap_or_default() + case.workload.ramp_time;
            let mut passed = |passed: Duration| {
                let part = (passed.as_secs_f64() / whole.as_secs_f64().max(0.001)).min(1.0);
                watch(Event::Share((count.done as f64 + part) / count.all as f64));
            };
            let run = TpccRun {
                case,
                processes: &execution.processes,
                stop: &execution.stop,
            };
            let Some(measured) = place.run(&run, &mut passed)? else {
                return Ok(());
            };
            let run = RunResult {
                workload: case.name.clone(),
                target: target.name.clone(),
                repetition,
                steady: None,
                measured,
            };
            execution.keep(results, run, watch)?;
        }
        Ok(())
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
    };
    let failed = |source| LabError::Session {
        target: target.name.clone(),
        source,
    };
    let made = Session::open(&options).map_err(failed)?.release();
    Ok((made, target.paths.clone()))
}
