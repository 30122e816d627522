//! What volumes and tenants may do, and what they are promised.

use api::Name;
use node::Rate;
use prometheus::proto::Metric;

use super::{Page, gauge};
use crate::metrics::{KnownLimits, Sample};

/// A bound's name, what it says, and where it is.
type Bound = (&'static str, &'static str, fn(&Rate) -> Option<u64>);

const BOUNDS: [Bound; 2] = [
    ("operations", "commands a second", |rate| rate.iops),
    ("bytes", "bytes a second", |rate| rate.bytes_per_second),
];

pub(super) fn add(page: &mut Page, sample: &Sample) {
    let known = &sample.known;
    let volumes = known.volumes.iter();
    let volumes = volumes.map(|(name, volume)| (name, volume.limits));
    of(page, "volume", "The volume", volumes.collect());
    let tenants = known.tenants.iter().map(|(name, limits)| (name, *limits));
    of(
        page,
        "tenant",
        "The tenant's volumes together",
        tenants.collect(),
    );
}

/// Series of those that have a bound.
fn of(page: &mut Page, noun: &str, who: &str, known: Vec<(&Name, KnownLimits)>) {
    for (bound, unit, value) in BOUNDS {
        let mut series: Vec<Metric> = Vec::new();
        for (name, limits) in &known {
            let rates = &limits.rates;
            let directions = [
                ("read", rates.read),
                ("write", rates.write),
                ("total", rates.total),
            ];
            for (direction, rate) in directions {
                if let Some(value) = value(&rate) {
                    let labels = [(noun, name.as_str()), ("direction", direction)];
                    series.push(gauge(&labels, value as f64));
                }
            }
        }
        let help = format!("{who} may do so many {unit}.");
        page.gauges(&format!("{noun}_limit_{bound}"), &help, series);
    }
    let promised = known.iter().filter_map(|(name, limits)| {
        let minimum = limits.minimum_iops? as f64;
        Some(gauge(&[(noun, name.as_str())], minimum))
    });
    let help = format!("{who} get so many commands a second of up to 8 KiB, whatever others do.");
    page.gauges(
        &format!("{noun}_minimum_operations"),
        &help,
        promised.collect(),
    );
}
