//! A layer's map: a copy-on-write tree of [`Node`]s, changed by whole sorted batches.
//!
//! Pure over [`Nodes`]: where nodes are kept, cached and written is somebody else's concern.

mod merge;
#[cfg(test)]
mod tests;

pub(crate) use merge::{compact, merge, remove};

use crate::cache::NodeCache;
use crate::format::node::{Node, NodeRecord};
use crate::location::{Entry, Mapping};
use crate::volumes::Root;
use block::IoError;
use std::sync::Arc;

/// Trees higher than this do not exist: 254^6 is more than a volume's blocks.
const LEVELS_MAX: u8 = 8;

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
}

async fn load_level<N: Nodes>(nodes: &N, at: Mapping, level: u8) -> Result<Arc<Node>, IoError> {
    let entry = at.entry().ok_or(IoError::Internal)?;
    let node = nodes.load(entry).await?;
    if node.level() != level || level >= LEVELS_MAX || node.len() == 0 {
        return Err(IoError::Internal);
    }
    Ok(node)
}

/// Writes down what the tree says about the blocks from `start` on, where nothing is said yet.
/// Returns of how many all is known: it ends where a node is not in memory.
pub(crate) fn peek(
    cache: &NodeCache,
    root: Root,
    start: u64,
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
    start: u64,
    end: u64,
}

impl Leaf<'_> {
    /// True when a block belongs here.
    pub fn covers(&self, block: u64) -> bool {
        (self.start..self.end).contains(&block)
    }

    /// What it says about a block that belongs here.
    pub fn find(&self, block: u64) -> Option<Mapping> {
        let record = self.node?.find(block)?;
        (record.block == block).then_some(record.mapping)
    }

    /// Writes down what it says of the blocks from `start` on; returns of how many it could say.
    fn fill(&self, start: u64, found: &mut [Option<Mapping>]) -> usize {
        let blocks = (found.len() as u64).min(self.end - start);
        let Some(node) = self.node else {
            return blocks as usize;
        };
        let rank = node.rank(start);
        let first = rank - usize::from(rank > 0 && node.record(rank - 1).block == start);
        for record in (first..node.len()).map(|index| node.record(index)) {
            let offset = record.block - start;
            if offset >= blocks {
                break;
            }
            found[offset as usize].get_or_insert(record.mapping);
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
pub(crate) fn peek_leaf(cache: &NodeCache, root: Root, block: u64) -> Option<Leaf<'_>> {
    let mut at = root.mapping;
    // What belongs to a leaf may lie before its first record: only from `block` on is known.
    let (start, mut end) = (block, u64::MAX);
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
    block: u64,
) -> Result<Option<Mapping>, IoError> {
    let mut at = root.mapping;
    for level in (0..=root.level).rev() {
        let node = load_level(nodes, at, level).await?;
        let Some(record) = node.find(block) else {
            return Ok(None);
        };
        if level == 0 {
            return Ok((record.block == block).then_some(record.mapping));
        }
        at = record.mapping;
    }
    Ok(None)
}

/// The records of the leaf in which `from` belongs, from there on, and the first block of the
/// next leaf; calling again with that one walks the whole tree.
pub(crate) async fn leaf_from<N: Nodes>(
    nodes: &N,
    root: Root,
    from: u64,
) -> Result<(Vec<NodeRecord>, Option<u64>), IoError> {
    let mut at = root.mapping;
    let mut next = None;
    for level in (0..=root.level).rev() {
        let node = load_level(nodes, at, level).await?;
        let rank = node.rank(from);
        if level == 0 {
            let records = node
                .records()
                .filter(|record| record.block >= from)
                .collect();
            return Ok((records, next));
        }
        let index = rank.max(1) - 1;
        if index + 1 < node.len() {
            next = Some(node.record(index + 1).block);
        }
        at = node.record(index).mapping;
    }
    Ok((Vec::new(), None))
}
