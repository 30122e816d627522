//! [`LabError`]: why an experiment did not run.

use std::path::PathBuf;

use initiator::LossReason;

use crate::database::DatabaseError;
use crate::experiment::ResultError;
use crate::fio::FioError;
use crate::load::WorkloadError;
use crate::session::{KEEP_ALIVE, SessionError};

/// Why an experiment did not run, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A target cannot be opened or used.
    #[error("target {target}: {source}")]
    Session {
        /// The target's name.
        target: String,
        /// Why.
        source: SessionError,
    },
    /// A load does not suit a target.
    #[error("workload {workload} on {target}: {source}")]
    Workload {
        /// The load's name.
        workload: String,
        /// The target's name.
        target: String,
        /// Why.
        source: WorkloadError,
    },
    /// The drive model refuses.
    #[error("workload {workload} on {target}: {source}")]
    Model {
        /// The load's name.
        workload: String,
        /// The target's name.
        target: String,
        /// Why.
        source: ssd::ProfileError,
    },
    /// fio could not be run, or said what we do not understand.
    #[error("workload {workload} on {target}: {source}")]
    Fio {
        /// The load's name.
        workload: String,
        /// The target's name.
        target: String,
        /// Why.
        source: FioError,
    },
    /// A database could not be run, or lost data.
    #[error("{source}")]
    Database {
        /// Why.
        #[from]
        source: DatabaseError,
    },
    /// I/O failed while it was measured or prepared.
    #[error("workload {workload} on {target}: {first}")]
    Io {
        /// The load's name.
        workload: String,
        /// The target's name.
        target: String,
        /// The first failure, in words.
        first: String,
    },
    /// The connection to a volume was lost while it was measured or prepared.
    #[error(
        "workload {workload} on {target}: connection to {address} lost: {}; the same command goes \
         on with the runs that are left",
        why(*.reason, *.gave_up)
    )]
    ConnectionLost {
        /// The load's name.
        workload: String,
        /// The target's name.
        target: String,
        /// The volume's address.
        address: String,
        /// Why.
        reason: LossReason,
        /// The node says that it has given up a host for its silence.
        gave_up: bool,
    },
    /// A profile's file cannot be read.
    #[error("{}: {source}", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Results cannot be kept.
    #[error(transparent)]
    Results(#[from] ResultError),
}

/// Which end was silent, where one was: a machine that is too busy lets neither keep its time.
fn why(reason: LossReason, gave_up: bool) -> String {
    match reason {
        LossReason::Silent => format!(
            "{reason}, which is {KEEP_ALIVE:?}: it has ended, is out of reach, or its machine is \
             too busy"
        ),
        _ if gave_up => format!(
            "{reason}, for it had heard nothing of this host for more than {KEEP_ALIVE:?}: this \
             machine is too busy, or stood still"
        ),
        reason => reason.to_string(),
    }
}
