//! [`Execution`]: runs what is left of a plan.

use std::path::PathBuf;
use std::time::Instant;

use super::database::Databases;
use super::device::Bench;
use super::observed::{Ask, NodeReading, Observation};
use super::{LabError, Measured, Results, RunResult, Steady, flash_model, stopping};
use crate::database::{TpccBench, YcsbTarget};
use crate::fio;
use crate::load::Stop;
use crate::plan::{Case, Plan, Runner, Target, TargetKind};
use crate::session::Session;

/// What happens, for a display.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something begins on a target: opening, filling, a round, a load.
    Begin {
        /// What.
        what: &'a str,
        /// The target's label.
        target: &'a str,
    },
    /// Share of the whole that is done, 0 to 1.
    Share(f64),
    /// A run is done and kept.
    Done(&'a RunResult),
}

/// An experiment under way.
pub struct Execution<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Devices and volumes that may be overwritten whatever they hold.
    pub destroy: Vec<String>,
    /// Where results are kept after every run.
    pub output: PathBuf,
    /// Processes to watch, by name and number.
    pub processes: Vec<(String, u32)>,
    /// Asks the node behind a target, by the target's name, what it tells now.
    pub node: Option<AskNode<'a>>,
    /// Ends it early.
    pub stop: Stop,
}

/// The runs that are left of a target in one repetition.
pub(super) struct Round<'a> {
    pub(super) target: &'a Target,
    pub(super) cases: Vec<&'a Case>,
    pub(super) repetition: u32,
    /// Devices and volumes that the experiment has written to before.
    pub(super) own: Vec<String>,
}

/// One of them, run.
pub(super) struct Ran {
    pub(super) steady: Option<Steady>,
    pub(super) measured: Measured,
}

pub(super) type Watch<'a> = &'a mut dyn FnMut(Event<'_>);

/// What the node behind a target tells, by the target's name.
pub type AskNode<'a> = &'a dyn Fn(&str) -> Option<NodeReading>;

/// Runs a case; nothing when it was stopped.
type RunOne<'a> = dyn FnMut(&Case, Watch<'_>) -> Result<Option<Ran>, LabError> + 'a;

impl Execution<'_> {
    /// Runs what `results` lack, and keeps them after every run. True when nothing is left, false
    /// when it was stopped before.
    ///
    /// # Errors
    /// [`LabError`]; what was done is kept.
    pub fn run(&self, results: &mut Results, watch: Watch<'_>) -> Result<bool, LabError> {
        let cases = self.plan.cases();
        let databases = Databases::default();
        self.name_programs(results)?;
        let begun = |target: &&Target| results.runs.iter().any(|run| run.target == target.name);
        let mut own: Vec<String> = self
            .plan
            .targets
            .iter()
            .filter(begun)
            .flat_map(places)
            .collect();
        while let Some(next) = stopping::next(self.plan, results) {
            for target in &self.plan.targets {
                let due = |case: &&Case| {
                    let pair = (case.name.clone(), target.name.clone());
                    next.pairs.contains(&pair)
                };
                let round = Round {
                    target,
                    cases: cases.iter().filter(due).collect(),
                    repetition: next.repetition,
                    own: own.clone(),
                };
                if round.cases.is_empty() || self.stop.is_stopped() {
                    continue;
                }
                let begun = Instant::now();
                match (self.plan.run.runner, target.kind) {
                    (Runner::Tpcc | Runner::Cassandra, _) => {
                        databases.run(self, results, &round, watch)?;
                    }
                    (_, TargetKind::Model) => self.model(results, &round, watch)?,
                    _ => {
                        let bench = Bench::open(self, &round, watch)?;
                        let mut one = |case: &Case, watch: Watch<'_>| bench.measure(case, watch);
                        self.each(results, &round, watch, &mut one)?;
                    }
                }
                results.spent_seconds += begun.elapsed().as_secs_f64();
                own.extend(places(target));
            }
            if self.stop.is_stopped() {
                break;
            }
        }
        let enough = self.left(results).0 == 0;
        if enough {
            results.end();
            results.save(&self.output)?;
        }
        Ok(enough)
    }

    /// Runs that `results` lack, as far as can be said yet, and how many there are with those.
    pub fn left(&self, results: &Results) -> (usize, usize) {
        stopping::left(self.plan, results)
    }

    fn name_programs(&self, results: &mut Results) -> Result<(), LabError> {
        let programs = match self.plan.run.runner {
            Runner::Builtin => Vec::new(),
            Runner::Fio => vec![fio::version().map_err(|source| LabError::Fio {
                workload: "any".to_owned(),
                target: "any".to_owned(),
                source,
            })?],
            Runner::Tpcc => TpccBench::programs()?.to_vec(),
            Runner::Cassandra => YcsbTarget::programs()?,
        };
        for program in programs {
            if !results.programs.contains(&program) {
                results.programs.push(program);
            }
        }
        Ok(())
    }

    /// Runs a round's cases one after the other by `one`, keeps each, and shows how far all is;
    /// ends early when one gives nothing, as it does when stopped.
    pub(super) fn each(
        &self,
        results: &mut Results,
        round: &Round<'_>,
        watch: Watch<'_>,
        one: &mut RunOne<'_>,
    ) -> Result<(), LabError> {
        for case in &round.cases {
            let (left, all) = self.left(results);
            let done = all.saturating_sub(left) as f64;
            let share = |part: f64| Event::Share((done + part) / all.max(1) as f64);
            watch(share(0.0));
            let ran = one(case, &mut |event| match event {
                Event::Share(part) => watch(share(part)),
                other => watch(other),
            })?;
            let Some(Ran { steady, measured }) = ran else {
                return Ok(());
            };
            results.runs.push(RunResult {
                workload: case.name.clone(),
                target: round.target.name.clone(),
                repetition: round.repetition,
                steady,
                measured,
            });
            results.save(&self.output)?;
            if let Some(run) = results.runs.last() {
                watch(Event::Done(run));
            }
        }
        Ok(())
    }

    fn model(
        &self,
        results: &mut Results,
        round: &Round<'_>,
        watch: Watch<'_>,
    ) -> Result<(), LabError> {
        self.each(results, round, watch, &mut |case, watch| {
            watch(Event::Begin {
                what: &case.label,
                target: round.target.label(),
            });
            let run = &self.plan.run;
            let mut progress = |part| {
                watch(Event::Share(part));
                !self.stop.is_stopped()
            };
            let measured =
                flash_model::run(run, round.target, case, round.repetition, &mut progress)?;
            let steady = None;
            Ok(measured.map(|measured| Ran { steady, measured }))
        })
    }

    /// Notes what drives and nodes tell before a load, if the plan wants it.
    pub(super) fn observe<'a>(
        &'a self,
        target: &'a Target,
        session: Option<&'a Session>,
    ) -> Observation<'a> {
        let wanted = self.plan.collect.health;
        let ask = move || {
            let mut reading = self
                .node
                .and_then(|ask| ask(&target.name))
                .unwrap_or_default();
            reading
                .drives
                .extend(session.map(Session::health).unwrap_or_default());
            reading
                .drives
                .extend(super::observed::attached(&target.paths));
            reading
        };
        Observation::begin(wanted.then(|| Box::new(ask) as Ask<'_>))
    }
}

/// The names of a target's devices and volumes.
fn places(target: &Target) -> impl Iterator<Item = String> {
    let paths = target.paths.iter().map(|path| path.display().to_string());
    paths.chain(target.addresses.iter().cloned())
}
