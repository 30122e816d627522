//! Rows of the page that say what drives and nodes told before and after a load.

use super::text::number;
use crate::experiment::{DriveDuring, Observed, Results, RunResult};
use crate::plan::Plan;

/// What a drive's row holds.
pub(super) const DRIVES: [&str; 10] = [
    "load",
    "target",
    "drive",
    "used before, %",
    "after, %",
    "data units written before",
    "after",
    "MB read",
    "MB written",
    "write amplification",
];

/// What a node's row holds.
pub(super) const NODES: [&str; 8] = [
    "load",
    "target",
    "cores at work, %",
    "polling, %",
    "drives' reads",
    "drives' writes",
    "drives' errors",
    "hosts' protocol errors",
];

/// What each run of the first repetition observed, with the load's name and the target's label.
fn observed<'a>(
    plan: &'a Plan,
    results: &'a Results,
) -> impl Iterator<Item = ([String; 2], &'a Observed)> {
    let first = results.runs.iter().filter(|run| run.repetition == 0);
    first.filter_map(|run: &RunResult| {
        let target = plan.targets.iter().find(|target| target.name == run.target);
        let names = [run.workload.clone(), target?.label().to_owned()];
        Some((names, run.measured.observed.as_ref()?))
    })
}

/// A row a drive.
pub(super) fn drives(plan: &Plan, results: &Results) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (names, observed) in observed(plan, results) {
        for during in &observed.drives {
            let mut row = names.to_vec();
            row.extend(drive(during));
            rows.push(row);
        }
    }
    rows
}

fn drive(during: &DriveDuring) -> [String; 8] {
    let DriveDuring { before, after } = during;
    let written = during.written_bytes() as f64;
    let amplification = during.media_bytes().filter(|_| written > 0.0);
    [
        after.drive.clone(),
        before.percentage_used.to_string(),
        after.percentage_used.to_string(),
        before.data_units_written.to_string(),
        after.data_units_written.to_string(),
        number(during.read_bytes() as f64 / 1e6),
        number(written / 1e6),
        amplification.map_or_else(|| "-".to_owned(), |media| format!("{:.2}", media / written)),
    ]
}

/// A row a node.
pub(super) fn nodes(plan: &Plan, results: &Results) -> Vec<Vec<String>> {
    let told = observed(plan, results).filter(|(_, observed)| !observed.counters.is_empty());
    told.map(|(names, observed)| {
        // Of a counter with labels, what they have to say.
        let sum = |name: &str, label: &str| -> f64 {
            let of =
                |series: &str| series.split('{').next() == Some(name) && series.contains(label);
            let grown = observed.counters.iter().filter(|(series, _)| of(series));
            grown.map(|(_, grown)| grown).sum()
        };
        let core = "flashyard_core_seconds_total";
        let share = |activity: &str| number(100.0 * sum(core, activity) / sum(core, "").max(1e-9));
        let mut row = names.to_vec();
        row.extend([share("\"busy\""), share("\"polling\"")]);
        for count in [
            "drive_read_operations_total",
            "drive_write_operations_total",
            "drive_errors_total",
            "protocol_errors_total",
        ] {
            row.push(format!("{:.0}", sum(&format!("flashyard_{count}"), "")));
        }
        row
    })
    .collect()
}
