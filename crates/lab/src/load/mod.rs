//! The load generator: a [`Workload`] says what to do, each job does it to one device, a
//! [`Journal`] remembers what was acknowledged, a report says how it went.
//!
//! A job lives on one core and shares nothing with the others; its queue depth is that many
//! tasks, each with one buffer, each looping: choose, submit, await, record.

mod job;
mod journal;
mod offsets;
mod perf;
mod quantity;
mod random;
mod report;
mod stamp;
mod statistics;
mod verification;
mod workload;

pub use job::{Job, JobReport, Progress, Stop};
pub use journal::{Journal, JournalError, Mismatch};
pub use offsets::Offsets;
pub use perf::{PerfError, PerfOptions, Snapshot, run};
pub use quantity::{QuantityError, parse_bytes, parse_duration};
pub use random::{Permutation, SplitMix};
pub use report::{DirectionReport, Latency, Report, Second, Verification};
pub use stamp::{STAMP_BYTES, Stamp, StampError};
pub use statistics::{Direction, Statistics};
pub use verification::{Pass, verify};
pub use workload::{Pattern, Region, Verify, Workload, WorkloadError};
