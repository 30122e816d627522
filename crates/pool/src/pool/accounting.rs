//! Who holds which space: for every volume and snapshot what it reads as, what it has for itself,
//! and what it shares.
//!
//! Maps that others share are counted piece by piece, each as it is when its turn comes. A reader
//! of all of them would keep what is freed meanwhile from who writes, for minutes in a large pool;
//! so what changes while it is counted may be in the account as it was or as it has become.

use crate::error::PoolError;
use crate::format::node::NodeRecord;
use crate::ids::{LayerId, SnapshotId, VolumeId};
use crate::location::{BLOCK_BYTES, BlockNumber, Mapping};
use crate::map::tree;
use crate::offline::OfflineReason;
use crate::pool::Pool;
use crate::shard::core::Core;
use crate::volumes::{Holder, Root, Tables, Top};
use block::{BlockDevice, IoError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The space of one volume or snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUse {
    /// What it reads as other than never written or deallocated.
    pub logical_bytes: u64,
    /// What would be free if it were deleted.
    pub unique_bytes: u64,
    /// What others read as well.
    pub shared_bytes: u64,
}

/// Where all the space in use has gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// By volume.
    pub volumes: BTreeMap<VolumeId, SpaceUse>,
    /// By snapshot.
    pub snapshots: BTreeMap<SnapshotId, SpaceUse>,
    /// Blocks that nobody reads any more but that a common ancestor of volumes still holds.
    pub unnamed_bytes: u64,
    /// All data that lives.
    pub total_bytes: u64,
}

/// A piece takes so long, beyond what it takes to come to its first block: what is freed meanwhile
/// is kept from hosts no longer than by a slow read of theirs.
const PIECE: Duration = Duration::from_millis(5);

/// Others on the core have a turn after so many layers.
const WALKS_IN_A_ROW: usize = 256;

/// The same after so many layers of which nothing is read.
const LAYERS_IN_A_ROW: usize = 4096;

/// A layer on its way through its map.
struct Walk {
    parent: Option<usize>,
    root: Option<Root>,
    records: VecDeque<NodeRecord>,
    /// Where the next leaf begins.
    next: Option<BlockNumber>,
}

/// A volume or snapshot: the place of its layer in the walk, and one past its last block.
struct Reader {
    name: Holder,
    layer: usize,
    end: BlockNumber,
}

/// Which layers are counted together.
#[derive(Clone, Copy)]
enum Related {
    /// All that stand on this one.
    On(LayerId),
    /// Those that this one reads.
    Of(Holder),
}

/// Layers that belong together, and who reads them, as they are being counted.
struct Family {
    related: Related,
    /// Somebody reads them.
    named: bool,
    /// Those that have been there all the time: others are in the account of nobody.
    names: BTreeSet<Holder>,
    /// What it was when the tables were of this version.
    looked: Option<(u64, Looked)>,
}

/// The layers of a family, and who reads them.
type Looked = (Vec<Walk>, Vec<Reader>);

impl<D: BlockDevice + 'static> Pool<D> {
    /// Takes a checkpoint and counts whose every block is. Reads the maps of all volumes that
    /// have snapshots or clones. Where nothing changes meanwhile the account is exact; volumes and
    /// snapshots that come, go or are rolled back are left out of it.
    pub async fn accounting(&self) -> Result<Accounting, PoolError> {
        let coordinator = &self.coordinator;
        self.checkpoint().await?;
        let mut found = Accounting::default();
        let shared = coordinator.shard.count_unshared(&mut found).await;
        for family in shared {
            coordinator.shard.count_family(family, &mut found).await?;
        }
        Ok(found)
    }
}

/// The layers that stand on each that stands on none, itself first, each after its parent.
fn families(tables: &Tables) -> BTreeMap<LayerId, Vec<LayerId>> {
    // In the order of their numbers: those below come first.
    let mut bases: Vec<(LayerId, LayerId)> = Vec::with_capacity(tables.layers.len());
    let mut families: BTreeMap<LayerId, Vec<LayerId>> = BTreeMap::new();
    for (id, layer) in &tables.layers {
        let below = |parent| bases.binary_search_by_key(&parent, |(layer, _)| *layer);
        let base = layer.parent.and_then(|parent| below(parent).ok());
        let base = base.map_or(*id, |at| bases[at].1);
        bases.push((*id, base));
        families.entry(base).or_default().push(*id);
    }
    families
}

