//! [`Lease`]: until when this host may take it that it still holds the pool. No I/O.
//!
//! A holder looks at the drives' superblocks every [`CHECK_EVERY`]. Having found nobody else it may
//! write, and answer, for [`LEASE`] from when it began to look; whoever takes the pool by force
//! writes down that it does and waits for [`TAKEOVER`] before it believes what it reads. Between
//! the two lies what a request may take that was let through at the last moment. Where there is no
//! holder there is nobody to wait for but others who open the pool just now, for [`ENTRY`].

use crate::mutation::Mutation;
use block::IoError;
use reactor::Instant;
use reactor::sync::Notify;
use std::cell::Cell;
use std::time::Duration;

/// How often a holder looks whether somebody else has claimed the pool.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(1);
/// For how long it may go on after it began to look: three looks may be late.
pub(crate) const LEASE: Duration = Duration::from_secs(4);
/// How long a claim by force waits: as long again is left for requests to reach the drives.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(8);
/// How long who opens a pool that nobody holds waits whether somebody else does, too.
pub(crate) const ENTRY: Duration = Duration::from_secs(1);
/// The same who held it last: only a host of the same name would open it as well.
pub(crate) const ENTRY_AGAIN: Duration = Duration::from_millis(100);
/// For how long after an opening requests may still reach the drives that a process had begun which
/// did not close the pool: as long as a claim by force leaves for them.
pub(crate) const LATE: Duration = Duration::from_secs(4);
/// For how long a pool that was taken by force leaves zones alone to which the last holder's
/// stripes may still come: many times what kernels give a request.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(600);

/// One core's copy of the lease.
#[derive(Default)]
pub(crate) struct Lease {
    until: Cell<Instant>,
    ended: Cell<bool>,
    changed: Notify,
}

impl Lease {
    /// Whether it runs, by the clock of this very moment.
    pub fn runs(&self) -> bool {
        reactor::now() < self.until.get() && !self.ended.get()
            || Mutation::GoesOnUnfenced.is_planted()
    }

    pub fn until(&self) -> Instant {
        self.until.get()
    }

    /// Nobody else was seen.
    pub fn extend(&self, until: Instant) {
        self.until.set(self.until.get().max(until));
        self.changed.notify_all();
    }

    /// It will not run again.
    pub fn end(&self) {
        self.ended.set(true);
        self.changed.notify_all();
    }

    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Returns when it runs. What is done then with no wait between is done by the holder.
    ///
    /// # Errors
    /// `DeviceGone` when it never will.
    pub async fn hold(&self) -> Result<(), IoError> {
        while !self.runs() {
            if self.ended.get() {
                return Err(IoError::DeviceGone);
            }
            self.changed.notified().await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn who_waits_goes_on_when_it_is_extended_and_not_after_its_end() {
        reactor::Reactor::simulated(1).run(async {
            let lease = Rc::new(Lease::default());
            let waits = || {
                let lease = lease.clone();
                reactor::spawn(async move { lease.hold().await })
            };
            let first = waits();
            reactor::sleep(LEASE).await;
            assert!(!first.is_finished() && !lease.runs());
            lease.extend(reactor::now() + LEASE);
            assert_eq!(first.await, Ok(()));
            reactor::sleep(LEASE).await;
            let second = waits();
            reactor::yield_now().await;
            assert!(!second.is_finished(), "the lease has run out");
            lease.end();
            assert_eq!(second.await, Err(IoError::DeviceGone));
        });
    }
}
