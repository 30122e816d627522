//! Changing a tree: a batch of changes goes down once, new nodes come up packed.

use super::{LEVELS_MAX, NodeSink, load_level};
use crate::format::node::{NODE_RECORDS, Node, NodeRecord};
use crate::join::join_all;
use crate::location::{Entry, Mapping};
use crate::overlay::Change;
use crate::volumes::Root;
use block::IoError;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

/// A changed node with fewer records than this is merged with a neighbour, so that a map's size
/// stays bounded by what it maps.
const SMALL: usize = NODE_RECORDS / 4;
/// Of a run that is longer so many records, whole nodes full of them, are stored before the rest is
/// joined: memory need not hold all of it.
const RUN: usize = 4 * NODE_RECORDS;

type Recursion<'a, T> = Pin<Box<dyn Future<Output = Result<T, IoError>> + 'a>>;

/// Applies `changes`, sorted and disjoint, to the tree of `layer`; returns its new root.
pub(crate) async fn merge<S: NodeSink>(
    sink: &S,
    layer: u32,
    root: Option<Root>,
    changes: &[Change],
) -> Result<Option<Root>, IoError> {
    if changes.is_empty() {
        return Ok(root);
    }
    let (mut level, mut content) = match root {
        Some(root) => (root.level, {
            let node = load_level(sink, root.mapping, root.level).await?;
            changed_content(sink, layer, (root.mapping, node), root.level, changes).await?
        }),
        None => (0, merge_records(sink, std::iter::empty(), changes)),
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

/// So many nodes are read side by side.
const LOADS: usize = 64;

/// What the node at `at` holds after `changes`; its old self is discarded.
fn changed_content<'a, S: NodeSink>(
    sink: &'a S,
    layer: u32,
    (at, node): (Mapping, Arc<Node>),
    level: u8,
    changes: &'a [Change],
) -> Recursion<'a, Vec<NodeRecord>> {
    Box::pin(async move {
        if let Some(entry) = at.entry() {
            sink.discard(entry);
        }
        if level == 0 {
            return Ok(merge_records(sink, node.records(), changes));
        }
        let old: Vec<NodeRecord> = node.records().collect();
        let mut rest = changes;
        let parts: Vec<(NodeRecord, Cow<'_, [Change]>)> = (0..old.len())
            .map(|index| {
                let low = if index == 0 { 0 } else { old[index].block };
                let high = old.get(index + 1).map_or(u64::MAX, |next| next.block);
                (old[index], clip(&mut rest, low, high))
            })
            .collect();
        let changed = parts.iter().filter(|(_, inside)| !inside.is_empty());
        let mut loads = changed.map(|(record, _)| load_level(sink, record.mapping, level - 1));
        let mut loaded = VecDeque::new();
        let mut packer = Packer {
            sink,
            layer,
            level: level - 1,
            packed: Vec::with_capacity(old.len()),
            run: Vec::new(),
        };
        for (record, inside) in &parts {
            if inside.is_empty() {
                packer.keep(*record).await?;
                continue;
            }
            if loaded.is_empty() {
                loaded.extend(join_all(loads.by_ref().take(LOADS)).await);
            }
            let node = loaded.pop_front().ok_or(IoError::Internal)??;
            let below = (record.mapping, node);
            let content = changed_content(sink, layer, below, level - 1, inside).await?;
            packer.change(content).await?;
        }
        packer.finish().await
    })
}

/// The parts of `changes` within `low..high`, none of which ends before `low`; leaves those that
/// end behind `high`. Nothing is copied unless a change is cut.
fn clip<'a>(changes: &mut &'a [Change], low: u64, high: u64) -> Cow<'a, [Change]> {
    let within = changes.partition_point(|change| change.start() < high);
    let inside = &changes[..within];
    let ended = inside.partition_point(|change| change.end() <= high);
    *changes = &changes[ended..];
    let whole = ended == within && inside.first().is_none_or(|change| change.start() >= low);
    if whole {
        return Cow::Borrowed(inside);
    }
    let cut = inside.iter().map(|change| match *change {
        Change::Clear { start, end } => Change::Clear {
            start: start.max(low),
            end: end.min(high),
        },
        put => put,
    });
    cut.collect()
}

/// Packs the children of a node as they come, one after the other: joins runs of changed ones, a
/// small run with a neighbour too. Memory holds no more than a run.
struct Packer<'a, S> {
    sink: &'a S,
    layer: u32,
    /// Of the children.
    level: u8,
    packed: Vec<NodeRecord>,
    /// Records of changed children that are not stored yet.
    run: Vec<NodeRecord>,
}

