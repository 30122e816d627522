//! The page: question, set-up, method, charts, results beside published, what limits it.

use std::collections::BTreeMap;

use super::chart::{Bar, Line, bars, heat, lines, percentiles, short};
use super::{ReportError, health};
use crate::experiment::{Figure, Results, RunResult, claim, figures, sizing};
use crate::load::Latency;
use crate::plan::{Case, Metric, Plan};

/// Percentiles of the latency chart.
const PERCENTILES: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99"];

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;\
    color:#222}h1{font-size:1.6em}h2{margin-top:2em;border-bottom:1px solid #ccc}\
    table{border-collapse:collapse;font-size:13px;margin:1em 0}\
    th,td{padding:3px 10px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid #eee}\
    td.n,th.n{text-align:right}svg{max-width:100%;height:auto}\
    figure,tr,p{break-inside:avoid}figure{margin:1em 0}.beyond{color:#b00;font-weight:bold}\
    pre{white-space:pre-wrap;font-size:12px;background:#f6f6f6;padding:1em}\
    @media print{body{margin:0;max-width:none}h2{break-after:avoid}}";

/// The page of `results`.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn html(plan: &Plan, results: &Results) -> Result<String, ReportError> {
    let found = figures(plan, results);
    let mut page = Page {
        text: String::new(),
    };
    page.head(plan);
    page.setup(plan, results);
    page.paragraphs("Method", &plan.method);
    page.procedure(plan);
    page.heading("Results");
    page.figures(&found);
    page.bars(plan, &found)?;
    page.heading("Over time, and how long each I/O took");
    page.charts(plan, results)?;
    page.operations(plan, results);
    page.flash(plan, results);
    page.rows(
        "What the drives tell",
        &health::DRIVES,
        3,
        &health::drives(plan, results),
    );
    page.rows(
        "What the nodes tell",
        &health::NODES,
        2,
        &health::nodes(plan, results),
    );
    if let Some(claim) = claim(plan, results) {
        page.heading("The endurance claim");
        page.raw(&format!("<pre>{}</pre>", escaped(&claim.to_string())));
    }
    page.sizing(plan);
    page.limits(plan, results, &found);
    page.heading("The plan, as it was run");
    page.raw(&format!(
        "<pre>{}</pre></body></html>",
        escaped(&results.plan)
    ));
    Ok(page.text)
}

/// Text that means what it says in HTML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

struct Page {
    text: String,
}

impl Page {
    fn raw(&mut self, html: &str) {
        self.text.push_str(html);
        self.text.push('\n');
    }

    fn heading(&mut self, text: &str) {
        self.raw(&format!("<h2>{}</h2>", escaped(text)));
    }

    fn paragraph(&mut self, text: &str) {
        self.raw(&format!("<p>{}</p>", escaped(text)));
    }

    fn paragraphs(&mut self, heading: &str, texts: &[String]) {
        self.heading(heading);
        for text in texts {
            self.paragraph(text);
        }
    }

    fn figure(&mut self, svg: &str) {
        self.raw(&format!("<figure>{svg}</figure>"));
    }

    /// A table; columns from `numbers` on are numbers.
    fn table(&mut self, header: &[&str], numbers: usize, rows: &[Vec<String>]) {
        let class = |index: usize| if index >= numbers { " class=n" } else { "" };
        let mut html = "<table><tr>".to_owned();
        for (index, name) in header.iter().enumerate() {
            html.push_str(&format!("<th{}>{}</th>", class(index), escaped(name)));
        }
        for row in rows {
            html.push_str("</tr>\n<tr>");
            for (index, cell) in row.iter().enumerate() {
                html.push_str(&format!("<td{}>{}</td>", class(index), escaped(cell)));
            }
        }
        html.push_str("</tr></table>");
        self.raw(&html);
    }

    /// A table with a heading, if there is anything in it.
    fn rows(&mut self, heading: &str, header: &[&str], numbers: usize, rows: &[Vec<String>]) {
        if !rows.is_empty() {
            self.heading(heading);
            self.table(header, numbers, rows);
        }
    }

    fn head(&mut self, plan: &Plan) {
        let title = escaped(&plan.title);
        self.raw(&format!(
            "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>{title}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>"
        ));
        self.heading("Question");
        self.paragraph(&plan.question);
    }

    fn setup(&mut self, plan: &Plan, results: &Results) {
        self.heading("Set-up");
        let machine = &results.machine;
        let mut rows = vec![
            vec!["machine".to_owned(), machine.summary()],
            vec!["host".to_owned(), machine.host.clone()],
            vec![
                "program".to_owned(),
                format!("Flashyard {}, {}", results.version, results.git_revision),
            ],
        ];
        let ended = results.ended.as_deref();
        rows.push(vec![
            "time".to_owned(),
            format!("{} to {}", results.started, ended.unwrap_or("not complete")),
        ]);
        rows.extend(
            results
                .programs
                .iter()
                .map(|name| vec!["with".to_owned(), name.clone()]),
        );
        for target in &plan.targets {
            rows.push(vec!["target".to_owned(), target.label().to_owned()]);
        }
        self.table(&["here", ""], 2, &rows);
        if !plan.setup.is_empty() {
            let rows: Vec<Vec<String>> = plan
                .setup
                .iter()
                .map(|(what, which)| vec![what.clone(), which.clone()])
                .collect();
            let source = plan.source.as_deref().unwrap_or("published");
            self.table(&[source, ""], 2, &rows);
        }
    }

    fn procedure(&mut self, plan: &Plan) {
        let (run, before) = (&plan.run, &plan.precondition);
        let mut text = format!(
            "Everything was run {} time(s); intervals are Student's, 95%, over the repetitions.",
            run.repetitions
        );
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
        self.paragraph(&text);
    }

    fn figures(&mut self, found: &[Figure<'_>]) {
        let percent = |value: f64| format!("{:+.1}%", value * 100.0);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let rows = found.iter().map(|figure| {
            let mean = figure.sample.mean();
            let spread = figure.sample.interval().map(|found| found.half());
            let unit = match figure.metric {
                Metric::Rate => figure.unit.name(),
                other => other.unit(),
            };
            vec![
                figure.workload_label.clone(),
                figure.target.label().to_owned(),
                unit.to_owned(),
                short(mean),
                or_dash(spread.map(|half| format!("+-{}", short(half)))),
                or_dash(figure.published.map(|published| short(published.value))),
                or_dash(figure.error().map(percent)),
                or_dash(figure.ratio.map(|ratio| format!("{ratio:.2}"))),
                or_dash(figure.published_ratio.map(|ratio| format!("{ratio:.2}"))),
            ]
        });
        let header = [
            "load",
            "target",
            "in",
            "measured",
            "95%",
            "published",
            "error",
            "ratio to baseline",
            "published ratio",
        ];
        self.table(&header, 3, &rows.collect::<Vec<_>>());
        self.paragraph(
            "Ratios between variants carry over between machines; absolutes do not, unless the \
             drives are modelled and the host was not in the way.",
        );
    }

    fn bars(&mut self, plan: &Plan, found: &[Figure<'_>]) -> Result<(), ReportError> {
        for case in plan.cases() {
            let rates = found
                .iter()
                .filter(|figure| figure.metric == Metric::Rate && figure.workload == case.name);
            let rates: Vec<Bar> = rates
                .map(|figure| Bar {
                    label: figure.target.label().to_owned(),
                    value: figure.sample.mean(),
                    half: figure.sample.interval().map(|found| found.half()),
                    published: figure.published.map(|published| published.value),
                })
                .collect();
            if !rates.is_empty() {
                self.figure(&bars(&case.label, case.unit.name(), &rates)?);
            }
        }
        Ok(())
    }

    /// Series, percentiles and heat maps of the first repetition.
    fn charts(&mut self, plan: &Plan, results: &Results) -> Result<(), ReportError> {
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
                self.figure(&lines(&case.label, "thousands a second", &series)?);
            }
            if !latencies.is_empty() {
                let title = format!("{}: latency", case.label);
                self.figure(&percentiles(&title, &PERCENTILES, &latencies)?);
            }
            for (label, columns) in heats {
                self.figure(&heat(&heat_title(&case, label), &columns)?);
            }
        }
        Ok(())
    }

    /// What databases did, by kind, in the first repetition.
    fn operations(&mut self, plan: &Plan, results: &Results) {
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
                    short(operation.per_second * 60.0),
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
        self.rows("By transaction", &header, 3, &rows);
        if !reasons.is_empty() {
            self.paragraphs("What failed first", &reasons);
        }
    }

    fn flash(&mut self, plan: &Plan, results: &Results) {
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
        self.rows("What it does to the flash", &header, 2, &rows);
    }

    fn sizing(&mut self, plan: &Plan) {
        let needs = sizing(plan);
        if needs.is_empty() {
            return;
        }
        let rows = needs.iter().map(|need| {
            let published = need.published_gbit_s.map(short);
            vec![
                need.drives.to_string(),
                short(need.drives_gbit_s),
                need.ports.to_string(),
                short(need.network_gbit_s),
                published.unwrap_or_else(|| "-".to_owned()),
            ]
        });
        self.heading("How much network a node needs");
        let header = [
            "drives",
            "they read, Gb/s",
            "ports",
            "network, Gb/s",
            "published, Gb/s",
        ];
        self.table(&header, 0, &rows.collect::<Vec<_>>());
    }

    fn limits(&mut self, plan: &Plan, results: &Results, found: &[Figure<'_>]) {
        self.paragraphs("What limits it", &plan.limits);
        let unsteady = results
            .runs
            .iter()
            .filter(|run| run.steady.as_ref().is_some_and(|steady| !steady.reached));
        for run in unsteady {
            let text = format!("{} on {} did not become steady.", run.workload, run.target);
            self.paragraph(&text);
        }
        let processors: BTreeMap<&str, f64> = found
            .iter()
            .filter(|figure| figure.metric == Metric::ProcessorPercent)
            .map(|figure| (figure.target.label(), figure.sample.mean()))
            .collect();
        for (label, percent) in processors.iter().filter(|(_, percent)| **percent > 90.0) {
            self.paragraph(&format!(
                "{label}: the processors were {percent:.0}% busy; its figures are the machine's as \
                 much as the target's."
            ));
        }
        for figure in found.iter().filter(|figure| !figure.holds()) {
            self.raw(&format!(
                "<p class=beyond>{} on {}: beyond the error that the plan allows.</p>",
                escaped(&figure.workload_label),
                escaped(figure.target.label())
            ));
        }
    }
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
