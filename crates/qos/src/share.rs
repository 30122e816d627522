//! [`Share`]: one volume's part where more is asked for than a place can do at once.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bucket::Bucket;

/// What a command of up to this many bytes costs is one; larger ones cost as much as several.
pub const COST_BYTES: u64 = 8 << 10;

/// The weight of a volume without a minimum, as if it had one of so many commands a second: enough
/// for it to go on, little beside any minimum worth having.
const WEIGHT: u64 = 100;

/// A minimum that was not used is not saved up for longer than this.
const PROMISE_BURST_MS: u32 = 10;

/// Tags rise by this for a command of cost one at weight one.
const TAG_PER_COST: u64 = 1 << 24;

/// What a command costs, beside others.
pub fn cost(bytes: u64) -> u32 {
    let cost = bytes.div_ceil(COST_BYTES).max(1);
    u32::try_from(cost).unwrap_or(u32::MAX)
}

/// One volume's part of a place, for all cores.
#[derive(Debug)]
pub struct Share {
    weight: u64,
    promise: Option<Bucket>,
    /// Where its last command ends in virtual time, which runs as its weight says.
    finish: AtomicU64,
}

impl Share {
    /// A part that follows from a minimum, or the least there is.
    pub fn new(minimum_iops: Option<u64>) -> Share {
        Share {
            weight: minimum_iops.unwrap_or(WEIGHT).max(1),
            promise: minimum_iops.map(|rate| Bucket::new(rate, PROMISE_BURST_MS)),
            finish: AtomicU64::new(0),
        }
    }

    /// It follows from a minimum.
    pub(crate) fn has_minimum(&self) -> bool {
        self.promise.is_some()
    }

    /// Counts a command against the minimum, if that is not used up; otherwise says from when on
    /// to ask again, if ever.
    pub fn take_promised(&self, cost: u32, now_ns: u64) -> Result<(), Option<u64>> {
        let promise = self.promise.as_ref().ok_or(None)?;
        let opens_ns = promise.opens_ns();
        if opens_ns > now_ns {
            return Err(Some(opens_ns));
        }
        promise.take(u64::from(cost), now_ns);
        Ok(())
    }

    /// The start tag of the next command (start-time fair queueing, Goyal, Vin and Cheng 1996) on a
    /// core whose virtual time is `clock`.
    pub(crate) fn tag(&self, cost: u32, clock: u64) -> u64 {
        let length = u64::from(cost) * TAG_PER_COST / self.weight;
        let moved = |finish: u64| Some(finish.max(clock).saturating_add(length.max(1)));
        let before = self
            .finish
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
        before.unwrap_or_else(|finish| finish).max(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_commands_cost_as_much_as_several() {
        let costs = [0, 512, 4096, 8192, 8193, 128 << 10, 1 << 20].map(cost);
        assert_eq!(costs, [1, 1, 1, 1, 2, 16, 128]);
    }

    #[test]
    fn a_minimum_is_a_rate_that_is_not_saved_up() {
        let share = Share::new(Some(1000));
        let now = 5_000_000_000;
        let at_once = (0..100).take_while(|_| share.take_promised(1, now).is_ok());
        assert_eq!(at_once.count(), 11);
        assert_eq!(share.take_promised(1, now), Err(Some(now + 1_000_000)));
        assert_eq!(share.take_promised(1, now + 1_000_000), Ok(()));
        assert_eq!(Share::new(None).take_promised(1, now), Err(None));
    }
}
