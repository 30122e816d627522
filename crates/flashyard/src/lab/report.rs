//! `flashyard lab report`: results as a table, or as a report in another form.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use files::Access;
use lab::experiment::Results;
use lab::plan::Plan;
use lab::report;

use super::{Error, table};
use crate::output::{self, Output};

/// Show results beside what was published.
#[derive(Args)]
pub struct Report {
    /// What `lab run` left
    results: PathBuf,
    /// A report to read, to print or to send; without this, tables are shown
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the report here; without this, it goes to standard output
    #[arg(long, value_name = "FILE", requires = "format")]
    to: Option<PathBuf>,
}

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One page with charts that needs nothing else
    Html,
    /// The same page, printed by Chromium; needs --to
    Pdf,
    /// For a page of documentation, or an issue
    Markdown,
    /// A line for each figure
    Csv,
}

impl Report {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        let results = Results::load(&self.results)?;
        let plan = results.plan()?;
        let Some(format) = self.format else {
            table::show(&plan, &results, output);
            return Ok(());
        };
        if format == Format::Pdf && self.to.is_none() {
            let missing = "--format pdf needs --to FILE: a PDF is no text for a terminal";
            return Err(Error::Usage(missing.to_owned()));
        }
        let report = made(format, &plan, &results)?;
        match &self.to {
            Some(path) => keep(path, &report),
            None => {
                output::put(&report);
                Ok(())
            }
        }
    }
}

fn made(format: Format, plan: &Plan, results: &Results) -> Result<Vec<u8>, Error> {
    Ok(match format {
        Format::Html => report::html(plan, results)?.into_bytes(),
        Format::Pdf => report::pdf(&report::html(plan, results)?)?,
        Format::Markdown => report::markdown(plan, results).into_bytes(),
        Format::Csv => report::csv(plan, results).into_bytes(),
    })
}

fn keep(path: &Path, report: &[u8]) -> Result<(), Error> {
    files::replace(path, report, Access::AsBefore).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}
