//! What deallocation and deletion mean where layers lie upon each other, and how layers go that
//! nobody needs: some leaves at each checkpoint, so that none takes long.
//!
//! A layer with nothing above it is *dropped*: its tree loses its first leaves until none is left.
//! One with a single layer above it is *folded*: leaves of one of the two are laid into the other.
//! Whatever has been laid so far, the two read as before, so nothing needs to be remembered but
//! that a block which a header calls one's may be the other's by now ([`Tables::folding`]).

use crate::format::node::{NODE_RECORDS, NodeRecord};
use crate::ids::{Generation, LayerId};
use crate::location::{BlockNumber, Mapping};
use crate::map::overlay::{Change, Run};
use crate::map::tree::{self, Laid, NodeSink};
use crate::volumes::removal::{Removal, Unneeded};
use crate::volumes::{Fold, Layer, Redirect, Root, Tables};
use block::IoError;

/// A leaf that is folded is as much work as so many that are dropped: its blocks may be in as many
/// leaves of the other layer.
const FOLD_COST: usize = 8;
/// Nodes that the trees of a fold may become larger by at once.
const MORE_NODES: usize = 8;
/// Others on this core have a turn after so many layers: a layer may have no node to wait for.
const LAYERS_IN_A_ROW: usize = 16;
/// The same, where each is only looked at.
const LAYERS_JUDGED_IN_A_ROW: usize = 4096;

/// Into which of two layers the leaves of the other go: that takes fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    /// The parent's go into the child, where they count below what it says.
    Child,
    /// The child's go into the parent, where they count above. What is written to the child
    /// meanwhile goes there too, as far as this has come: else it would never end.
    Parent { through: BlockNumber },
}

/// Who keeps count of what a merge does.
pub(crate) trait Ledger {
    /// The change in the number of mapped blocks since the last call.
    fn take_mapped(&self) -> i64;
    /// How many nodes all trees have.
    fn nodes(&self) -> usize;
    /// How many more may be stored before the next checkpoint.
    fn room(&self) -> usize;
    /// Others on this core have a turn. Nobody else changes the tables or the maps meanwhile: who
    /// does holds the lock that a merge holds.
    async fn give_way(&self);
}

/// Puts deallocations in a layer that has ancestors as holes, where an ancestor may have a block
/// that would otherwise show through.
fn with_markers(tables: &Tables, layer: LayerId, changes: &mut [Change]) {
    let clears = |change: &&mut Change| matches!(change, Change::Clear { .. });
    let mut cleared = changes.iter_mut().filter(clears).peekable();
    if cleared.peek().is_none() || !has_blocks_below(tables, layer) {
        return;
    }
    for change in cleared {
        let (start, end, run) = (change.start(), change.end(), Run::Hole);
        *change = Change::Cover { start, end, run };
    }
}

/// Whether an ancestor of a layer has a map.
fn has_blocks_below(tables: &Tables, layer: LayerId) -> bool {
    let mut ancestor = tables.parent(layer);
    while let Some(found) = ancestor.and_then(|id| tables.layers.get(id)) {
        if !found.is_empty() {
            return true;
        }
        ancestor = found.parent;
    }
    false
}

/// Merges what was written to a layer since the last checkpoint into its map.
pub(crate) async fn lay<S: NodeSink + Ledger>(
    sink: &S,
    tables: &mut Tables,
    layer: LayerId,
    changes: &mut Vec<Change>,
    towards: Option<Towards>,
) -> Result<(), IoError> {
    with_markers(tables, layer, changes);
    if let (Some(fold), Some(Towards::Parent { through })) = (tables.folding, towards)
        && fold.child == layer
    {
        let mut folded = split_off_before(changes, through);
        let hides = tables.parent(fold.layer).is_some();
        folded.iter_mut().for_each(|change| lower(change, hides));
        apply(sink, tables, fold.layer, &folded, Laid::Above).await?;
    }
    apply(sink, tables, layer, changes, Laid::Above).await
}

/// Takes what is said about blocks before `at` out of `changes`.
fn split_off_before(changes: &mut Vec<Change>, at: BlockNumber) -> Vec<Change> {
    let begun = changes.partition_point(|change| change.start() < at);
    let ended = changes.partition_point(|change| change.end() <= at);
    let mut before: Vec<Change> = changes.drain(..ended).collect();
    if begun > ended {
        before.push(changes[0].within(&(BlockNumber::FIRST..at)));
        changes[0] = changes[0].within(&(at..BlockNumber::MOST));
    }
    before
}

