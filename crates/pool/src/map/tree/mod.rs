//! A layer's map: a copy-on-write tree of [`Node`]s, changed by whole sorted batches.
//!
//! Pure over [`Nodes`]: where nodes are kept, cached and written is somebody else's concern.

mod merge;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use merge::{Laid, compact, merge};

use crate::format::node::{LEVELS_MAX, Node, NodeRecord};
use crate::ids::LayerId;
use crate::location::{BlockNumber, Entry, Mapping};
use crate::map::cache::NodeCache;
use crate::volumes::Root;
use block::IoError;
use std::ops::Range;
use std::sync::Arc;

/// Where nodes are read from.
#[allow(
    async_fn_in_trait,
    reason = "one reactor per core: futures are never sent"
)]
pub(crate) trait Nodes {
    /// The node at `entry`, checked against its checksum.
    async fn load(&self, entry: Entry) -> Result<Arc<Node>, IoError>;
}

/// Where a changed tree goes, and who keeps count of what lives.
pub(crate) trait NodeSink: Nodes {
    /// Gives a new node a place. It can be loaded from there at once.
    async fn store(&self, node: Node) -> Result<Entry, IoError>;
    /// The node at `entry` is no longer part of the tree.
    fn discard(&self, entry: Entry);
    /// A leaf now points at a data block.
    fn gained(&self, entry: Entry);
    /// A leaf no longer points at a data block.
    fn lost(&self, entry: Entry);
    /// The node that said something about these blocks cannot be read. Returns which of them, at
    /// least one, are to be known as lost; an error if the tree is better left as it is.
    fn unreadable(
        &self,
        layer: LayerId,
        blocks: Range<BlockNumber>,
    ) -> Result<Range<BlockNumber>, IoError>;
    /// A node that cannot be read was left where it is, with what it tells of.
    fn passed_over(&self);
}

async fn load_level<N: Nodes>(nodes: &N, at: Mapping, level: u8) -> Result<Arc<Node>, IoError> {
    let entry = at.entry().ok_or(IoError::Internal)?;
    let node = nodes.load(entry).await?;
    if node.level() != level || level >= LEVELS_MAX || node.len() == 0 {
        return Err(IoError::Internal);
    }
    Ok(node)
}

/// Refuses a node that speaks of other blocks than those that it is about: what is made of it would
/// be in no order, and a node in two places would be walked through as often.
fn check_span(node: &Node, span: Range<BlockNumber>) -> Result<(), IoError> {
    let blocks = node.blocks();
    match span.start <= blocks.start && blocks.end <= span.end {
        true => Ok(()),
        false => Err(IoError::Internal),
    }
}

/// Writes down what the tree says about the blocks from `start` on, where nothing is said yet.
/// Returns of how many all is known: it ends where a node is not in memory.
pub(crate) fn peek(
    cache: &NodeCache,
    root: Root,
    start: BlockNumber,
    found: &mut [Option<Mapping>],
) -> usize {
    let mut index = 0;
    while let Some(unsaid) = found[index..].iter().position(Option::is_none) {
        index += unsaid;
        let Some(leaf) = peek_leaf(cache, root, start + index as u64) else {
            return index;
        };
        index += leaf.fill(start + index as u64, &mut found[index..]);
    }
    found.len()
}

/// A leaf in memory, if there is one where a block belongs, and where the next leaf begins.
pub(crate) struct Leaf<'a> {
    node: Option<&'a Node>,
    start: BlockNumber,
    end: BlockNumber,
}

impl Leaf<'_> {
    /// True when a block belongs here.
    pub fn covers(&self, block: BlockNumber) -> bool {
        (self.start..self.end).contains(&block)
    }

    /// What it says about a block that belongs here.
    pub fn find(&self, block: BlockNumber) -> Option<Mapping> {
        let record = self.node?.find(block)?;
        record.covers(block).then_some(record.mapping)
    }

    /// Writes down what it says of the blocks from `start` on; returns of how many it could say.
    fn fill(&self, start: BlockNumber, found: &mut [Option<Mapping>]) -> usize {
        let blocks = (found.len() as u64).min(self.end - start);
        let Some(node) = self.node else {
            return blocks as usize;
        };
        let first = node.rank(start).saturating_sub(1);
        for record in (first..node.len()).map(|index| node.record(index)) {
            let from = record.block.max(start) - start;
            if from >= blocks {
                break;
            }
            let to = record.end().clamp(start + from, start + blocks) - start;
            for one in &mut found[from as usize..to as usize] {
                one.get_or_insert(record.mapping);
            }
        }
        blocks as usize
    }
}

/// The node at `at`, if it is in memory.
pub(crate) fn peek_node(cache: &NodeCache, at: Mapping, level: u8) -> Option<&Node> {
    let node = cache.get(at.entry()?)?;
    (node.level() == level).then_some(node)
}

