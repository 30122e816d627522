//! [`Mutex`]: one task at a time, also across suspensions.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

use super::semaphore::{Permit, Semaphore};

/// A value that one task at a time may use, for as long as it likes.
pub struct Mutex<T> {
    turn: Semaphore,
    value: RefCell<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Mutex<T> {
        Mutex {
            turn: Semaphore::new(1),
            value: RefCell::new(value),
        }
    }

    /// Waits for the task's turn.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        let turn = self.turn.acquire(1).await;
        self.guard(turn)
    }

    /// Locks if nobody else has or wants the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.turn.try_acquire(1).map(|turn| self.guard(turn))
    }

    fn guard<'a>(&'a self, turn: Permit<'a>) -> MutexGuard<'a, T> {
        MutexGuard {
            value: self.value.borrow_mut(),
            _turn: turn,
        }
    }

    /// The value, which nobody else can have.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// The locked value; dropping this unlocks it.
pub struct MutexGuard<'a, T> {
    // Dropped first: the value must be free before the next in line has its turn.
    value: RefMut<'a, T>,
    _turn: Permit<'a>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
