//! [`Notify`]: "look again".

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::waiters::{Ticket, Waiters};

/// Wakes tasks that wait for a condition which they check themselves.
#[derive(Default)]
pub struct Notify {
    waiters: RefCell<Waiters<()>>,
    /// A `notify_one` that found nobody waiting.
    remembered: Cell<bool>,
}

impl Notify {
    /// Nobody waits, nothing is remembered.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the task that has waited longest. If none waits, the next one to wait does not have
    /// to; this is remembered once.
    pub fn notify_one(&self) {
        let waker = self.waiters.borrow_mut().pop();
        match waker {
            Some(waker) => waker.wake(),
            None => self.remembered.set(true),
        }
    }

    /// Wakes every task that waits now; remembers nothing.
    pub fn notify_all(&self) {
        loop {
            let waker = self.waiters.borrow_mut().pop();
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    /// Waits to be notified. The task joins the line when this is first polled.
    pub fn notified(&self) -> Notified<'_> {
        Notified {
            notify: self,
            ticket: None,
        }
    }
}

/// The future of [`Notify::notified`].
#[must_use = "futures do nothing unless awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    ticket: Option<Ticket>,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.notify.waiters.borrow_mut();
        match self.ticket {
            Some(ticket) if waiters.still_waiting(ticket, context.waker()) => Poll::Pending,
            Some(_) => {
                drop(waiters);
                self.ticket = None;
                Poll::Ready(())
            }
            None if self.notify.remembered.replace(false) => Poll::Ready(()),
            None => {
                let ticket = waiters.join(context.waker(), ());
                drop(waiters);
                self.ticket = Some(ticket);
                Poll::Pending
            }
        }
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let served = !self.notify.waiters.borrow_mut().leave(ticket);
            if served {
                // Woken but never polled again: the wake belongs to the next in line.
                self.notify.notify_one();
            }
        }
    }
}