impl<S: NodeSink> Packer<'_, S> {
    /// The next child is as it was.
    async fn keep(&mut self, record: NodeRecord) -> Result<(), IoError> {
        if (1..SMALL).contains(&self.run.len()) {
            let content = absorb(self.sink, record, self.level).await?;
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
            && let Some(record) = self.packed.pop()
        {
            let mut joined = absorb(self.sink, record, self.level).await?;
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

/// Takes a node out of the tree and returns what it held.
async fn absorb<S: NodeSink>(
    sink: &S,
    record: NodeRecord,
    level: u8,
) -> Result<Vec<NodeRecord>, IoError> {
    let node = load_level(sink, record.mapping, level).await?;
    if let Some(entry) = record.mapping.entry() {
        sink.discard(entry);
    }
    Ok(node.records().collect())
}

/// Stores `content` in as few nodes as hold it, evenly filled.
async fn store_packed<S: NodeSink>(
    sink: &S,
    layer: u32,
    level: u8,
    content: &[NodeRecord],
) -> Result<Vec<NodeRecord>, IoError> {
    let nodes = content.len().div_ceil(NODE_RECORDS).max(1);
    let mut stored = Vec::with_capacity(nodes);
    for chunk in content.chunks(content.len().div_ceil(nodes).max(1)) {
        let entry = sink.store(Node::build(layer, level, chunk)).await?;
        stored.push(NodeRecord {
            block: chunk[0].block,
            mapping: Mapping::Block(entry),
        });
    }
    Ok(stored)
}

/// The records of a leaf after `changes`, with gains and losses reported.
fn merge_records<S: NodeSink>(
    sink: &S,
    old: impl Iterator<Item = NodeRecord>,
    changes: &[Change],
) -> Vec<NodeRecord> {
    let mut merged = Vec::with_capacity(NODE_RECORDS + changes.len());
    let mut old = old.peekable();
    for change in changes {
        while let Some(record) = old.next_if(|record| record.block < change.start()) {
            merged.push(record);
        }
        while let Some(record) = old.next_if(|record| record.block < change.end()) {
            if let Mapping::Block(entry) = record.mapping {
                sink.lost(entry);
            }
        }
        if let Change::Put { block, mapping } = *change {
            if let Mapping::Block(entry) = mapping {
                sink.gained(entry);
            }
            merged.push(NodeRecord { block, mapping });
        }
    }
    merged.extend(old);
    merged
}

/// Takes a whole tree out of use: every node discarded, every block reported lost.
pub(crate) fn remove<'a, S: NodeSink>(sink: &'a S, at: Mapping, level: u8) -> Recursion<'a, ()> {
    Box::pin(async move {
        let node = load_level(sink, at, level).await?;
        if let Some(entry) = at.entry() {
            sink.discard(entry);
        }
        for record in node.records() {
            if level > 0 {
                remove(sink, record.mapping, level - 1).await?;
            } else if let Mapping::Block(entry) = record.mapping {
                sink.lost(entry);
            }
        }
        Ok(())
    })
}

/// Rewrites every node for which `moves` holds, and with it its ancestors. Leaves that stay are
/// not read.
pub(crate) async fn compact<S: NodeSink>(
    sink: &S,
    layer: u32,
    root: Root,
    moves: &dyn Fn(Entry) -> bool,
) -> Result<Root, IoError> {
    let mapping = compact_node(sink, layer, root.mapping, root.level, moves).await?;
    Ok(Root {
        level: root.level,
        mapping,
    })
}

fn compact_node<'a, S: NodeSink>(
    sink: &'a S,
    layer: u32,
    at: Mapping,
    level: u8,
    moves: &'a dyn Fn(Entry) -> bool,
) -> Recursion<'a, Mapping> {
    Box::pin(async move {
        let entry = at.entry().ok_or(IoError::Internal)?;
        let own = moves(entry);
        if level == 0 && !own {
            return Ok(at);
        }
        let node = load_level(sink, at, level).await?;
        let mut records: Vec<NodeRecord> = node.records().collect();
        let mut changed = own;
        if level > 0 {
            for record in &mut records {
                let moved = compact_node(sink, layer, record.mapping, level - 1, moves).await?;
                changed |= moved != record.mapping;
                record.mapping = moved;
            }
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
