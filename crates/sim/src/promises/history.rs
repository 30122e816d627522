//! [`History`]: all that blocks ever were, and what may be said of one that is read.

use super::Promise;
use std::collections::{BTreeMap, BTreeSet};

/// A value that a block was given, by which operation.
#[derive(Clone, Copy, Debug)]
struct Value {
    operation: u64,
    stamp: u64,
    acknowledged: bool,
}

/// What the blocks of a volume or snapshot were, in the order in which they were written. One
/// operation goes on at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    blocks: BTreeMap<u64, Vec<Value>>,
    /// Blocks that could not be read after a crash: nothing is known of them.
    unsettled: BTreeSet<u64>,
}

impl History {
    /// A block was written, or may have been.
    pub fn write(&mut self, block: u64, stamp: u64, operation: u64, acknowledged: bool) {
        if acknowledged {
            self.unsettled.remove(&block);
        }
        self.blocks.entry(block).or_default().push(Value {
            operation,
            stamp,
            acknowledged,
        });
    }

    /// A block is from now on what was read.
    pub fn settle(&mut self, block: u64, stamp: u64, operation: u64) {
        self.write(block, stamp, operation, true);
    }

    /// Blocks do not read.
    pub fn unsettle(&mut self, blocks: BTreeSet<u64>) {
        self.unsettled.extend(blocks);
    }

    /// What a pool keeps that reads a block as `stamp`. If the host has crashed since, operations
    /// behind `through` may be missing where the end of the log is lost.
    ///
    /// # Errors
    /// The block never was so.
    pub fn judge(&self, block: u64, stamp: u64, through: Option<u64>) -> Result<Promise, String> {
        let none = Vec::new();
        let values = self.blocks.get(&block).unwrap_or(&none);
        let newest = values.iter().rfind(|value| value.acknowledged);
        let since = newest.map_or(0, |value| value.operation);
        let is_newest = newest.map_or(0, |value| value.stamp) == stamp;
        let came = |value: &Value| value.stamp == stamp && value.operation > since;
        if is_newest || values.iter().any(came) {
            return Ok(Promise::Right);
        }
        if stamp != 0 && !values.iter().any(|value| value.stamp == stamp) {
            return Err(format!("block {block} reads {stamp}, which it never was"));
        }
        match through {
            Some(through) if since > through => Ok(Promise::MayLackLast),
            Some(_) => Ok(Promise::MayBeStale),
            None if self.unsettled.contains(&block) => Ok(Promise::MayBeStale),
            None => Err(format!(
                "block {block} reads {stamp} again, with no crash in between"
            )),
        }
    }
}
