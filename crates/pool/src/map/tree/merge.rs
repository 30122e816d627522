//! Changing a tree: a batch of changes goes down once, new nodes come up packed.

use crate::format::node::{LEVELS_MAX, NODE_RECORDS, Node, NodeRecord};
use crate::ids::LayerId;
use crate::join::join_all;
use crate::location::{BlockNumber, Entry, Mapping};
use crate::map::overlay::Change;
use crate::map::tree::records::{merge_above, merge_below};
use crate::map::tree::{NodeSink, check_span, load_level};
use crate::volumes::Root;
use block::IoError;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// A changed node with fewer records than this is merged with a neighbour, so that a map's size
/// stays bounded by what it maps.
const SMALL: usize = NODE_RECORDS / 4;
/// Of a run that is longer so many records, whole nodes full of them, are stored before the rest is
/// joined: memory need not hold all of it.
const RUN: usize = 4 * NODE_RECORDS;
/// So many nodes are read side by side.
const LOADS: usize = 64;

type Recursion<'a, T> = Pin<Box<dyn Future<Output = Result<T, IoError>> + 'a>>;

/// Which counts where changes and the tree speak of the same block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Laid {
    /// The changes.
    Above,
    /// What the tree says: changes fill what it says nothing about.
    Below,
}

/// A tree that is being changed.
struct Merge<'a, S> {
    sink: &'a S,
    layer: LayerId,
    laid: Laid,
}

/// A node of it: where it is, how high, the first block that it is about and which it can be about.
struct Place {
    at: Mapping,
    level: u8,
    first: BlockNumber,
    span: Range<BlockNumber>,
}

impl Place {
    fn of(root: Root) -> Place {
        Place {
            at: root.mapping,
            level: root.level,
            first: BlockNumber::FIRST,
            span: BlockNumber::FIRST..BlockNumber::END,
        }
    }

    /// Of its child at `index`.
    fn below(&self, records: &[NodeRecord], index: usize) -> Place {
        let NodeRecord { block, mapping, .. } = records[index];
        let start = match index {
            0 => self.span.start,
            _ => block,
        };
        let next = records.get(index + 1);
        Place {
            at: mapping,
            level: self.level - 1,
            first: block,
            span: start..next.map_or(self.span.end, |next| next.block),
        }
    }
}

/// Applies `changes`, sorted and disjoint, to the tree of `layer`; returns its new root. A node
/// that they concern and that cannot be read becomes a run that is lost.
pub(crate) async fn merge<S: NodeSink>(
    sink: &S,
    layer: LayerId,
    root: Option<Root>,
    changes: &[Change],
    laid: Laid,
) -> Result<Option<Root>, IoError> {
    if changes.is_empty() {
        return Ok(root);
    }
    let merge = Merge { sink, layer, laid };
    let (mut level, mut content) = match root {
        Some(root) => (root.level, {
            let node = load_level(sink, root.mapping, root.level).await;
            merge.changed(&Place::of(root), node, changes).await?
        }),
        None => (0, merge.records(std::iter::empty(), changes)),
    };
    loop {
        if content.is_empty() {
            return Ok(None);
        }
        if let [only] = content[..]
            && level > 0
        {
            return Ok(Some(Root {
                level: level - 1,
                mapping: only.mapping,
            }));
        }
        content = store_packed(sink, layer, level, &content).await?;
        if let [only] = content[..] {
            return Ok(Some(Root {
                level,
                mapping: only.mapping,
            }));
        }
        level += 1;
        if level >= LEVELS_MAX {
            return Err(IoError::Internal);
        }
    }
}

