//! Experiments: a [`crate::plan::Plan`] is run, and becomes one [`Results`].
//!
//! Repetitions are the outermost loop and targets the next, so that what drifts on a machine
//! spreads over all that is compared. After every load the results are complete as far as they
//! go: an interrupted experiment goes on where it was.

mod answered;
mod claim;
mod compare;
mod database;
mod device;
mod doubt;
mod error;
mod execute;
mod figure;
mod flash_model;
mod machine;
mod measured;
mod observed;
mod results;
mod sizing;
mod steady;
mod stopping;

pub use answered::{Answered, NOT_COMPARED, answered, two_digits, unanswered};
pub use claim::{Claim, claim};
pub use compare::{Change, Comparison, Ratio, Verdict, compare};
pub use doubt::{Doubt, Ended, Standing};
pub use error::LabError;
pub use execute::{AskNode, Event, Execution};
pub use figure::{Figure, Over, figures};
pub use flash_model::profile;
pub use machine::Machine;
pub use measured::{Flash, Measured, Operation, Sample};
pub use observed::{DriveDuring, NodeReading, Observed, Smart};
pub use results::{LeftOut, ResultError, Results, RunResult};
pub use sizing::{NetworkNeed, sizing};
pub use steady::Steady;
