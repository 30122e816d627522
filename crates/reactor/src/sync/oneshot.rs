//! One value from one task to another, once; either end may go away.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The sender went away without sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender was dropped")]
pub struct Closed;

struct State<T> {
    value: Option<T>,
    waiter: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// The end that sends.
pub struct Sender<T> {
    state: Rc<RefCell<State<T>>>,
}

/// The end that waits. Awaiting it gives the value, or [`Closed`].
pub struct Receiver<T> {
    state: Rc<RefCell<State<T>>>,
}

/// A sender and the receiver it sends to.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(State {
        value: None,
        waiter: None,
        sender_gone: false,
        receiver_gone: false,
    }));
    let sender = Sender {
        state: Rc::clone(&state),
    };
    (sender, Receiver { state })
}

impl<T> Sender<T> {
    /// Sends the value.
    ///
    /// # Errors
    /// The value, when the receiver was dropped.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut state = self.state.borrow_mut();
        if state.receiver_gone {
            return Err(value);
        }
        state.value = Some(value);
        Ok(())
    }

    /// Whether the receiver was dropped, so that nobody waits for the value.
    pub fn is_closed(&self) -> bool {
        self.state.borrow().receiver_gone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waiter = {
            let mut state = self.state.borrow_mut();
            state.sender_gone = true;
            state.waiter.take()
        };
        if let Some(waker) = waiter {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.borrow_mut();
        match state.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None if state.sender_gone => Poll::Ready(Err(Closed)),
            None => {
                state.waiter = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let value = {
            let mut state = self.state.borrow_mut();
            state.receiver_gone = true;
            state.value.take()
        };
        drop(value);
    }
}
