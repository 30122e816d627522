//! `flashyard lab run`

use std::path::{Path, PathBuf};

use clap::Args;
use lab::experiment::{Execution, LeftOut, Results, figures};
use lab::load::Stop;
use lab::plan::{Change, Plan};

use super::display::Display;
use super::nodes::Nodes;
use super::{Error, table};
use crate::output::{self, Output};

/// Run a plan, or go on with one that was interrupted.
///
/// Ends with 1 when it was stopped before the end, or when a figure is beyond the error that the
/// plan holds it to.
#[derive(Args)]
pub struct Run {
    /// A plan's name (`flashyard lab list`), or the path of one of your own
    plan: String,
    /// Which of the plan's sizes: smoke, small or full; the plan as it stands if not given
    #[arg(long)]
    size: Option<String>,
    /// Change a value of the plan; KEY is dotted, and elements of lists go by their name, or `*`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<Change>,
    /// Overwrite this device, file or volume, whatever it holds
    #[arg(long, value_name = "PATH or ADDRESS")]
    destroy: Vec<String>,
    /// Where results are kept [default: NAME-SIZE.json here]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Begin anew, even if results are there
    #[arg(long)]
    restart: bool,
}

impl Run {
    pub fn run(self, output: Output) -> Result<(), Error> {
        let (plan, text) = Plan::open(&self.plan, self.size.as_deref(), &self.changes)?;
        let path = self.results_path(&plan);
        let mut results = self.earlier(&path, &text)?;
        let stop = Stop::default();
        crate::interrupt::stop_on_interrupt(&stop);
        let nodes = Nodes::start(&plan, &stop)?;
        results.left_out.clone_from(&nodes.left_out);
        for LeftOut { target, reason } in &nodes.left_out {
            output::tell(&format_args!("left out: {target}: {reason}"));
        }
        let reading = |target: &str| nodes.reading(target);
        let execution = Execution {
            plan: &nodes.plan,
            destroy: self.destroy.into_iter().chain(nodes.devices()).collect(),
            output: path.clone(),
            processes: nodes.processes(),
            node: Some(&reading),
            stop,
        };
        let display = Display::start(output);
        let ended = execution.run(&mut results, &mut |event| display.show(&event));
        drop(display);
        if !ended? {
            let (left, all) = execution.left(&results);
            let again = match left == all {
                true => "the same command starts again".to_owned(),
                false => format!(
                    "the same command goes on with them; {} has the others",
                    path.display()
                ),
            };
            return Err(Error::Stopped(format!(
                "stopped: {left} of {all} runs are left; {again}"
            )));
        }
        table::show(&plan, &results, output);
        if output == Output::Table {
            output::print(&format!("\nresults: {}", path.display()));
        }
        let beyond = figures(&plan, &results);
        let beyond: Vec<String> = beyond
            .iter()
            .filter(|figure| !figure.holds())
            .map(|figure| format!("{} on {}", figure.workload, figure.target.name))
            .collect();
        match beyond.as_slice() {
            [] => Ok(()),
            names => Err(Error::Beyond(format!(
                "beyond the error that the plan allows: {}",
                names.join(", ")
            ))),
        }
    }

    fn results_path(&self, plan: &Plan) -> PathBuf {
        let size = self
            .size
            .as_ref()
            .map_or_else(String::new, |size| format!("-{size}"));
        let usual = || PathBuf::from(format!("{}{size}.json", plan.name));
        self.results.clone().unwrap_or_else(usual)
    }

    /// What an interrupted run of the same plan has found, or nothing yet.
    fn earlier(&self, path: &Path, text: &str) -> Result<Results, Error> {
        let new = Results::new(text.to_owned(), self.size.as_deref());
        if self.restart || !path.exists() {
            return Ok(new);
        }
        let found = Results::load(path)?;
        let refuse = |reason: &str| {
            let path = path.display();
            Err(Error::Usage(format!(
                "{path}: {reason}; --restart begins anew, --results FILE keeps both"
            )))
        };
        if found.plan != text {
            return refuse("results of another plan, size or change");
        }
        if found.machine != new.machine || found.git_revision != new.git_revision {
            return refuse("begun on another machine or with another version of this program");
        }
        if found.ended.is_some() {
            return refuse("results of this plan, complete");
        }
        Ok(found)
    }
}
