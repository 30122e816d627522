//! `flashyard lab compare`

use std::path::PathBuf;

use clap::Args;
use lab::experiment::{Change, Comparison, Results, Verdict, compare};
use lab::plan::Metric;

use super::Error;
use crate::output::{Output, table};

/// Tell whether two results differ by more than their repetitions do.
///
/// Ends with 1 when something is worse, by more than --threshold, with 95% confidence.
#[derive(Args)]
pub struct Compare {
    /// The results to compare with
    before: PathBuf,
    /// The results to judge
    after: PathBuf,
    /// Differences up to this are none, however certain, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    threshold: f64,
    /// Rates only, without latencies
    #[arg(long)]
    rates: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1000.0).contains(number));
    number.ok_or_else(|| "allowed: a number from 0 to 1000".to_owned())
}

impl Compare {
    pub fn run(&self, output: Output) -> Result<(), Error> {
        let before = Results::load(&self.before)?;
        let after = Results::load(&self.after)?;
        let mut found = compare(&before, &after, self.threshold / 100.0)?;
        if found.changes.is_empty() {
            return Err(Error::Usage(
                "the two results have no load on a target of the same name in common".to_owned(),
            ));
        }
        found
            .changes
            .retain(|change| !self.rates || change.metric == Metric::Rate);
        output.show(&found, people);
        let worse = found
            .changes
            .iter()
            .filter(|one| one.verdict == Verdict::Worse);
        match worse.count() {
            0 => Ok(()),
            count => Err(Error::Beyond(format!("{count} figure(s) are worse"))),
        }
    }
}

/// What it is, and if it is not compared, why.
fn verdict(change: &Change) -> String {
    let doubts: Vec<String> = change.doubts.iter().map(ToString::to_string).collect();
    match doubts.as_slice() {
        [] => change.verdict.to_string(),
        doubts => format!("{}: {}", change.verdict, doubts.join("; ")),
    }
}

fn people(found: &Comparison) -> String {
    let percent = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{:+.1}%", value * 100.0))
    };
    let rows = found.changes.iter().map(|change: &Change| {
        let between = match change.interval {
            Some([low, high]) => format!("{:+.1}% to {:+.1}%", low * 100.0, high * 100.0),
            None => "-".to_owned(),
        };
        vec![
            change.workload.clone(),
            change.target.clone(),
            change.metric.name().to_owned(),
            format!("{:.2}", change.before),
            format!("{:.2}", change.after),
            percent(Some(change.change)),
            between,
            verdict(change),
            change
                .published
                .map_or_else(|| "-".to_owned(), |value| format!("{value}")),
        ]
    });
    let header = [
        "workload",
        "target",
        "figure",
        "before",
        "after",
        "change",
        "95% between",
        "verdict",
        "published",
    ];
    let mut parts = vec![table(&header, rows)];
    if !found.ratios.is_empty() {
        let rows = found.ratios.iter().map(|ratio| {
            vec![
                ratio.workload.clone(),
                format!("{} / {}", ratio.target, ratio.baseline),
                ratio.before.to_string(),
                ratio.after.to_string(),
                ratio
                    .published
                    .map_or_else(|| "-".to_owned(), |value| format!("{value:.3}")),
            ]
        });
        let header = ["workload", "ratio", "before", "after", "published"];
        parts.push(format!(
            "Ratios between variants, which carry over between machines; absolutes do not:\n{}",
            table(&header, rows)
        ));
    }
    parts.extend(found.notes.iter().cloned());
    parts.join("\n\n")
}
