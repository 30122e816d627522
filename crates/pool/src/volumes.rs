//! The tables of layers, volumes and snapshots, and the pure rules about them.

use crate::location::Mapping;
use std::collections::{BTreeMap, BTreeSet};

/// The top node of a layer's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub level: u8,
    pub mapping: Mapping,
}

/// A set of blocks written between two snapshots; reads fall through to the parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    pub parent: Option<u32>,
    /// Blocks (not holes) in the layer's map as of the last checkpoint.
    pub mapped: u64,
    pub root: Option<Root>,
}

/// Headers in segments up to `generation` may still name a layer that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Who owns its blocks now; nobody if the layer was deleted.
    pub to: Option<u32>,
    pub generation: u32,
}

/// A volume: a size, and the layer that takes its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub name: String,
    pub blocks: u64,
    pub layer: u32,
    pub origin: Option<u32>,
    /// Space for all of it is kept: a write never fails for want of space.
    pub reserved: bool,
    pub attributes: Vec<u8>,
}

/// A name for a frozen layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub name: String,
    pub blocks: u64,
    pub layer: u32,
    pub volume: u32,
}

/// All of them. Identifiers come from one counter that starts at 1 and never goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    pub next_id: u32,
    pub layers: BTreeMap<u32, Layer>,
    pub redirects: BTreeMap<u32, Redirect>,
    pub volumes: BTreeMap<u32, Volume>,
    pub snapshots: BTreeMap<u32, Snapshot>,
}

/// What is to be done with a layer that no volume and no snapshot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unneeded {
    /// Nothing is above it: its blocks are dead.
    Drop(u32),
    /// Exactly one layer is above it: merge them.
    Fold { layer: u32, child: u32 },
}

impl Tables {
    pub fn take_id(&mut self) -> u32 {
        self.next_id = self.next_id.max(1) + 1;
        self.next_id - 1
    }

    pub fn add_layer(&mut self, parent: Option<u32>) -> u32 {
        let id = self.take_id();
        let layer = Layer {
            parent,
            mapped: 0,
            root: None,
        };
        self.layers.insert(id, layer);
        id
    }

    /// The layer that holds the blocks which a header says belong to `layer`.
    pub fn resolve(&self, layer: u32) -> Option<u32> {
        let mut at = layer;
        while let Some(redirect) = self.redirects.get(&at) {
            at = redirect.to?;
        }
        self.layers.contains_key(&at).then_some(at)
    }

    pub fn parent(&self, layer: u32) -> Option<u32> {
        self.layers.get(&layer)?.parent
    }

    /// True when `layer` is `top` or below it.
    pub fn is_within(&self, top: u32, layer: u32) -> bool {
        let mut at = Some(top);
        while let Some(id) = at.filter(|id| *id != layer) {
            at = self.parent(id);
        }
        at.is_some()
    }

    /// The next layer to be rid of, if there is one.
    pub fn unneeded(&self) -> Option<Unneeded> {
        self.layers.keys().find_map(|&layer| {
            let named = self.volumes.values().any(|volume| volume.layer == layer)
                || self
                    .snapshots
                    .values()
                    .any(|snapshot| snapshot.layer == layer);
            if named {
                return None;
            }
            let mut above = self
                .layers
                .iter()
                .filter(|(_, other)| other.parent == Some(layer));
            match (above.next(), above.next()) {
                (None, _) => Some(Unneeded::Drop(layer)),
                (Some((&child, _)), None) => Some(Unneeded::Fold { layer, child }),
                _ => None,
            }
        })
    }

    /// Forgets redirects that no header can need: every segment left was made after them, or they
    /// lead to nothing, which is what is said of a layer that nobody knows.
    pub fn prune_redirects(&mut self, oldest_generation: u32) {
        let layers = self.redirects.keys();
        let dead: BTreeSet<u32> = layers
            .copied()
            .filter(|layer| self.resolve(*layer).is_none())
            .collect();
        self.redirects.retain(|layer, redirect| {
            redirect.generation >= oldest_generation && !dead.contains(layer)
        });
    }

    /// How many of them would be left.
    pub fn redirects_since(&self, oldest_generation: u32) -> usize {
        let redirects = self.redirects.values();
        redirects
            .filter(|redirect| redirect.generation >= oldest_generation)
            .count()
    }

    /// True when a volume or snapshot is called so.
    pub fn name_taken(&self, name: &str) -> bool {
        self.volumes.values().any(|volume| volume.name == name)
            || self
                .snapshots
                .values()
                .any(|snapshot| snapshot.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(layer: u32) -> Volume {
        Volume {
            name: format!("on {layer}"),
            blocks: 1,
            layer,
            origin: None,
            reserved: false,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn layers_are_dropped_from_the_top_and_folded_into_an_only_child() {
        let mut tables = Tables::default();
        let base = tables.add_layer(None);
        let left = tables.add_layer(Some(base));
        let right = tables.add_layer(Some(base));
        tables.volumes.insert(10, volume(left));
        tables.volumes.insert(11, volume(right));
        assert_eq!(tables.unneeded(), None, "two volumes share the base");
        tables.volumes.remove(&11);
        assert_eq!(tables.unneeded(), Some(Unneeded::Drop(right)));
        tables.layers.remove(&right);
        assert_eq!(
            tables.unneeded(),
            Some(Unneeded::Fold {
                layer: base,
                child: left
            })
        );
    }

    #[test]
    fn redirects_chain_and_go_when_their_headers_have_gone() {
        let mut tables = Tables::default();
        let heir = tables.add_layer(None);
        tables.redirects.insert(
            90,
            Redirect {
                to: Some(91),
                generation: 5,
            },
        );
        tables.redirects.insert(
            91,
            Redirect {
                to: Some(heir),
                generation: 9,
            },
        );
        tables.redirects.insert(
            92,
            Redirect {
                to: None,
                generation: 9,
            },
        );
        assert_eq!(tables.resolve(90), Some(heir));
        assert_eq!(tables.resolve(92), None);
        assert_eq!(tables.resolve(93), None, "a layer nobody knows");
        tables.redirects.insert(
            93,
            Redirect {
                to: Some(92),
                generation: 9,
            },
        );
        assert_eq!(tables.redirects_since(9), 3);
        tables.prune_redirects(9);
        assert_eq!(tables.redirects.keys().copied().collect::<Vec<_>>(), [91]);
        assert_eq!(tables.resolve(91), Some(heir));
        assert_eq!((tables.resolve(92), tables.resolve(93)), (None, None));
    }
}
