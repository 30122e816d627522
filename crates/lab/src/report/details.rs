//! What is folded below the front of the page: everything else that is known.

use super::chart::{Line, heat, lines, percentiles};
use super::html::Html;
use super::matrix::Matrix;
use super::text::{escaped, number};
use super::{ReportError, health};
use crate::experiment::{Results, RunResult, claim, sizing};
use crate::load::Latency;
use crate::plan::{Case, Plan};

/// Percentiles of the latency chart.
const PERCENTILES: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99"];

/// Everything below the front; `more` are matrices that it has no room for.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn details(
    page: &mut Html,
    plan: &Plan,
    results: &Results,
    more: &[Matrix<'_>],
) -> Result<(), ReportError> {
    page.folded("Method", |page| method(page, plan, results));
    page.folded("More figures", |page| {
        for matrix in more {
            page.element("h3", "", &matrix.title);
            page.matrix(matrix);
        }
    });
    let mut drawn = Html::default();
    charts(&mut drawn, plan, results)?;
    page.folded("Over time, and how long each I/O took", |page| {
        if !drawn.text.is_empty() {
            page.raw(&format!("<div class=drawn>{}</div>", drawn.text));
        }
    });
    page.folded("What databases, flash, drives and nodes tell", |page| {
        operations(page, plan, results);
        flash(page, plan, results);
        let rows = health::drives(plan, results);
        page.rows("What the drives tell", &health::DRIVES, 3, &rows);
        let rows = health::nodes(plan, results);
        page.rows("What the nodes tell", &health::NODES, 2, &rows);
    });
    if let Some(claim) = claim(plan, results) {
        page.folded("The endurance claim", |page| {
            page.raw(&format!("<pre>{}</pre>", escaped(&claim.to_string())));
        });
    }
    page.folded("How much network a node needs", |page| network(page, plan));
    page.folded("The plan, as it was run", |page| {
        page.raw(&format!("<pre>{}</pre>", escaped(&results.plan)));
    });
    Ok(())
}

fn method(page: &mut Html, plan: &Plan, results: &Results) {
    for text in &plan.method {
        page.paragraph(text);
    }
    let (run, before) = (&plan.run, &plan.precondition);
    let intervals = "intervals of figures are Student's over the repetitions, those of ratios \
                     Welch's of their logarithms, both 95%.";
    let mut text = match (run.repetitions, run.most_repetitions()) {
        (1, 1) => "Everything was run once.".to_owned(),
        (least, most) if least == most => {
            format!("Everything was run {most} times; {intervals}")
        }
        (least, most) => format!(
            "Everything was run {least} times, and more often, up to {most} times, where a ratio \
             of the answer was not within {}%; {intervals}",
            run.within_percent
        ),
    };
    if before.purge {
        text.push_str(" Targets were deallocated first.");
    }
    if before.fill_passes > 0 {
        let passes = before.fill_passes;
        text.push_str(&format!(" They were written in order, {passes} time(s)."));
    }
    if before.steady {
        text.push_str(
            " Each load was then repeated in rounds until five agreed (range 20%, slope 10% of \
             their mean), before it was measured.",
        );
    }
    page.paragraph(&text);
    let steady = |run: &&RunResult| run.steady.as_ref().is_none_or(|steady| steady.reached);
    for run in results.runs.iter().filter(|run| !steady(run)) {
        let (load, target) = (&run.workload, &run.target);
        page.paragraph(&format!("{load} on {target} did not become steady."));
    }
}

/// Series, percentiles and heat maps of the first repetition.
fn charts(page: &mut Html, plan: &Plan, results: &Results) -> Result<(), ReportError> {
    for case in plan.cases() {
        let mut series = Vec::new();
        let mut latencies = Vec::new();
        let mut heats = Vec::new();
        for target in &plan.targets {
            let Some(run) = results.run(&case.name, &target.name, 0) else {
                continue;
            };
            let label = target.label();
            series.extend(series_of(run, label));
            latencies.extend(latencies_of(run, label));
            heats.extend(heat_of(run).map(|columns| (label, columns)));
        }
        if !series.is_empty() {
            page.raw(&lines(&case.label, "thousands a second", &series)?);
        }
        if !latencies.is_empty() {
            let title = format!("{}: latency", case.label);
            page.raw(&percentiles(&title, &PERCENTILES, &latencies)?);
        }
        for (label, columns) in heats {
            page.raw(&heat(&heat_title(&case, label), &columns)?);
        }
    }
    Ok(())
}

