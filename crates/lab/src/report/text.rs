//! Numbers and text as reports show them.

use crate::experiment::Figure;
use crate::plan::{Metric, Unit};

/// Text that means what it says in HTML and SVG.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Three or four digits; large ones in groups of three.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e3 => grouped(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Half of a figure's interval, in percent of its mean.
pub fn half_percent(figure: &Figure<'_>) -> Option<f64> {
    let interval = figure.sample.interval()?;
    Some(100.0 * interval.half() / figure.sample.mean()).filter(|percent| percent.is_finite())
}

/// The same as it is shown.
pub fn spread(percent: f64) -> String {
    match percent {
        percent if percent < 0.05 => "±0%".to_owned(),
        percent if percent < 9.95 => format!("±{percent:.1}%"),
        percent => format!("±{percent:.0}%"),
    }
}

/// What a figure is in.
pub fn unit(metric: Metric, rate: Unit) -> &'static str {
    match metric {
        Metric::Rate => rate.name(),
        other => other.unit(),
    }
}

/// What a metric is called where a figure of it stands alone.
pub fn titled(metric: Metric) -> String {
    let name = metric.name();
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
