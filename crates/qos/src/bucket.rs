//! [`Bucket`]: one rate with a burst, shared by all cores.

use std::sync::atomic::{AtomicU64, Ordering};

/// Parts that a nanosecond is counted in, so that rounding is below a thousandth up to ten million
/// commands a second.
const PARTS_SHIFT: u32 = 6;

const PARTS_PER_SECOND: u128 = 1_000_000_000 << PARTS_SHIFT;

/// A rate with a burst (the generic cell rate algorithm of ITU-T I.371, as virtual scheduling).
///
/// All there is to remember is when everything that was admitted so far would have ended at the
/// rate. One word, so that cores share it without a lock: whoever takes from it moves it on. Cores
/// that look at the same instant may each take one, which those that follow wait for.
#[derive(Debug)]
pub struct Bucket {
    per_second: u64,
    /// How far the end may lie ahead of now while commands still start at once.
    burst_parts: u64,
    end_parts: AtomicU64,
}

impl Bucket {
    /// A full bucket: `per_second` units, and what they are in `burst_ms` at once after a pause.
    pub fn new(per_second: u64, burst_ms: u32) -> Bucket {
        Bucket {
            per_second: per_second.max(1),
            burst_parts: (u64::from(burst_ms) * 1_000_000) << PARTS_SHIFT,
            end_parts: AtomicU64::new(0),
        }
    }

    /// From when on something may be taken. How much does not matter: what is taken beyond the
    /// burst is waited for afterwards.
    pub fn opens_ns(&self) -> u64 {
        let end = self.end_parts.load(Ordering::Relaxed);
        let opens = end.saturating_sub(self.burst_parts);
        opens.div_ceil(1 << PARTS_SHIFT)
    }

    /// Takes `units`.
    pub fn take(&self, units: u64, now_ns: u64) {
        let cost = u128::from(units) * PARTS_PER_SECOND / u128::from(self.per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let now = now_ns << PARTS_SHIFT;
        let moved = |end: u64| Some(end.max(now).saturating_add(cost));
        // Never refused: the closure always gives a value.
        let _ = self
            .end_parts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Takes `units` as soon as that is allowed; says when that was.
    fn start(bucket: &Bucket, units: u64, now: u64) -> u64 {
        let start = bucket.opens_ns().max(now);
        bucket.take(units, start);
        start
    }

    #[test]
    fn what_starts_is_the_rate_and_one_burst() {
        for (rate, units) in [(1000, 1), (333_333, 1), (10_000_000, 4096), (3_000_000, 1)] {
            let bucket = Bucket::new(rate, 10);
            let (mut now, mut started) = (SECOND_NS, 0);
            while now < SECOND_NS * 3 {
                now = start(&bucket, units, now);
                started += 1;
            }
            let allowed = (rate * 2 + rate / 100) / units;
            let error = (f64::from(started) / allowed as f64 - 1.0).abs();
            assert!(error < 0.005, "{rate} a second: {started}, not {allowed}");
        }
    }

    /// A long pause earns one burst, not what could have been done in it.
    #[test]
    fn a_pause_earns_one_burst() {
        let bucket = Bucket::new(1000, 100);
        let now = 3600 * SECOND_NS;
        let at_once = (0..1000).take_while(|_| start(&bucket, 1, now) == now);
        assert_eq!(at_once.count(), 101);
    }

    /// Who looks late loses nothing, as long as it is not later than the burst.
    #[test]
    fn lateness_within_the_burst_costs_nothing() {
        let bucket = Bucket::new(100_000, 10);
        let (mut now, mut started) = (SECOND_NS, 0);
        while now < SECOND_NS * 2 {
            while bucket.opens_ns() <= now {
                bucket.take(1, now);
                started += 1;
            }
            now += 7_000_000;
        }
        assert!((100_000..=101_100).contains(&started), "{started}");
    }

    /// However many cores take from it, together they get the rate.
    #[test]
    fn cores_share_one_rate() {
        let bucket = Bucket::new(200_000, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| bucket.take(1, 0)));
            }
        });
        assert_eq!(bucket.opens_ns(), SECOND_NS);
    }

    proptest! {
        /// In no window does more start than the rate allows there and one burst, plus the command
        /// that is under way; and starts are in the order of asking.
        #[test]
        fn no_window_holds_more_than_its_share(
            rate in 100u64..100_000,
            burst_ms in 0u32..200,
            steps in prop::collection::vec((0u64..5_000_000, 1u64..20), 1..300),
        ) {
            let bucket = Bucket::new(rate, burst_ms);
            let mut now = SECOND_NS;
            let mut starts: Vec<(u64, u64)> = Vec::new();
            for (pause, units) in steps {
                now = start(&bucket, units, now + pause);
                starts.push((now, units));
            }
            for first in 0..starts.len() {
                let mut units = 0;
                for last in first..starts.len() {
                    let window = starts[last].0 - starts[first].0;
                    let allowed = rate as f64 * (window as f64 / 1e9 + f64::from(burst_ms) / 1e3);
                    prop_assert!(units as f64 <= allowed + 1.0, "{units} in {window} ns");
                    units += starts[last].1;
                }
            }
        }
    }
}
