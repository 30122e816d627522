//! [`Removal`]: which layers nobody needs, kept while one after the other goes. Finding the next
//! one takes a few steps, however many layers there are.

use crate::ids::LayerId;
use crate::volumes::{Fold, Tables};
use std::collections::BTreeSet;

/// What is to be done with a layer that no volume and no snapshot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unneeded {
    /// Nothing is above it: its blocks are dead.
    Drop(LayerId),
    /// Exactly one layer is above it: merge them.
    Fold(Fold),
}

/// The layers that can go, of tables in which nothing else changes meanwhile.
pub(crate) struct Removal {
    /// Layers that volumes and snapshots begin with.
    named: BTreeSet<LayerId>,
    /// Each layer that has a parent, behind it.
    above: BTreeSet<(LayerId, LayerId)>,
    /// Nobody names these, and nothing is above them.
    drops: BTreeSet<LayerId>,
    /// Nobody names these, and exactly one layer is above each.
    folds: BTreeSet<LayerId>,
}

impl Removal {
    /// Knows of no layer yet whether it can go.
    pub fn new(tables: &Tables) -> Removal {
        let parents = tables.layers.iter();
        let parents = parents.filter_map(|(id, layer)| Some((layer.parent?, *id)));
        Removal {
            named: tables.tops().map(|top| top.layer).collect(),
            above: parents.collect(),
            drops: BTreeSet::new(),
            folds: BTreeSet::new(),
        }
    }

    /// Finds out what is to be done with so many layers from a number on. Returns the number of the
    /// next one, if there are more.
    pub fn judge_some(&mut self, tables: &Tables, from: LayerId, most: usize) -> Option<LayerId> {
        let mut layers = tables.layers.iter_from(from).map(|(id, _)| *id);
        for layer in layers.by_ref().take(most) {
            self.judge(layer);
        }
        layers.next()
    }

    /// The next layer to be rid of, if there is one: what nobody can read any more comes first, for
    /// that frees space, and a fold that has begun before others.
    pub fn next(&self, tables: &Tables) -> Option<Unneeded> {
        if let Some(top) = self.drops.first() {
            return Some(Unneeded::Drop(*top));
        }
        let first = || {
            let layer = *self.folds.first()?;
            let child = self.only_child(layer)?;
            Some(Fold { layer, child })
        };
        tables.folding.or_else(first).map(Unneeded::Fold)
    }

    /// A layer has gone that stood on `parent`, and nothing stood on it.
    pub fn dropped(&mut self, layer: LayerId, parent: Option<LayerId>) {
        self.drops.remove(&layer);
        if let Some(parent) = parent {
            self.above.remove(&(parent, layer));
            self.judge(parent);
        }
    }

    /// A layer has gone that stood on `parent`: its only child stands there now.
    pub fn folded(&mut self, fold: Fold, parent: Option<LayerId>) {
        self.folds.remove(&fold.layer);
        self.above.remove(&(fold.layer, fold.child));
        if let Some(parent) = parent {
            self.above.remove(&(parent, fold.layer));
            self.above.insert((parent, fold.child));
        }
    }

    fn children(&self, layer: LayerId) -> impl Iterator<Item = LayerId> {
        let all = self
            .above
            .range((layer, LayerId::LEAST)..=(layer, LayerId::MOST));
        all.map(|(_, child)| *child)
    }

    fn only_child(&self, layer: LayerId) -> Option<LayerId> {
        let mut children = self.children(layer);
        let first = children.next()?;
        children.next().is_none().then_some(first)
    }

