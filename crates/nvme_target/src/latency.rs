//! [`Latency`]: how long commands took, counted in buckets that grow with the time.

use std::cell::Cell;
use std::time::Duration;

/// The width of the narrowest buckets, as a power of two of nanoseconds: 256 ns.
const UNIT_SHIFT: u32 = 8;

/// Each doubling of the time is cut into four buckets, so a quantile is at most a fifth too long.
const PART_SHIFT: u32 = 2;

/// The last bucket takes everything from 60 seconds on: longer than any host waits.
const BUCKETS: usize = 108;

/// How long commands took. Plain numbers that may travel and be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    buckets: Vec<u64>,
    sum_ns: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            buckets: vec![0; BUCKETS],
            sum_ns: 0,
        }
    }
}

impl Latency {
    /// How many commands there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long they took together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// How many took less than 2^`power` nanoseconds; exact for powers from 8 on.
    pub fn below(&self, power: u32) -> u64 {
        let end = bucket(1u64.checked_shl(power).unwrap_or(u64::MAX));
        self.buckets.iter().take(end).sum()
    }

    /// The end of the bucket in which `share` of the commands have ended; zero without any.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(end_ns(index));
            }
        }
        Duration::ZERO
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Latency) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum_ns += other.sum_ns;
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Latency) -> Latency {
        let counts = self.buckets.iter().zip(&earlier.buckets);
        Latency {
            buckets: counts
                .map(|(now, then)| now.saturating_sub(*then))
                .collect(),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }
}

/// Counts latencies on one core.
#[derive(Debug)]
pub(crate) struct LatencyTally {
    buckets: [Cell<u64>; BUCKETS],
    sum_ns: Cell<u64>,
}

impl Default for LatencyTally {
    fn default() -> LatencyTally {
        LatencyTally {
            buckets: [const { Cell::new(0) }; BUCKETS],
            sum_ns: Cell::new(0),
        }
    }
}

impl LatencyTally {
    /// Counts a command that took this long.
    pub fn count(&self, nanoseconds: u64) {
        if let Some(counter) = self.buckets.get(bucket(nanoseconds)) {
            counter.set(counter.get().wrapping_add(1));
        }
        self.sum_ns.set(self.sum_ns.get().wrapping_add(nanoseconds));
    }

    pub fn read(&self) -> Latency {
        Latency {
            buckets: self.buckets.iter().map(Cell::get).collect(),
            sum_ns: self.sum_ns.get(),
        }
    }
}

/// The bucket of a time; the last one for what is longer than all.
fn bucket(nanoseconds: u64) -> usize {
    let units = nanoseconds >> UNIT_SHIFT;
    let Some(octave) = units.checked_ilog2().filter(|octave| *octave >= PART_SHIFT) else {
        return units as usize;
    };
    let part = (units >> (octave - PART_SHIFT)) & ((1 << PART_SHIFT) - 1);
    let index = (u64::from(octave - PART_SHIFT + 1) << PART_SHIFT) + part;
    (index as usize).min(BUCKETS - 1)
}

/// Where the bucket `index` ends.
fn end_ns(index: usize) -> u64 {
    let next = index as u64 + 1;
    let octave = next >> PART_SHIFT;
    let part = next & ((1 << PART_SHIFT) - 1);
    match octave {
        0 => part << UNIT_SHIFT,
        octave => ((1 << PART_SHIFT) + part) << (octave - 1 + u64::from(UNIT_SHIFT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(times: &[u64]) -> Latency {
        let tally = LatencyTally::default();
        for time in times {
            tally.count(*time);
        }
        tally.read()
    }

    /// Every time lies in the bucket whose end is the first above it, within a quarter.
    #[test]
    fn buckets_end_shortly_after_what_they_hold() {
        for power in 0..35 {
            for offset in [0, 1, 1 << (power / 2), (1u64 << power) - 1] {
                let time = (1u64 << power) + offset;
                let index = bucket(time);
                assert!(time < end_ns(index), "{time} in bucket {index}");
                assert!(index == 0 || time >= end_ns(index - 1), "{time}");
                assert!(end_ns(index) <= time + time / 4 + 256, "{time}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_below_a_power_of_two_are_exact() {
        let latency = counted(&[0, 255, 256, 4095, 4096, 1 << 20, u64::from(u32::MAX)]);
        assert_eq!(latency.below(8), 2);
        assert_eq!(latency.below(12), 4);
        assert_eq!(latency.below(13), 5);
        assert_eq!(latency.below(20), 5);
        assert_eq!(latency.below(21), 6);
        assert_eq!((latency.below(32), latency.count()), (7, 7));
    }

    #[test]
    fn quantiles_are_those_of_what_came_since() {
        let earlier = counted(&[1 << 30; 9]);
        let mut now = earlier.clone();
        now.add(&counted(&[1000; 99]));
        now.add(&counted(&[1_000_000]));
        let since = now.since(&earlier);
        assert_eq!((since.count(), since.sum().as_nanos()), (100, 1_099_000));
        assert_eq!(since.quantile(0.5), Duration::from_nanos(1024));
        assert!(since.quantile(1.0) >= Duration::from_nanos(1_000_000));
        assert_eq!(Latency::default().quantile(0.99), Duration::ZERO);
    }
}
