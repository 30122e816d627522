//! Waiting for time to pass: [`sleep`], [`timeout`], [`now`].
#![allow(unsafe_code, reason = "pin projection; see the SAFETY lines")]

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll};
use std::time::Duration;

use crate::clock::Instant;
use crate::context::{self, Context};
use crate::timers::TimerKey;

/// The current time on the reactor's clock; under simulation, virtual time.
///
/// # Panics
/// Outside a reactor.
pub fn now() -> Instant {
    context::with_current(|context| context.now())
}

/// The time at which this turn of the loop started: costs nothing, and is at most one turn old.
///
/// # Panics
/// Outside a reactor.
pub fn turn_started() -> Instant {
    context::with_current(|context| context.turn_started.get())
}

/// Waits until `duration` from now.
///
/// # Panics
/// Outside a reactor.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(now() + duration)
}

/// Waits until `deadline`; does not suspend if it has passed.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        timer: None,
    }
}

/// The future of [`sleep`] and [`sleep_until`].
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    deadline: Instant,
    timer: Option<(Rc<Context>, TimerKey)>,
}

impl Sleep {
    /// When this wakes.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<()> {
        if let Some((reactor, key)) = &self.timer {
            if reactor.timers.borrow_mut().set_waker(*key, context.waker()) {
                return Poll::Pending;
            }
            self.timer = None;
            return Poll::Ready(());
        }
        let reactor = context::current();
        if reactor.now() >= self.deadline {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let key = reactor.timers.borrow_mut().insert(self.deadline, waker);
        self.timer = Some((reactor, key));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((reactor, key)) = self.timer.take() {
            reactor.timers.borrow_mut().remove(key);
        }
    }
}

/// The future did not finish in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// Runs `future` for at most `duration`; it is dropped when the returned future is.
///
/// # Errors
/// [`Elapsed`] when the time ran out first.
///
/// # Panics
/// Outside a reactor.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep(duration),
    }
}

/// The future of [`timeout`].
#[must_use = "futures do nothing unless awaited"]
pub struct Timeout<F> {
    future: F,
    sleep: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut PollContext<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned with `self` and never moved; `sleep` is Unpin.
        let (future, sleep) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &mut this.sleep)
        };
        if let Poll::Ready(output) = future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(sleep).poll(context).map(|()| Err(Elapsed))
    }
}
