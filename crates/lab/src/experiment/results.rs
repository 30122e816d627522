//! [`Results`]: everything that an experiment found, as one JSON file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use files::Access;
use serde::{Deserialize, Serialize};

use super::{Machine, Measured, Steady};
use crate::plan::{Plan, PlanError};

/// The version of the file; another one is refused.
const FORMAT: u32 = 1;

/// What was run, on what, and what it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The file's version.
    pub format: u32,
    /// The plan as it was run, with size and changes put in.
    pub plan: String,
    /// Which of the plan's sizes.
    pub size: Option<String>,
    /// This program's version.
    pub version: String,
    /// The revision of its source.
    pub git_revision: String,
    /// The versions of other programs that took part.
    pub programs: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// When it began.
    pub started: String,
    /// When it ended; absent while loads are left.
    pub ended: Option<String>,
    /// How long it ran, all commands together.
    #[serde(default)]
    pub spent_seconds: f64,
    /// Targets that this machine cannot have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// A load, a target and a repetition each.
    pub runs: Vec<RunResult>,
}

/// A target that was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The target's name.
    pub target: String,
    /// What this machine lacks.
    pub reason: String,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The load's name.
    pub workload: String,
    /// The target's name.
    pub target: String,
    /// Counts from 0.
    pub repetition: u32,
    /// The rounds before it was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steady: Option<Steady>,
    /// What it came to.
    pub measured: Measured,
}

/// Why results cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{}: not a result of `flashyard lab run`: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The plan within it is none.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Results {
    /// Nothing run yet of the plan in `text`.
    pub fn new(text: String, size: Option<&str>) -> Results {
        Results {
            format: FORMAT,
            plan: text,
            size: size.map(str::to_owned),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git_revision: env!("FLASHYARD_GIT_REVISION").to_owned(),
            programs: Vec::new(),
            machine: Machine::this(),
            started: now(),
            ended: None,
            spent_seconds: 0.0,
            left_out: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Reads a file that [`Results::save`] wrote.
    ///
    /// # Errors
    /// [`ResultError`].
    pub fn load(path: &Path) -> Result<Results, ResultError> {
        let text = std::fs::read_to_string(path).map_err(|source| ResultError::File {
            path: path.to_owned(),
            source,
        })?;
        let refuse = |reason| ResultError::Syntax {
            path: path.to_owned(),
            reason,
        };
        let results: Results =
            serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        if results.format != FORMAT {
            let found = results.format;
            return Err(refuse(format!(
                "format {found}; this program reads {FORMAT}"
            )));
        }
        results.plan()?;
        Ok(results)
    }

    /// Writes the file whole: whoever reads it sees the old one or the new one. See
    /// [`files::replace`] for what is no regular file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn save(&self, path: &Path) -> Result<(), ResultError> {
        let failed = |source| ResultError::File {
            path: path.to_owned(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        files::replace(path, text.as_bytes(), Access::AsBefore).map_err(failed)
    }

    /// The plan that was run.
    ///
    /// # Errors
    /// When the text is none, which only editing the file can cause.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse("the plan within the results", &self.plan, None, &[]).map(|(plan, _)| plan)
    }

    /// The run of one load on one target, if it has been done.
    pub fn run(&self, workload: &str, target: &str, repetition: u32) -> Option<&RunResult> {
        self.runs.iter().find(|run| {
            run.workload == workload && run.target == target && run.repetition == repetition
        })
    }

    /// Why a target was not run, if it was left out.
    pub fn left_out(&self, target: &str) -> Option<&str> {
        let found = self.left_out.iter().find(|one| one.target == target);
        found.map(|one| one.reason.as_str())
    }

    /// Whether the time is over that the plan allows.
    pub fn is_out_of_time(&self, plan: &Plan) -> bool {
        let most = plan.run.time_max;
        most.is_some_and(|most| self.spent_seconds >= most.as_secs_f64())
    }

    /// Marks the end.
    pub fn end(&mut self) {
        self.ended = Some(now());
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
