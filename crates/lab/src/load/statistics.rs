//! What one job counts while it runs: latency histograms and a series per second.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// Latencies up to this are recorded as they are, longer ones as this (an hour).
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Three significant digits: a recorded latency is at most 0.1% off.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Counts of one direction.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Completed I/Os.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Failed I/Os.
    pub errors: u64,
    latencies: Histogram<u64>,
    total_ns: u128,
    longest_ns: u64,
}

impl Counts {
    fn new() -> Counts {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
            .expect("the constants are bounds a histogram can have");
        Counts {
            ios: 0,
            bytes: 0,
            errors: 0,
            latencies,
            total_ns: 0,
            longest_ns: 0,
        }
    }

    fn record(&mut self, bytes: u64, latency_ns: u64) {
        self.ios += 1;
        self.bytes += bytes;
        self.total_ns += u128::from(latency_ns);
        self.longest_ns = self.longest_ns.max(latency_ns);
        self.latencies.saturating_record(latency_ns);
    }

    fn add(&mut self, other: &Counts) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.latencies
            .add(&other.latencies)
            .expect("all histograms have the same bounds");
    }

    /// Mean latency, exact; zero before the first I/O.
    pub fn mean_ns(&self) -> f64 {
        if self.ios == 0 {
            0.0
        } else {
            self.total_ns as f64 / self.ios as f64
        }
    }

    /// The longest latency, exact.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// The latency that `percent` of the I/Os did not exceed.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        self.latencies
            .value_at_quantile(percent / 100.0)
            .min(self.longest_ns)
    }
}

/// Counts of one second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondCounts {
    /// Reads completed in it.
    pub reads: u64,
    /// Writes completed in it.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Longest latency of either.
    pub longest_ns: u64,
    /// I/Os by latency: element `n` counts those from 2^n to 2^(n+1) microseconds, the first
    /// those from 0, the last all that are longer.
    pub latency_counts: [u32; LATENCY_CLASSES],
}

/// Classes of latency in a second's counts: up to 2 minutes apart, longer ones together.
const LATENCY_CLASSES: usize = 28;

/// The class that a latency is counted in.
fn latency_class(latency_ns: u64) -> usize {
    let class = (latency_ns / 1000).checked_ilog2().unwrap_or(0) as usize;
    class.min(LATENCY_CLASSES - 1)
}

/// Everything a job measures; jobs' statistics add up.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Reads.
    pub reads: Counts,
    /// Writes.
    pub writes: Counts,
    /// The measured time in whole seconds, each counted apart.
    pub seconds: Vec<SecondCounts>,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl Statistics {
    /// Nothing counted yet.
    pub fn new() -> Statistics {
        Statistics {
            reads: Counts::new(),
            writes: Counts::new(),
            seconds: Vec::new(),
        }
    }

    /// Counts one I/O of `bytes` that completed `since_start` into the measured time.
    pub fn record(
        &mut self,
        direction: Direction,
        bytes: u64,
        latency: Duration,
        since_start: Duration,
    ) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        let at = since_start.as_secs() as usize;
        if at >= self.seconds.len() {
            self.seconds.resize(at + 1, SecondCounts::default());
        }
        let second = &mut self.seconds[at];
        second.longest_ns = second.longest_ns.max(latency_ns);
        second.latency_counts[latency_class(latency_ns)] += 1;
        match direction {
            Direction::Read => {
                second.reads += 1;
                second.read_bytes += bytes;
                self.reads.record(bytes, latency_ns);
            }
            Direction::Write => {
                second.writes += 1;
                second.written_bytes += bytes;
                self.writes.record(bytes, latency_ns);
            }
        }
    }

    /// Counts one failed I/O.
    pub fn record_error(&mut self, direction: Direction) {
        match direction {
            Direction::Read => self.reads.errors += 1,
            Direction::Write => self.writes.errors += 1,
        }
    }

    /// Adds another job's statistics.
    pub fn add(&mut self, other: &Statistics) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        if self.seconds.len() < other.seconds.len() {
            self.seconds
                .resize(other.seconds.len(), SecondCounts::default());
        }
        for (sum, second) in self.seconds.iter_mut().zip(&other.seconds) {
            sum.reads += second.reads;
            sum.writes += second.writes;
            sum.read_bytes += second.read_bytes;
            sum.written_bytes += second.written_bytes;
            sum.longest_ns = sum.longest_ns.max(second.longest_ns);
            for (count, other) in sum.latency_counts.iter_mut().zip(second.latency_counts) {
                *count += other;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_recorded_latencies() {
        let mut statistics = Statistics::new();
        for microseconds in 1..=10_000u64 {
            let latency = Duration::from_micros(microseconds);
            statistics.record(Direction::Read, 4096, latency, Duration::ZERO);
        }
        let reads = &statistics.reads;
        assert_eq!((reads.ios, reads.bytes), (10_000, 40_960_000));
        assert_eq!(reads.longest_ns(), 10_000_000);
        assert!((reads.mean_ns() - 5_000_500.0).abs() < 1.0);
        for (percent, expected_ns) in [(50.0, 5e6), (99.0, 9.9e6), (99.99, 9.999e6)] {
            let found = reads.percentile_ns(percent) as f64;
            assert!(
                (found / expected_ns - 1.0).abs() < 0.001,
                "p{percent}: {found}"
            );
        }
        assert_eq!(statistics.writes.ios, 0);
        assert_eq!(statistics.writes.percentile_ns(99.0), 0);
    }

    #[test]
    fn classes_of_latency_are_powers_of_two_of_microseconds() {
        let cases = [
            (1, 0),
            (1999, 0),
            (2000, 1),
            (1_024_000, 10),
            (u64::MAX, 27),
        ];
        for (latency_ns, class) in cases {
            assert_eq!(latency_class(latency_ns), class, "{latency_ns}");
        }
    }

    #[test]
    fn jobs_add_up_second_by_second() {
        let mut sum = Statistics::new();
        for job in 0..2u64 {
            let mut one = Statistics::new();
            for second in 0..=job {
                let at = Duration::from_millis(second * 1000 + 500);
                one.record(Direction::Write, 512, Duration::from_micros(7), at);
            }
            one.record_error(Direction::Write);
            sum.add(&one);
        }
        assert_eq!(sum.writes.ios, 3);
        assert_eq!(sum.writes.errors, 2);
        let writes: Vec<u64> = sum.seconds.iter().map(|second| second.writes).collect();
        assert_eq!(writes, [2, 1]);
        assert_eq!(sum.seconds[0].written_bytes, 1024);
        // 7 us is between 4 and 8.
        assert_eq!(sum.seconds[0].latency_counts[2], 2);
        assert_eq!(sum.seconds[0].latency_counts.iter().sum::<u32>(), 2);
    }
}