/// Volumes and snapshots that begin with layers of a family, which is in the order of its numbers.
fn readers(tables: &Tables, family: &[LayerId]) -> Vec<Reader> {
    let place = |layer: LayerId| family.binary_search(&layer).ok();
    let reader = |top: Top<'_>| {
        Some(Reader {
            name: top.holder,
            layer: place(top.layer)?,
            end: BlockNumber::FIRST + top.blocks,
        })
    };
    tables.tops().filter_map(reader).collect()
}

/// The layer on which that of a volume or snapshot stands.
fn base_of(tables: &Tables, name: Holder) -> Option<LayerId> {
    read_by(tables, name)?.first().copied()
}

/// The layers that a volume or snapshot reads, the lowest first: they are in the order of their
/// numbers.
fn read_by(tables: &Tables, name: Holder) -> Option<Vec<LayerId>> {
    let top = tables.layer_of(name)?;
    let mut layers: Vec<_> = std::iter::successors(Some(top), |at| tables.parent(*at)).collect();
    layers.reverse();
    Some(layers)
}

impl Family {
    /// The layers that it has by now; nothing if none of its names is left.
    fn layers(&mut self, tables: &Tables) -> Option<Vec<LayerId>> {
        let base = match self.related {
            Related::Of(name) => return read_by(tables, name),
            Related::On(base) => base,
        };
        let is_base = tables.layers.contains_key(base) && tables.parent(base).is_none();
        let base = match is_base {
            true => base,
            false => {
                // It was folded into another one.
                let names = self.names.iter().rev();
                names.filter_map(|name| base_of(tables, *name)).next()?
            }
        };
        self.related = Related::On(base);
        Some(tables.standing_on(base).into_iter().collect())
    }

    /// What the family is by now; nothing if none of its names is left.
    fn look(&mut self, tables: &Tables) -> Option<Looked> {
        let family = self.layers(tables)?;
        let readers = readers(tables, &family);
        let there: BTreeSet<Holder> = readers.iter().map(|reader| reader.name).collect();
        self.names.retain(|name| there.contains(name));
        let walks = family.iter().map(|id| {
            let layer = tables.layers.get(id)?;
            Some(Walk {
                parent: (layer.parent).and_then(|parent| family.binary_search(&parent).ok()),
                root: layer.root,
                records: VecDeque::new(),
                next: None,
            })
        });
        let walks = walks.collect::<Option<Vec<Walk>>>()?;
        let counts = !self.named || !self.names.is_empty();
        counts.then_some((walks, readers))
    }
}

impl Accounting {
    fn entry(&mut self, name: Holder) -> &mut SpaceUse {
        match name {
            Holder::Volume(id) => self.volumes.entry(id).or_default(),
            Holder::Snapshot(id) => self.snapshots.entry(id).or_default(),
        }
    }

    fn forget(&mut self, name: Holder) {
        match name {
            Holder::Volume(id) => drop(self.volumes.remove(&id)),
            Holder::Snapshot(id) => drop(self.snapshots.remove(&id)),
        }
    }

