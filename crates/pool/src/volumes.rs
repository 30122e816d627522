//! The tables of layers, volumes and snapshots, and the pure rules about them.

pub(crate) mod backing;
pub(crate) mod current;
pub(crate) mod removal;

use crate::chunked::Chunked;
use crate::ids::{Generation, LayerId, SnapshotId, VolumeId};
use crate::location::Mapping;
use std::collections::{BTreeMap, BTreeSet};

/// Volumes, snapshots and layers have lower numbers. What is left is for a tool that moves a pool
/// to a format with longer ones.
pub(crate) const IDS_END: u32 = u32::MAX - (1 << 20);

/// Names of volumes and snapshots are no longer.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// What a pool keeps for the user of one volume, at most: names of some eighty hosts.
pub const ATTRIBUTES_BYTES_MAX: usize = 8 << 10;

/// Every number below [`IDS_END`] has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdsUsedUp;

/// The top node of a layer's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub level: u8,
    pub mapping: Mapping,
}

/// A set of blocks written between two snapshots; reads fall through to the parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    pub parent: Option<LayerId>,
    /// Blocks (not holes) in the layer's map as of the last checkpoint.
    pub mapped: u64,
    pub root: Option<Root>,
}

impl Layer {
    /// True when its map says nothing.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

/// A layer that nobody needs, and the only one above it, which becomes one with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    pub layer: LayerId,
    pub child: LayerId,
}

/// Headers in segments up to `generation` may still name a layer that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Who owns its blocks now; nobody if the layer was deleted.
    pub to: Option<LayerId>,
    pub generation: Generation,
}

/// A volume: a size, and the layer that takes its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub name: String,
    pub blocks: u64,
    pub layer: LayerId,
    pub origin: Option<SnapshotId>,
    /// Space for all of it is kept: a write never fails for want of space.
    pub reserved: bool,
    pub attributes: Vec<u8>,
}

impl Volume {
    /// Changes whenever blocks become others that nobody wrote, by a rollback. (And with each
    /// snapshot, by which none does.)
    pub fn revision(&self) -> u64 {
        u64::from(self.layer.get())
    }
}

/// A name for a frozen layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub name: String,
    pub blocks: u64,
    pub layer: LayerId,
    pub volume: VolumeId,
    /// Milliseconds since 1970; nothing of one that was taken before that was noted.
    pub taken: Option<u64>,
}

/// All of them. Identifiers come from one counter that starts at 1 and never goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    pub next_id: u32,
    pub layers: Chunked<LayerId, Layer>,
    /// Two layers of which each may have blocks that headers call the other's.
    pub folding: Option<Fold>,
    pub redirects: Chunked<LayerId, Redirect>,
    pub volumes: Chunked<VolumeId, Volume>,
    pub snapshots: Chunked<SnapshotId, Snapshot>,
}

/// Who reads a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A volume.
    Volume(VolumeId),
    /// A snapshot.
    Snapshot(SnapshotId),
}

/// A volume or snapshot: which, the layer that it begins with, its size in blocks and its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Top<'a> {
    pub holder: Holder,
    pub layer: LayerId,
    pub blocks: u64,
    pub name: &'a str,
}

/// How often `id` is at the head of `sorted`, which goes on behind it.
fn count_of(sorted: &mut &[LayerId], id: LayerId) -> usize {
    let before = sorted.iter().take_while(|other| **other < id).count();
    let rest = &sorted[before..];
    let count = rest.iter().take_while(|other| **other == id).count();
    *sorted = &rest[count..];
    count
}

impl Tables {
    /// A number that nothing has had before. They are never given twice: one that a header still
    /// names would stand for another layer.
    pub fn take_id(&mut self) -> Result<u32, IdsUsedUp> {
        let id = self.next_id.max(1);
        if id >= IDS_END {
            return Err(IdsUsedUp);
        }
        self.next_id = id + 1;
        Ok(id)
    }

    pub fn add_layer(&mut self, parent: Option<LayerId>) -> Result<LayerId, IdsUsedUp> {
        let id = LayerId::new(self.take_id()?);
        let layer = Layer {
            parent,
            mapped: 0,
            root: None,
        };
        self.layers.insert(id, layer);
        Ok(id)
    }

