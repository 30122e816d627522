//! [`OwnMap`]: what the coordinator knows of the maps' own segments. No I/O.

use crate::ids::SegmentNumber;
use std::cell::Cell;

/// Nodes of the maps, and the segment that further ones go to.
pub(crate) struct OwnMap {
    open: Cell<Option<SegmentNumber>>,
    nodes: Cell<u64>,
    /// Segments of the map lack a drive, and there was room for so many nodes elsewhere, which were
    /// not enough.
    pub waits: Cell<Option<u64>>,
}

impl OwnMap {
    /// The maps have so many nodes.
    pub fn of(nodes: u64) -> OwnMap {
        OwnMap {
            open: Cell::new(None),
            nodes: Cell::new(nodes),
            waits: Cell::new(None),
        }
    }

    pub fn nodes(&self) -> u64 {
        self.nodes.get()
    }

    /// So many as there are when a merge is done that has made `by` more than it has dropped.
    pub fn nodes_after(&self, by: i64) -> u64 {
        self.nodes().saturating_add_signed(by)
    }

    /// That merge is done.
    pub fn merged(&self, by: i64) {
        self.nodes.set(self.nodes_after(by));
    }

    /// So many fewer are there than were counted.
    pub fn count_off(&self, nodes: u64) {
        self.nodes.set(self.nodes().saturating_sub(nodes));
    }

    /// The segment that nodes go to.
    pub fn open_segment(&self) -> Option<SegmentNumber> {
        self.open.get()
    }

    /// Nodes go to this one from now on.
    pub fn open(&self, number: SegmentNumber) {
        self.open.set(Some(number));
    }

    /// These are written no further.
    pub fn close(&self, numbers: &[SegmentNumber]) {
        if self.open.get().is_some_and(|open| numbers.contains(&open)) {
            self.open.set(None);
        }
    }
}
