//! [`Shown`]: the coordinator's table as another shard takes it over.

use crate::ids::SegmentNumber;
use crate::segments::{Kind, SegmentState, Table};

/// A table that is looked through some segments at a time. Nothing else sees it before that is
/// done: it is as if it came later.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(super) table: Table,
    /// Sums of the live counts of data segments that were looked at.
    pub(super) live_data: u64,
    pub(super) live_in_maps: u64,
    /// Segments from this number on are left.
    next: Option<SegmentNumber>,
}

impl Shown {
    pub fn new(table: Table) -> Shown {
        Shown {
            table,
            live_data: 0,
            live_in_maps: 0,
            next: Some(SegmentNumber::FIRST),
        }
    }

    /// Goes on by so many segments; false when all are done. Nobody here writes them on.
    pub fn step(&mut self, segments: usize) -> bool {
        let Some(from) = self.next else {
            return false;
        };
        let (live_data, live_in_maps) = (&mut self.live_data, &mut self.live_in_maps);
        self.next = self.table.change_some(from, segments, |_, segment| {
            segment.state = SegmentState::Sealed;
            segment.writer = None;
            if segment.kind != Kind::Map {
                *live_data += segment.live();
                *live_in_maps += u64::from(segment.live_tree);
            }
        });
        self.next.is_some()
    }
}
