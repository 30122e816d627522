//! [`Pace`]: a server that hands out one unit of work after another at a fixed rate.

/// Times are whole nanoseconds outside and 1/1024 of one inside, so that rates stay exact.
const FRACTION_BITS: u32 = 10;

/// A resource that does one thing at a time; how long one unit takes may change between requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    free_at_ns: u64,
    carry: u64,
}

/// How long one unit takes, in 1/1024 of a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost(pub(crate) u64);

impl Cost {
    /// The cost of `ns` nanoseconds.
    pub(crate) fn from_ns(ns: f64) -> Cost {
        Cost((ns * f64::from(1 << FRACTION_BITS)).round() as u64)
    }

    /// The cost of one unit at `per_second` units a second.
    pub(crate) fn per_second(per_second: f64) -> Cost {
        Cost::from_ns(1e9 / per_second)
    }

    /// Whole nanoseconds, rounded to the nearest.
    pub(crate) fn ns(self) -> u64 {
        (self.0 + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    }
}

impl Pace {
    /// When it is free.
    pub(crate) fn free_at_ns(&self) -> u64 {
        self.free_at_ns
    }

    /// Does work of `cost` for a request that arrives at `at_ns`; returns when it is done.
    #[inline]
    pub(crate) fn take(&mut self, at_ns: u64, cost: Cost) -> u64 {
        let total = cost.0 + self.carry;
        self.carry = total & ((1 << FRACTION_BITS) - 1);
        self.free_at_ns = self.free_at_ns.max(at_ns) + (total >> FRACTION_BITS);
        self.free_at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_requests_at_a_rate_that_is_no_whole_nanosecond_take_their_time_exactly() {
        let mut pace = Pace::default();
        let cost = Cost::per_second(2_536_000.0);
        for _ in 0..2_536_000 {
            pace.take(0, cost);
        }
        let seconds = pace.free_at_ns() as f64 / 1e9;
        assert!((seconds - 1.0).abs() < 2e-3, "{seconds}");
    }
}
