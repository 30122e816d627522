//! [`Figure`]: the repetitions of one load on one target, beside what was published.

use super::Results;
use crate::plan::{Case, Metric, Plan, Published, Target, Unit};
use crate::statistics::Sample;

/// One figure of an experiment.
#[derive(Clone, Debug)]
pub struct Figure<'a> {
    /// The load's name.
    pub workload: String,
    /// What reports call the load.
    pub workload_label: String,
    /// The target.
    pub target: &'a Target,
    /// What it is of.
    pub metric: Metric,
    /// What its rate is in.
    pub unit: Unit,
    /// A value a repetition.
    pub sample: Sample,
    /// What was published.
    pub published: Option<&'a Published>,
    /// Ours over that of the plan's baseline.
    pub ratio: Option<f64>,
    /// The same of what was published.
    pub published_ratio: Option<f64>,
}

impl Figure<'_> {
    /// Ours over the published one, less 1.
    pub fn error(&self) -> Option<f64> {
        self.published
            .map(|published| self.sample.mean() / published.value - 1.0)
    }

    /// False when the error is beyond what the plan allows.
    pub fn holds(&self) -> bool {
        let allowed = self
            .published
            .and_then(|published| published.within_percent);
        match (self.error(), allowed) {
            (Some(error), Some(percent)) => error.abs() * 100.0 <= percent,
            _ => true,
        }
    }
}

/// The metrics shown of every run where they are known: the rate always, and what was published.
const METRICS: [Metric; 8] = [
    Metric::Rate,
    Metric::NewOrdersPerMinute,
    Metric::MeanLatency,
    Metric::P95Latency,
    Metric::P99Latency,
    Metric::WriteAmplification,
    Metric::DriveWritesPerDay,
    Metric::ProcessorPercent,
];

/// Every figure, by load and target in the plan's order.
pub fn figures<'a>(plan: &'a Plan, results: &Results) -> Vec<Figure<'a>> {
    let mut found = Vec::new();
    for case in plan.cases() {
        for target in plan
            .targets
            .iter()
            .filter(|target| case.runs_on(&target.name))
        {
            for metric in METRICS {
                found.extend(figure(plan, results, &case, target, metric));
            }
        }
    }
    found
}

pub(super) fn sample(results: &Results, case: &Case, target: &str, metric: Metric) -> Sample {
    let runs = results.runs.iter();
    let runs = runs.filter(|run| run.workload == case.name && run.target == target);
    Sample::new(runs.filter_map(|run| run.measured.metric(metric, case.unit)))
}

fn figure<'a>(
    plan: &'a Plan,
    results: &Results,
    case: &Case,
    target: &'a Target,
    metric: Metric,
) -> Option<Figure<'a>> {
    let published = |target: &str| {
        plan.published
            .iter()
            .find(|one| one.workload == case.name && one.target == target && one.metric == metric)
    };
    let own = sample(results, case, &target.name, metric);
    if own.is_empty() {
        return None;
    }
    let baseline = plan.baseline.as_deref().filter(|name| *name != target.name);
    let over = |own: f64, base: Option<f64>| Some(own / base.filter(|base| *base > 0.0)?);
    let base = baseline.map(|name| sample(results, case, name, metric));
    let base = base.filter(|sample| !sample.is_empty());
    let published_base = baseline.and_then(published).map(|one| one.value);
    Some(Figure {
        workload: case.name.clone(),
        workload_label: case.label.clone(),
        target,
        metric,
        unit: case.unit,
        ratio: over(own.mean(), base.map(|sample| sample.mean())),
        published_ratio: published(&target.name)
            .and_then(|published| over(published.value, published_base)),
        sample: own,
        published: published(&target.name),
    })
}