impl<S: NodeSink> Merge<'_, S> {
    /// The records of a leaf after `changes`, with gains and losses reported.
    fn records(
        &self,
        old: impl Iterator<Item = NodeRecord>,
        changes: &[Change],
    ) -> Vec<NodeRecord> {
        match self.laid {
            Laid::Above => merge_above(self.sink, old, changes),
            Laid::Below => merge_below(self.sink, old, changes),
        }
    }

    /// What a node holds after `changes`; its old self is discarded.
    fn changed<'a>(
        &'a self,
        place: &'a Place,
        node: Result<Arc<Node>, IoError>,
        changes: &'a [Change],
    ) -> Recursion<'a, Vec<NodeRecord>> {
        Box::pin(async move {
            let node = match node {
                Err(IoError::UnrecoveredRead) => return self.replaced(place, changes).await,
                node => node?,
            };
            check_span(&node, place.span.clone())?;
            if let Some(entry) = place.at.entry() {
                self.sink.discard(entry);
            }
            if place.level == 0 {
                return Ok(self.records(node.records(), changes));
            }
            self.changed_children(place, &node, changes).await
        })
    }

    async fn changed_children(
        &self,
        place: &Place,
        node: &Node,
        changes: &[Change],
    ) -> Result<Vec<NodeRecord>, IoError> {
        let (sink, level) = (self.sink, place.level - 1);
        let old: Vec<NodeRecord> = node.records().collect();
        let mut rest = changes;
        let parts: Vec<(Place, Cow<'_, [Change]>)> = (0..old.len())
            .map(|index| {
                let below = place.below(&old, index);
                let inside = clip(&mut rest, &below.span);
                (below, inside)
            })
            .collect();
        let changed = parts.iter().filter(|(_, inside)| !inside.is_empty());
        let mut loads = changed.map(|(below, _)| load_level(sink, below.at, level));
        let mut loaded = VecDeque::new();
        let mut packer = Packer {
            sink,
            layer: self.layer,
            level,
            packed: Vec::with_capacity(old.len()),
            run: Vec::new(),
        };
        for ((below, inside), record) in parts.iter().zip(old) {
            if inside.is_empty() {
                packer.keep(record).await?;
                continue;
            }
            if loaded.is_empty() {
                loaded.extend(join_all(loads.by_ref().take(LOADS)).await);
            }
            let node = loaded.pop_front().ok_or(IoError::Internal)?;
            let content = self.changed(below, node, inside).await?;
            packer.change(content).await?;
        }
        packer.finish().await
    }

    /// What stands for a node that cannot be read, after `changes`: a lost run.
    async fn replaced(
        &self,
        place: &Place,
        changes: &[Change],
    ) -> Result<Vec<NodeRecord>, IoError> {
        let content = lost(self.sink, self.layer, place)?;
        let mut content = self.records(content.into_iter(), changes);
        for level in 0..place.level {
            if !content.is_empty() {
                content = store_packed(self.sink, self.layer, level, &content).await?;
            }
        }
        Ok(content)
    }
}

/// Gives a node up that cannot be read: what a leaf in its place holds.
fn lost<S: NodeSink>(sink: &S, layer: LayerId, place: &Place) -> Result<Vec<NodeRecord>, IoError> {
    let blocks = sink.unreadable(layer, place.first..place.span.end)?;
    if let Some(entry) = place.at.entry() {
        sink.discard(entry);
    }
    Ok(vec![NodeRecord::run(blocks, Mapping::Lost)])
}

/// The parts of `changes` within a span, none of which ends before it; leaves those that end
/// behind it. Nothing is copied unless a change is cut.
fn clip<'a>(changes: &mut &'a [Change], span: &Range<BlockNumber>) -> Cow<'a, [Change]> {
    let (low, high) = (span.start, span.end);
    let within = changes.partition_point(|change| change.start() < high);
    let inside = &changes[..within];
    let ended = inside.partition_point(|change| change.end() <= high);
    *changes = &changes[ended..];
    let whole = ended == within && inside.first().is_none_or(|change| change.start() >= low);
    if whole {
        return Cow::Borrowed(inside);
    }
    inside.iter().map(|change| change.within(span)).collect()
}

/// Packs the children of a node as they come, one after the other: joins runs of changed ones, a
/// small run with a neighbour too. Memory holds no more than a run.
struct Packer<'a, S> {
    sink: &'a S,
    layer: LayerId,
    /// Of the children.
    level: u8,
    packed: Vec<NodeRecord>,
    /// Records of changed children that are not stored yet.
    run: Vec<NodeRecord>,
}

impl<S: NodeSink> Packer<'_, S> {
    /// The next child is as it was.
    async fn keep(&mut self, record: NodeRecord) -> Result<(), IoError> {
        if (1..SMALL).contains(&self.run.len())
            && let Some(content) = absorb(self.sink, record, self.level).await?
        {
            return self.change(content).await;
        }
        self.end_run().await?;
        self.packed.push(record);
        Ok(())
    }

    /// The next child holds these records now.
    async fn change(&mut self, content: Vec<NodeRecord>) -> Result<(), IoError> {
        match self.run.is_empty() {
            true => self.run = content,
            false => self.run.extend(content),
        }
        // What is left fills a node: it needs no neighbour.
        let whole = self.run.len().saturating_sub(NODE_RECORDS) / RUN * RUN;
        if whole > 0 {
            let stored = store_packed(self.sink, self.layer, self.level, &self.run[..whole]);
            self.packed.extend(stored.await?);
            self.run.drain(..whole);
        }
        Ok(())
    }

    async fn end_run(&mut self) -> Result<(), IoError> {
        if self.run.is_empty() {
            return Ok(());
        }
        if self.run.len() < SMALL
            && let Some(record) = self.packed.last()
            && let Some(mut joined) = absorb(self.sink, *record, self.level).await?
        {
            self.packed.pop();
            joined.append(&mut self.run);
            self.run = joined;
        }
        let stored = store_packed(self.sink, self.layer, self.level, &self.run);
        self.packed.extend(stored.await?);
        self.run.clear();
        Ok(())
    }

    /// What the parent holds now.
    async fn finish(mut self) -> Result<Vec<NodeRecord>, IoError> {
        self.end_run().await?;
        Ok(self.packed)
    }
}

