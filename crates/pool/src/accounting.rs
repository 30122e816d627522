//! Who holds which space: for every volume and snapshot what it reads as, what it has for itself,
//! and what it shares; as of one checkpoint, exactly.

use crate::checkpoint::Resume;
use crate::control::{SnapshotId, VolumeId};
use crate::core::Core;
use crate::error::PoolError;
use crate::format::node::NodeRecord;
use crate::location::{BLOCK_BYTES, Mapping};
use crate::pool::Pool;
use crate::tree;
use crate::volumes::{Root, Tables};
use block::{BlockDevice, IoError};
use std::collections::{BTreeMap, VecDeque};

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

#[derive(Clone, Copy)]
enum Name {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

/// A layer on its way through its map.
struct Walk {
    parent: Option<usize>,
    root: Option<Root>,
    records: VecDeque<NodeRecord>,
    /// Where the next leaf begins.
    next: Option<u64>,
}

/// A volume or snapshot: the place of its layer in the walk, and where it ends.
struct Reader {
    name: Name,
    layer: usize,
    blocks: u64,
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Takes a checkpoint and counts whose every block is. Reads the maps of all volumes that
    /// have snapshots or clones.
    pub async fn accounting(&self) -> Result<Accounting, PoolError> {
        let core = &self.core;
        let tables = core.checkpoint_with(Resume::AtFreeze, |_| Ok(()));
        tables.await?;
        // While this lives no node of these maps is overwritten.
        let _reading = core.reading();
        let tables = core.state.borrow().tables.clone();
        let mut found = Accounting::default();
        for base in tables.layers.keys() {
            if tables.parent(*base).is_none() {
                core.count_family(&tables, *base, &mut found).await?;
            }
        }
        Ok(found)
    }
}

/// The layers that stand on `base`, itself first, each after its parent.
fn family(tables: &Tables, base: u32) -> Vec<u32> {
    let mut family = vec![base];
    let mut at = 0;
    while at < family.len() {
        let parent = Some(family[at]);
        let above = tables.layers.iter();
        let above = above.filter(|(_, layer)| layer.parent == parent);
        family.extend(above.map(|(id, _)| *id));
        at += 1;
    }
    family
}

fn readers(tables: &Tables, family: &[u32]) -> Vec<Reader> {
    let place = |layer: u32| family.iter().position(|member| *member == layer);
    let volumes = tables.volumes.iter().filter_map(|(id, volume)| {
        Some(Reader {
            name: Name::Volume(VolumeId(*id)),
            layer: place(volume.layer)?,
            blocks: volume.blocks,
        })
    });
    let snapshots = tables.snapshots.iter().filter_map(|(id, snapshot)| {
        Some(Reader {
            name: Name::Snapshot(SnapshotId(*id)),
            layer: place(snapshot.layer)?,
            blocks: snapshot.blocks,
        })
    });
    volumes.chain(snapshots).collect()
}

impl Accounting {
    fn entry(&mut self, name: Name) -> &mut SpaceUse {
        match name {
            Name::Volume(id) => self.volumes.entry(id).or_default(),
            Name::Snapshot(id) => self.snapshots.entry(id).or_default(),
        }
    }

    /// Enters one block: what each layer of a family says about it.
    fn count(&mut self, block: u64, says: &[Option<Mapping>], walks: &[Walk], readers: &[Reader]) {
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
        let mut read_by: Vec<(usize, Option<Name>)> = vec![(0, None); says.len()];
        for reader in readers.iter().filter(|reader| block < reader.blocks) {
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
    /// Counts the blocks of the layers that stand on `base`.
    async fn count_family(
        &self,
        tables: &Tables,
        base: u32,
        found: &mut Accounting,
    ) -> Result<(), PoolError> {
        let family = family(tables, base);
        let readers = readers(tables, &family);
        for reader in &readers {
            found.entry(reader.name);
        }
        if let ([only], [reader]) = (&family[..], &readers[..]) {
            // Nobody to share with: what the map holds is the volume's.
            let bytes = tables.layers.get(only).map_or(0, |layer| layer.mapped);
            let bytes = bytes * BLOCK_BYTES as u64;
            let entry = found.entry(reader.name);
            (entry.logical_bytes, entry.unique_bytes) = (bytes, bytes);
            found.total_bytes += bytes;
            return Ok(());
        }
        let mut walks: Vec<Walk> = Vec::with_capacity(family.len());
        for id in &family {
            let Some(layer) = tables.layers.get(id) else {
                return Err(PoolError::Damaged("table of layers"));
            };
            let parent = family.iter().position(|other| Some(*other) == layer.parent);
            walks.push(Walk {
                parent,
                root: layer.root,
                records: VecDeque::new(),
                next: layer.root.map(|_| 0),
            });
        }
        let mut at = 0;
        loop {
            for walk in &mut walks {
                self.refill(walk, at).await?;
            }
            let heads = || walks.iter().filter_map(|walk| walk.records.front());
            let Some(start) = heads().map(|head| head.block.max(at)).min() else {
                return Ok(());
            };
            // Up to where all say the same as at the beginning.
            let edges = heads().map(|head| match head.block > start {
                true => head.block,
                false => head.end(),
            });
            at = edges.min().unwrap_or(start + 1);
            let says: Vec<Option<Mapping>> = walks
                .iter()
                .map(|walk| {
                    let here = walk.records.front().filter(|head| head.block <= start);
                    here.map(|head| head.mapping)
                })
                .collect();
            // Who holds a block says so of one at a time.
            if says.iter().flatten().any(|says| says.entry().is_some()) {
                found.count(start, &says, &walks, &readers);
            }
        }
    }

    /// Sees to it that the walk has its next record that reaches beyond `at`, if there is one.
    async fn refill(&self, walk: &mut Walk, at: u64) -> Result<(), IoError> {
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
