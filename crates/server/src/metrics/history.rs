//! [`History`]: the node's last hour, as rates over short intervals.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{CoreMetrics, ErrorBody, Flow, Metrics, MetricsPoint, Name, VolumeMetrics};
use node::{Latency, Usage, VolumeCounts};

use super::Sample;
use crate::events::timestamp;

/// Intervals in seconds, and how many of each are kept: five minutes, an hour.
const INTERVALS: [(u32, usize); 2] = [(1, 300), (10, 360)];

/// The node's last hour.
#[derive(Default)]
pub struct History {
    series: [Series; INTERVALS.len()],
    previous: Option<Arc<Sample>>,
    volumes: Vec<VolumeMetrics>,
    cores: Vec<CoreMetrics>,
}

#[derive(Default)]
struct Series {
    /// Where the interval that is under way began.
    begin: Option<Totals>,
    points: VecDeque<MetricsPoint>,
}

/// All volumes together.
struct Totals {
    taken: Instant,
    counts: VolumeCounts,
    usage: Vec<Usage>,
}

impl History {
    /// Adds the next sample.
    pub fn add(&mut self, sample: &Arc<Sample>) {
        for ((seconds, kept), series) in INTERVALS.iter().zip(&mut self.series) {
            series.add(sample, *seconds, *kept);
        }
        if let Some(previous) = &self.previous {
            self.volumes = volumes(previous, sample);
            let seconds = sample.taken - previous.taken;
            let usage = previous.measures.cores.iter().map(|core| core.usage);
            let now = sample.measures.cores.iter().map(|core| core.usage);
            self.cores = usage
                .zip(now)
                .map(|(before, now)| shares(before, now, seconds))
                .collect();
        }
        self.previous = Some(Arc::clone(sample));
    }

    /// Refuses an interval of which no history is kept.
    pub fn check(&self, interval_seconds: u32) -> Result<(), ErrorBody> {
        self.series(interval_seconds).map(drop)
    }

    fn series(&self, interval_seconds: u32) -> Result<&Series, ErrorBody> {
        let mut series = INTERVALS.iter().zip(&self.series);
        let found = series.find(|((seconds, _), _)| *seconds == interval_seconds);
        found.map(|(_, series)| series).ok_or_else(|| {
            let message = format!("{interval_seconds} seconds; allowed: 1 or 10");
            ErrorBody::invalid("interval", message)
        })
    }

    /// The intervals of this many seconds, and what goes on now.
    pub fn shown(&self, interval_seconds: u32, latest: &Sample) -> Result<Metrics, ErrorBody> {
        let series = self.series(interval_seconds)?;
        let cores = &latest.measures.cores;
        Ok(Metrics {
            interval_seconds,
            points: series.points.iter().cloned().collect(),
            volumes: self.volumes.clone(),
            cores: self.cores.clone(),
            sessions: cores.iter().map(|core| core.sessions).sum(),
            queue_pairs: cores.iter().map(|core| core.queue_pairs).sum(),
        })
    }
}

impl Series {
    fn add(&mut self, sample: &Sample, interval_seconds: u32, kept: usize) {
        let Some(begin) = &self.begin else {
            self.begin = Some(totals(sample));
            return;
        };
        // Ticks come a little early or late: half a second is no reason to wait for the next.
        let interval = Duration::from_secs(u64::from(interval_seconds));
        if sample.taken - begin.taken + Duration::from_millis(500) < interval {
            return;
        }
        let end = totals(sample);
        if self.points.len() == kept {
            self.points.pop_front();
        }
        self.points.push_back(point(begin, &end, sample));
        self.begin = Some(end);
    }
}

fn totals(sample: &Sample) -> Totals {
    let mut counts = VolumeCounts::default();
    for (_, _, volume) in sample.volumes() {
        counts.add(volume);
    }
    let cores = sample.measures.cores.iter();
    Totals {
        taken: sample.taken,
        counts,
        usage: cores.map(|core| core.usage).collect(),
    }
}

fn point(begin: &Totals, end: &Totals, sample: &Sample) -> MetricsPoint {
    let elapsed = end.taken - begin.taken;
    let [read, write] = flows(&begin.counts, &end.counts, elapsed);
    let cores = begin.usage.iter().zip(&end.usage);
    let pools = sample.known.pools.values();
    let pools = pools.filter_map(|pool| pool.facts.as_ref());
    let (used, usable) = pools.fold((0, 0), |(used, usable), facts| {
        let status = &facts.status;
        (used + status.used_bytes, usable + status.usable_bytes)
    });
    MetricsPoint {
        time: timestamp(sample.time),
        read,
        write,
        busy: cores
            .map(|(before, now)| shares(*before, *now, elapsed).busy)
            .fold(0.0, f64::max),
        used_bytes: used,
        usable_bytes: usable,
    }
}

fn volumes(previous: &Sample, sample: &Sample) -> Vec<VolumeMetrics> {
    let elapsed = sample.taken - previous.taken;
    let before: BTreeMap<&Name, &VolumeCounts> = previous
        .volumes()
        .map(|(name, _, counts)| (name, counts))
        .collect();
    let nothing = VolumeCounts::default();
    let volumes = sample.volumes();
    volumes
        .map(|(name, _, counts)| {
            let before = before.get(name).copied().unwrap_or(&nothing);
            let [read, write] = flows(before, counts, elapsed);
            VolumeMetrics {
                name: name.clone(),
                read,
                write,
                unique_bytes: sample.known.unique_bytes.get(name).copied(),
            }
        })
        .collect()
}

/// Reads, then writes.
pub(super) fn flows(before: &VolumeCounts, now: &VolumeCounts, elapsed: Duration) -> [Flow; 2] {
    let read = now.read_latency.since(&before.read_latency);
    let write = now.write_latency.since(&before.write_latency);
    [
        flow(now.read_bytes, before.read_bytes, &read, elapsed),
        flow(now.write_bytes, before.write_bytes, &write, elapsed),
    ]
}

fn flow(bytes: u64, bytes_before: u64, latency: &Latency, elapsed: Duration) -> Flow {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let microseconds = |time: Duration| time.as_nanos() as f64 / 1e3;
    Flow {
        // A volume that was deleted takes its count with it.
        bytes_per_second: bytes.saturating_sub(bytes_before) as f64 / seconds,
        operations_per_second: latency.count() as f64 / seconds,
        latency_p50_us: microseconds(latency.quantile(0.5)),
        latency_p99_us: microseconds(latency.quantile(0.99)),
    }
}

fn shares(before: Usage, now: Usage, elapsed: Duration) -> CoreMetrics {
    let share = |time: Duration| (time.as_secs_f64() / elapsed.as_secs_f64().max(1e-3)).min(1.0);
    CoreMetrics {
        busy: share(now.busy.saturating_sub(before.busy)),
        polling: share(now.polling.saturating_sub(before.polling)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour is kept and no more, at both intervals, and an interval that is not kept is refused
    /// with those that are.
    #[test]
    fn an_hour_is_kept() {
        let mut history = History::default();
        let first = Arc::new(super::super::gather::tests::sample());
        for second in 0..4000 {
            let mut sample = super::super::gather::tests::sample();
            sample.taken = first.taken + Duration::from_secs(second);
            history.add(&Arc::new(sample));
        }
        assert_eq!(history.shown(1, &first).unwrap().points.len(), 300);
        assert_eq!(history.shown(10, &first).unwrap().points.len(), 360);
        let refused = history.shown(5, &first).unwrap_err();
        assert_eq!(refused.message, "5 seconds; allowed: 1 or 10");
    }
}
