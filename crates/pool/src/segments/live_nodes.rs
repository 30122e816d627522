//! [`LiveNodes`]: what a scrub has learnt of the segments so far: the nodes that live in those of
//! the maps, and how much the maps have in those of data. No I/O.

use crate::ids::{Generation, LayerId, SegmentNumber};
use crate::location::{Entry, Location};
use crate::segments::{LiveChanges, Segment, Segments};
use crate::volumes::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// Row and column of a node in its segment.
type Spot = (u32, u8);

fn spot(at: Location) -> Spot {
    (at.row, at.column)
}

/// What is known of the map segments that a scrub checks in one walk: some 16 bytes a node.
pub(crate) struct LiveNodes {
    /// These segments, and in each the nodes that live, with their checksums.
    nodes: BTreeMap<SegmentNumber, BTreeMap<Spot, u32>>,
    /// Layers that have yet to be walked through.
    unwalked: BTreeSet<LayerId>,
    walking: Option<LayerId>,
    /// What the walk and merges say of data.
    pub recount: Recount,
}

/// Shares segments of the maps out: each part has no more than so many nodes, or is one segment.
/// There is one part at least.
pub(crate) fn parts(
    maps: Vec<(SegmentNumber, Segment)>,
    nodes_most: u64,
) -> Vec<Vec<(SegmentNumber, Segment)>> {
    let (mut parts, mut nodes) = (vec![Vec::new()], 0);
    for (number, segment) in maps {
        let more = u64::from(segment.live_tree);
        let full = nodes + more > nodes_most;
        if full && parts.last().is_some_and(|part: &Vec<_>| !part.is_empty()) {
            parts.push(Vec::new());
            nodes = 0;
        }
        nodes += more;
        if let Some(part) = parts.last_mut() {
            part.push((number, segment));
        }
    }
    parts
}

impl LiveNodes {
    /// Nothing has been walked through; no merge is under way. `maps` are the segments to check,
    /// `settled` those of data to count.
    pub fn new(
        maps: &[(SegmentNumber, Segment)],
        segments: &Segments,
        tables: &Tables,
        settled: &BTreeSet<SegmentNumber>,
    ) -> LiveNodes {
        let still = |(number, begun): &&(SegmentNumber, Segment)| {
            let found = segments.get(*number);
            found.is_some_and(|found| found.generation == begun.generation)
        };
        let maps = maps.iter().filter(still);
        LiveNodes {
            nodes: maps.map(|(number, _)| (*number, BTreeMap::new())).collect(),
            unwalked: tables.layers.keys().copied().collect(),
            walking: None,
            recount: Recount::new(segments, settled),
        }
    }

    /// Whether a segment is one of those that are checked.
    pub fn checks(&self, segment: SegmentNumber) -> bool {
        self.nodes.contains_key(&segment)
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
            if let Some(nodes) = self.nodes.get_mut(&entry.at.segment) {
                match made {
                    true => nodes.insert(spot(entry.at), entry.crc),
                    false => nodes.remove(&spot(entry.at)),
                };
            }
        }
        let gone = before.layers.keys();
        for id in gone.filter(|id| !after.layers.contains_key(*id)) {
            // Who has its blocks now may have been walked through without them.
            if self.unwalked.remove(id) || self.walking == Some(*id) {
                self.unwalked.extend(after.resolve(*id));
            }
        }
    }

    /// The layer that is to be walked through next.
    pub fn walk_next(&mut self) -> Option<LayerId> {
        self.walking = self.unwalked.pop_first();
        self.walking
    }

    /// The walk has come to these nodes.
    pub fn came_to(&mut self, nodes: &[Entry]) {
        for entry in nodes {
            if let Some(nodes) = self.nodes.get_mut(&entry.at.segment) {
                nodes.insert(spot(entry.at), entry.crc);
            }
        }
    }

    /// The checksum of the node there, if one is known to live there.
    pub fn checksum_at(&self, at: Location) -> Option<u32> {
        let nodes = self.nodes.get(&at.segment)?;
        nodes.get(&spot(at)).copied()
    }

    /// A node is known, with this checksum.
    pub fn knows(&self, entry: Entry) -> bool {
        self.checksum_at(entry.at) == Some(entry.crc)
    }

    /// How many nodes of a segment are known to live.
    pub fn nodes_in(&self, number: SegmentNumber) -> usize {
        self.nodes.get(&number).map_or(0, BTreeMap::len)
    }

    /// Whether every node of a segment that lives is known.
    pub fn is_complete(&self, number: SegmentNumber, segment: &Segment) -> bool {
        self.nodes_in(number) == segment.live_tree as usize
    }
}

/// A data segment of which blocks only die.
pub(crate) struct Counted {
    pub generation: Generation,
    /// Blocks that the maps have there, at most, once the walk has ended.
    pub blocks: u32,
}

/// What the maps have in data segments, as far as the walk has come.
pub(crate) struct Recount {
    pub segments: BTreeMap<SegmentNumber, Counted>,
    /// Every node so far could be read.
    pub whole: bool,
}

impl Recount {
    /// Nothing has been walked through; no merge is under way.
    pub fn new(segments: &Segments, settled: &BTreeSet<SegmentNumber>) -> Recount {
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
    pub fn counts(&self, segment: SegmentNumber) -> bool {
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

    fn add(&mut self, segment: SegmentNumber, blocks: u32) {
        if let Some(counted) = self.segments.get_mut(&segment) {
            counted.blocks = counted.blocks.saturating_add(blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::Kind;

    fn map_segment(nodes: u32) -> Segment {
        let mut segment = Segment::new(Kind::Map, Generation::new(1), Vec::new());
        segment.live_tree = nodes;
        segment
    }

    #[test]
    fn each_part_has_so_many_nodes_at_most_or_is_one_segment() {
        let counts = [3, 3, 5, 20, 1, 0, 9, 1];
        let numbered = (0..).map(SegmentNumber::new);
        let maps = numbered.zip(counts.map(map_segment)).collect();
        let shared = parts(maps, 10);
        let numbers =
            |part: &Vec<(SegmentNumber, Segment)>| part.iter().map(|it| it.0.get()).collect();
        let numbers: Vec<Vec<u32>> = shared.iter().map(numbers).collect();
        assert_eq!(
            numbers,
            [vec![0, 1], vec![2], vec![3], vec![4, 5, 6], vec![7]]
        );
        assert_eq!(
            parts(Vec::new(), 10).len(),
            1,
            "data is to be counted all the same"
        );
    }
}
