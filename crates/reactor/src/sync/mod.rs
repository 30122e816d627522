//! Waiting between tasks of one reactor: no atomics, no locks, first come first served.
//!
//! Nothing here allocates per use once it has grown to the number of tasks that wait at a time.
//! Every future may be dropped at any point; what it had been promised goes to the next in line.

mod mutex;
mod notify;
pub mod oneshot;
mod queue;
mod semaphore;
mod signal;
mod waiters;

pub use mutex::{Mutex, MutexGuard};
pub use notify::{Notified, Notify};
pub use queue::{Closed, PushError, Queue};
pub use semaphore::{Permit, Semaphore};
pub use signal::Signal;

#[cfg(test)]
mod tests;
