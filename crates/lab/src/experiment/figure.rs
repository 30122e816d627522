//! [`Figure`]: the repetitions of one load on one target, beside what was published.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::answered::NOT_COMPARED;
use super::doubt::{Doubt, Standing, in_virtual_time, judged, of_host};
use super::{Results, RunResult};
use crate::plan::{Case, Metric, Plan, Published, Side, Target, Unit};
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
    pub ratio: Option<Over>,
    /// That this host decided it, if it did.
    pub host: Option<Doubt>,
    /// One repetition is enough: each is the same.
    pub modelled: bool,
    /// The same of what was published.
    pub published_ratio: Option<f64>,
}

/// One figure over another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Over {
    /// The ratio of the means.
    pub ratio: f64,
    /// Where the true one is, with 95% confidence.
    pub interval: Option<[f64; 2]>,
    /// How sure that is.
    pub standing: Standing,
    /// Why it is not compared; empty where it is.
    pub doubts: Vec<Doubt>,
}

impl fmt::Display for Over {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.standing, self.interval) {
            (Standing::NotCompared, _) => formatter.write_str(NOT_COMPARED),
            (_, None) => write!(formatter, "{:.3}", self.ratio),
            (_, Some([low, high])) => {
                write!(formatter, "{:.3} ({low:.3} to {high:.3})", self.ratio)
            }
        }
    }
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

/// A value a repetition.
pub(super) fn values(
    results: &Results,
    case: &Case,
    target: &str,
    metric: Metric,
) -> BTreeMap<u32, f64> {
    let runs = results.runs.iter();
    let runs = runs.filter(|run| run.workload == case.name && run.target == target);
    let value = |run: &RunResult| {
        let value = run.measured.metric(metric, case.unit)?;
        Some((run.repetition, value))
    };
    runs.filter_map(value).collect()
}

fn sample(results: &Results, case: &Case, target: &str, metric: Metric) -> Sample {
    Sample::new(values(results, case, target, metric).into_values())
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
    let of = |target| Side {
        workload: &case.name,
        target,
    };
    let ratio = baseline.and_then(|base| {
        let sample = sample(results, case, base, metric);
        let sides = ([of(&target.name), of(base)], metric);
        over((plan, results), sides, [&own, &sample])
    });
    let published_base = baseline.and_then(published).map(|one| one.value);
    let published = published(&target.name);
    Some(Figure {
        workload: case.name.clone(),
        workload_label: case.label.clone(),
        target,
        metric,
        unit: case.unit,
        ratio,
        host: of_host((plan, results), &[of(&target.name)], metric),
        modelled: in_virtual_time(plan, &target.name),
        published_ratio: published.and_then(|published| {
            Some(published.value / published_base.filter(|base| *base > 0.0)?)
        }),
        sample: own,
        published,
    })
}

/// What came out over the baseline; nothing where that has no figure.
fn over(
    of: (&Plan, &Results),
    sides: ([Side<'_>; 2], Metric),
    [own, base]: [&Sample; 2],
) -> Option<Over> {
    let base_mean = Some(base.mean()).filter(|mean| *mean > 0.0)?;
    let ratio = own.mean() / base_mean;
    let interval = own.ratio(base);
    let repetitions = own.count().min(base.count());
    let (standing, doubts) = judged(of, sides, repetitions, (ratio, interval));
    Some(Over {
        ratio,
        interval: interval.map(|found| [found.low, found.high]),
        standing,
        doubts,
    })
}
