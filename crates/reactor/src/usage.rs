//! How a reactor's time is spent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::context;

/// Where the time since the reactor started has gone. Under simulation all of it stays zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Running tasks and calling the kernel on their behalf.
    pub busy: Duration,
    /// Watching the rings for something to do.
    pub polling: Duration,
    /// Asleep in the kernel.
    pub asleep: Duration,
    /// The longest step of the loop: for so long nothing else was looked at.
    pub longest_step: Duration,
    /// Steps of more than [`LONG_STEP`].
    pub long_steps: u64,
}

/// A step of the loop should not take longer: everything else on its core waits for it.
pub const LONG_STEP: Duration = Duration::from_millis(10);

/// The usage of the current reactor.
///
/// # Panics
/// Outside a reactor.
pub fn usage() -> Usage {
    context::with_current(|context| context.inbox.usage.read())
}

/// What a stretch of time was spent on.
#[derive(Clone, Copy)]
pub(crate) enum Activity {
    Busy,
    Polling,
    Asleep,
}

/// Written by the reactor's thread only, read by any.
#[derive(Default)]
pub(crate) struct Counters {
    busy: AtomicU64,
    polling: AtomicU64,
    asleep: AtomicU64,
    longest_step: AtomicU64,
    long_steps: AtomicU64,
}

impl Counters {
    /// As [`add`](Counters::add), for one step of the loop.
    pub(crate) fn add_step(&self, nanoseconds: u64) {
        self.add(Activity::Busy, nanoseconds);
        if nanoseconds > self.longest_step.load(Ordering::Relaxed) {
            self.longest_step.store(nanoseconds, Ordering::Relaxed);
        }
        if u128::from(nanoseconds) > LONG_STEP.as_nanos() {
            let so_far = self.long_steps.load(Ordering::Relaxed);
            self.long_steps.store(so_far + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn add(&self, activity: Activity, nanoseconds: u64) {
        let counter = match activity {
            Activity::Busy => &self.busy,
            Activity::Polling => &self.polling,
            Activity::Asleep => &self.asleep,
        };
        // One writer: a load and a store are cheaper than a locked addition, and as right.
        counter.store(
            counter.load(Ordering::Relaxed) + nanoseconds,
            Ordering::Relaxed,
        );
    }

    pub(crate) fn read(&self) -> Usage {
        let read = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        Usage {
            busy: read(&self.busy),
            polling: read(&self.polling),
            asleep: read(&self.asleep),
            longest_step: read(&self.longest_step),
            long_steps: self.long_steps.load(Ordering::Relaxed),
        }
    }
}