    /// Enters one block: what each layer of a family says about it.
    fn count(
        &mut self,
        block: BlockNumber,
        says: &[Option<Mapping>],
        walks: &[Walk],
        readers: &[Reader],
    ) {
        const BYTES: u64 = BLOCK_BYTES as u64;
        // The layer that answers for each layer; parents come before their children.
        let mut answers: Vec<Option<usize>> = Vec::with_capacity(says.len());
        for (layer, says) in says.iter().enumerate() {
            let inherited = || walks[layer].parent.and_then(|parent| answers[parent]);
            answers.push(match says {
                Some(_) => Some(layer),
                None => inherited(),
            });
        }
        let holds = |layer: usize| matches!(says[layer], Some(Mapping::Block(_)));
        let mut read_by: Vec<(usize, Option<Holder>)> = vec![(0, None); says.len()];
        for reader in readers.iter().filter(|reader| block < reader.end) {
            if let Some(owner) = answers[reader.layer].filter(|owner| holds(*owner)) {
                self.entry(reader.name).logical_bytes += BYTES;
                self.entry(reader.name).shared_bytes += BYTES;
                read_by[owner] = (read_by[owner].0 + 1, Some(reader.name));
            }
        }
        for (_, read) in (0..).zip(read_by).filter(|(layer, _)| holds(*layer)) {
            self.total_bytes += BYTES;
            match read {
                (1, Some(name)) => {
                    self.entry(name).unique_bytes += BYTES;
                    self.entry(name).shared_bytes -= BYTES;
                }
                (0, _) => self.unnamed_bytes += BYTES,
                _ => {}
            }
        }
    }
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Counts what nobody shares: what its map holds is the volume's. Returns the others. Others on
    /// the coordinator have their turns: the tables are those of one instant.
    async fn count_unshared(&self, found: &mut Accounting) -> Vec<Family> {
        let tables = self.state.borrow().tables.shown();
        let tops = tables.tops().map(|top| (top.layer, top.holder));
        let mut by_layer: Vec<(LayerId, Holder)> = tops.collect();
        by_layer.sort_unstable();
        reactor::yield_now().await;
        let families = families(&tables);
        let (mut shared, mut looked_at) = (Vec::new(), 0);
        for (base, family) in families {
            looked_at += family.len();
            if looked_at > LAYERS_IN_A_ROW {
                reactor::yield_now().await;
                looked_at = 0;
            }
            let readers = |layer: LayerId| {
                let first = by_layer.partition_point(|(of, _)| *of < layer);
                let all = by_layer[first..].iter();
                all.take_while(move |(of, _)| *of == layer)
                    .map(|(_, name)| *name)
            };
            let names: BTreeSet<Holder> = family.iter().copied().flat_map(readers).collect();
            if family.len() == 1
                && names.len() == 1
                && let Some(name) = names.first()
            {
                let mapped = tables.layers.get(base).map_or(0, |layer| layer.mapped);
                let bytes = mapped * BLOCK_BYTES as u64;
                let entry = found.entry(*name);
                (entry.logical_bytes, entry.unique_bytes) = (bytes, bytes);
                found.total_bytes += bytes;
                continue;
            }
            shared.push(Family {
                related: Related::On(base),
                named: !names.is_empty(),
                names,
                looked: None,
            });
        }
        shared
    }

    /// Counts what a volume or snapshot reads as other than never written or deallocated, as the
    /// maps have it, a piece at a time.
    pub(super) async fn count_one(&self, name: Holder) -> Result<u64, PoolError> {
        let mut family = Family {
            related: Related::Of(name),
            named: true,
            names: BTreeSet::from([name]),
            looked: None,
        };
        let mut found = Accounting::default();
        let mut at = Some(BlockNumber::FIRST);
        while let Some(block) = at {
            reactor::yield_now().await;
            if self.stopping.get() {
                return Err(PoolError::Offline(OfflineReason::LetGo));
            }
            at = self.count_piece(&mut family, block, &mut found).await?;
        }
        Ok(found.entry(name).logical_bytes / BLOCK_BYTES as u64)
    }

    /// Counts the blocks of layers that belong together, a piece at a time.
    async fn count_family(
        &self,
        mut family: Family,
        found: &mut Accounting,
    ) -> Result<(), PoolError> {
        let names = family.names.clone();
        let mut counted = Accounting::default();
        for name in &names {
            counted.entry(*name);
        }
        let mut at = Some(BlockNumber::FIRST);
        while let Some(block) = at {
            reactor::yield_now().await;
            at = self.count_piece(&mut family, block, &mut counted).await?;
        }
        let came = counted.volumes.keys().copied().map(Holder::Volume);
        let came = came.chain(counted.snapshots.keys().copied().map(Holder::Snapshot));
        let left_out: Vec<Holder> = came.filter(|name| !family.names.contains(name)).collect();
        for name in left_out {
            counted.forget(name);
        }
        found.volumes.append(&mut counted.volumes);
        found.snapshots.append(&mut counted.snapshots);
        found.unnamed_bytes += counted.unnamed_bytes;
        found.total_bytes += counted.total_bytes;
        Ok(())
    }