/// What databases did, by kind, in the first repetition.
fn operations(page: &mut Html, plan: &Plan, results: &Results) {
    let (mut rows, mut reasons) = (Vec::new(), Vec::new());
    for run in results.runs.iter().filter(|run| run.repetition == 0) {
        let target = plan.targets.iter().find(|target| target.name == run.target);
        if let Some(reason) = &run.measured.first_error {
            let target = target.map_or("", |target| target.label());
            reasons.push(format!("{}, {target}: {reason}", run.workload));
        }
        for (name, operation) in &run.measured.operations {
            let latency = &operation.latency;
            let mut row = vec![
                run.workload.clone(),
                target.map_or_else(String::new, |target| target.label().to_owned()),
                name.to_lowercase().replace('_', " "),
                operation.count.to_string(),
                operation.errors.to_string(),
                number(operation.per_second * 60.0),
            ];
            let times = [
                latency.mean_us,
                latency.p50_us,
                latency.p95_us,
                latency.p99_us,
            ];
            row.extend(times.map(|us| format!("{:.2}", us / 1e3)));
            rows.push(row);
        }
    }
    let header = [
        "load",
        "target",
        "kind",
        "succeeded",
        "failed",
        "a minute",
        "mean, ms",
        "median",
        "95%",
        "99%",
    ];
    page.rows("By transaction", &header, 3, &rows);
    if !reasons.is_empty() {
        page.element("h3", "", "What failed first");
        for reason in &reasons {
            page.paragraph(reason);
        }
    }
}

fn flash(page: &mut Html, plan: &Plan, results: &Results) {
    let mut rows = Vec::new();
    for run in results.runs.iter().filter(|run| run.repetition == 0) {
        let Some(flash) = run.measured.flash else {
            continue;
        };
        let label = plan.targets.iter().find(|target| target.name == run.target);
        let or_dash = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        rows.push(vec![
            run.workload.clone(),
            label.map_or_else(String::new, |target| target.label().to_owned()),
            format!("{:.3}", flash.write_amplification),
            or_dash(flash.drive_writes_per_day, 2),
            or_dash(flash.terabytes_written, 0),
            or_dash(flash.days_to_wear_out, 0),
            or_dash(flash.late_percent, 1),
        ]);
    }
    let header = [
        "load",
        "target",
        "write amplification",
        "drive writes per day",
        "TB written in all",
        "days to wear out",
        "late I/O, %",
    ];
    page.rows("What it does to the flash", &header, 2, &rows);
}

fn network(page: &mut Html, plan: &Plan) {
    let needs = sizing(plan);
    if needs.is_empty() {
        return;
    }
    let rows = needs.iter().map(|need| need.cells(number));
    let header = [
        "drives",
        "they read, Gb/s",
        "ports",
        "network, Gb/s",
        "published, Gb/s",
    ];
    page.table(&header, 0, &rows.collect::<Vec<_>>());
}

fn heat_title(case: &Case, label: &str) -> String {
    format!("{} on {label}: I/Os by latency", case.label)
}

fn series_of(run: &RunResult, label: &str) -> Option<Line> {
    let series = &run.measured.series;
    (series.len() > 1).then(|| Line {
        label: label.to_owned(),
        points: series
            .iter()
            .map(|one| (one.ends_at_seconds, (one.read_iops + one.write_iops) / 1e3))
            .collect(),
    })
}

/// Reads and writes, each where there were any whose latency is known.
fn latencies_of(run: &RunResult, label: &str) -> Vec<Line> {
    let directions = [
        ("reads", &run.measured.read),
        ("writes", &run.measured.write),
    ];
    let known = directions.into_iter().filter_map(|(name, direction)| {
        let latency = direction.as_ref()?.latency;
        (latency.mean_us > 0.0).then_some((name, latency))
    });
    known
        .map(|(name, latency)| Line {
            label: format!("{label}, {name}"),
            points: (0..).map(f64::from).zip(points(&latency)).collect(),
        })
        .collect()
}

fn points(latency: &Latency) -> [f64; 7] {
    [
        latency.mean_us,
        latency.p50_us,
        latency.p90_us,
        latency.p95_us,
        latency.p99_us,
        latency.p99_9_us,
        latency.p99_99_us,
    ]
}

fn heat_of(run: &RunResult) -> Option<Vec<(f64, Vec<u32>)>> {
    let series = run.measured.series.iter();
    let columns: Vec<(f64, Vec<u32>)> = series
        .filter(|sample| !sample.latency_counts.is_empty())
        .map(|sample| (sample.ends_at_seconds, sample.latency_counts.clone()))
        .collect();
    (columns.len() > 1).then_some(columns)
}
