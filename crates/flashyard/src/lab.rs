//! `flashyard lab`: experiments from plans. Nothing here asks a node.

mod attached;
mod compare;
mod display;
mod list;
mod nodes;
mod report;
mod run;
mod table;

use std::process::ExitCode;

use clap::Subcommand;
use lab::experiment::{LabError, ResultError};
use lab::plan::PlanError;

use crate::exit;
use crate::output::Output;

#[derive(Subcommand)]
pub enum Verb {
    /// List the plans that ship with the program
    List,
    /// Run a plan, or go on with one that was interrupted
    Run(run::Run),
    /// Show results beside what was published
    Report(report::Report),
    /// Tell whether two results differ by more than their repetitions do
    Compare(compare::Compare),
}

/// Why a verb did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Results(#[from] ResultError),
    #[error(transparent)]
    Node(#[from] crate::demo::DemoError),
    #[error(transparent)]
    Report(#[from] lab::report::ReportError),
    #[error("{}: {source}", path.display())]
    File {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("{verb}: {said}")]
    Attach { verb: String, said: String },
    #[error("the node that was started for a target tells no address at which it is reached")]
    NoAddress,
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Stopped(String),
    #[error("{0}")]
    Beyond(String),
}

impl Verb {
    pub fn run(self, output: Output) -> ExitCode {
        let done = match self {
            Verb::List => list::show(output),
            Verb::Run(run) => run.run(output),
            Verb::Report(report) => report.run(output),
            Verb::Compare(compare) => compare.run(output),
        };
        match done {
            Ok(()) => exit::done(),
            Err(error @ (Error::Plan(_) | Error::Usage(_))) => exit::usage(&error),
            Err(error) => exit::failed(&error),
        }
    }
}
