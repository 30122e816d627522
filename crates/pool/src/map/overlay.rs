//! The updates that a map does not hold yet: blocks and holes by layer, in log order.

use crate::hashing::{NearSeed, Unseeded};
use crate::ids::{LayerId, SegmentNumber, ShardId};
use crate::location::{BlockNumber, Entry, Location, Mapping, each_of};
use crate::map::holes::{self, Holes};
use crate::segments::slices::Share;
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// What a whole run of blocks reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// Zeroes, whatever is below.
    Hole,
    /// An error: see [`Mapping::Lost`].
    Lost,
}

impl From<Run> for Mapping {
    fn from(run: Run) -> Mapping {
        match run {
            Run::Hole => Mapping::Hole,
            Run::Lost => Mapping::Lost,
        }
    }
}

/// One change to a layer's map; changes of a batch are disjoint and sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `block` is there.
    Put { block: BlockNumber, entry: Entry },
    /// All of `start..end` reads so.
    Cover {
        start: BlockNumber,
        end: BlockNumber,
        run: Run,
    },
    /// Nothing in `start..end` is mapped.
    Clear {
        start: BlockNumber,
        end: BlockNumber,
    },
}

impl Change {
    pub fn start(&self) -> BlockNumber {
        match self {
            Change::Put { block, .. } => *block,
            Change::Cover { start, .. } | Change::Clear { start, .. } => *start,
        }
    }

    /// One past the last block.
    pub fn end(&self) -> BlockNumber {
        match self {
            Change::Put { block, .. } => *block + 1,
            Change::Cover { end, .. } | Change::Clear { end, .. } => *end,
        }
    }

    /// The part of it that lies in `span`, which it reaches into.
    pub fn within(self, span: &Range<BlockNumber>) -> Change {
        let (start, end) = (self.start().max(span.start), self.end().min(span.end));
        match self {
            Change::Put { .. } => self,
            Change::Cover { run, .. } => Change::Cover { start, end, run },
            Change::Clear { .. } => Change::Clear { start, end },
        }
    }
}

/// An entry in two numbers, each of which is stored and loaded as one: an [`Entry`] is put together
/// of four, and who loads it with one instruction waits until each has left the store buffer.
#[derive(Clone, Copy, Debug)]
struct Packed {
    place: u64,
    crc: u32,
}

impl From<Entry> for Packed {
    fn from(entry: Entry) -> Packed {
        Packed {
            place: entry.at.pack(),
            crc: entry.crc,
        }
    }
}

