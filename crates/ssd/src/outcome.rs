//! [`Outcome`]: what a study found.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::endurance::NamespaceEndurance;
use crate::flash::FlashCounters;
use crate::study::Study;

/// What a run collects.
pub(crate) struct Measured {
    pub(crate) read_ns: Histogram<u64>,
    pub(crate) write_ns: Histogram<u64>,
    pub(crate) began_at_ns: u64,
    pub(crate) ended_at_ns: u64,
    pub(crate) counters: FlashCounters,
    pub(crate) mapped_pages: u32,
    intervals: Vec<Interval>,
    requests_per_interval: u64,
    left_in_interval: u64,
    interval_began_at_ns: u64,
    interval_counters: FlashCounters,
}

/// Intervals that a run is divided into.
const INTERVALS: u64 = 100;

/// One hundredth of the requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Device time from the start of measuring to the end of the interval.
    pub ends_at_seconds: f64,
    /// Requests a second in it.
    pub iops: f64,
    /// Media writes per host write in it; 1 where nothing was written.
    pub write_amplification: f64,
}

/// Two significant digits: a bin is at most 1% wide.
const DIGITS: u8 = 2;

/// Latencies beyond 100 s count as 100 s.
const LATENCY_NS_MAX: u64 = 100_000_000_000;

impl Measured {
    /// For a run that measures `requests`.
    pub(crate) fn new(requests: u64) -> Measured {
        let bounds = || Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS);
        let histogram = || bounds().expect("the bounds are ones that a histogram takes");
        Measured {
            read_ns: histogram(),
            write_ns: histogram(),
            began_at_ns: 0,
            ended_at_ns: 0,
            counters: FlashCounters::default(),
            mapped_pages: 0,
            intervals: Vec::with_capacity(INTERVALS as usize + 1),
            requests_per_interval: requests.div_ceil(INTERVALS),
            left_in_interval: requests.div_ceil(INTERVALS),
            interval_began_at_ns: 0,
            interval_counters: FlashCounters::default(),
        }
    }

    /// Measuring begins.
    pub(crate) fn begin(&mut self, now: u64, counters: FlashCounters) {
        self.began_at_ns = now;
        self.interval_began_at_ns = now;
        self.interval_counters = counters;
    }

    /// Whether the request just recorded was the last of its interval.
    #[inline]
    pub(crate) fn interval_ends(&mut self) -> bool {
        self.left_in_interval -= 1;
        self.left_in_interval == 0
    }

    /// Ends the interval.
    pub(crate) fn end_interval(&mut self, now: u64, counters: FlashCounters) {
        let seconds = (now - self.interval_began_at_ns).max(1) as f64 / 1e9;
        self.intervals.push(Interval {
            ends_at_seconds: (now - self.began_at_ns) as f64 / 1e9,
            iops: self.requests_per_interval as f64 / seconds,
            write_amplification: counters
                .since(&self.interval_counters)
                .write_amplification(),
        });
        self.left_in_interval = self.requests_per_interval;
        self.interval_began_at_ns = now;
        self.interval_counters = counters;
    }

    #[inline]
    pub(crate) fn record(&mut self, reads: bool, latency_ns: u64) {
        let histogram = if reads {
            &mut self.read_ns
        } else {
            &mut self.write_ns
        };
        histogram.saturating_record(latency_ns);
    }
}

/// Latency of one direction, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Half of the requests took at most this.
    pub p50_us: f64,
    /// 90 of a hundred.
    pub p90_us: f64,
    /// 95 of a hundred.
    pub p95_us: f64,
    /// 99 of a hundred.
    pub p99_us: f64,
    /// 999 of a thousand.
    pub p99_9_us: f64,
    /// 9,999 of ten thousand.
    pub p99_99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Option<Latency> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Some(Latency {
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: histogram.max() as f64 / 1e3,
        })
    }
}

/// What a study found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests a second.
    pub iops: f64,
    /// Reads a second.
    pub read_iops: f64,
    /// Writes a second.
    pub write_iops: f64,
    /// Bytes a second, both ways.
    pub bytes_per_second: f64,
    /// Latency of reads, where there were any and the fidelity has them.
    pub read_latency: Option<Latency>,
    /// Latency of writes, where there were any and the fidelity has them.
    pub write_latency: Option<Latency>,
    /// Media writes per host write; absent without writes.
    pub write_amplification: Option<f64>,
    /// What the drive's life comes to at this load; absent without writes.
    pub endurance: Option<NamespaceEndurance>,
    /// Share of the namespace that held data.
    pub mapped_share: f64,
    /// Requests that were measured.
    pub requests: u64,
    /// Device time that was measured.
    pub simulated_seconds: f64,
    /// The run in hundredths; empty for the closed form.
    pub intervals: Vec<Interval>,
}

impl Outcome {
    pub(crate) fn new(study: &Study, measured: &Measured) -> Outcome {
        let seconds = (measured.ended_at_ns - measured.began_at_ns).max(1) as f64 / 1e9;
        let (reads, writes) = (measured.read_ns.len(), measured.write_ns.len());
        let geometry_pages = study.profile.geometry(study.scale);
        let geometry_pages = geometry_pages.map_or(1.0, |flash| f64::from(flash.logical_pages));
        let share = study.live_tb() / study.profile.drive.capacity_tb;
        let mut outcome = Outcome {
            iops: (reads + writes) as f64 / seconds,
            read_iops: reads as f64 / seconds,
            write_iops: writes as f64 / seconds,
            bytes_per_second: 0.0,
            read_latency: Latency::of(&measured.read_ns),
            write_latency: Latency::of(&measured.write_ns),
            write_amplification: None,
            endurance: None,
            mapped_share: f64::from(measured.mapped_pages) / (geometry_pages * share),
            requests: reads + writes,
            simulated_seconds: seconds,
            intervals: measured.intervals.clone(),
        };
        outcome.bytes_per_second = outcome.iops * f64::from(study.load.block_bytes);
        if writes > 0 {
            outcome.wear(study, measured.counters.write_amplification());
        }
        outcome
    }

    /// Adds what `write_amplification` makes of the drive's life.
    pub(crate) fn wear(&mut self, study: &Study, write_amplification: f64) {
        let host = self.write_iops * f64::from(study.load.block_bytes);
        let live = study.namespace_bytes as f64;
        self.write_amplification = Some(write_amplification);
        self.endurance = Some(
            study
                .profile
                .endurance()
                .at(live, write_amplification, host),
        );
    }
}
