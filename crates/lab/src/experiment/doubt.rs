//! [`Doubt`]: why a ratio or a figure is not compared. It is not sure enough, or it was this host
//! that decided it, and not the drives.

use std::fmt;

use serde::Serialize;

use super::{Results, RunResult};
use crate::plan::{Clock, Metric, Plan, Side, TargetKind, Unit};
use crate::statistics::Interval;

/// Late I/O, in percent, from which the host decided a figure.
const LATE_PERCENT: f64 = 5.0;

/// Busy processors, in percent, from which it did.
const BUSY_PERCENT: f64 = 90.0;

/// How sure a ratio is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Its interval is as narrow as the plan wants it.
    Settled,
    /// There was one repetition, in virtual time, where each is the same.
    Modelled,
    /// There are doubts, which say why.
    NotCompared,
}

/// Why something is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Doubt {
    /// One repetition has no interval.
    Once,
    /// The interval is wider than the plan wants it.
    Wide {
        /// Half of it that is allowed, in percent of the ratio.
        allowed_percent: f64,
        /// How many repetitions made it.
        repetitions: usize,
        /// Why there are no more.
        ended: Ended,
    },
    /// Processors were busy, or I/O late: the mean over the side of which it is more.
    Host {
        /// Late I/O.
        late_percent: f64,
        /// Busy processors of the machine.
        busy_percent: f64,
    },
}

/// Why there are no more repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// There are as many as the plan allows.
    Repetitions,
    /// The time that the plan allows was over.
    Time,
    /// The results are not complete.
    Unfinished,
}

impl fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Once => formatter.write_str("one repetition has no interval"),
            Doubt::Wide {
                allowed_percent,
                repetitions,
                ended,
            } => write!(
                formatter,
                "wider than ±{allowed_percent}% after {repetitions} repetitions, {ended}"
            ),
            Doubt::Host {
                late_percent,
                busy_percent,
            } => {
                let late = Some(late_percent).filter(|late| **late >= LATE_PERCENT);
                let late = late.map(|late| format!("{late:.0}% of the I/O was late"));
                let busy = Some(busy_percent).filter(|busy| **busy >= BUSY_PERCENT);
                let busy = busy.map(|busy| format!("processors were {busy:.0}% busy"));
                let both: Vec<String> = late.into_iter().chain(busy).collect();
                write!(formatter, "this host decided it: {}", both.join(" and "))
            }
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Ended::Repetitions => "as many as the plan allows",
            Ended::Time => "when the time that the plan allows was over",
            Ended::Unfinished => "and the run is not complete",
        })
    }
}

/// How sure a ratio of two sides is, each of so many repetitions, and what it is in doubt for.
pub(super) fn judged(
    (plan, results): (&Plan, &Results),
    (sides, metric): ([Side<'_>; 2], Metric),
    repetitions: usize,
    (ratio, interval): (f64, Option<Interval>),
) -> (Standing, Vec<Doubt>) {
    let modelled = sides.iter().all(|side| in_virtual_time(plan, side.target));
    let unsure = match interval {
        None if modelled => return (Standing::Modelled, Vec::new()),
        None => Some(Doubt::Once),
        Some(interval) => {
            let half = interval.high / ratio - 1.0;
            wide((plan, results), repetitions, half)
        }
    };
    let host = of_host((plan, results), &sides, metric);
    let doubts: Vec<Doubt> = unsure.into_iter().chain(host).collect();
    let standing = match doubts.as_slice() {
        [] => Standing::Settled,
        _ => Standing::NotCompared,
    };
    (standing, doubts)
}

/// That half an interval, as a share of what it is of, is more than the plan wants.
pub(super) fn wide(
    (plan, results): (&Plan, &Results),
    repetitions: usize,
    half: f64,
) -> Option<Doubt> {
    let allowed_percent = plan.run.within_percent;
    let all = repetitions >= plan.run.most_repetitions() as usize;
    let ended = match (results.is_out_of_time(plan), &results.ended) {
        (true, _) if !all => Ended::Time,
        (false, None) if !all => Ended::Unfinished,
        _ => Ended::Repetitions,
    };
    (half * 100.0 > allowed_percent).then_some(Doubt::Wide {
        allowed_percent,
        repetitions,
        ended,
    })
}

/// That this host decided a figure of one of these sides. In virtual time no host does, and how
/// busy processors are is what such a figure asks.
pub(super) fn of_host(
    (plan, results): (&Plan, &Results),
    sides: &[Side<'_>],
    metric: Metric,
) -> Option<Doubt> {
    if metric == Metric::ProcessorPercent {
        return None;
    }
    let real = sides
        .iter()
        .filter(|side| !in_virtual_time(plan, side.target));
    let (mut late, mut busy) = (0.0, 0.0);
    for side in real {
        let own = |run: &&RunResult| run.workload == side.workload && run.target == side.target;
        let mean = |of: fn(&RunResult) -> Option<f64>| {
            let runs = results.runs.iter().filter(own);
            let values: Vec<f64> = runs.filter_map(of).collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        (late, busy) = (mean(late_percent).max(late), mean(busy_percent).max(busy));
    }
    (late >= LATE_PERCENT || busy >= BUSY_PERCENT).then_some(Doubt::Host {
        late_percent: late,
        busy_percent: busy,
    })
}

/// Whether a target goes by a clock that leaves the host out.
pub(super) fn in_virtual_time(plan: &Plan, name: &str) -> bool {
    let target = plan.targets.iter().find(|target| target.name == name);
    target.is_some_and(|target| {
        target.kind == TargetKind::Model || target.clock == Some(Clock::Virtual)
    })
}

pub(super) fn late_percent(run: &RunResult) -> Option<f64> {
    run.measured.flash?.late_percent
}

pub(super) fn busy_percent(run: &RunResult) -> Option<f64> {
    run.measured.metric(Metric::ProcessorPercent, Unit::Iops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_say_what_was_found_and_what_is_allowed() {
        let wide = Doubt::Wide {
            allowed_percent: 15.0,
            repetitions: 2,
            ended: Ended::Repetitions,
        };
        let host = |late_percent, busy_percent| Doubt::Host {
            late_percent,
            busy_percent,
        };
        for (doubt, words) in [
            (Doubt::Once, "one repetition has no interval"),
            (
                wide,
                "wider than ±15% after 2 repetitions, as many as the plan allows",
            ),
            (
                host(9.0, 100.0),
                "this host decided it: 9% of the I/O was late and processors were 100% busy",
            ),
            (
                host(58.0, 0.0),
                "this host decided it: 58% of the I/O was late",
            ),
            (
                host(0.0, 99.6),
                "this host decided it: processors were 100% busy",
            ),
        ] {
            assert_eq!(doubt.to_string(), words);
        }
    }
}
