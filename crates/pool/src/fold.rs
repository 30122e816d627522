//! What deallocation and deletion mean where layers lie upon each other.

use crate::checkpoint::Changes;
use crate::location::Mapping;
use crate::overlay::Change;
use crate::tree::{self, NodeSink};
use crate::volumes::{Redirect, Tables, Unneeded};
use block::IoError;
use std::collections::BTreeSet;

/// Replaces deallocations in a layer that has ancestors by holes, wherever an ancestor maps a
/// block that would otherwise show through.
pub(crate) async fn with_markers<S: NodeSink>(
    sink: &S,
    tables: &Tables,
    layer: u32,
    changes: Vec<Change>,
) -> Changes {
    if tables.parent(layer).is_none() {
        return Ok(changes);
    }
    let mut marked = Vec::with_capacity(changes.len());
    for change in changes {
        let Change::Clear { start, end } = change else {
            marked.push(change);
            continue;
        };
        let mut at = start;
        for block in mapped_below(sink, tables, layer, start, end).await? {
            if at < block {
                marked.push(Change::Clear {
                    start: at,
                    end: block,
                });
            }
            marked.push(Change::Put {
                block,
                mapping: Mapping::Hole,
            });
            at = block + 1;
        }
        if at < end {
            marked.push(Change::Clear { start: at, end });
        }
    }
    Ok(marked)
}

/// Blocks of `start..end` that any ancestor of `layer` says something about.
async fn mapped_below<S: NodeSink>(
    sink: &S,
    tables: &Tables,
    layer: u32,
    start: u64,
    end: u64,
) -> Result<BTreeSet<u64>, IoError> {
    let mut found = BTreeSet::new();
    let mut ancestor = tables.parent(layer);
    while let Some(id) = ancestor {
        let root = tables.layers.get(&id).and_then(|layer| layer.root);
        let mut from = root.map(|_| start);
        while let (Some(at), Some(root)) = (from, root) {
            let (records, next) = tree::leaf_from(sink, root, at).await?;
            found.extend(
                records
                    .iter()
                    .map(|record| record.block)
                    .take_while(|block| *block < end),
            );
            from = next.filter(|next| *next < end);
        }
        ancestor = tables.parent(id);
    }
    Ok(found)
}

/// Drops or folds every layer that no volume and no snapshot needs any more.
pub(crate) async fn remove_unneeded<S: NodeSink + Mapped>(
    sink: &S,
    tables: &mut Tables,
    generation: u32,
) -> Result<(), IoError> {
    while let Some(unneeded) = tables.unneeded() {
        match unneeded {
            Unneeded::Drop(id) => {
                let layer = tables.layers.remove(&id).unwrap_or_default();
                if let Some(root) = layer.root {
                    tree::remove(sink, root.mapping, root.level).await?;
                }
                sink.take_mapped();
                tables.redirects.insert(
                    id,
                    Redirect {
                        to: None,
                        generation,
                    },
                );
            }
            Unneeded::Fold { layer, child } => fold(sink, tables, layer, child, generation).await?,
        }
    }
    Ok(())
}

/// Somebody who counts mapped blocks.
pub(crate) trait Mapped {
    /// The change since the last call.
    fn take_mapped(&self) -> i64;
}

/// Lays the blocks of `child` over those of its parent `layer`, and gives `child` the result.
async fn fold<S: NodeSink + Mapped>(
    sink: &S,
    tables: &mut Tables,
    layer: u32,
    child: u32,
    generation: u32,
) -> Result<(), IoError> {
    let lower = tables.layers.remove(&layer).unwrap_or_default();
    let Some(upper) = tables.layers.get(&child).cloned() else {
        return Err(IoError::Internal);
    };
    let mut merged = lower.root;
    let mut from = upper.root.map(|_| 0);
    while let (Some(at), Some(root)) = (from, upper.root) {
        let (records, next) = tree::leaf_from(sink, root, at).await?;
        let changes: Vec<Change> = records
            .into_iter()
            .map(|record| match (record.mapping, lower.parent) {
                (Mapping::Hole, None) => Change::Clear {
                    start: record.block,
                    end: record.block + 1,
                },
                (mapping, _) => Change::Put {
                    block: record.block,
                    mapping,
                },
            })
            .collect();
        merged = tree::merge(sink, child, merged, &changes).await?;
        from = next;
    }
    // Every block of the child has been counted as gained: its old tree gives them up.
    if let Some(root) = upper.root {
        tree::remove(sink, root.mapping, root.level).await?;
    }
    let change = sink.take_mapped();
    if let Some(heir) = tables.layers.get_mut(&child) {
        heir.parent = lower.parent;
        heir.root = merged;
        heir.mapped = (lower.mapped + upper.mapped).saturating_add_signed(change);
    }
    tables.redirects.insert(
        layer,
        Redirect {
            to: Some(child),
            generation,
        },
    );
    Ok(())
}
