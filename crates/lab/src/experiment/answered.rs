//! [`Answered`]: what came out of each ratio that answers the plan's question, how sure it is, and
//! whether it is what was published.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::doubt::{Doubt, Standing, busy_percent, judged, late_percent};
use super::figure::values;
use super::{Results, RunResult};
use crate::plan::{Answer, Case, Metric, Plan, Side, Target, named};
use crate::statistics::Sample;

/// Ratios that differ from 1 by less say that there is no difference.
const SAME: f64 = 0.03;

/// What stands in place of a ratio that is in doubt.
pub const NOT_COMPARED: &str = "not compared";

/// A ratio that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// What reports call it.
    pub label: String,
    /// The answer in words, if it heads the report.
    #[serde(flatten)]
    pub said: Option<Said>,
    /// The ratio of the means.
    pub ratio: f64,
    /// Where the true one is, with 95% confidence.
    pub interval: Option<[f64; 2]>,
    /// The ratio of each repetition.
    pub repetitions: Vec<f64>,
    /// How sure that is.
    pub standing: Standing,
    /// Why it is not compared; empty where it is.
    pub doubts: Vec<Doubt>,
    /// The published ratio.
    pub published: Option<f64>,
    /// What was published in words.
    pub published_says: Option<String>,
    /// What the plan says has to be known before it is quoted.
    pub note: Option<String>,
    /// Late I/O, in percent, of the run where it was most.
    pub late_percent: f64,
    /// Busy processors, in percent of the machine, of the run where they were most.
    pub busy_percent: f64,
}

/// An answer in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Said {
    /// What came out.
    pub says: String,
    /// How sure it is, and what was published.
    pub how_sure: String,
}

impl fmt::Display for Said {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.says, self.how_sure)
    }
}

/// Every answer that the results can give, in the plan's order.
pub fn answered(plan: &Plan, results: &Results) -> Vec<Answered> {
    let cases = plan.cases();
    let found = questions(plan);
    let found = found
        .iter()
        .filter_map(|one| answer(plan, &cases, results, one));
    found.collect()
}

/// The labels of questions whose sides were both run, but one has no figure, or 0: no I/O of it
/// completed, or a run was too short to measure it.
pub fn unanswered(plan: &Plan, results: &Results) -> Vec<String> {
    let cases = plan.cases();
    let was_run = |side: Side<'_>| {
        let mut runs = results.runs.iter();
        runs.any(|run| (run.workload.as_str(), run.target.as_str()) == (side.workload, side.target))
    };
    let mut found = questions(plan);
    found.retain(|asked| {
        let over = asked.over(plan.baseline.as_deref());
        let both = over.is_some_and(|over| was_run(asked.own()) && was_run(over));
        both && answer(plan, &cases, results, asked).is_none()
    });
    found.into_iter().map(|asked| asked.label).collect()
}

/// The sides of each sentence's ratio that more repetitions may make surer.
pub(super) fn unsure(plan: &Plan, results: &Results) -> Vec<[(String, String); 2]> {
    let cases = plan.cases();
    let mut found = Vec::new();
    for asked in questions(plan).iter().filter(|asked| asked.says.is_some()) {
        let Some(answered) = answer(plan, &cases, results, asked) else {
            continue;
        };
        let host = |doubt: &Doubt| matches!(doubt, Doubt::Host { .. });
        if answered.doubts.is_empty() || answered.doubts.iter().any(host) {
            continue;
        }
        let over = asked.over(plan.baseline.as_deref());
        let named = |side: Side<'_>| (side.workload.to_owned(), side.target.to_owned());
        found.extend(over.map(|over| [asked.own(), over].map(named)));
    }
    found
}

/// The plan's own; for results of an older revision of a shipped plan, those of today's; without
/// either, every load's ratio to the baseline.
fn questions(plan: &Plan) -> Vec<Answer> {
    if !plan.answers.is_empty() {
        return plan.answers.clone();
    }
    let shipped = named(&plan.name).and_then(|text| Plan::parse(&plan.name, text, None, &[]));
    match shipped {
        Ok((shipped, _)) if !shipped.answers.is_empty() => shipped.answers,
        _ => to_baseline(plan),
    }
}

fn to_baseline(plan: &Plan) -> Vec<Answer> {
    let Some(base) = plan.baseline.as_deref() else {
        return Vec::new();
    };
    let base_label = label(plan, base);
    let mut found = Vec::new();
    for case in plan.cases().iter().filter(|case| case.runs_on(base)) {
        let others = plan.targets.iter().filter(|target| target.name != base);
        for target in others.filter(|target| case.runs_on(&target.name)) {
            let label = format!("{}: {} over {base_label}", case.label, target.label());
            found.push(Answer {
                says: found.is_empty().then(|| {
                    let (own, load) = (target.label(), &case.label);
                    format!("{own} makes {{ratio}} times what {base_label} makes ({load})")
                }),
                label,
                workload: case.name.clone(),
                target: target.name.clone(),
                over_workload: None,
                over_target: Some(base.to_owned()),
                metric: Metric::Rate,
                published: None,
                published_says: None,
                note: None,
            });
        }
    }
    found
}

fn label<'a>(plan: &'a Plan, name: &'a str) -> &'a str {
    let target = plan.targets.iter().find(|target| target.name == name);
    target.map_or(name, Target::label)
}

