//! [`FlushGroup`]: many flushes at once cost one or two.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::IoError;
use reactor::sync::Notify;

/// Lets flushes that come while one is running share the next one. Each caller gets the result of
/// a flush that began after it called.
#[derive(Default)]
pub(crate) struct FlushGroup {
    begun: Cell<u64>,
    running: Cell<bool>,
    /// The newest flush that has ended well.
    ended: Cell<u64>,
    failed: FlushFailure,
    changed: Notify,
}

/// How a flush of a drive has failed, on whichever core. What it covered may be lost, and the
/// system says so only once: so every flush fails from then on, until the drive has another user.
#[derive(Clone, Default)]
pub(crate) struct FlushFailure(Arc<Mutex<Option<IoError>>>);

impl FlushFailure {
    fn lock(&self) -> MutexGuard<'_, Option<IoError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<IoError> {
        *self.lock()
    }

    /// If a flush on another core failed before, its error stays.
    fn set(&self, error: IoError) {
        self.lock().get_or_insert(error);
    }

    /// What may be lost concerns nobody any more.
    pub(crate) fn forget(&self) {
        self.lock().take();
    }
}

/// Lets others begin a flush, also when the one that runs is given up.
struct Running<'a>(&'a FlushGroup);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.set(false);
        self.0.changed.notify_all();
    }
}

impl FlushGroup {
    /// A group on another core, of the same drive as the one that has this failure.
    pub(crate) fn beside(failed: FlushFailure) -> FlushGroup {
        FlushGroup {
            failed,
            ..FlushGroup::default()
        }
    }

    /// What groups on other cores share with this one.
    pub(crate) fn failure(&self) -> FlushFailure {
        self.failed.clone()
    }

    /// Waits for a flush that begins from now on, if need be by calling `flush`.
    pub(crate) async fn join<F>(&self, flush: impl Fn() -> F) -> Result<(), IoError>
    where
        F: Future<Output = Result<(), IoError>>,
    {
        let wanted = self.begun.get() + 1;
        loop {
            if let Some(error) = self.failed.get() {
                return Err(error);
            }
            if self.ended.get() >= wanted {
                return Ok(());
            }
            if self.running.get() {
                self.changed.notified().await;
                continue;
            }
            let number = self.begun.get() + 1;
            self.begun.set(number);
            self.running.set(true);
            let running = Running(self);
            match flush().await {
                Ok(()) => self.ended.set(number),
                Err(error) => self.failed.set(error),
            }
            drop(running);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use reactor::{Instant, Reactor, now, sim, sleep, spawn, timeout};

    #[derive(Default)]
    struct Disk {
        group: FlushGroup,
        /// When each flush began and ended.
        flushes: RefCell<Vec<(Instant, Instant)>>,
    }

    impl Disk {
        async fn flush(&self) -> Result<(), IoError> {
            let flush = || async {
                let began = now();
                sleep(Duration::from_micros(1 + sim::random_below(50))).await;
                self.flushes.borrow_mut().push((began, now()));
                Ok(())
            };
            self.group.join(flush).await
        }
    }

    /// Some callers give up half way; the others still get a flush of their own time, and there
    /// are far fewer flushes than callers.
    #[test]
    fn every_caller_has_a_flush_that_began_after_it_called() {
        for seed in 0..50 {
            Reactor::simulated(seed).run(async {
                let disk = Rc::new(Disk::default());
                let callers: Vec<_> = (0..100)
                    .map(|_| {
                        let disk = Rc::clone(&disk);
                        spawn(async move {
                            sleep(Duration::from_micros(sim::random_below(100))).await;
                            let called = now();
                            let patience = if sim::random_below(4) == 0 { 10 } else { 1000 };
                            let patience = Duration::from_micros(patience);
                            let Ok(result) = timeout(patience, disk.flush()).await else {
                                return;
                            };
                            result.unwrap();
                            let flushes = disk.flushes.borrow();
                            let covers = |flush: &(Instant, Instant)| flush.0 >= called;
                            assert!(flushes.iter().any(covers), "seed={seed}");
                        })
                    })
                    .collect();
                for caller in callers {
                    caller.await;
                }
                let count = disk.flushes.borrow().len();
                assert!(count < 50, "seed={seed}: {count} flushes for 100 callers");
            });
        }
    }

    #[test]
    fn a_failed_flush_is_never_followed_by_a_good_one() {
        Reactor::simulated(1).run(async {
            let group = FlushGroup::default();
            let result = group.join(|| async { Err(IoError::WriteFault) }).await;
            assert_eq!(result, Err(IoError::WriteFault));
            for group in [FlushGroup::beside(group.failure()), group] {
                assert_eq!(
                    group.join(|| async { Ok(()) }).await,
                    Err(IoError::WriteFault)
                );
            }
        });
    }
}
