//! Databases under load: MariaDB by TPC-C (go-tpc). Each is a process of its own, on a file
//! system of its own on the target's block devices, and gone afterwards.

mod consistency;
mod mariadb;
mod mounted;
mod tpcc;
mod transactions;

pub(crate) use tpcc::{TpccBench, TpccRun};

use crate::program::ProgramError;

/// Why a database did not run a load.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// A program that takes part is missing, or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// What a program printed is not what we know.
    #[error("{program}'s answer cannot be read: {reason}")]
    Answer {
        /// Its name.
        program: &'static str,
        /// Why not.
        reason: String,
    },
    /// The database's content contradicts itself.
    #[error("the data is not consistent: {0}")]
    Inconsistent(String),
}
