//! Loads by the built-in generator or fio, on a target that is held open.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::execute::{Ran, Round, Watch};
use super::{Event, Execution, Flash, LabError, Measured, Steady, flash_model};
use crate::fio;
use crate::load::{Pattern, Report, Workload};
use crate::plan::{Case, Clock, Precondition, Runner, Target};
use crate::processor::ProcessorWatch;
use crate::session::{DriveCounts, Session, SessionError, SessionOptions};

/// How often whoever watches is told.
const WATCH_PERIOD: Duration = Duration::from_millis(250);

/// How targets are filled: 128 KiB at a time, as the test specification says.
const FILL_BYTES: u32 = 128 << 10;
const FILL_DEPTH: u32 = 32;

/// A node's count of the hosts that it gave up for their silence.
const GAVE_UP: &str = "flashyard_keep_alive_expirations_total";

/// Seeds of repetitions are this far apart, so that seeds of drives do not meet.
const SEED_STEP: u64 = 1000;

/// One target, prepared, with its loads to be run one after the other.
pub(super) struct Bench<'a> {
    execution: &'a Execution<'a>,
    target: &'a Target,
    repetition: u32,
    /// None while fio has the target's files.
    session: Option<Session>,
    /// Files that were made for it, to be removed.
    made: Vec<PathBuf>,
    region_bytes: u64,
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        for path in &self.made {
            // What cannot be removed stays where the plan said it would be.
            drop(std::fs::remove_file(path));
        }
    }
}