    /// The layer that holds the blocks which a header says belong to `layer`.
    pub fn resolve(&self, layer: LayerId) -> Option<LayerId> {
        let mut at = layer;
        while let Some(redirect) = self.redirects.get(at) {
            at = redirect.to?;
        }
        self.layers.contains_key(at).then_some(at)
    }

    /// A layer whose heirs lead back to itself, if there is one.
    pub fn redirect_in_circle(&self) -> Option<LayerId> {
        // Those from which the way is known to end.
        let mut ends = BTreeSet::new();
        for from in self.redirects.keys() {
            let (mut at, mut way) = (Some(*from), BTreeSet::new());
            while let Some(layer) = at.filter(|layer| !ends.contains(layer)) {
                if !way.insert(layer) {
                    return Some(layer);
                }
                at = self.redirects.get(layer).and_then(|redirect| redirect.to);
            }
            ends.append(&mut way);
        }
        None
    }

    /// Has each redirect name the last heir, so that following it takes one step, however many
    /// there were. None may lead [in a circle](Tables::redirect_in_circle).
    pub fn shorten_redirects(&mut self) {
        let mut last: BTreeMap<LayerId, Option<LayerId>> = BTreeMap::new();
        for from in self.redirects.keys() {
            let (mut at, mut way) = (Some(*from), Vec::new());
            while let Some(layer) = at.filter(|layer| !last.contains_key(layer)) {
                let Some(redirect) = self.redirects.get(layer) else {
                    break;
                };
                way.push(layer);
                at = redirect.to;
            }
            let heir = at.and_then(|layer| last.get(&layer).copied().unwrap_or(at));
            last.extend(way.into_iter().map(|layer| (layer, heir)));
        }
        let heir_of = |layer: &LayerId| last.get(layer).copied().flatten();
        let others = self.redirects.iter();
        let others = others.filter(|(layer, redirect)| redirect.to != heir_of(layer));
        let others: Vec<LayerId> = others.map(|(layer, _)| *layer).collect();
        for layer in others {
            if let Some(redirect) = self.redirects.get_mut(layer) {
                redirect.to = heir_of(&layer);
            }
        }
    }

    /// The top layer of a volume or snapshot, if there is such a one.
    pub fn layer_of(&self, holder: Holder) -> Option<LayerId> {
        match holder {
            Holder::Volume(id) => self.volumes.get(id).map(|volume| volume.layer),
            Holder::Snapshot(id) => self.snapshots.get(id).map(|found| found.layer),
        }
    }

    pub fn parent(&self, layer: LayerId) -> Option<LayerId> {
        self.layers.get(layer)?.parent
    }