/// Takes a node out of the tree and returns what it held; `None` if it cannot be read.
async fn absorb<S: NodeSink>(
    sink: &S,
    record: NodeRecord,
    level: u8,
) -> Result<Option<Vec<NodeRecord>>, IoError> {
    let node = match load_level(sink, record.mapping, level).await {
        Err(IoError::UnrecoveredRead) => return Ok(None),
        loaded => loaded?,
    };
    check_span(&node, record.block..BlockNumber::END)?;
    if let Some(entry) = record.mapping.entry() {
        sink.discard(entry);
    }
    Ok(Some(node.records().collect()))
}

/// Stores `content` in as few nodes as hold it, evenly filled.
async fn store_packed<S: NodeSink>(
    sink: &S,
    layer: LayerId,
    level: u8,
    content: &[NodeRecord],
) -> Result<Vec<NodeRecord>, IoError> {
    // Nodes of a drive may have been such that what is made of them is in no order.
    if !content.is_sorted_by(|one, next| one.block < next.block) {
        return Err(IoError::Internal);
    }
    let nodes = content.len().div_ceil(NODE_RECORDS).max(1);
    let mut stored = Vec::with_capacity(nodes);
    for chunk in content.chunks(content.len().div_ceil(nodes).max(1)) {
        let entry = sink.store(Node::build(layer, level, chunk)).await?;
        stored.push(NodeRecord::one(chunk[0].block, entry));
    }
    Ok(stored)
}

/// Rewrites every node for which `moves` holds, and with it its ancestors. Leaves that stay are
/// not read; one that is to move and cannot be read becomes a run that is lost.
pub(crate) async fn compact<S: NodeSink>(
    sink: &S,
    layer: LayerId,
    root: Root,
    moves: &dyn Fn(Entry) -> bool,
) -> Result<Root, IoError> {
    Ok(Root {
        level: root.level,
        mapping: compact_node(sink, layer, Place::of(root), moves).await?,
    })
}

fn compact_node<'a, S: NodeSink>(
    sink: &'a S,
    layer: LayerId,
    place: Place,
    moves: &'a dyn Fn(Entry) -> bool,
) -> Recursion<'a, Mapping> {
    Box::pin(async move {
        let (at, level) = (place.at, place.level);
        let entry = at.entry().ok_or(IoError::Internal)?;
        let own = moves(entry);
        if level == 0 && !own {
            return Ok(at);
        }
        let node = match load_level(sink, at, level).await {
            // Who looks for something below will find out.
            Err(IoError::UnrecoveredRead) if !own => {
                sink.passed_over();
                return Ok(at);
            }
            Err(IoError::UnrecoveredRead) => return lost_node(sink, layer, &place).await,
            loaded => loaded?,
        };
        check_span(&node, place.span.clone())?;
        let mut records: Vec<NodeRecord> = node.records().collect();
        let mut changed = own;
        let children = if level > 0 { records.len() } else { 0 };
        for index in 0..children {
            let below = place.below(&records, index);
            let moved = compact_node(sink, layer, below, moves).await?;
            changed |= moved != records[index].mapping;
            records[index].mapping = moved;
        }
        if !changed {
            return Ok(at);
        }
        sink.discard(entry);
        Ok(Mapping::Block(
            sink.store(Node::build(layer, level, &records)).await?,
        ))
    })
}

/// A node, as high as one that cannot be read, that says its blocks are lost.
async fn lost_node<S: NodeSink>(
    sink: &S,
    layer: LayerId,
    place: &Place,
) -> Result<Mapping, IoError> {
    let mut content = lost(sink, layer, place)?;
    for level in 0..=place.level {
        content = store_packed(sink, layer, level, &content).await?;
    }
    let only = content.first().ok_or(IoError::Internal)?;
    Ok(only.mapping)
}
