//! [`Signal`]: one value from one task to another, over and over.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A cell that one task fills and another empties. Unlike a oneshot channel it is used again, so
/// that a command slot can wait for its completion without allocating.
pub struct Signal<T> {
    state: RefCell<State<T>>,
}

struct State<T> {
    value: Option<T>,
    waiter: Option<Waker>,
}

impl<T> Default for Signal<T> {
    fn default() -> Signal<T> {
        Signal::new()
    }
}

impl<T> Signal<T> {
    /// An empty cell.
    pub fn new() -> Signal<T> {
        Signal {
            state: RefCell::new(State {
                value: None,
                waiter: None,
            }),
        }
    }

    /// Fills the cell, replacing a value that was not taken, and wakes the task that waits.
    pub fn set(&self, value: T) {
        let (before, waiter) = {
            let mut state = self.state.borrow_mut();
            (state.value.replace(value), state.waiter.take())
        };
        drop(before);
        if let Some(waker) = waiter {
            waker.wake();
        }
    }

    /// Empties the cell.
    pub fn take(&self) -> Option<T> {
        self.state.borrow_mut().value.take()
    }

    /// Waits until the cell is filled, and empties it. One task may wait at a time; if several do,
    /// only the last is woken.
    pub async fn wait(&self) -> T {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            match state.value.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    state.waiter = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
