//! [`Answer`]: a ratio that answers the plan's question, or a part of it.

use serde::Deserialize;

use super::metric::Metric;

/// `[[answer]]`: one figure over another, and what it says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// What reports call the comparison.
    pub label: String,
    /// The answer as a sentence without its full stop, in which `{ratio}` stands for the ratio.
    /// Those that have one head the report.
    #[serde(default)]
    pub says: Option<String>,
    /// A load, by its expanded name.
    pub workload: String,
    /// A target.
    pub target: String,
    /// The load it is over; the same one if absent.
    #[serde(default)]
    pub over_workload: Option<String>,
    /// The target it is over; the plan's baseline if absent.
    #[serde(default)]
    pub over_target: Option<String>,
    /// What the figures are of.
    #[serde(default)]
    pub metric: Metric,
    /// The published ratio, where it does not follow from the published figures.
    #[serde(default)]
    pub published: Option<f64>,
    /// What was published in words, where there is no number.
    #[serde(default)]
    pub published_says: Option<String>,
    /// What has to be known before the answer is quoted.
    #[serde(default)]
    pub note: Option<String>,
}

/// One side of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side<'a> {
    /// The load.
    pub workload: &'a str,
    /// The target.
    pub target: &'a str,
}

impl Answer {
    /// What the ratio is of.
    pub fn own(&self) -> Side<'_> {
        Side {
            workload: &self.workload,
            target: &self.target,
        }
    }

    /// What it is over, in a plan with this baseline.
    pub fn over<'a>(&'a self, baseline: Option<&'a str>) -> Option<Side<'a>> {
        Some(Side {
            workload: self.over_workload.as_deref().unwrap_or(&self.workload),
            target: self.over_target.as_deref().or(baseline)?,
        })
    }
}