/// What a child says, as its parent has to say it to read the same; `hides` if there is something
/// below the parent.
fn lower(change: &mut Change, hides: bool) {
    if let Change::Cover {
        start,
        end,
        run: Run::Hole,
    } = *change
        && !hides
    {
        *change = Change::Clear { start, end };
    }
}

async fn apply<S: NodeSink + Ledger>(
    sink: &S,
    tables: &mut Tables,
    layer: LayerId,
    changes: &[Change],
    laid: Laid,
) -> Result<(), IoError> {
    if let Some(target) = tables.layers.get_mut(layer) {
        target.root = tree::merge(sink, layer, target.root, changes, laid).await?;
        target.mapped = target.mapped.saturating_add_signed(sink.take_mapped());
    }
    Ok(())
}

/// Gets on with the layers that no volume and no snapshot needs any more: some `leaves` of them go.
/// `towards` is how the fold under way goes on, if it has since the pool was opened.
pub(crate) async fn remove_unneeded<S: NodeSink + Ledger>(
    sink: &S,
    tables: &mut Tables,
    towards: &mut Option<Towards>,
    generation: Generation,
    leaves: usize,
) -> Result<(), IoError> {
    if leaves == 0 || !tables.has_unneeded() {
        return Ok(());
    }
    sink.give_way().await;
    let mut removal = Removal::new(tables);
    let mut unjudged = Some(LayerId::LEAST);
    while let Some(from) = unjudged {
        sink.give_way().await;
        unjudged = removal.judge_some(tables, from, LAYERS_JUDGED_IN_A_ROW);
    }
    let (mut left, mut in_a_row) = (leaves, 0);
    while let Some(unneeded) = removal.next(tables)
        && left > 0
    {
        in_a_row += 1;
        if in_a_row == LAYERS_IN_A_ROW {
            in_a_row = 0;
            sink.give_way().await;
        }
        let leaves = match unneeded {
            Unneeded::Drop(layer) => {
                let leaves = clear_first(sink, tables, layer, left).await?;
                end_dropped(tables, &mut removal, layer, generation);
                leaves
            }
            Unneeded::Fold(fold) => {
                let most = foldable(sink).min(left.div_ceil(FOLD_COST));
                if most == 0 {
                    break;
                }
                if tables.folding.replace(fold) != Some(fold) {
                    *towards = None;
                }
                let leaves = fold_some(sink, tables, fold, towards, most).await?;
                end_folded(tables, &mut removal, fold, towards, generation);
                leaves * FOLD_COST
            }
        };
        left = left.saturating_sub(leaves.max(1));
    }
    Ok(())
}

/// Leaves that can be folded before the next checkpoint: each of their blocks may be in another
/// leaf of the other tree, and no node is written twice.
fn foldable<S: Ledger>(sink: &S) -> usize {
    let room = sink.room().saturating_sub(MORE_NODES);
    match sink.nodes() <= room {
        true => usize::MAX,
        false => room / NODE_RECORDS,
    }
}

/// Takes the first leaves of a layer's tree out; returns how many.
async fn clear_first<S: NodeSink + Ledger>(
    sink: &S,
    tables: &mut Tables,
    layer: LayerId,
    leaves: usize,
) -> Result<usize, IoError> {
    let Some(root) = tables.layers.get(layer).and_then(|layer| layer.root) else {
        return Ok(0);
    };
    let first = tree::first_leaves(sink, root, leaves).await?;
    clear_before(sink, tables, layer, first.end).await?;
    Ok(first.leaves)
}

async fn clear_before<S: NodeSink + Ledger>(
    sink: &S,
    tables: &mut Tables,
    layer: LayerId,
    end: Option<BlockNumber>,
) -> Result<(), IoError> {
    let clear = Change::Clear {
        start: BlockNumber::FIRST,
        end: end.unwrap_or(BlockNumber::END),
    };
    apply(sink, tables, layer, &[clear], Laid::Above).await
}