    /// Finds out anew what is to be done with a layer.
    fn judge(&mut self, layer: LayerId) {
        self.folds.remove(&layer);
        if self.named.contains(&layer) {
            return;
        }
        if self.children(layer).next().is_none() {
            self.drops.insert(layer);
        } else if self.only_child(layer).is_some() {
            self.folds.insert(layer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::Chunked;
    use crate::ids::VolumeId;
    use crate::volumes::tests::volume;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn removal_of(tables: &Tables) -> Removal {
        let mut removal = Removal::new(tables);
        assert_eq!(removal.judge_some(tables, LayerId::LEAST, usize::MAX), None);
        removal
    }

    /// The same, found by a look at all layers each time.
    fn by_looking(tables: &Tables) -> Option<Unneeded> {
        let named: BTreeSet<LayerId> = tables.tops().map(|top| top.layer).collect();
        let mut above: BTreeMap<LayerId, Vec<LayerId>> = BTreeMap::new();
        for (id, layer) in &tables.layers {
            if let Some(parent) = layer.parent {
                above.entry(parent).or_default().push(*id);
            }
        }
        let mut unnamed = tables.layers.keys().filter(|id| !named.contains(id));
        if let Some(top) = unnamed.clone().find(|id| !above.contains_key(id)) {
            return Some(Unneeded::Drop(*top));
        }
        let fold = |layer: &LayerId| match above.get(layer)?[..] {
            [child] => Some(Fold {
                layer: *layer,
                child,
            }),
            _ => None,
        };
        let begun = tables.folding.or_else(|| unnamed.find_map(fold));
        begun.map(Unneeded::Fold)
    }

    /// Takes a layer out of the tables as a merge does.
    fn take_out(tables: &mut Tables, removal: &mut Removal, unneeded: Unneeded) {
        match unneeded {
            Unneeded::Drop(layer) => {
                let gone = tables.layers.remove(layer).unwrap();
                removal.dropped(layer, gone.parent);
            }
            Unneeded::Fold(fold) => {
                let gone = tables.layers.remove(fold.layer).unwrap();
                tables.layers.get_mut(fold.child).unwrap().parent = gone.parent;
                removal.folded(fold, gone.parent);
            }
        }
    }

    proptest! {
        /// Layers as in a forest, some of them named: they go in the order that a look at all of
        /// them gives, until none is left that can.
        #[test]
        fn layers_go_in_the_order_that_a_look_at_all_of_them_gives(
            parents in proptest::collection::vec(any::<Option<u8>>(), 1..40),
            names in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut tables = Tables::default();
            let mut ids = Vec::new();
            for parent in parents {
                let parent = parent.filter(|_| !ids.is_empty());
                let parent = parent.map(|at| ids[usize::from(at) % ids.len()]);
                ids.push(tables.add_layer(parent).unwrap());
            }
            for (at, name) in (1000..).zip(names) {
                tables.volumes.insert(VolumeId(at), volume(ids[usize::from(name) % ids.len()]));
            }
            let mut removal = removal_of(&tables);
            loop {
                let next = removal.next(&tables);
                prop_assert_eq!(next, by_looking(&tables));
                prop_assert_eq!(tables.has_unneeded(), next.is_some());
                match next {
                    Some(unneeded) => take_out(&mut tables, &mut removal, unneeded),
                    None => break,
                }
            }
        }
    }

    #[test]
    fn layers_are_dropped_from_the_top_and_folded_into_an_only_child() {
        let mut tables = Tables::default();
        let base = tables.add_layer(None).unwrap();
        let left = tables.add_layer(Some(base)).unwrap();
        let right = tables.add_layer(Some(base)).unwrap();
        tables.volumes.insert(VolumeId(10), volume(left));
        tables.volumes.insert(VolumeId(11), volume(right));
        let next = |tables: &Tables| removal_of(tables).next(tables);
        assert_eq!(next(&tables), None, "two volumes share the base");
        assert!(!tables.has_unneeded());
        tables.volumes.remove(VolumeId(11));
        assert_eq!(next(&tables), Some(Unneeded::Drop(right)));
        assert!(tables.has_unneeded());
        tables.layers.remove(right);
        assert_eq!(
            next(&tables),
            Some(Unneeded::Fold(Fold {
                layer: base,
                child: left
            }))
        );
    }

    #[test]
    fn what_frees_space_goes_first_and_a_fold_ends_before_the_next_begins() {
        let mut tables = Tables::default();
        let base = tables.add_layer(None).unwrap();
        let middle = tables.add_layer(Some(base)).unwrap();
        let top = tables.add_layer(Some(middle)).unwrap();
        tables.volumes.insert(VolumeId(10), volume(top));
        let next = |tables: &Tables| removal_of(tables).next(tables);
        let second = Fold {
            layer: middle,
            child: top,
        };
        tables.folding = Some(second);
        assert_eq!(next(&tables), Some(Unneeded::Fold(second)));
        assert_eq!(tables.partner(middle), Some(top));
        assert_eq!(tables.partner(top), Some(middle));
        assert_eq!(tables.partner(base), None);
        let dropped = tables.add_layer(Some(base)).unwrap();
        assert_eq!(next(&tables), Some(Unneeded::Drop(dropped)));
        tables.layers.get_mut(dropped).unwrap().mapped = 5;
        tables.layers.get_mut(top).unwrap().mapped = 7;
        assert_eq!(tables.doomed_blocks(), 5);
        tables.volumes = Chunked::default();
        assert_eq!(tables.doomed_blocks(), 12);
        assert_eq!(next(&tables), Some(Unneeded::Drop(top)));
    }
}