fn answer(plan: &Plan, cases: &[Case], results: &Results, asked: &Answer) -> Option<Answered> {
    let (own, over) = (asked.own(), asked.over(plan.baseline.as_deref())?);
    let of = |side: Side<'_>| {
        let case = cases.iter().find(|case| case.name == side.workload)?;
        let values = values(results, case, side.target, asked.metric);
        Some(values).filter(|values| !values.is_empty())
    };
    let values = [of(own)?, of(over)?];
    let [top, base] = values
        .each_ref()
        .map(|all| Sample::new(all.values().copied()));
    let ratio = Some(top.mean() / base.mean()).filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    let interval = top.ratio(&base);
    let repetitions = top.count().min(base.count());
    let sides = ([own, over], asked.metric);
    let (standing, doubts) = judged((plan, results), sides, repetitions, (ratio, interval));
    let published = asked
        .published
        .or_else(|| published(plan, asked, [own, over]));
    let mut found = Answered {
        label: asked.label.clone(),
        said: None,
        ratio,
        interval: interval.map(|found| [found.low, found.high]),
        repetitions: each(&values),
        standing,
        doubts,
        published,
        published_says: asked.published_says.clone(),
        note: asked.note.clone(),
        late_percent: most(results, [own, over], late_percent),
        busy_percent: most(results, [own, over], busy_percent),
    };
    found.said = asked.says.as_deref().map(|says| found.said(says));
    Some(found)
}

/// Repetitions of one number are close in time on all targets, so that what drifts on a machine is
/// on both sides.
fn each([top, base]: &[BTreeMap<u32, f64>; 2]) -> Vec<f64> {
    let both = top.iter().filter_map(|(repetition, top)| {
        let base = base.get(repetition).filter(|base| **base > 0.0)?;
        Some(top / base)
    });
    both.collect()
}

fn published(plan: &Plan, asked: &Answer, sides: [Side<'_>; 2]) -> Option<f64> {
    let [own, over] = sides.map(|side| {
        let mut all = plan.published.iter();
        let found = all.find(|one| {
            (one.workload.as_str(), one.target.as_str(), one.metric)
                == (side.workload, side.target, asked.metric)
        });
        found.map(|one| one.value)
    });
    Some(own? / over.filter(|over| *over > 0.0)?)
}

/// The most of what the runs of both sides say.
fn most(results: &Results, sides: [Side<'_>; 2], of: fn(&RunResult) -> Option<f64>) -> f64 {
    let involved = |run: &&RunResult| {
        let own = (run.workload.as_str(), run.target.as_str());
        sides.iter().any(|side| (side.workload, side.target) == own)
    };
    let runs = results.runs.iter().filter(involved);
    runs.filter_map(of).fold(0.0, f64::max)
}

impl Answered {
    /// The answer in words. A ratio without an interval is no answer, so that it is not named.
    fn said(&self, says: &str) -> Said {
        let says = says.replace("{ratio}", &two_digits(self.ratio));
        let published = self.published_words();
        let published = published.map_or_else(String::new, |words| format!("; {words}"));
        Said {
            says: match (self.standing, self.interval) {
                (Standing::NotCompared, None) => format!("Not compared: {}", self.label),
                (Standing::NotCompared, Some(_)) => format!("Not compared: {says}"),
                _ => says,
            },
            how_sure: format!("({}){published}.", self.confidence()),
        }
    }

    /// The ratio as it may be quoted.
    pub(crate) fn quoted(&self) -> String {
        match self.standing {
            Standing::NotCompared => NOT_COMPARED.to_owned(),
            _ => two_digits(self.ratio),
        }
    }

    /// How sure it is, in words.
    pub fn confidence(&self) -> String {
        let between =
            |[low, high]: [f64; 2]| format!("95%: {} to {}", two_digits(low), two_digits(high));
        let modelled = (self.standing == Standing::Modelled)
            .then(|| "modelled: each run gives the same".to_owned());
        let interval = self.interval.map(between).or(modelled);
        let doubts = self.doubts.iter().map(ToString::to_string);
        let parts: Vec<String> = interval.into_iter().chain(doubts).collect();
        parts.join("; ")
    }

    /// What was published, and whether this agrees.
    pub fn published_words(&self) -> Option<String> {
        let Some(published) = self.published else {
            let says = self.published_says.as_ref()?;
            return Some(format!("published: {says}"));
        };
        let within = self
            .interval
            .is_some_and(|[low, high]| (low..=high).contains(&published));
        let same = two_digits(self.ratio) == two_digits(published);
        let agreement = match (self.standing, side(self.ratio), side(published)) {
            (Standing::NotCompared, ..) => "which this run neither confirms nor refutes",
            _ if same => "the same",
            (_, 0, 0) => "no difference in either",
            (_, own, theirs) if own == theirs && within => "within the interval",
            (_, own, theirs) if own == theirs => "in the same direction",
            (_, 0, _) => "of which nothing is seen here",
            (_, _, 0) => "where no difference was published",
            _ => "in the opposite direction",
        };
        Some(format!("published {}, {agreement}", two_digits(published)))
    }
}

/// 1 above one, -1 below, 0 for no difference.
fn side(ratio: f64) -> i32 {
    match ratio {
        ratio if ratio > 1.0 + SAME => 1,
        ratio if ratio < 1.0 - SAME => -1,
        _ => 0,
    }
}

/// As a ratio is read: 0.0003, 0.63, 1.54, 14.9, 120.
pub fn two_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        size if size >= 0.0001 => format!("{value:.4}"),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests;