/// Forgets a dropped layer of which nothing is left. What was folded into its parent until then
/// goes with the parent.
fn end_dropped(tables: &mut Tables, removal: &mut Removal, layer: LayerId, generation: Generation) {
    let ended = tables.layers.get(layer).filter(|found| found.is_empty());
    let Some(parent) = ended.map(|found| found.parent) else {
        return;
    };
    tables.layers.remove(layer);
    removal.dropped(layer, parent);
    let fold = tables.folding.take_if(|fold| fold.child == layer);
    let to = fold.map(|fold| fold.layer);
    tables.redirects.insert(layer, Redirect { to, generation });
}

fn direction(tables: &Tables, fold: Fold) -> Towards {
    let mapped = |layer: LayerId| tables.layers.get(layer).map_or(0, |layer| layer.mapped);
    let mut volumes = tables.volumes.values();
    // What a volume that reserves space has in its own layer is not promised to it any more: that
    // must not become less meanwhile.
    let reserved = volumes.any(|volume| volume.layer == fold.child && volume.reserved);
    match mapped(fold.child) <= mapped(fold.layer) && !reserved {
        true => Towards::Parent {
            through: BlockNumber::FIRST,
        },
        false => Towards::Child,
    }
}

/// Lays the first leaves of one layer of a fold into the other; returns how many.
async fn fold_some<S: NodeSink + Ledger>(
    sink: &S,
    tables: &mut Tables,
    fold: Fold,
    towards: &mut Option<Towards>,
    leaves: usize,
) -> Result<usize, IoError> {
    let towards = towards.get_or_insert_with(|| direction(tables, fold));
    let (from, to, laid) = match towards {
        Towards::Child => (fold.layer, fold.child, Laid::Below),
        Towards::Parent { .. } => (fold.child, fold.layer, Laid::Above),
    };
    let root = tables.layers.get(from).and_then(|layer| layer.root);
    let mut end = None;
    let mut taken = 0;
    if let Some(root) = root {
        let first = tree::first_leaves(sink, root, leaves).await?;
        (taken, end) = (first.leaves, first.end);
        let hides = tables.parent(fold.layer).is_some();
        let changes = as_changes(sink, root, end, hides).await?;
        apply(sink, tables, to, &changes, laid).await?;
        clear_before(sink, tables, from, end).await?;
    }
    if let Towards::Parent { through } = towards {
        *through = end.unwrap_or(BlockNumber::END);
    }
    Ok(taken)
}

/// What a tree says about the blocks before `end`, as changes to another.
async fn as_changes<S: NodeSink>(
    sink: &S,
    root: Root,
    end: Option<BlockNumber>,
    hides: bool,
) -> Result<Vec<Change>, IoError> {
    let mut changes = Vec::new();
    let mut from = Some(BlockNumber::FIRST);
    while let Some(at) = from.filter(|at| end.is_none_or(|end| *at < end)) {
        let (records, next) = tree::leaf_from(sink, root, at).await?;
        changes.extend(records.iter().map(as_change));
        from = next;
    }
    changes.iter_mut().for_each(|change| lower(change, hides));
    Ok(changes)
}

fn as_change(record: &NodeRecord) -> Change {
    let (block, end) = (record.block, record.end());
    let cover = |run| Change::Cover {
        start: block,
        end,
        run,
    };
    match record.mapping {
        Mapping::Block(entry) => Change::Put { block, entry },
        Mapping::Hole => cover(Run::Hole),
        Mapping::Lost => cover(Run::Lost),
    }
}

/// Makes one layer of two of which one has everything.
fn end_folded(
    tables: &mut Tables,
    removal: &mut Removal,
    fold: Fold,
    towards: &mut Option<Towards>,
    generation: Generation,
) {
    let from = match towards {
        Some(Towards::Parent { .. }) => fold.child,
        _ => fold.layer,
    };
    if !tables.layers.get(from).is_some_and(Layer::is_empty) {
        return;
    }
    let lower = tables.layers.remove(fold.layer).unwrap_or_default();
    if let Some(heir) = tables.layers.get_mut(fold.child) {
        heir.parent = lower.parent;
        if from == fold.child {
            (heir.root, heir.mapped) = (lower.root, lower.mapped);
        }
    }
    removal.folded(fold, lower.parent);
    let to = Some(fold.child);
    let redirect = Redirect { to, generation };
    tables.redirects.insert(fold.layer, redirect);
    tables.folding = None;
    *towards = None;
}

#[cfg(test)]
mod tests;