impl From<Packed> for Entry {
    fn from(packed: Packed) -> Entry {
        Entry {
            at: Location::unpack(packed.place),
            crc: packed.crc,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct LayerOverlay {
    /// Looked up for every block that is read, written or cleaned; sorted only for a merge. New
    /// ones lie one behind the other: whoever adds one waits for memory of the index alone, which
    /// is the smaller part.
    blocks: IndexMap<BlockNumber, Packed, NearSeed>,
    /// Deallocated blocks; one that is in `blocks` too was written since.
    holes: Holes,
}

impl LayerOverlay {
    /// Takes the blocks of `range` that are in `share` out.
    fn remove(&mut self, range: &Range<BlockNumber>, share: Share) -> Vec<Entry> {
        if range.end - range.start <= self.blocks.len() as u64 {
            let own = share.pieces(range.clone()).flat_map(each_of);
            let removed = own.filter_map(|block| self.blocks.swap_remove(&block));
            return removed.map(Entry::from).collect();
        }
        let is_own =
            |block: BlockNumber| range.contains(&block) && share.owner(block) == share.shard;
        let own = self.blocks.extract_if(.., |block, _| is_own(*block));
        own.map(|(_, packed)| packed.into()).collect()
    }

    /// The blocks, in no order.
    fn puts(&self) -> impl Iterator<Item = Change> {
        self.blocks.iter().map(|(block, packed)| Change::Put {
            block: *block,
            entry: (*packed).into(),
        })
    }
}

/// Updates that are sorted before others have a turn.
const SORTED_IN_A_ROW: usize = 16 << 10;
/// Updates that are counted before others have a turn, which is as much work. While a merge waits
/// for its turns, hosts write, and what they overwrite is not known to be free.
const COUNTED_IN_A_ROW: usize = 4 * SORTED_IN_A_ROW;
/// What one of them counts as work.
const UPDATE: u64 = 2;

/// How many blocks of each segment something has, by its number.
pub(crate) type Counted = HashMap<SegmentNumber, u32, Unseeded>;

/// Updates of all layers since the last freeze.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    layers: BTreeMap<LayerId, LayerOverlay>,
    updates: usize,
    /// How many it was given, those that replaced others included.
    given: usize,
}

impl Overlay {
    /// How many updates it holds.
    pub fn len(&self) -> usize {
        self.updates
    }

    /// How many updates it was given, those included that others have replaced: about as many are
    /// to be replayed after a crash.
    pub fn given(&self) -> usize {
        self.given
    }

    pub fn is_empty(&self) -> bool {
        self.updates == 0
    }

    pub fn layers(&self) -> impl Iterator<Item = LayerId> + '_ {
        self.layers.keys().copied()
    }

    /// Forgets everything, but for the memory of layers that had updates: what comes next is mostly
    /// as much, for the same ones.
    pub fn emptied(mut self) -> Overlay {
        self.layers.retain(|_, overlay| {
            let used = !overlay.blocks.is_empty();
            overlay.blocks.clear();
            overlay.holes.clear();
            used
        });
        Overlay {
            layers: self.layers,
            ..Overlay::default()
        }
    }

    /// Maps a block; returns the entry it replaces, if that one was in this overlay.
    pub fn put(&mut self, layer: LayerId, block: BlockNumber, entry: Entry) -> Option<Entry> {
        let old = self
            .layers
            .entry(layer)
            .or_default()
            .blocks
            .insert(block, entry.into());
        self.given += 1;
        self.updates += usize::from(old.is_none());
        old.map(Entry::from)
    }

    /// Unmaps the blocks of `range` that are in `share`; returns the entries of this overlay that
    /// it replaces.
    pub fn clear(&mut self, layer: LayerId, range: Range<BlockNumber>, share: Share) -> Vec<Entry> {
        let overlay = self.layers.entry(layer).or_default();
        let lost = overlay.remove(&range, share);
        let before = overlay.holes.len();
        overlay.holes.add(share, range);
        self.given += 1;
        self.updates = self.updates + overlay.holes.len() - before - lost.len();
        lost
    }

    pub fn get(&self, layer: LayerId, block: BlockNumber) -> Option<Mapping> {
        let overlay = self.layers.get(&layer)?;
        if let Some(packed) = overlay.blocks.get(&block) {
            return Some(Mapping::Block((*packed).into()));
        }
        overlay.holes.contains(block).then_some(Mapping::Hole)
    }

    /// Writes down what is said about the blocks from `start` on, where nothing is said yet.
    pub fn fill(&self, layer: LayerId, start: BlockNumber, found: &mut [Option<Mapping>]) {
        if let [one] = found {
            *one = one.or_else(|| self.get(layer, start));
            return;
        }
        let Some(overlay) = self.layers.get(&layer) else {
            return;
        };
        let end = start + found.len() as u64;
        if !overlay.blocks.is_empty() {
            let unsaid = start
                .onwards()
                .zip(found.iter_mut())
                .filter(|(_, one)| one.is_none());
            for (block, one) in unsaid {
                let packed = overlay.blocks.get(&block);
                *one = packed.map(|packed| Mapping::Block((*packed).into()));
            }
        }
        for hole in overlay.holes.within(start..end) {
            for one in &mut found[(hole.start - start) as usize..(hole.end - start) as usize] {
                one.get_or_insert(Mapping::Hole);
            }
        }
    }

    /// Forgets a layer; returns the entries it had.
    pub fn remove_layer(&mut self, layer: LayerId) -> Vec<Entry> {
        let Some(overlay) = self.layers.remove(&layer) else {
            return Vec::new();
        };
        self.updates -= overlay.blocks.len() + overlay.holes.len();
        overlay.blocks.into_values().map(Entry::from).collect()
    }

    /// Deals the updates to the shards that have the blocks now, in their order.
    pub fn deal(self, slice_blocks: u64, shards: u64) -> Vec<Overlay> {
        if shards == 1 {
            return vec![self];
        }
        let mut dealt = vec![Overlay::default(); shards as usize];
        for (id, layer) in self.layers {
            for (shard, overlay) in (0..).map(ShardId::new).zip(&mut dealt) {
                let share = Share {
                    slice_blocks,
                    shards,
                    shard,
                };
                for run in holes::union([&layer.holes]) {
                    overlay.clear(id, run, share);
                }
            }
            for (block, packed) in layer.blocks {
                let any = Share {
                    slice_blocks,
                    shards,
                    shard: ShardId::FIRST,
                };
                dealt[any.owner(block).index()].put(id, block, packed.into());
            }
        }
        dealt
    }

    /// How many of its blocks lie in each segment. Others have their turns: nobody may change it
    /// meanwhile.
    pub async fn count_by_segment(&self) -> Counted {
        let mut counted = Counted::default();
        for (turn, entry) in (1..).zip(self.entries()) {
            *counted.entry(entry.at.segment).or_default() += 1;
            reactor::count_work(UPDATE);
            if turn % COUNTED_IN_A_ROW == 0 {
                reactor::yield_now().await;
            }
        }
        counted
    }

    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.layers
            .values()
            .flat_map(|overlay| overlay.blocks.values())
            .map(|packed| (*packed).into())
    }
}

