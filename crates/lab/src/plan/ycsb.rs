//! What a plan says of Cassandra and YCSB.

use serde::Deserialize;

use super::words::word;

/// `[cassandra]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cassandra {
    /// Copies of each record.
    pub replication: u32,
    /// Memory of each node's Java heap.
    #[serde(deserialize_with = "word")]
    pub heap: u64,
    /// How many are inserted.
    #[serde(deserialize_with = "word")]
    pub records: u64,
    /// Size of each record, in ten fields of the same size; the keys come on top.
    #[serde(deserialize_with = "word")]
    pub record_bytes: u64,
    /// Operations of a load that is not of inserts alone.
    #[serde(deserialize_with = "word")]
    pub operations: u64,
}

impl Default for Cassandra {
    fn default() -> Cassandra {
        Cassandra {
            replication: 2,
            heap: 512 << 20,
            records: 10_000,
            record_bytes: 1000,
            operations: 10_000,
        }
    }
}

/// What YCSB does: its own workloads, and the inserts before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ycsb {
    /// Inserts all records into an empty table.
    #[default]
    Insert,
    /// Half reads, half updates.
    A,
    /// Reads, and updates in twenty.
    B,
    /// Reads.
    C,
    /// Reads of what was inserted last, and inserts.
    D,
    /// Short scans, and inserts.
    E,
    /// Reads, and updates of what was read.
    F,
}
