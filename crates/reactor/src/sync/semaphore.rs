//! [`Semaphore`]: so many at a time.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::waiters::{Ticket, Waiters};

/// A number of permits that tasks take and give back, first come first served: a task that asks
/// for many is not overtaken by others that ask for few.
pub struct Semaphore {
    available: Cell<usize>,
    waiters: RefCell<Waiters<usize>>,
}

impl Semaphore {
    /// A semaphore with `permits` permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore {
            available: Cell::new(permits),
            waiters: RefCell::default(),
        }
    }

    /// Permits that nobody has or waits for.
    pub fn available(&self) -> usize {
        self.available.get()
    }

    /// Waits for `permits` permits, which return when the result is dropped.
    pub fn acquire(&self, permits: usize) -> Acquire<'_> {
        Acquire {
            semaphore: self,
            permits,
            ticket: None,
        }
    }

    /// Takes `permits` permits if they are there and nobody waits for them.
    pub fn try_acquire(&self, permits: usize) -> Option<Permit<'_>> {
        if !self.waiters.borrow().is_empty() || self.available.get() < permits {
            return None;
        }
        self.available.set(self.available.get() - permits);
        Some(Permit {
            semaphore: self,
            permits,
        })
    }

    /// Adds permits for good.
    pub fn add(&self, permits: usize) {
        self.available.set(self.available.get() + permits);
        self.serve();
    }

    /// Gives permits to the first in line for as long as there are enough.
    fn serve(&self) {
        loop {
            let waker = {
                let mut waiters = self.waiters.borrow_mut();
                match waiters.first() {
                    Some(wanted) if *wanted <= self.available.get() => {
                        self.available.set(self.available.get() - wanted);
                        waiters.pop()
                    }
                    _ => return,
                }
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// The future of [`Semaphore::acquire`].
#[must_use = "futures do nothing unless awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
    ticket: Option<Ticket>,
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        let Some(ticket) = self.ticket else {
            if let Some(permit) = self.semaphore.try_acquire(self.permits) {
                return Poll::Ready(permit);
            }
            let wants = self.permits;
            let ticket = self
                .semaphore
                .waiters
                .borrow_mut()
                .join(context.waker(), wants);
            self.ticket = Some(ticket);
            return Poll::Pending;
        };
        if self
            .semaphore
            .waiters
            .borrow_mut()
            .still_waiting(ticket, context.waker())
        {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(Permit {
            semaphore: self.semaphore,
            permits: self.permits,
        })
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let served = !self.semaphore.waiters.borrow_mut().leave(ticket);
            if served {
                self.semaphore.add(self.permits);
            } else {
                // Whoever asked for less behind this one may be served now.
                self.semaphore.serve();
            }
        }
    }
}

/// Permits held; they return when this is dropped.
#[must_use = "dropping a permit gives it back"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.add(self.permits);
    }
}
