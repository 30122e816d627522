//! [`Unready`]: whether hosts are to come again in a while for a namespace that is not ready.
//!
//! Linux sends a command five times again, at once where no delay is said, and then fails it. With
//! a delay its I/O lasts as long as a pool takes to be opened. Nothing is held here meanwhile.
//! Hosts that do not keep to delays, SPDK's among them, are answered that much later instead.

use std::cell::Cell;
use std::time::Duration;

use block::BlockDevice;
use reactor::Instant;

use crate::view::View;

/// CRDT1: how long hosts wait before they send a command again that found no ready namespace. Five
/// times this is what Linux waits for a pool in all.
pub(crate) const RETRY_DELAY_100MS: u16 = 30;
/// What has not been ready for so long will not be soon: a host that looks for partitions there is
/// not to wait for each of them.
const PATIENCE: Duration = Duration::from_secs(30);
/// With no command for so long it may have been ready in between. Hosts that wait come sooner.
const FORGOTTEN: Duration = Duration::from_millis(3 * 100 * RETRY_DELAY_100MS as u64);

/// How long an answer waits without looking whether it still has to.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Waits for as long as hosts are told to, or until the namespace is gone, is known to be open, or
/// nothing `waits` any more.
pub(crate) async fn wait<D: BlockDevice>(subsystem: &View<D>, nsid: u32, waits: impl Fn() -> bool) {
    let is_known = || {
        let namespace = subsystem.namespace(nsid);
        namespace.map(|namespace| namespace.rules().is_ok())
    };
    let found = is_known();
    let until = reactor::now() + Duration::from_millis(100 * u64::from(RETRY_DELAY_100MS));
    while waits() && is_known() == found && reactor::now() < until {
        reactor::sleep(LOOK_PERIOD).await;
    }
}

/// Since when a namespace is not ready, as far as its hosts have found.
#[derive(Default)]
pub(crate) struct Unready(Cell<Option<Found>>);

/// When the first and the last command found it so.
#[derive(Clone, Copy)]
struct Found {
    first: Instant,
    last: Instant,
}

impl Unready {
    /// A command has found it so `now`; true if that is likely to pass soon.
    pub fn will_pass(&self, now: Instant) -> bool {
        let before = self.0.get().filter(|found| now - found.last < FORGOTTEN);
        let first = before.map_or(now, |found| found.first);
        self.0.set(Some(Found { first, last: now }));
        now - first < PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn what_is_not_ready_for_long_is_waited_for_no_more() {
        let unready = Unready::default();
        for second in 100..130 {
            assert!(unready.will_pass(seconds(second)), "{second}");
        }
        for second in [130, 131, 139, 147] {
            assert!(!unready.will_pass(seconds(second)), "{second}");
        }
        assert!(unready.will_pass(seconds(156)), "it may have been ready");
    }
}
