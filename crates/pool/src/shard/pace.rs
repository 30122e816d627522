//! [`Pace`]: background work that gives way to hosts.

use crate::shard::core::Core;
use reactor::Instant;
use std::time::Duration;

/// How much longer than it has just worked such work rests where hosts have asked for something
/// meanwhile: they keep three quarters of the core and the drives.
const REST: u32 = 3;

/// When to rest.
pub(crate) struct Pace {
    /// What hosts had asked for when the work since the last rest began.
    requests: u64,
    begun: Instant,
}

impl Pace {
    /// Work begins.
    pub fn new<D>(core: &Core<D>) -> Pace {
        Pace {
            requests: core.requests.get(),
            begun: reactor::now(),
        }
    }

    /// For how long to rest now; zero where no host has asked for anything.
    pub fn due<D>(&self, core: &Core<D>) -> Duration {
        match core.requests.get() == self.requests {
            true => Duration::ZERO,
            false => (reactor::now() - self.begun) * REST,
        }
    }

    /// Returns when there may be further work.
    pub async fn rest<D>(&mut self, core: &Core<D>) {
        match self.due(core) {
            Duration::ZERO => reactor::yield_now().await,
            due => reactor::sleep(due).await,
        }
        *self = Pace::new(core);
    }
}
