//! One event loop per core, and everything that waits on it.
//!
//! In this room: tasks, scopes that a panic ends, timers, TCP sockets, files, single-threaded
//! synchronisation, mailboxes between cores, memory for C libraries that know only callbacks,
//! memory shared with the kernel's FUSE, and the two drivers behind all of them: io_uring for real
//! work, and a seeded simulation with virtual time for tests. Not in this room: any protocol, any
//! storage layout.
//!
//! ```text
//!   tasks --poll--> operations --entries--> ring --io_uring_enter--> kernel
//!     ^                                                                |
//!     +------ wakers (plain integers) <------ completions <------------+
//! ```
//!
//! One turn of the loop polls every ready task, then submits all they asked for and reaps all that
//! finished with one system call. When there is nothing to do the loop polls the rings for
//! [`ReactorConfig::spin`], then sleeps in the kernel until a completion, a message or a timer.
//! The free functions ([`spawn`], [`sleep`], [`now`], ...) act on the reactor that runs the
//! calling task and panic outside one.

pub mod cores;
pub mod file;
pub mod foreign;
pub mod fuse;
pub mod mailbox;
pub mod net;
pub mod sim;
pub mod sync;

mod blocking;
mod clock;
mod context;
mod executor;
mod inbox;
mod operation;
mod reactor;
mod readable;
mod ring;
mod scope;
mod start_error;
mod task;
mod time;
mod timers;
mod usage;
mod waker;
mod work;

pub use blocking::{blocking, computing};
pub use clock::Instant;
pub use reactor::{Reactor, ReactorConfig};
pub use readable::readable;
pub use scope::{Failed, Failure, Scope, SharedScope, Within, in_scope};
pub use start_error::StartError;
pub use task::{CancelOnDrop, Task, YieldNow, spawn, yield_now};
pub use time::{Elapsed, Sleep, Timeout, now, sleep, sleep_until, timeout, turn_started};
pub use usage::{LONG_STEP, Usage, usage};
pub use work::{Step, count_work};
