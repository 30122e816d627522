//! [`Cut`]: where logs and segments stood when updates were set aside, and the tables that say so.

use crate::format::body::Body;
use crate::ids::{Generation, SegmentNumber, Sequence};
use crate::map::overlay::Overlay;
use crate::segments::{Kind, Segment, SegmentState, Table};
use crate::shard::messages::View;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Data segments as they were when the updates were set aside.
pub(super) struct Cut {
    /// The last stripe of each shard.
    pub sequences: Vec<Sequence>,
    /// What other shards have set aside.
    pub others: Vec<Arc<Overlay>>,
    /// The last that a segment was given.
    pub generation: Generation,
    /// By their numbers, in their order.
    pub segments: Vec<(SegmentNumber, AtCut)>,
    /// Sealed, with nothing in flight.
    pub settled: BTreeSet<SegmentNumber>,
}

/// How far a segment was written.
#[derive(Clone, Copy)]
pub(super) struct AtCut {
    pub kind: Kind,
    pub state: SegmentState,
    pub generation: Generation,
    pub rows: u32,
    pub sequence: Sequence,
    pub tells_of_layers: bool,
}

impl AtCut {
    pub fn of(segment: &Segment) -> AtCut {
        AtCut {
            kind: segment.kind,
            state: segment.state,
            generation: segment.generation,
            rows: segment.rows,
            sequence: segment.sequence,
            tells_of_layers: segment.tells_of_layers(),
        }
    }

    /// Has a segment stand as it did, if it is still of that kind: one that lay ready may have
    /// gone to the map since.
    fn restore(&self, segment: &mut Segment) {
        if segment.kind == self.kind {
            segment.state = self.state;
            segment.rows = self.rows;
            segment.sequence = self.sequence;
        }
    }
}

/// What the tables count, as of a merge.
pub(super) struct Counts {
    pub slice_blocks: u32,
    pub next_generation: Generation,
    pub map_nodes: u64,
}

/// The tables of a checkpoint: the maps as the `view` has them, the log as it stood at the
/// `cut`. Both are as they were then, so others may have their turns: what they change is for the
/// next checkpoint, as it is while these bytes are on their way to the drives.
pub(super) async fn body_of(cut: &Cut, view: &View, counts: Counts, in_a_row: usize) -> Body {
    let mut body = Body {
        slice_blocks: counts.slice_blocks,
        sequences: cut.sequences.clone(),
        next_generation: counts.next_generation,
        map_nodes: counts.map_nodes,
        segments: Table::default(),
        tables: view.tables.clone(),
        decided: None,
    };
    let mut cut = cut.segments.iter().peekable();
    for (turn, (number, segment)) in (1_usize..).zip(view.segments.iter()) {
        if turn.is_multiple_of(in_a_row.max(1)) {
            reactor::yield_now().await;
        }
        let mut segment = segment.as_written();
        while cut.next_if(|(other, _)| other < number).is_some() {}
        if let Some((_, at_cut)) = cut.next_if(|(other, _)| other == number) {
            at_cut.restore(&mut segment);
        }
        body.segments.insert(*number, segment);
    }
    body
}
