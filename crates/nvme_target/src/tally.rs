//! [`Tally`]: what hosts do to one namespace, counted on one core.

use std::cell::Cell;

use reactor::Instant;

use crate::latency::LatencyTally;

/// Counts of one namespace on one core. Plain numbers: nobody else writes them.
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) read_latency: LatencyTally,
    pub(crate) read_bytes: Cell<u64>,
    pub(crate) write_latency: LatencyTally,
    pub(crate) write_bytes: Cell<u64>,
    pub(crate) flushes: Cell<u64>,
    pub(crate) deallocates: Cell<u64>,
    pub(crate) others: Cell<u64>,
    pub(crate) errors: Cell<u64>,
    /// Of those, the ones that its device caused.
    pub(crate) device_errors: Cell<u64>,
}

impl Tally {
    /// Counts a read that has ended: when it arrived, and how many bytes it read.
    pub fn count_read(&self, arrived: Instant, bytes: u64) {
        self.read_latency.count(since(arrived));
        add(&self.read_bytes, bytes);
    }

    /// Counts a write that has ended: when it arrived, and how many bytes it wrote.
    pub fn count_write(&self, arrived: Instant, bytes: u64) {
        self.write_latency.count(since(arrived));
        add(&self.write_bytes, bytes);
    }
}

/// How many nanoseconds ago a command arrived. The clock is that of the loop's turns, which costs
/// nothing: a command that began and ended in one turn took no time.
fn since(arrived: Instant) -> u64 {
    let now = reactor::turn_started().as_nanos();
    now.saturating_sub(arrived.as_nanos())
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, amount: u64) {
    counter.set(counter.get().wrapping_add(amount));
}
