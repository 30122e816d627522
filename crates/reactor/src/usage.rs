//! How a reactor's time is spent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::context;

/// Where the time since the reactor started has gone. Under simulation all three stay zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Running tasks and calling the kernel on their behalf.
    pub busy: Duration,
    /// Watching the rings for something to do.
    pub polling: Duration,
    /// Asleep in the kernel.
    pub asleep: Duration,
}

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
}

impl Counters {
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
        }
    }
}
