//! [`Victim`]: a segment that is being cleaned, and what is known of it in the end. No I/O.

use crate::ids::{Generation, SegmentNumber};
use crate::location::LayerBlock;
use crate::mutation::Mutation;
use crate::segments::runs::Rows;
use crate::segments::zones::Zone;
use crate::segments::{Segment, Segments};
use std::collections::BTreeSet;

/// So many blocks are named at most of which the map does not tell where they are.
const UNMAPPED_MAX: usize = 64;

/// A segment that is being cleaned, and how far that has got.
pub(crate) struct Victim {
    pub number: SegmentNumber,
    pub generation: Generation,
    pub columns: Vec<Option<Zone>>,
    /// What is in it was moved there.
    pub moved: bool,
    /// Rows to look at, and the one to go on from.
    pub rows: u32,
    pub row: u32,
    /// Blocks that still count as live in the rows to come, or more.
    pub live: u64,
    /// Blocks that the maps of these tables have here and that are on their way, or have been
    /// replaced since.
    pub accounted: u64,
    pub tables_version: u64,
    /// Headers of the rows to come.
    pub ahead: Option<Rows>,
    /// So far every header could be read, and where the maps have each block that they tell of.
    pub whole: bool,
    /// Some of the blocks of which that is not so: the node that told of them cannot be read.
    pub unmapped: BTreeSet<LayerBlock>,
}

/// What is known of a segment of which one shard has looked at all rows.
#[derive(Default)]
pub(crate) struct Emptied {
    /// How many blocks the maps have there that the shard has replaced for certain, now that what
    /// it took out has been moved. `None` if they have changed since, or something stays.
    pub accounted: Option<u64>,
    /// As of the next merge the maps have nothing of the shard's there, whatever they had.
    pub whole: bool,
    /// Some of the blocks of which that cannot be said.
    pub unmapped: BTreeSet<LayerBlock>,
}

impl Victim {
    pub fn new(number: SegmentNumber, segment: &Segment, tables_version: u64) -> Victim {
        Victim {
            number,
            generation: segment.generation,
            columns: segment.columns.clone(),
            moved: segment.moved,
            rows: segment.rows,
            row: 0,
            live: segment.live(),
            accounted: 0,
            tables_version,
            ahead: None,
            whole: true,
            unmapped: BTreeSet::new(),
        }
    }

    /// All rows have been looked at, and what was taken out has been moved; something `stays` that
    /// cannot be.
    pub fn end(self, segments: &Segments, tables_version: u64, stays: bool) -> Emptied {
        let segment = segments.get(self.number);
        let same = self.tables_version == tables_version
            && segment.is_some_and(|segment| segment.live_overlay == 0);
        let all = segment.map(|segment| u64::from(segment.live_tree));
        let accounted = match Mutation::CleansHalf.is_planted() {
            true => all,
            false => Some(self.accounted),
        };
        Emptied {
            accounted: accounted.filter(|_| same && !stays),
            whole: self.whole && !stays,
            unmapped: self.unmapped,
        }
    }

    /// No node tells where these are.
    pub fn note_unmapped(&mut self, blocks: Vec<LayerBlock>) {
        self.whole &= blocks.is_empty();
        let room = UNMAPPED_MAX - self.unmapped.len();
        self.unmapped.extend(blocks.into_iter().take(room));
    }
}
