//! The load generator: a [`Workload`] says what to do, each job does it to one device, a
//! [`Journal`] remembers what was acknowledged, a report says how it went.
//!
//! A job lives on one core and shares nothing with the others; its queue depth is that many
//! tasks, each with one buffer, each looping: choose, submit, await, record.

mod journal;
mod offsets;
mod random;
mod report;
mod stamp;
mod statistics;
mod workload;

pub use journal::{Journal, JournalError, Mismatch};
pub use offsets::Offsets;
pub use random::{Permutation, SplitMix};
pub use report::{DirectionReport, Latency, Report, Second, Verification};
pub use stamp::{STAMP_BYTES, Stamp, StampError};
pub use statistics::{Direction, Statistics};
pub use workload::{Pattern, Verify, Workload, WorkloadError};
