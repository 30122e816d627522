//! Every figure as a line of comma-separated values (RFC 4180).

use super::text::unit;
use crate::experiment::{Results, figures};
use crate::plan::Plan;

const HEADER: &str = "plan,workload,target,metric,unit,repetitions,mean,low_95,high_95,published,\
                      ratio_to_baseline,ratio_low_95,ratio_high_95,published_ratio,\
                      not_compared\r\n";

/// A line a figure; what is not known is empty.
pub fn csv(plan: &Plan, results: &Results) -> String {
    let mut text = HEADER.to_owned();
    for figure in figures(plan, results) {
        let interval = figure.sample.interval();
        let ratio = figure.ratio.as_ref();
        let compared = ratio.filter(|over| over.doubts.is_empty());
        let ends = ratio.and_then(|over| over.interval);
        let own = ratio.map_or(figure.host.as_slice(), |over| over.doubts.as_slice());
        let doubts: Vec<String> = own.iter().map(ToString::to_string).collect();
        let or_none =
            |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let cells = [
            plan.name.clone(),
            figure.workload.clone(),
            figure.target.name.clone(),
            figure.metric.name().to_owned(),
            unit(figure.metric, figure.unit).to_owned(),
            figure.sample.count().to_string(),
            figure.sample.mean().to_string(),
            or_none(interval.map(|found| found.low)),
            or_none(interval.map(|found| found.high)),
            or_none(figure.published.map(|published| published.value)),
            or_none(compared.map(|over| over.ratio)),
            or_none(ends.map(|[low, _]| low)),
            or_none(ends.map(|[_, high]| high)),
            or_none(figure.published_ratio),
            doubts.join("; "),
        ];
        text.push_str(&cells.map(|cell| quoted(&cell)).join(","));
        text.push_str("\r\n");
    }
    text
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}
