//! Databases under load: MariaDB by TPC-C (go-tpc), Cassandra by YCSB (go-ycsb). Each is processes
//! of its own, on file systems of its own on the target's block devices, and gone afterwards.

mod cassandra;
mod consistency;
mod cql;
mod mariadb;
mod mounted;
mod operations;
mod tpcc;
mod transactions;
mod ycsb;

pub use mariadb::mariadb_client;
pub(crate) use tpcc::{TpccBench, TpccTarget};
pub(crate) use ycsb::YcsbTarget;

use crate::load::Stop;
use crate::plan::Case;
use crate::program::ProgramError;

/// One load, as it is run.
pub(crate) struct DatabaseRun<'a> {
    pub(crate) case: &'a Case,
    /// Processes to watch, by name and number.
    pub(crate) processes: &'a [(String, u32)],
    pub(crate) stop: &'a Stop,
}

/// Why a database did not run a load.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// A program that takes part is missing, or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Cassandra's jars are not there.
    #[error("Cassandra is not installed; make lab-tools, in Flashyard's source")]
    NoCassandra,
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