impl<'a> Bench<'a> {
    pub(super) fn open(
        execution: &'a Execution<'a>,
        round: &Round<'a>,
        watch: Watch<'_>,
    ) -> Result<Bench<'a>, LabError> {
        let (plan, target, repetition) = (execution.plan, round.target, round.repetition);
        watch(Event::Begin {
            what: "opening",
            target: target.label(),
        });
        let before = &plan.precondition;
        let profile = target
            .profile
            .as_ref()
            .map(|_| flash_model::profile(target));
        let options = SessionOptions {
            target: target.clone(),
            profile: profile.transpose()?,
            seed: plan.run.seed + u64::from(repetition) * SEED_STEP,
            writes: before.purge
                || before.fill_passes > 0
                || round.cases.iter().any(|case| writes(case)),
            destroy: execution.destroy.clone(),
            own: round.own.clone(),
        };
        let failed = |source| LabError::Session {
            target: target.name.clone(),
            source,
        };
        let session = Session::open(&options).map_err(failed)?;
        let mut bench = Bench {
            execution,
            target,
            repetition,
            region_bytes: session.region_bytes(),
            session: Some(session),
            made: Vec::new(),
        };
        bench.prepare(before, watch)?;
        if plan.run.runner == Runner::Fio {
            bench.made = bench
                .session
                .take()
                .map(Session::release)
                .unwrap_or_default();
        }
        Ok(bench)
    }

    fn prepare(&mut self, before: &Precondition, watch: Watch<'_>) -> Result<(), LabError> {
        if let Some(session) = self.session.as_ref().filter(|_| before.purge) {
            watch(Event::Begin {
                what: "deallocating everything",
                target: self.target.label(),
            });
            session.purge().map_err(|source| LabError::Session {
                target: self.target.name.clone(),
                source,
            })?;
        }
        for _ in 0..before.fill_passes {
            watch(Event::Begin {
                what: "filling in order",
                target: self.target.label(),
            });
            let fill = Workload {
                pattern: Pattern::Write,
                transfer_bytes: FILL_BYTES,
                depth: FILL_DEPTH,
                seed: self.execution.plan.run.seed,
                ..Workload::default()
            };
            self.builtin("fill", &fill, &mut |_| {})?;
        }
        Ok(())
    }

    /// Rounds to the steady state, if the plan wants them, then the load; `None` when stopped.
    pub(super) fn measure(&self, case: &Case, watch: Watch<'_>) -> Result<Option<Ran>, LabError> {
        let stopped = || self.execution.stop.is_stopped();
        let steady = match self.execution.plan.precondition.steady {
            true => Some(self.rounds(case, watch)?),
            false => None,
        };
        if stopped() {
            return Ok(None);
        }
        watch(Event::Begin {
            what: &case.label,
            target: self.target.label(),
        });
        let collect = &self.execution.plan.collect;
        let before = self.counts();
        let observed = self.execution.observe(self.target, self.session.as_ref());
        let watched = collect.processors && self.target.clock != Some(Clock::Virtual);
        let processors = watched.then(|| ProcessorWatch::start(self.execution.processes.clone()));
        let mut measured = self.load(case, &case.workload, watch)?;
        let processors = processors.map(ProcessorWatch::end).unwrap_or_default();
        if stopped() {
            return Ok(None);
        }
        if let Some(measured) = &mut measured {
            measured.processors = processors;
            measured.flash = self.flash(before).filter(|_| collect.health);
            observed.end(measured);
        }
        Ok(measured.map(|measured| Ran { steady, measured }))
    }

    fn rounds(&self, case: &Case, watch: Watch<'_>) -> Result<Steady, LabError> {
        let before = &self.execution.plan.precondition;
        let mut workload = case.workload.clone();
        workload.runtime = Some(before.round);
        workload.ramp_time = Duration::ZERO;
        let wanted = if writes(case) {
            (self.region_bytes as f64 * before.round_drive_writes) as u64
        } else {
            0
        };
        let mut steady = Steady::default();
        while !steady.reached && steady.rounds.len() < before.rounds_max as usize {
            let number = steady.rounds.len() + 1;
            watch(Event::Begin {
                what: &format!("{}, round {number} to the steady state", case.label),
                target: self.target.label(),
            });
            let (mut ios, mut seconds, mut written) = (0.0, 0.0, 0);
            while seconds == 0.0 || written < wanted {
                workload.seed += 1;
                let Some(measured) = self.load(case, &workload, &mut |_| {})? else {
                    return Ok(steady);
                };
                if self.execution.stop.is_stopped() {
                    return Ok(steady);
                }
                ios += measured.iops() * measured.seconds;
                seconds += measured.seconds.max(1e-3);
                written += measured.write.map_or(0, |write| write.bytes);
            }
            steady.add(ios / seconds);
        }
        Ok(steady)
    }

    /// One load by the plan's runner; `None` when it was stopped.
    fn load(
        &self,
        case: &Case,
        workload: &Workload,
        watch: Watch<'_>,
    ) -> Result<Option<Measured>, LabError> {
        let mut workload = workload.clone();
        workload.seed += u64::from(self.repetition) * SEED_STEP;
        let runtime = workload.runtime.unwrap_or_default() + workload.ramp_time;
        let part =
            |passed: Duration| (passed.as_secs_f64() / runtime.as_secs_f64().max(0.001)).min(1.0);
        match self.execution.plan.run.runner {
            // A database has no bench of this kind.
            Runner::Builtin | Runner::Tpcc | Runner::Cassandra => {
                let report = self.builtin(&case.name, &workload, &mut |passed| {
                    watch(Event::Share(part(passed)));
                })?;
                Ok(Some(Measured::from_report(&report)))
            }
            Runner::Fio => {
                let mut case = case.clone();
                workload.size_bytes.get_or_insert(self.region_bytes);
                case.workload = workload;
                let passed = |passed| watch(Event::Share(part(passed)));
                fio::run(&case, &self.target.paths, &self.execution.stop, passed).map_err(
                    |source| LabError::Fio {
                        workload: case.name.clone(),
                        target: self.target.name.clone(),
                        source,
                    },
                )
            }
        }
    }

    fn builtin(
        &self,
        name: &str,
        workload: &Workload,
        watch: &mut dyn FnMut(Duration),
    ) -> Result<Report, LabError> {
        let failed = |source| self.failed(name, source);
        let Some(session) = &self.session else {
            return Err(failed(SessionError::Lost));
        };
        let started = Instant::now();
        let running = session.start(workload, &self.execution.stop);
        let reports = running
            .wait(WATCH_PERIOD, |_| watch(started.elapsed()))
            .map_err(failed)?;
        let label = self.target.label().to_owned();
        let report = Report::of_jobs(label, workload.clone(), reports);
        if report.is_clean() {
            return Ok(report);
        }
        let mismatches = report.verification.as_ref().map(|found| &found.examples);
        let mut words = report.errors.iter().chain(mismatches.into_iter().flatten());
        Err(LabError::Io {
            workload: name.to_owned(),
            target: self.target.name.clone(),
            first: words
                .next()
                .cloned()
                .unwrap_or_else(|| "I/O failed".to_owned()),
        })
    }

    /// What ended a load. Where that is a lost connection, the node knows whether it gave up a host
    /// that was silent.
    fn failed(&self, workload: &str, source: SessionError) -> LabError {
        let target = self.target.name.clone();
        let SessionError::ConnectionLost { address, reason } = source else {
            return LabError::Session { target, source };
        };
        let told = self.execution.node.and_then(|ask| ask(&target));
        let gave_up = told.is_some_and(|told| told.counters.get(GAVE_UP).is_some_and(|n| *n > 0.0));
        LabError::ConnectionLost {
            workload: workload.to_owned(),
            target,
            address,
            reason,
            gave_up,
        }
    }

    fn counts(&self) -> Option<DriveCounts> {
        let session = self.session.as_ref()?;
        self.target.profile.as_ref().map(|_| session.counts())
    }

    /// What happened to the drives' flash since `before`.
    fn flash(&self, before: Option<DriveCounts>) -> Option<Flash> {
        let (before, now) = (before?, self.counts()?);
        let completed = now.completed - before.completed;
        let late = now.late - before.late;
        let pages = now.flash.since(&before.flash);
        Some(Flash {
            write_amplification: if pages.host_pages > 0 {
                pages.write_amplification()
            } else {
                1.0
            },
            late_percent: (completed > 0).then(|| 100.0 * late as f64 / completed as f64),
            ..Flash::default()
        })
    }
}

/// Whether a load writes; of a job file of one's own it has to be assumed.
fn writes(case: &Case) -> bool {
    case.fio_file.is_some() || case.workload.pattern.writes()
}
