//! Schedules of snapshots.

use super::{Page, gauge, truth};
use crate::metrics::Sample;

pub(super) fn add(page: &mut Page, sample: &Sample) {
    let schedules = || sample.known.schedules.iter();
    let last = schedules().filter_map(|(name, schedule)| {
        let labels = [("schedule", name.as_str())];
        Some(gauge(&labels, schedule.last? as f64))
    });
    page.gauges(
        "schedule_last_snapshot_time_seconds",
        "When the schedule took snapshots last, in seconds since 1970.",
        last.collect(),
    );
    let failing = schedules().map(|(name, schedule)| {
        let labels = [("schedule", name.as_str())];
        gauge(&labels, truth(schedule.has_problem))
    });
    page.gauges(
        "schedule_failing",
        "Whether the schedule does not take or delete what it should.",
        failing.collect(),
    );
}
