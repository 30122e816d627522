//! [`LiveNodes`]: what a scrub has learnt of the segments so far: the nodes that live in those of
//! the maps, and how much the maps have in those of data. No I/O.

use crate::location::{Entry, Location};
use crate::segments::{Kind, LiveChanges, Segment, Segments};
use crate::volumes::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the map segments that a scrub checks: about 24 MiB for each TiB mapped, while
/// it runs.
pub(crate) struct LiveNodes {
    /// The segments that there were when it began. What is written to others is new.
    segments: BTreeSet<u32>,
    /// Nodes there that live, and their checksums.
    nodes: BTreeMap<Location, u32>,
    /// Layers that have yet to be walked through.
    unwalked: BTreeSet<u32>,
    walking: Option<u32>,
    /// What the walk and merges say of data.
    pub recount: Recount,
}

impl LiveNodes {
    /// Nothing has been walked through; no merge is under way.
    pub fn new(segments: &Segments, tables: &Tables, settled: &BTreeSet<u32>) -> LiveNodes {
        let table = segments.table().iter();
        let maps = table.filter(|(_, segment)| segment.kind == Kind::Map);
        LiveNodes {
            segments: maps.map(|(number, _)| *number).collect(),
            nodes: BTreeMap::new(),
            unwalked: tables.layers.keys().copied().collect(),
            walking: None,
            recount: Recount::new(segments, settled),
        }
    }

    /// Whether a segment is one of those that are checked.
    pub fn checks(&self, segment: u32) -> bool {
        self.segments.contains(&segment)
    }

    /// A merge is in place: nodes that it made (true) and replaced, in their order, blocks that it
    /// handed on, and what it has made of layers.
    pub fn merged(
        &mut self,
        nodes: &[(Entry, bool)],
        blocks: &LiveChanges,
        before: &Tables,
        after: &Tables,
    ) {
        self.recount.handed_on(blocks);
        for (entry, made) in nodes {
            match made {
                true => self.nodes.insert(entry.at, entry.crc),
                false => self.nodes.remove(&entry.at),
            };
        }
        let gone = before.layers.keys();
        for id in gone.filter(|id| !after.layers.contains_key(id)) {
            // Who has its blocks now may have been walked through without them.
            if self.unwalked.remove(id) || self.walking == Some(*id) {
                self.unwalked.extend(after.resolve(*id));
            }
        }
    }

    /// The layer that is to be walked through next.
    pub fn walk_next(&mut self) -> Option<u32> {
        self.walking = self.unwalked.pop_first();
        self.walking
    }

    /// The walk has come to these nodes.
    pub fn came_to(&mut self, nodes: &[Entry]) {
        let nodes = nodes.iter().map(|entry| (entry.at, entry.crc));
        self.nodes.extend(nodes);
    }

    /// The checksum of the node there, if one is known to live there.
    pub fn checksum_at(&self, at: Location) -> Option<u32> {
        self.nodes.get(&at).copied()
    }

    /// A node is known, with this checksum.
    pub fn knows(&self, entry: Entry) -> bool {
        self.nodes.get(&entry.at) == Some(&entry.crc)
    }

    /// How many nodes of a segment are known to live.
    pub fn nodes_in(&self, number: u32) -> usize {
        let at = |segment| Location {
            segment,
            column: 0,
            row: 0,
        };
        self.nodes.range(at(number)..at(number + 1)).count()
    }

    /// Whether every node of a segment that lives is known.
    pub fn is_complete(&self, number: u32, segment: &Segment) -> bool {
        self.nodes_in(number) == segment.live_tree as usize
    }
}

/// A data segment of which blocks only die.
pub(crate) struct Counted {
    pub generation: u32,
    /// Blocks that the maps have there, at most, once the walk has ended.
    pub blocks: u32,
}

/// What the maps have in data segments, as far as the walk has come.
pub(crate) struct Recount {
    pub segments: BTreeMap<u32, Counted>,
    /// Every node so far could be read.
    pub whole: bool,
}

impl Recount {
    /// Nothing has been walked through; no merge is under way.
    pub fn new(segments: &Segments, settled: &BTreeSet<u32>) -> Recount {
        let settled = settled.iter().filter_map(|number| {
            let segment = segments.get(*number)?;
            let generation = segment.generation;
            let blocks = 0;
            Some((*number, Counted { generation, blocks }))
        });
        Recount {
            segments: settled.collect(),
            whole: true,
        }
    }

    /// Whether merges are to say what they hand on in a segment.
    pub fn counts(&self, segment: u32) -> bool {
        self.segments.contains_key(&segment)
    }

    /// The walk has met a block.
    pub fn met(&mut self, entry: Entry) {
        self.add(entry.at.segment, 1);
    }

    /// The walk could not read a node.
    pub fn missed_some(&mut self) {
        self.whole = false;
    }

    /// A merge that is in place has handed blocks on.
    pub fn handed_on(&mut self, blocks: &LiveChanges) {
        for (segment, blocks) in blocks {
            self.add(*segment, u32::try_from(*blocks).unwrap_or(u32::MAX));
        }
    }

    fn add(&mut self, segment: u32, blocks: u32) {
        if let Some(counted) = self.segments.get_mut(&segment) {
            counted.blocks = counted.blocks.saturating_add(blocks);
        }
    }
}
