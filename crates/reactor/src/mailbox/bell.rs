//! Who waits for a mailbox: one waker that any thread may take and call.
//!
//! A waiter registers, then looks again, then suspends; the other side changes the mailbox, then
//! rings. Registering and ringing order themselves through one sequentially consistent flag, so
//! one of the two always sees the other.

use std::task::Waker;

use super::atomics::{AtomicBool, Mutex, Ordering, fence, lock};

/// Tasks that wait for one side of a mailbox to move.
pub(crate) struct Bell {
    /// Whether `waiting` may hold anything: what the fast path looks at.
    armed: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell {
            armed: AtomicBool::new(false),
            waiting: Mutex::new(Vec::new()),
        }
    }

    /// Adds a waiter. It must look once more before it suspends.
    pub(crate) fn register(&self, waker: &Waker) {
        {
            let mut waiting = lock(&self.waiting);
            if !waiting.iter().any(|other| other.will_wake(waker)) {
                waiting.push(waker.clone());
            }
        }
        self.armed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Wakes whoever waits. Called after the change that they wait for.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if !self.armed.load(Ordering::Relaxed) {
            return;
        }
        self.armed.store(false, Ordering::SeqCst);
        loop {
            // Wakers are called outside the lock: they may take other locks.
            let next = lock(&self.waiting).pop();
            match next {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }
}
