//! The records of a leaf and a batch of changes laid above or below them. No I/O.

use crate::format::node::{NODE_RECORDS, NodeRecord};
use crate::location::{BlockNumber, Mapping};
use crate::map::overlay::Change;
use crate::map::tree::NodeSink;
use std::iter::Peekable;
use std::ops::Range;

/// The records of a leaf after `changes`, sorted and disjoint, which count where both speak of the
/// same block. Blocks that come and go are reported.
pub(super) fn merge_above<S: NodeSink>(
    sink: &S,
    old: impl Iterator<Item = NodeRecord>,
    changes: &[Change],
) -> Vec<NodeRecord> {
    let mut merged = Merged::new(changes);
    let mut old = Old::new(old);
    for change in changes {
        while let Some(record) = old.next_before(change.start()) {
            merged.push(record);
        }
        while let Some(record) = old.next_before(change.end()) {
            if let Mapping::Block(entry) = record.mapping {
                sink.lost(entry);
            }
        }
        merged.gain(sink, change, change.start()..change.end());
    }
    merged.rest(old)
}

/// The same, but the changes count only where the leaf says nothing.
pub(super) fn merge_below<S: NodeSink>(
    sink: &S,
    old: impl Iterator<Item = NodeRecord>,
    changes: &[Change],
) -> Vec<NodeRecord> {
    let mut merged = Merged::new(changes);
    let mut old = Old::new(old);
    for change in changes {
        while let Some(record) = old.next_before(change.start()) {
            merged.push(record);
        }
        let mut from = change.start();
        while let Some(record) = old.next_before(change.end()) {
            merged.gain(sink, change, from..record.block);
            from = record.end();
            merged.push(record);
        }
        merged.gain(sink, change, from..change.end());
    }
    merged.rest(old)
}

/// What a leaf holds, from the front.
struct Old<I: Iterator<Item = NodeRecord>> {
    records: Peekable<I>,
    /// What is left of a run whose beginning has been taken.
    rest: Option<NodeRecord>,
}

impl<I: Iterator<Item = NodeRecord>> Old<I> {
    fn new(records: I) -> Old<I> {
        Old {
            records: records.peekable(),
            rest: None,
        }
    }

    /// The next record that begins before `limit`; of a run only what lies before it.
    fn next_before(&mut self, limit: BlockNumber) -> Option<NodeRecord> {
        let begins = |record: &NodeRecord| record.block < limit;
        let next = self.rest.take_if(|rest| begins(rest));
        let record = next.or_else(|| match self.rest {
            None => self.records.next_if(begins),
            Some(_) => None,
        })?;
        if record.end() <= limit {
            return Some(record);
        }
        self.rest = Some(NodeRecord::run(limit..record.end(), record.mapping));
        Some(NodeRecord::run(record.block..limit, record.mapping))
    }
}

/// What it will hold.
struct Merged(Vec<NodeRecord>);

impl Merged {
    fn new(changes: &[Change]) -> Merged {
        Merged(Vec::with_capacity(NODE_RECORDS + changes.len()))
    }

    /// Adds a record behind the others. Runs that say the same become one.
    fn push(&mut self, record: NodeRecord) {
        let run = record.mapping.entry().is_none();
        if run
            && let Some(last) = self.0.last_mut()
            && last.mapping == record.mapping
            && last.end() == record.block
        {
            last.blocks += record.blocks;
            return;
        }
        self.0.push(record);
    }

    /// Adds what a change says of some of its blocks.
    fn gain<S: NodeSink>(&mut self, sink: &S, change: &Change, blocks: Range<BlockNumber>) {
        if blocks.is_empty() {
            return;
        }
        match *change {
            Change::Put { block, entry } => {
                sink.gained(entry);
                self.push(NodeRecord::one(block, entry));
            }
            Change::Cover { run, .. } => self.push(NodeRecord::run(blocks, run.into())),
            Change::Clear { .. } => {}
        }
    }

    /// What comes behind the last change stays.
    fn rest(mut self, mut old: Old<impl Iterator<Item = NodeRecord>>) -> Vec<NodeRecord> {
        while let Some(record) = old.next_before(BlockNumber::MOST) {
            self.push(record);
        }
        self.0
    }
}
