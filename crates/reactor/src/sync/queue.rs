//! [`Queue`]: values from many tasks to many tasks.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;

use super::notify::Notify;

/// The queue takes no more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
pub struct Closed<T>(pub T);

/// Why [`Queue::try_push`] gave the value back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError<T> {
    /// There is no room now.
    #[error("the queue is full")]
    Full(T),
    /// There never will be.
    #[error("the queue is closed")]
    Closed(T),
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

/// First in, first out; share it in an `Rc`.
pub struct Queue<T> {
    values: RefCell<VecDeque<T>>,
    capacity: usize,
    closed: Cell<bool>,
    filled: Notify,
    drained: Notify,
}

impl<T> Queue<T> {
    /// A queue of at most `capacity` values.
    pub fn bounded(capacity: usize) -> Queue<T> {
        Queue::with(VecDeque::with_capacity(capacity), capacity)
    }

    /// A queue that takes any number of values.
    pub fn unbounded() -> Queue<T> {
        Queue::with(VecDeque::new(), usize::MAX)
    }

    fn with(values: VecDeque<T>, capacity: usize) -> Queue<T> {
        Queue {
            values: RefCell::new(values),
            capacity,
            closed: Cell::new(false),
            filled: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Adds a value if there is room.
    ///
    /// # Errors
    /// The value, when the queue is full or closed.
    pub fn try_push(&self, value: T) -> Result<(), PushError<T>> {
        if self.closed.get() {
            return Err(PushError::Closed(value));
        }
        {
            let mut values = self.values.borrow_mut();
            if values.len() >= self.capacity {
                return Err(PushError::Full(value));
            }
            values.push_back(value);
        }
        self.filled.notify_one();
        Ok(())
    }

    /// Adds a value, waiting for room.
    ///
    /// # Errors
    /// The value, when the queue is closed.
    pub async fn push(&self, mut value: T) -> Result<(), Closed<T>> {
        loop {
            match self.try_push(value) {
                Ok(()) => return Ok(()),
                Err(PushError::Closed(back)) => return Err(Closed(back)),
                Err(PushError::Full(back)) => value = back,
            }
            self.drained.notified().await;
        }
    }

    /// Takes the oldest value, if there is one.
    pub fn try_pop(&self) -> Option<T> {
        let value = self.values.borrow_mut().pop_front()?;
        if self.capacity != usize::MAX {
            self.drained.notify_one();
        }
        Some(value)
    }

    /// Takes the oldest value, waiting for one; `None` once the queue is closed and empty.
    pub async fn pop(&self) -> Option<T> {
        loop {
            if let Some(value) = self.try_pop() {
                return Some(value);
            }
            if self.closed.get() {
                return None;
            }
            self.filled.notified().await;
        }
    }

    /// Takes no more values; those that are in it can still be taken out.
    pub fn close(&self) {
        self.closed.set(true);
        self.filled.notify_all();
        self.drained.notify_all();
    }

    /// Values in the queue.
    pub fn len(&self) -> usize {
        self.values.borrow().len()
    }

    /// Whether no value is in the queue.
    pub fn is_empty(&self) -> bool {
        self.values.borrow().is_empty()
    }
}
