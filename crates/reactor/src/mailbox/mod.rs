//! Mailboxes between cores: bounded, many senders, one receiver, no allocation per message.
//!
//! A message costs one compare-and-swap and one store; the receiver's reactor is called only if
//! its task waits, and its thread only if it sleeps. When the mailbox is full, senders wait: that
//! is the back-pressure between cores.
#![allow(unsafe_code, reason = "a lock-free queue; see the SAFETY lines")]

mod bell;
mod ring;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use atomics::{AtomicBool, AtomicUsize, Ordering};
use bell::Bell;
use ring::Ring;

/// The primitives under a mailbox, in one place so that tests can put a model checker's there.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard};

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct Shared<T> {
    ring: Ring<T>,
    /// The receiver waits for a message.
    filled: Bell,
    /// Senders wait for room.
    drained: Bell,
    senders: AtomicUsize,
    receiver_gone: AtomicBool,
}

/// Why [`Sender::try_send`] gave the message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// There is no room now.
    #[error("the mailbox is full")]
    Full(T),
    /// The receiver is gone.
    #[error("the mailbox has no receiver")]
    Closed(T),
}

/// The receiver is gone; the message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mailbox has no receiver")]
pub struct Closed<T>(pub T);

/// The end that sends; clone it for every sender.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The end that receives. It may move between threads, but is used by one at a time.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// A mailbox for at least `capacity` messages (rounded up to a power of two, at least two).
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        ring: Ring::new(capacity),
        filled: Bell::new(),
        drained: Bell::new(),
        senders: AtomicUsize::new(1),
        receiver_gone: AtomicBool::new(false),
    });
    let sender = Sender {
        shared: Arc::clone(&shared),
    };
    (sender, Receiver { shared })
}

impl<T: Send> Sender<T> {
    /// Sends a message if there is room.
    ///
    /// # Errors
    /// The message, when the mailbox is full or has no receiver.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        if self.shared.receiver_gone.load(Ordering::SeqCst) {
            return Err(TrySendError::Closed(message));
        }
        self.shared.ring.push(message).map_err(TrySendError::Full)?;
        self.shared.filled.ring();
        Ok(())
    }

    /// Sends a message, waiting for room.
    ///
    /// # Errors
    /// The message, when there is no receiver.
    pub async fn send(&self, message: T) -> Result<(), Closed<T>> {
        let mut message = message;
        loop {
            match self.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(back)) => return Err(Closed(back)),
                Err(TrySendError::Full(back)) => message = back,
            }
            let mut registered = false;
            poll_fn(|context| {
                if registered {
                    return Poll::Ready(());
                }
                registered = true;
                self.shared.drained.register(context.waker());
                let gone = self.shared.receiver_gone.load(Ordering::SeqCst);
                if gone || self.shared.ring.has_room() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Sender {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.filled.ring();
        }
    }
}

impl<T: Send> Receiver<T> {
    /// Takes the oldest message, if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        // SAFETY: there is one receiver, and `&mut self` makes this its only call.
        let message = unsafe { self.shared.ring.pop() }?;
        self.shared.drained.ring();
        Some(message)
    }

    /// Takes the oldest message, waiting for one; `None` once all senders are gone.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| {
            if let Some(message) = self.try_recv() {
                return Poll::Ready(Some(message));
            }
            self.shared.filled.register(context.waker());
            let last = self.shared.senders.load(Ordering::SeqCst) == 0;
            match self.try_recv() {
                Some(message) => Poll::Ready(Some(message)),
                None if last => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receiver_gone.store(true, Ordering::SeqCst);
        // SAFETY: as in `try_recv`. A message whose sender is just now writing it is dropped with
        // the mailbox.
        while unsafe { self.shared.ring.pop() }.is_some() {}
        self.shared.drained.ring();
    }
}