/// The leaf in which `block` belongs, if every node on the way to it is in memory.
pub(crate) fn peek_leaf(cache: &NodeCache, root: Root, block: BlockNumber) -> Option<Leaf<'_>> {
    let mut at = root.mapping;
    // What belongs to a leaf may lie before its first record: only from `block` on is known.
    let (start, mut end) = (block, BlockNumber::MOST);
    for level in (0..=root.level).rev() {
        let node = peek_node(cache, at, level)?;
        if level == 0 {
            let node = Some(node);
            return Some(Leaf { node, start, end });
        }
        let rank = node.rank(block);
        if rank < node.len() {
            end = node.record(rank).block;
        }
        if rank == 0 {
            let node = None;
            return Some(Leaf { node, start, end });
        }
        at = node.record(rank - 1).mapping;
    }
    None
}

/// What the tree says about `block`.
pub(crate) async fn lookup<N: Nodes>(
    nodes: &N,
    root: Root,
    block: BlockNumber,
) -> Result<Option<Mapping>, IoError> {
    let mut at = root.mapping;
    for level in (0..=root.level).rev() {
        let node = load_level(nodes, at, level).await?;
        let Some(record) = node.find(block) else {
            return Ok(None);
        };
        if level == 0 {
            return Ok(record.covers(block).then_some(record.mapping));
        }
        at = record.mapping;
    }
    Ok(None)
}

/// The way to a leaf, as far as it could be gone.
struct Way {
    /// The leaf; or else the node that cannot be read.
    end: Result<Arc<Node>, Entry>,
    /// The first block that its end is about.
    low: BlockNumber,
    /// The first that the next one is about.
    next: Option<BlockNumber>,
}

async fn way_to<N: Nodes>(nodes: &N, root: Root, block: BlockNumber) -> Result<Way, IoError> {
    let (mut at, mut level) = (root.mapping, root.level);
    let (mut low, mut next) = (BlockNumber::FIRST, None);
    loop {
        let node = match (load_level(nodes, at, level).await, at.entry()) {
            (Err(IoError::UnrecoveredRead), Some(entry)) => {
                let end = Err(entry);
                return Ok(Way { end, low, next });
            }
            (loaded, _) => loaded?,
        };
        // The first child may be about blocks before its own first.
        check_span(&node, BlockNumber::FIRST..next.unwrap_or(BlockNumber::END))?;
        if level == 0 {
            let end = Ok(node);
            return Ok(Way { end, low, next });
        }
        let index = node.rank(block).max(1) - 1;
        if index + 1 < node.len() {
            next = Some(node.record(index + 1).block);
        }
        let record = node.record(index);
        (at, low, level) = (record.mapping, record.block, level - 1);
    }
}

/// The node that tells of `block` and cannot be read, with the blocks that it is about; `None` if
/// all is well.
pub(crate) async fn unreadable_of<N: Nodes>(
    nodes: &N,
    root: Root,
    block: BlockNumber,
) -> Result<Option<(Entry, Range<BlockNumber>)>, IoError> {
    let way = way_to(nodes, root, block).await?;
    let about = way.low..way.next.unwrap_or(BlockNumber::END);
    Ok(way.end.err().map(|entry| (entry, about)))
}

/// The records of the leaf in which `from` belongs that reach beyond it, and the first block of the
/// next leaf; calling again with that one walks the whole tree. What a node that cannot be read
/// was about is one run that is lost.
pub(crate) async fn leaf_from<N: Nodes>(
    nodes: &N,
    root: Root,
    from: BlockNumber,
) -> Result<(Vec<NodeRecord>, Option<BlockNumber>), IoError> {
    let Way { end, low, next } = way_to(nodes, root, from).await?;
    let records = match end {
        Ok(leaf) => {
            let records = leaf.records().filter(|record| record.covers(from));
            records.collect()
        }
        Err(_) => {
            let blocks = low.max(from)..next.unwrap_or(BlockNumber::END);
            vec![NodeRecord::run(blocks, Mapping::Lost)]
        }
    };
    Ok((records, next))
}

/// The first leaves of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub leaves: usize,
    /// Where the next one begins; `None` if there is none.
    pub end: Option<BlockNumber>,
}

/// So many of the first leaves of a tree, or all. A node above them that cannot be read counts as
/// one.
pub(crate) async fn first_leaves<N: Nodes>(
    nodes: &N,
    root: Root,
    most: usize,
) -> Result<First, IoError> {
    let (mut from, mut leaves) = (BlockNumber::FIRST, 0);
    while leaves < most {
        let mut at = root.mapping;
        let mut next = None;
        let mut found = 1;
        for level in (1..=root.level).rev() {
            let node = match load_level(nodes, at, level).await {
                Err(IoError::UnrecoveredRead) => break,
                loaded => loaded?,
            };
            let index = node.rank(from).max(1) - 1;
            if level == 1 {
                found = (node.len() - index).min(most - leaves);
            }
            let behind = index + if level == 1 { found } else { 1 };
            if behind < node.len() {
                next = Some(node.record(behind).block);
            }
            at = node.record(index).mapping;
        }
        leaves += found;
        match next {
            Some(next) => from = next,
            None => return Ok(First { leaves, end: None }),
        }
    }
    let end = Some(from);
    Ok(First { leaves, end })
}
