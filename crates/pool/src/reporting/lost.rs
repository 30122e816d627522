//! What a scrub found, and what is lost.

use crate::volumes::Holder;
use block::BlockRange;

/// A block that could not be read with all the redundancy there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostBlock {
    /// The layer that holds it: of a volume, or of a snapshot below it.
    pub layer: u32,
    /// Which block of it.
    pub block: u64,
}

/// What one volume or snapshot has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which one.
    pub holder: Holder,
    /// How many of its blocks.
    pub blocks: u64,
    /// Where: the first 64 ranges of them.
    pub ranges: Vec<BlockRange>,
}

/// A node of the map that is lost: what it said of some blocks nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostNode {
    /// The layer whose map it was in.
    pub layer: u32,
    /// The blocks that it was about, of which each may be lost.
    pub blocks: BlockRange,
    /// Who may read them.
    pub holders: Vec<Holder>,
}

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Stripes checked, redundancy included.
    pub stripes: u64,
    /// Map nodes checked.
    pub nodes: u64,
    /// How often the maps were walked through: more than once where there are more nodes than
    /// memory is to hold at a time.
    pub walks: u64,
    /// Blocks that were wrong and are right now.
    pub repaired: u64,
    /// Blocks of stripes whose header is lost, and that are elsewhere now.
    pub moved: u64,
    /// Blocks and nodes that segments were counted to hold and no map has: nodes that told of them
    /// were lost before. Their space is free now.
    pub recounted: u64,
    /// Blocks of data that are lost, whoever reads them.
    pub lost_blocks: u64,
    /// Whose they are. What several read is with each of them; what nobody reads any more that
    /// has a name, with none.
    pub lost: Vec<Lost>,
    /// Map nodes that are lost, and everything below them.
    pub lost_nodes: u64,
    /// The first 64 of them.
    pub nodes_lost: Vec<LostNode>,
}
