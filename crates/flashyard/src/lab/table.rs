//! The tables of `flashyard lab report`, with which `run` ends, too.

use lab::experiment::{
    Answered, Claim, Doubt, Figure, NOT_COMPARED, NetworkNeed, Over, Results, answered, claim,
    figures, sizing,
};
use lab::plan::{Metric, Plan, Unit};
use serde::Serialize;

use crate::output::{Output, table};

/// What a program gets.
#[derive(Serialize)]
struct Answer<'a> {
    plan: &'a str,
    complete: bool,
    answers: Vec<Answered>,
    figures: Vec<Row>,
    claim: Option<Claim>,
    network: Vec<NetworkNeed>,
}

#[derive(Serialize)]
struct Row {
    workload: String,
    target: String,
    metric: Metric,
    unit: &'static str,
    repetitions: usize,
    value: f64,
    interval: Option<[f64; 2]>,
    published: Option<f64>,
    error: Option<f64>,
    allowed_error: Option<f64>,
    ratio: Option<Over>,
    not_compared: Option<Doubt>,
    published_ratio: Option<f64>,
    basis: Option<String>,
    #[serde(skip)]
    modelled: bool,
    #[serde(skip)]
    labels: [String; 2],
}

impl Row {
    fn new(figure: &Figure<'_>) -> Row {
        let published = figure.published;
        Row {
            workload: figure.workload.clone(),
            target: figure.target.name.clone(),
            metric: figure.metric,
            unit: unit(figure.metric, figure.unit),
            repetitions: figure.sample.count(),
            value: figure.sample.mean(),
            interval: figure
                .sample
                .interval()
                .map(|found| [found.low, found.high]),
            published: published.map(|published| published.value),
            error: figure.error(),
            allowed_error: published
                .and_then(|published| published.within_percent)
                .map(|percent| percent / 100.0),
            ratio: figure.ratio.clone(),
            not_compared: figure.host,
            published_ratio: figure.published_ratio,
            basis: published.and_then(|published| published.basis.clone()),
            modelled: figure.modelled,
            labels: [
                figure.workload_label.clone(),
                figure.target.label().to_owned(),
            ],
        }
    }

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let or_dash = |text: Option<String>| text.unwrap_or_else(dash);
        let percent = |value: f64| format!("{:+.1}%", value * 100.0);
        let spread = self
            .interval
            .map(|[low, high]| (high - low) / 2.0 / self.value);
        let [workload, target] = self.labels.clone();
        vec![
            workload,
            target,
            format!("{} {}", number(self.value), self.unit),
            match (self.not_compared, spread) {
                (Some(_), _) => NOT_COMPARED.to_owned(),
                (None, Some(share)) => format!("{:.1}%", share * 100.0),
                (None, None) if self.modelled => dash(),
                (None, None) => "once".to_owned(),
            },
            or_dash(self.published.map(number)),
            or_dash(self.error.map(percent)),
            or_dash(
                self.allowed_error
                    .map(|share| format!("{:.0}%", share * 100.0)),
            ),
            or_dash(self.ratio.as_ref().map(ToString::to_string)),
            or_dash(self.published_ratio.map(|ratio| format!("{ratio:.2}"))),
            or_dash(self.basis.clone()),
        ]
    }
}

const HEADER: [&str; 10] = [
    "workload",
    "target",
    "measured",
    "+-",
    "published",
    "error",
    "within",
    "ratio",
    "published ratio",
    "basis",
];

/// Shows the figures, and what an endurance claim comes to.
pub fn show(plan: &Plan, results: &Results, output: Output) {
    let rows: Vec<Row> = figures(plan, results).iter().map(Row::new).collect();
    let answer = Answer {
        plan: &plan.name,
        complete: results.ended.is_some(),
        answers: answered(plan, results),
        figures: rows,
        claim: claim(plan, results),
        network: sizing(plan),
    };
    output.show(&answer, |answer| {
        let shown = |row: &&Row| row.metric == Metric::Rate || row.published.is_some();
        let rates = answer.figures.iter().filter(shown);
        let others = answer.figures.iter().filter(|row| !shown(row));
        let others = others.map(|row| row.cells().drain(..4).collect());
        let said = answer.answers.iter().filter_map(|one| one.said.as_ref());
        let said: Vec<String> = said.map(ToString::to_string).collect();
        let mut parts = vec![
            format!("{}\n{}", plan.title, plan.question),
            format!("Answer:\n{}", said.join("\n")),
            table(&HEADER, rates.map(Row::cells)),
            table(&HEADER[..4], others),
            network(&answer.network),
        ];
        parts.extend(answer.claim.as_ref().map(|claim| claim.to_string()));
        parts.retain(|part| part.lines().count() > 1);
        parts.join("\n\n")
    });
}

/// Ports for drives.
fn network(needs: &[NetworkNeed]) -> String {
    let rows = needs.iter().map(|need| need.cells(number));
    let header = [
        "drives",
        "they read gb/s",
        "ports",
        "network gb/s",
        "published gb/s",
    ];
    table(&header, rows)
}

fn unit(metric: Metric, rate: Unit) -> &'static str {
    match metric {
        Metric::Rate => rate.name(),
        other => other.unit(),
    }
}

/// Four digits where there are decimals.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
