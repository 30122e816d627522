//! [`Plan`]: an experiment as a TOML file: what to run on, with which loads, how often, and what
//! was published. `docs/lab.md` is the page for people who write one.
//!
//! Text becomes a plan in three steps: the tables are read ([`schema`]), the size's values and
//! those of the command line are put into them ([`change`]), and what the types cannot say is
//! checked ([`check`]). Every refusal names its line and column, or the `--set` that caused it.

mod answer;
mod change;
mod check;
mod error;
mod expand;
mod metric;
mod names;
mod place;
mod schema;
#[cfg(test)]
mod tests;
mod words;
mod ycsb;

pub use answer::{Answer, Side};
pub use change::Change;
pub use error::PlanError;
pub use expand::{Case, DatabaseLoad};
pub use metric::{Metric, Unit};
pub use names::{named, names};
pub use schema::{
    Clock, Collect, Endurance, Level, Plan, Precondition, Published, Run, Runner, Sizing, Target,
    TargetKind, Tpcc, Transport, WorkloadTable,
};
pub use ycsb::{Cassandra, Ycsb};