    /// Every volume, then every snapshot.
    pub fn tops(&self) -> impl Iterator<Item = Top<'_>> {
        let volumes = self.volumes.iter().map(|(id, volume)| Top {
            holder: Holder::Volume(*id),
            layer: volume.layer,
            blocks: volume.blocks,
            name: &volume.name,
        });
        let snapshots = self.snapshots.iter().map(|(id, snapshot)| Top {
            holder: Holder::Snapshot(*id),
            layer: snapshot.layer,
            blocks: snapshot.blocks,
            name: &snapshot.name,
        });
        volumes.chain(snapshots)
    }

    /// A layer and those that stand on it, in their order: each has a higher number than its
    /// parent, so one look at each finds them all.
    pub fn standing_on(&self, layer: LayerId) -> BTreeSet<LayerId> {
        let mut found = BTreeSet::from([layer]);
        for (id, above) in self.layers.iter_from(layer) {
            if above.parent.is_some_and(|parent| found.contains(&parent)) {
                found.insert(*id);
            }
        }
        found
    }

    /// Those that a layer is part of.
    pub fn tops_above(&self, layer: LayerId) -> impl Iterator<Item = Top<'_>> {
        let standing = self.standing_on(layer);
        self.tops().filter(move |top| standing.contains(&top.layer))
    }

    /// The other layer in whose map blocks may be by now that headers call `layer`'s.
    pub fn partner(&self, layer: LayerId) -> Option<LayerId> {
        match self.folding? {
            fold if fold.layer == layer => Some(fold.child),
            fold if fold.child == layer => Some(fold.layer),
            _ => None,
        }
    }

    /// The layers in whose maps a block may be that a header says belongs to `layer`.
    pub fn holders(&self, layer: LayerId) -> impl Iterator<Item = LayerId> + use<> {
        let heir = self.resolve(layer);
        let partner = heir.and_then(|heir| self.partner(heir));
        heir.into_iter().chain(partner)
    }

    /// No volume and no snapshot is larger.
    pub fn blocks_most(&self) -> u64 {
        self.tops().map(|top| top.blocks).max().unwrap_or(0)
    }

    /// True when there are layers to be rid of.
    pub fn has_unneeded(&self) -> bool {
        self.folding.is_some() || {
            // Both in their order, so that one walk through the layers meets each once.
            let mut named: Vec<LayerId> = self.tops().map(|top| top.layer).collect();
            let parents = self.layers.values().filter_map(|layer| layer.parent);
            let mut parents: Vec<LayerId> = parents.collect();
            named.sort_unstable();
            parents.sort_unstable();
            reactor::count_work(2 * (named.len() + parents.len()) as u64);
            let (mut named, mut parents) = (&named[..], &parents[..]);
            self.layers.keys().any(|id| {
                let above = count_of(&mut parents, *id);
                count_of(&mut named, *id) == 0 && above <= 1
            })
        }
    }

    /// Blocks of layers that nobody can read any more, as of the last checkpoint: they will be
    /// free. A parent has a lower number than those on it, so one walk down from the last layer
    /// knows of each whether it is read.
    pub fn doomed_blocks(&self) -> u64 {
        let mut named: Vec<LayerId> = self.tops().map(|top| top.layer).collect();
        named.sort_unstable();
        let layers: Vec<(LayerId, &Layer)> = self.layers.iter().map(|(id, it)| (*id, it)).collect();
        reactor::count_work(2 * (named.len() + layers.len()) as u64);
        let mut read = vec![false; layers.len()];
        let (mut named, mut doomed) = (&named[..], 0);
        for at in (0..layers.len()).rev() {
            let (id, layer) = layers[at];
            let lower = named.partition_point(|other| *other < id);
            read[at] |= named.get(lower) == Some(&id);
            named = &named[..lower];
            if !read[at] {
                doomed += layer.mapped;
            } else if let Some(parent) = layer.parent
                && let Ok(below) = layers[..at].binary_search_by_key(&parent, |(id, _)| *id)
            {
                read[below] = true;
            }
        }
        doomed
    }

    /// What a volume's layer holds for itself; while another is folded with it, what is in both
    /// counts twice.
    pub fn own_blocks(&self, layer: LayerId) -> u64 {
        let own = |id: LayerId| self.layers.get(id).map_or(0, |layer| layer.mapped);
        let fold = self.folding.filter(|fold| fold.child == layer);
        own(layer) + fold.map_or(0, |fold| own(fold.layer))
    }

    /// Forgets redirects that no header can need: every segment left was made after them, or they
    /// lead to nothing, which is what is said of a layer that nobody knows. The others name the
    /// last heir from then on.
    pub fn prune_redirects(&mut self, oldest_generation: Generation) {
        self.shorten_redirects();
        let layers = &self.layers;
        self.redirects.retain(|_, redirect| {
            let leads = redirect.to.is_some_and(|heir| layers.contains_key(heir));
            redirect.generation >= oldest_generation && leads
        });
    }

    /// How many of them would be left.
    pub fn redirects_since(&self, oldest_generation: Generation) -> usize {
        let redirects = self.redirects.values();
        redirects
            .filter(|redirect| redirect.generation >= oldest_generation)
            .count()
    }

    /// Blocks promised to volumes that reserve space, beyond those that they hold.
    pub fn promised_blocks(&self) -> u64 {
        let reserving = self.volumes.values().filter(|volume| volume.reserved);
        let promised = reserving.map(|volume| {
            let mapped = self.layers.get(volume.layer).map_or(0, |top| top.mapped);
            volume.blocks.saturating_sub(mapped)
        });
        promised.sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    /// What `work` takes of the processor, however busy the machine is.
    pub(crate) fn processor_time(work: impl FnOnce()) -> Duration {
        let now = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let begun = now();
        work();
        now() - begun
    }

    pub(crate) fn volume(layer: LayerId) -> Volume {
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
    fn a_number_is_given_once_and_the_last_is_followed_by_none() {
        let mut tables = Tables {
            next_id: IDS_END - 2,
            ..Tables::default()
        };
        let layer = tables.add_layer(None).unwrap();
        assert_eq!(layer.get(), IDS_END - 2);
        assert_eq!(tables.take_id(), Ok(IDS_END - 1));
        for _ in 0..2 {
            assert_eq!(tables.take_id(), Err(IdsUsedUp));
            assert_eq!(tables.add_layer(None), Err(IdsUsedUp));
        }
        assert_eq!((tables.layers.len(), tables.next_id), (1, IDS_END));
    }

    #[test]
    fn redirects_chain_and_go_when_their_headers_have_gone() {
        let mut tables = Tables::default();
        let heir = tables.add_layer(None).unwrap();
        let [first, second, deleted, other] = [90, 91, 92, 93].map(LayerId::new);
        tables.redirects.insert(
            first,
            Redirect {
                to: Some(second),
                generation: Generation::new(5),
            },
        );
        tables.redirects.insert(
            second,
            Redirect {
                to: Some(heir),
                generation: Generation::new(9),
            },
        );
        tables.redirects.insert(
            deleted,
            Redirect {
                to: None,
                generation: Generation::new(9),
            },
        );
        assert_eq!(tables.resolve(first), Some(heir));
        assert_eq!(tables.resolve(deleted), None);
        assert_eq!(tables.resolve(other), None, "a layer nobody knows");
        tables.redirects.insert(
            other,
            Redirect {
                to: Some(deleted),
                generation: Generation::new(9),
            },
        );
        assert_eq!(tables.redirects_since(Generation::new(9)), 3);
        let mut shorter = tables.clone();
        shorter.shorten_redirects();
        for layer in (0..99).map(LayerId::new) {
            assert_eq!(shorter.resolve(layer), tables.resolve(layer));
        }
        assert_eq!(shorter.redirects[&first].to, Some(heir));
        assert_eq!(shorter.redirect_in_circle(), None);
        let circle = Redirect {
            to: Some(first),
            generation: Generation::new(9),
        };
        shorter.redirects.insert(heir, circle);
        assert!(shorter.redirect_in_circle().is_some());
        tables.prune_redirects(Generation::new(9));
        assert_eq!(
            tables.redirects.keys().copied().collect::<Vec<_>>(),
            [second]
        );
        assert_eq!(tables.resolve(second), Some(heir));
        assert_eq!(
            (tables.resolve(deleted), tables.resolve(other)),
            (None, None)
        );
    }

    /// Each layer of a long chain was folded into the next: every header of old still finds the
    /// last heir, in one step, and finding out took no step for each pair of them.
    #[test]
    fn a_long_chain_of_redirects_is_pruned_in_one_walk() {
        const LAYERS: u32 = 50_000;
        const LAST: LayerId = LayerId::new(LAYERS);
        let mut tables = Tables::default();
        let chain = (1..LAYERS).map(|layer| {
            let to = Some(LayerId::new(layer + 1));
            let generation = Generation::new(layer / 2);
            (LayerId::new(layer), Redirect { to, generation })
        });
        tables.redirects = chain.collect();
        tables.layers.insert(LAST, Layer::default());
        let spent = processor_time(|| tables.prune_redirects(Generation::new(LAYERS / 4)));
        assert_eq!(tables.redirects.len() as u32, LAYERS / 2);
        assert!(tables.redirects.values().all(|it| it.to == Some(LAST)));
        // In steps for each pair it is minutes.
        assert!(spent < Duration::from_secs(5), "{spent:?}");
    }

    /// A chain of snapshots, each with a name: who stands on the lowest is found in one walk.
    #[test]
    fn who_stands_on_a_layer_is_found_in_one_walk() {
        const SNAPSHOTS: u32 = 50_000;
        let mut tables = Tables::default();
        let mut below = None;
        for at in 0..SNAPSHOTS {
            let layer = tables.add_layer(below).unwrap();
            tables
                .volumes
                .insert(VolumeId(1_000_000 + at), volume(layer));
            below = Some(layer);
        }
        let (lowest, alone) = (LayerId::new(1), tables.add_layer(None).unwrap());
        tables.volumes.insert(VolumeId(1), volume(alone));
        let mut found = 0;
        let spent = processor_time(|| found = tables.tops_above(lowest).count());
        assert_eq!(found as u32, SNAPSHOTS);
        assert_eq!(tables.tops_above(alone).count(), 1);
        assert!(spent < Duration::from_secs(5), "{spent:?}");
    }
}
