//! [`compare()`]: whether two results of one plan differ by more than their repetitions do.

use std::fmt;

use serde::Serialize;

use super::doubt::{in_virtual_time, wide};
use super::{Doubt, Figure, NOT_COMPARED, Over, Results, figures};
use crate::plan::{Metric, Plan, PlanError};
use crate::statistics::Interval;

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better, with 95% confidence.
    Better,
    /// Worse, with 95% confidence.
    Worse,
    /// Within what repetitions differ by, or within the threshold.
    NoDifference,
    /// There are doubts, which say why.
    NotCompared,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::NoDifference => "no difference",
            Verdict::NotCompared => NOT_COMPARED,
        })
    }
}

/// One figure, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The load.
    pub workload: String,
    /// The target.
    pub target: String,
    /// What it is of.
    pub metric: Metric,
    /// The mean before.
    pub before: f64,
    /// The mean after.
    pub after: f64,
    /// After over before, less 1.
    pub change: f64,
    /// Where that is with 95% confidence; absent with fewer than two repetitions.
    pub interval: Option<[f64; 2]>,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why it is not compared; empty where it is.
    pub doubts: Vec<Doubt>,
    /// What was published.
    pub published: Option<f64>,
}

/// The ratio between two variants, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The load.
    pub workload: String,
    /// The variant.
    pub target: String,
    /// The variant it is over.
    pub baseline: String,
    /// Before.
    pub before: Over,
    /// After.
    pub after: Over,
    /// What was published.
    pub published: Option<f64>,
}

/// Two results side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Every figure that both have.
    pub changes: Vec<Change>,
    /// Every ratio of rates that both have.
    pub ratios: Vec<Ratio>,
    /// What should be known when reading it.
    pub notes: Vec<String>,
}

/// Compares; relative differences up to `threshold` are none.
///
/// # Errors
/// When the plan within a result is none.
pub fn compare(before: &Results, after: &Results, threshold: f64) -> Result<Comparison, PlanError> {
    let (plan_before, plan_after) = (before.plan()?, after.plan()?);
    let earlier = figures(&plan_before, before);
    let later = figures(&plan_after, after);
    let mut found = Comparison {
        changes: Vec::new(),
        ratios: Vec::new(),
        notes: notes(before, after),
    };
    for new in &later {
        let same = |old: &&Figure<'_>| {
            let names = (&old.workload, &old.target.name, old.metric);
            names == (&new.workload, &new.target.name, new.metric)
        };
        let Some(old) = earlier.iter().find(same) else {
            continue;
        };
        let change = change((&plan_after, after), [old, new], threshold);
        found.changes.push(change);
        let ratios = (old.ratio.clone(), new.ratio.clone(), new.metric);
        if let (Some(before), Some(after), Metric::Rate) = ratios {
            found.ratios.push(Ratio {
                workload: new.workload.clone(),
                target: new.target.name.clone(),
                baseline: plan_after.baseline.clone().unwrap_or_default(),
                before,
                after,
                published: new.published_ratio,
            });
        }
    }
    Ok(found)
}

fn notes(before: &Results, after: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    if before.machine != after.machine {
        notes.push(format!(
            "Two machines: before {}; after {}. Compare the ratios, not the absolutes.",
            before.machine.summary(),
            after.machine.summary()
        ));
    }
    if before.plan != after.plan {
        notes.push("The two plans are not the same; only what they share is compared.".to_owned());
    }
    for (name, results) in [("before", before), ("after", after)] {
        if results.ended.is_none() {
            notes.push(format!("The results {name} are not complete."));
        }
    }
    notes
}

/// Of the figure before and after, the latter of these results of this plan.
fn change(after: (&Plan, &Results), [old, new]: [&Figure<'_>; 2], threshold: f64) -> Change {
    let mean = old.sample.mean();
    let interval = old.sample.difference(&new.sample);
    // In virtual time each repetition is the same: what differs is a difference, however small.
    let exact = in_virtual_time(after.0, &new.target.name).then(|| {
        let difference = new.sample.mean() - mean;
        Interval {
            low: difference,
            high: difference,
        }
    });
    let mut verdict = verdict(interval.or(exact), mean, new.metric, threshold);
    // A difference that is certain is one, however much or little it may be. No difference is
    // found only by who looks closely enough.
    let unsure = match (interval, verdict) {
        _ if exact.is_some() => None,
        (None, _) => Some(Doubt::Once),
        (Some(interval), Verdict::NoDifference) => {
            let repetitions = old.sample.count().min(new.sample.count());
            wide(after, repetitions, interval.half() / mean.abs())
        }
        _ => None,
    };
    let hosts = [old.host, new.host].into_iter().flatten();
    let mut doubts: Vec<Doubt> = unsure.into_iter().chain(hosts).collect();
    doubts.dedup();
    if !doubts.is_empty() {
        verdict = Verdict::NotCompared;
    }
    Change {
        workload: new.workload.clone(),
        target: new.target.name.clone(),
        metric: new.metric,
        before: mean,
        after: new.sample.mean(),
        change: new.sample.mean() / mean - 1.0,
        interval: interval.map(|found| [found.low / mean, found.high / mean]),
        verdict,
        doubts,
        published: new.published.map(|published| published.value),
    }
}

/// Whether a figure got better or worse than `before`, once the whole interval of the difference is
/// beyond the threshold.
fn verdict(interval: Option<Interval>, before: f64, metric: Metric, threshold: f64) -> Verdict {
    let Some(interval) = interval else {
        return Verdict::NotCompared;
    };
    let allowed = before.abs() * threshold;
    let higher = interval.low > allowed;
    let lower = interval.high < -allowed;
    match (higher, lower, metric.more_is_better()) {
        (true, _, true) | (_, true, false) => Verdict::Better,
        (true, _, false) | (_, true, true) => Verdict::Worse,
        (false, false, _) => Verdict::NoDifference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Sample;

    fn judge(old: &[f64], new: &[f64], metric: Metric, threshold: f64) -> Verdict {
        let sample = |values: &[f64]| Sample::new(values.iter().copied());
        let (old, new) = (sample(old), sample(new));
        verdict(old.difference(&new), old.mean(), metric, threshold)
    }

    #[test]
    fn noise_is_not_called_a_difference() {
        let old = [100.0, 110.0, 90.0];
        assert_eq!(
            judge(&old, &[95.0, 105.0, 118.0], Metric::Rate, 0.0),
            Verdict::NoDifference
        );
        let one = judge(&old, &[120.0], Metric::Rate, 0.0);
        assert_eq!(one, Verdict::NotCompared);
    }

    #[test]
    fn what_repetitions_agree_on_is_one() {
        let (old, new) = ([100.0, 101.0, 99.0], [110.0, 111.0, 109.0]);
        assert_eq!(judge(&old, &new, Metric::Rate, 0.0), Verdict::Better);
        assert_eq!(judge(&new, &old, Metric::Rate, 0.0), Verdict::Worse);
        assert_eq!(judge(&old, &new, Metric::P99Latency, 0.0), Verdict::Worse);
        // Certain, but no more than allowed.
        assert_eq!(
            judge(&old, &new, Metric::P99Latency, 0.1),
            Verdict::NoDifference
        );
    }
}