    /// Counts blocks from `start` on, by the maps as they are now; returns the one to go on from.
    async fn count_piece(
        &self,
        family: &mut Family,
        start: BlockNumber,
        counted: &mut Accounting,
    ) -> Result<Option<BlockNumber>, PoolError> {
        let _reading = self.reading();
        let version = self.state.borrow().tables.version();
        let known = family.looked.take().filter(|(of, _)| *of == version);
        let looked = match known {
            Some((_, looked)) => Some(looked),
            None => family.look(&self.state.borrow().tables),
        };
        let Some((mut walks, readers)) = looked else {
            return Ok(None);
        };
        for walk in &mut walks {
            walk.records.clear();
            walk.next = walk.root.map(|_| start);
        }
        let next = self.count_walks(&mut walks, &readers, start, counted).await;
        family.looked = Some((version, (walks, readers)));
        next
    }

    /// Counts blocks from `start` on for so long as a piece takes.
    async fn count_walks(
        &self,
        walks: &mut [Walk],
        readers: &[Reader],
        start: BlockNumber,
        counted: &mut Accounting,
    ) -> Result<Option<BlockNumber>, PoolError> {
        let begun = reactor::now();
        let (mut at, mut end) = (start, None);
        loop {
            for (turn, walk) in (1_usize..).zip(walks.iter_mut()) {
                self.refill(walk, at).await?;
                if turn.is_multiple_of(WALKS_IN_A_ROW) {
                    reactor::yield_now().await;
                }
            }
            let heads = || walks.iter().filter_map(|walk| walk.records.front());
            let Some(block) = heads().map(|head| head.block.max(at)).min() else {
                return Ok(None);
            };
            let now = reactor::now();
            // With many layers that is most of it, and the next piece begins so, too.
            let end = *end.get_or_insert(now + PIECE.max(now - begun));
            if now >= end && block > start {
                return Ok(Some(block));
            }
            // Up to where all say the same as at the beginning.
            let edges = heads().map(|head| match head.block > block {
                true => head.block,
                false => head.end(),
            });
            at = edges.min().unwrap_or(block + 1);
            let says: Vec<Option<Mapping>> = walks
                .iter()
                .map(|walk| {
                    let here = walk.records.front().filter(|head| head.block <= block);
                    here.map(|head| head.mapping)
                })
                .collect();
            // Who holds a block says so of one at a time.
            if says.iter().flatten().any(|says| says.entry().is_some()) {
                counted.count(block, &says, walks, readers);
            }
        }
    }

    /// Sees to it that the walk has its next record that reaches beyond `at`, if there is one.
    async fn refill(&self, walk: &mut Walk, at: BlockNumber) -> Result<(), IoError> {
        while walk.records.pop_front_if(|head| head.end() <= at).is_some() {}
        while walk.records.is_empty()
            && let (Some(from), Some(root)) = (walk.next, walk.root)
        {
            let (records, next) = tree::leaf_from(self, root, from).await?;
            walk.records = records.into();
            walk.next = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::tests::{processor_time, volume};

    /// Each volume stands alone, or all are clones of clones: what belongs together is found in one
    /// walk through the layers, however many there are.
    #[test]
    fn families_of_many_layers_are_found_in_one_walk() {
        const LAYERS: u32 = 50_000;
        for chained in [false, true] {
            let mut tables = Tables::default();
            let mut below = None;
            for at in 0..LAYERS {
                let layer = tables.add_layer(below).unwrap();
                tables
                    .volumes
                    .insert(VolumeId(1_000_000 + at), volume(layer));
                below = Some(layer).filter(|_| chained);
            }
            let (mut found, mut reading) = (0, 0);
            let spent = processor_time(|| {
                let families = families(&tables);
                found = families.len();
                let first = families.values().next().unwrap();
                assert!(first.is_sorted());
                reading = readers(&tables, first).len();
            });
            let expected = if chained { (1, LAYERS) } else { (LAYERS, 1) };
            assert_eq!((found as u32, reading as u32), expected);
            assert!(spent < Duration::from_secs(5), "{spent:?}");
        }
    }
}
