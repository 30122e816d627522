//! Where blocks are: what memory knows, and the map's nodes on the drives where it does not.

use crate::ids::LayerId;
use crate::join::join_all;
use crate::location::{BlockNumber, LayerBlock, Mapping, each_of};
use crate::map::tree;
use crate::shard::core::Core;
use crate::shard::state::State;
use crate::volumes::Root;
use block::{BlockDevice, IoError};

/// So many layers of a volume are asked side by side, whose nodes are not in memory: mostly the
/// lowest knows.
const LAYERS_AT_ONCE: usize = 8;

/// What the map says, as far as memory knows it.
enum Lookup {
    Known(Option<Mapping>),
    /// Ask these trees, in this order; if none knows the block, this is the answer.
    Trees(Vec<Root>, Option<Mapping>),
}

impl State {
    /// Looks a block up through the layers below `layer`, at one instant.
    fn lookup(&self, layer: LayerId, block: BlockNumber) -> Lookup {
        let mut trees = Vec::new();
        let mut at = Some(layer);
        while let Some(id) = at {
            if let Some(mapping) = self.updates.get(id, block) {
                if trees.is_empty() {
                    return Lookup::Known(Some(mapping));
                }
                return Lookup::Trees(trees, Some(mapping));
            }
            let Some(layer) = self.tables.layers.get(id) else {
                break;
            };
            trees.extend(layer.root);
            at = layer.parent;
        }
        if trees.is_empty() {
            Lookup::Known(None)
        } else {
            Lookup::Trees(trees, None)
        }
    }
}

impl<D: BlockDevice> Core<D> {
    /// Where blocks of a volume's layer from `start` on are: fills `found`, which holds nothing but
    /// `None`. Those that are `None` or a hole then read as zeroes. All of it is as of one instant,
    /// however long nodes take to come from the drives: of an atomic write that is applied
    /// meanwhile, either each block is seen or none. The caller counts as a reader, so that the
    /// trees of that instant stay where they are.
    pub async fn find(
        &self,
        layer: LayerId,
        start: BlockNumber,
        found: &mut [Option<Mapping>],
    ) -> Result<(), IoError> {
        let known = self.peek(layer, start, found);
        let unknown = start + known as u64..start + found.len() as u64;
        let lookups: Vec<Lookup> = {
            let state = self.state.borrow();
            each_of(unknown.clone())
                .map(|block| state.lookup(layer, block))
                .collect()
        };
        for ((place, block), lookup) in found[known..].iter_mut().zip(each_of(unknown)).zip(lookups)
        {
            *place = self.resolve(block, lookup).await?;
        }
        Ok(())
    }

    async fn resolve(
        &self,
        block: BlockNumber,
        lookup: Lookup,
    ) -> Result<Option<Mapping>, IoError> {
        let (roots, otherwise) = match lookup {
            Lookup::Known(mapping) => return Ok(mapping),
            Lookup::Trees(roots, otherwise) => (roots, otherwise),
        };
        for some in roots.chunks(LAYERS_AT_ONCE) {
            let lookups = some.iter().map(|root| tree::lookup(self, *root, block));
            for found in join_all(lookups).await {
                let mapping = found?;
                if mapping.is_some() {
                    return Ok(mapping);
                }
            }
        }
        Ok(otherwise)
    }

    /// Where blocks of a volume's layer from `start` on are, if memory knows without asking the
    /// drives: fills `found`, which holds nothing but `None`, and returns of how many of its first
    /// blocks all is known. Those that are `None` or a hole read as zeroes.
    pub fn peek(&self, layer: LayerId, start: BlockNumber, found: &mut [Option<Mapping>]) -> usize {
        let state = self.state.borrow();
        let cache = self.cache.borrow();
        let mut known = found.len();
        let mut at = Some(layer);
        while let Some(id) = at {
            let found = &mut found[..known];
            state.updates.fill(id, start, found);
            let Some(layer) = state.tables.layers.get(id) else {
                break;
            };
            if let Some(root) = layer.root {
                known = tree::peek(&cache, root, start, found);
            }
            at = layer.parent;
        }
        known
    }

    /// What layers themselves say about blocks, each `None` if memory does not know without asking
    /// the drives. Those that come in order cost one way through the map for each leaf.
    pub fn peek_own(
        &self,
        blocks: impl Iterator<Item = LayerBlock>,
    ) -> Vec<Option<Option<Mapping>>> {
        let state = self.state.borrow();
        let cache = self.cache.borrow();
        let mut near: Option<(LayerId, tree::Leaf<'_>)> = None;
        let peek = |LayerBlock { layer, block }: LayerBlock| {
            if let Some(recent) = state.updates.get(layer, block) {
                return Some(Some(recent));
            }
            let Some(root) = state.tables.layers.get(layer)?.root else {
                return Some(None);
            };
            let leaf = match near.take() {
                Some((of, leaf)) if of == layer && leaf.covers(block) => leaf,
                _ => tree::peek_leaf(&cache, root, block)?,
            };
            let (_, leaf) = near.insert((layer, leaf));
            Some(leaf.find(block))
        };
        blocks.map(peek).collect()
    }

    /// What a layer itself says about a block.
    pub async fn find_own(&self, of: LayerBlock) -> Result<Option<Mapping>, IoError> {
        let LayerBlock { layer, block } = of;
        let root = {
            let state = self.state.borrow();
            if let Some(mapping) = state.updates.get(layer, block) {
                return Ok(Some(mapping));
            }
            state.tables.layers.get(layer).and_then(|layer| layer.root)
        };
        match root {
            Some(root) => tree::lookup(self, root, block).await,
            None => Ok(None),
        }
    }
}