/// The changes of a layer in several overlays that have no block in common, sorted and disjoint, in
/// `memory`, whatever it holds: a merge has many, and new memory for them costs as much as sorting.
/// Others have their turns meanwhile: nobody may change the overlays.
pub(crate) async fn changes_of<'a>(
    overlays: impl IntoIterator<Item = &'a Overlay>,
    layer: LayerId,
    memory: Vec<Change>,
) -> Vec<Change> {
    let mut all = memory;
    all.clear();
    let (mut holes, mut sorted) = (Vec::new(), 0);
    for overlay in overlays {
        if let Some(overlay) = overlay.layers.get(&layer) {
            for change in overlay.puts() {
                all.push(change);
                if all.len() - sorted == SORTED_IN_A_ROW {
                    sort(&mut all[sorted..]);
                    sorted = all.len();
                    reactor::yield_now().await;
                }
            }
            holes.push(&overlay.holes);
        }
    }
    match sorted {
        0 => sort(&mut all),
        // This finds the parts that are sorted, and merges them.
        _ => {
            reactor::count_work(UPDATE * all.len() as u64);
            all.sort_by_key(Change::start);
        }
    }
    let mut clears = Vec::new();
    for run in holes::union(holes) {
        clear_around(&all, run, &mut clears);
    }
    if !clears.is_empty() {
        all.append(&mut clears);
        all.sort_by_key(Change::start);
    }
    all
}

fn sort(changes: &mut [Change]) {
    reactor::count_work(4 * UPDATE * changes.len() as u64);
    changes.sort_unstable_by_key(Change::start);
}

/// Clears a run, but for the blocks in it that are put.
fn clear_around(puts: &[Change], run: Range<BlockNumber>, clears: &mut Vec<Change>) {
    let mut start = run.start;
    let first = puts.partition_point(|put| put.start() < run.start);
    let inside = puts[first..].iter().map(Change::start);
    for end in inside.take_while(|block| *block < run.end) {
        if start < end {
            clears.push(Change::Clear { start, end });
        }
        start = end + 1;
    }
    if start < run.end {
        let end = run.end;
        clears.push(Change::Clear { start, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::numbered;
    use proptest::prelude::*;
    use reactor::Reactor;

    const LAYER: LayerId = LayerId::new(1);

    fn entry(number: u32) -> Entry {
        Entry {
            at: Location {
                segment: SegmentNumber::new(number),
                column: 0,
                row: 0,
            },
            crc: number,
        }
    }

    proptest! {
        #[test]
        fn behaves_as_an_array_and_its_changes_rebuild_it(
            steps in proptest::collection::vec((any::<bool>(), 0u64..64, 1u64..20), 1..100),
            shards in 1u64..4,
        ) {
            let mut overlay = Overlay::default();
            let share = Share { slice_blocks: 8, shards, shard: ShardId::new(shards / 2) };
            let mut model = [None; 84];
            for (number, (put, start, len)) in steps.into_iter().enumerate() {
                if put {
                    let entry = entry(number as u32);
                    let old = overlay.put(LAYER, BlockNumber::new(start), entry);
                    let expected = match model[start as usize] {
                        Some(Mapping::Block(old)) => Some(old),
                        _ => None,
                    };
                    prop_assert_eq!(old, expected);
                    model[start as usize] = Some(Mapping::Block(entry));
                } else {
                    let run = numbered(start..start + len);
                    overlay.clear(LAYER, run.clone(), share);
                    for block in each_of(run) {
                        if share.owner(block) == share.shard {
                            model[block.get() as usize] = Some(Mapping::Hole);
                        }
                    }
                }
                for (block, expected) in BlockNumber::FIRST.onwards().zip(&model) {
                    prop_assert_eq!(overlay.get(LAYER, block), *expected);
                }
                let said = Some(Mapping::Block(entry(u32::MAX)));
                let mut found = [None; 30];
                found[7] = said;
                overlay.fill(LAYER, BlockNumber::new(start), &mut found[..len as usize + 10]);
                for (offset, found) in found[..len as usize + 10].iter().enumerate() {
                    let at = (start as usize + offset).min(83);
                    let expected = if offset == 7 { said } else { model[at] };
                    prop_assert!(start as usize + offset > 83 || *found == expected);
                }
            }
            let mut rebuilt = [None; 84];
            let said = numbered(0..9);
            let said_before = vec![Change::Clear { start: said.start, end: said.end }];
            let mut last = BlockNumber::FIRST;
            let changes = Reactor::simulated(1).run(changes_of([&overlay], LAYER, said_before));
            for change in changes {
                prop_assert!(change.start() >= last && change.end() > change.start());
                last = change.end();
                let value = match change {
                    Change::Put { entry, .. } => Mapping::Block(entry),
                    Change::Cover { run, .. } => run.into(),
                    Change::Clear { .. } => Mapping::Hole,
                };
                let run = change.start().get() as usize..change.end().get() as usize;
                rebuilt[run].fill(Some(value));
            }
            prop_assert_eq!(rebuilt, model);
        }
    }
}
