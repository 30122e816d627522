//! Replications.

use std::time::{Duration, SystemTime};

use super::{Page, gauge, truth};
use crate::metrics::Sample;

pub(super) fn add(page: &mut Page, sample: &Sample) {
    let replications = || sample.known.replications.iter();
    let lag = replications().filter_map(|(name, replication)| {
        let labels = [("replication", name.as_str())];
        let copied = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(replication.copied?));
        // A clock that was put back makes none of them newer than now.
        let age = sample.time.duration_since(copied?).unwrap_or_default();
        Some(gauge(&labels, age.as_secs_f64()))
    });
    page.gauges(
        "replication_lag_seconds",
        "How old the replica is on the other node: what would be lost with this one.",
        lag.collect(),
    );
    let failing = replications().map(|(name, replication)| {
        let labels = [("replication", name.as_str())];
        gauge(&labels, truth(replication.has_problem))
    });
    page.gauges(
        "replication_failing",
        "Whether the last copy to the other node failed.",
        failing.collect(),
    );
}
