//! The nodes of the maps: every one is read, and the redundancy of their rows made anew.
//!
//! Nothing in a map segment says what lives there; only a walk through all maps finds it out, and
//! where a node is lost it does not find what is below. So of a place that the walk has not come to
//! it is not known that it is dead, and the redundancy of its row may be all that is left of it.
//!
//! *The rule.* The redundancy of a row is made anew only of what is certain in every data column of
//! it: a node that lives and has its checksum, or a place that is proven to be dead. It is proven
//! where as many nodes of the segment are known to live as the tables count there: this place is
//! none of them. A row with a place of which neither holds is left as it is.
//!
//! Known are the nodes that the walk has come to, and those that merges have made since it began;
//! merges take off what they replace, in the moment in which the tables' counts change. So both
//! say the same of the same maps, however long the walk takes and whatever becomes of layers
//! meanwhile.

use crate::drives::redundancy;
use crate::error::PoolError;
use crate::format::node::Node;
use crate::ids::{LayerId, SegmentNumber};
use crate::location::{BLOCK_BYTES, BlockNumber, Entry, LayerBlock, Location, Mapping};
use crate::map::tree::Nodes;
use crate::recovery::image::Image;
use crate::scrub::Scrub;
use crate::segments::Segment;
use crate::segments::live_nodes::LiveNodes;
use crate::segments::runs::Live;
use crate::shard::coordinator::Coordinator;
use block::{BlockDevice, Buffer, IoError};
use std::ops::Range;
use std::sync::Arc;

/// What one step of the walk found: the way from a layer's root to a leaf.
#[derive(Default)]
struct Step {
    /// Nodes that it came to for the first time.
    seen: Vec<Entry>,
    /// One of them is lost, and told of the blocks from here to where the next one begins.
    lost_from: Option<BlockNumber>,
    /// Blocks that no header tells of.
    strays: Vec<Live>,
    /// Blocks of which a node was lost before.
    lost: Vec<Range<BlockNumber>>,
    /// Where the blocks are.
    blocks: Vec<Entry>,
    /// Where to go on.
    next: Option<BlockNumber>,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    fn with_live<T>(&self, work: impl FnOnce(&mut LiveNodes) -> T) -> Option<T> {
        self.live_nodes.borrow_mut().as_mut().map(work)
    }

    /// Reads every node of every map from the drives, and sees to blocks without a header.
    pub(super) async fn walk_maps(&self, scrub: &mut Scrub) -> Result<(), PoolError> {
        while let Some(layer) = self.with_live(LiveNodes::walk_next).flatten() {
            let mut from = Some(BlockNumber::FIRST);
            while let Some(block) = from {
                self.rest(&mut scrub.pace).await?;
                let (version, step) = self.step(layer, block, scrub).await?;
                // What it found may be of maps that are no more.
                if self.shard.state.borrow().tables.version() != version {
                    continue;
                }
                from = step.next;
                self.note(layer, &step, scrub);
                if !step.strays.is_empty() {
                    self.see_to(step.strays, scrub).await?;
                }
            }
        }
        Ok(())
    }

    /// Goes from a layer's root to the leaf of `block`. Returns by which tables, too.
    async fn step(
        &self,
        layer: LayerId,
        block: BlockNumber,
        scrub: &Scrub,
    ) -> Result<(u64, Step), PoolError> {
        let _reading = self.shard.reading();
        let (version, root) = {
            let state = self.shard.state.borrow();
            let found = state.tables.layers.get(layer);
            (state.tables.version(), found.and_then(|layer| layer.root))
        };
        let mut step = Step::default();
        let Some(root) = root else {
            return Ok((version, step));
        };
        let (mut at, mut first) = (root.mapping, BlockNumber::FIRST);
        for level in (0..=root.level).rev() {
            let Some(entry) = at.entry() else {
                break;
            };
            let known = self.with_live(|live| live.knows(entry)).unwrap_or(false);
            let checked = self.with_live(|live| live.checks(entry.at.segment));
            let is_new = !known && checked == Some(true);
            if is_new {
                step.seen.push(entry);
            }
            let node = self.patiently(async || match is_new {
                true => self.read_node(entry).await,
                false => self.shard.load(entry).await,
            });
            let sound = match node.await {
                Err(IoError::NotReady) => return Err(IoError::NotReady.into()),
                node => node.ok(),
            };
            let sound = sound.filter(|node| node.level() == level && node.len() > 0);
            let Some(node) = sound else {
                step.lost_from = Some(first);
                break;
            };
            if level == 0 && !scrub.leaves {
                break;
            }
            if level == 0 {
                step.strays = strays(layer, &node, scrub);
                let lost = node.records().filter(|it| it.mapping == Mapping::Lost);
                step.lost = lost.map(|record| record.block..record.end()).collect();
                step.blocks = node.records().filter_map(|it| it.mapping.entry()).collect();
                break;
            }
            let mut index = node.rank(block).max(1) - 1;
            if level == 1 && !scrub.leaves {
                index = self.first_checked(&node, index);
            }
            if index == node.len() {
                break;
            }
            if index + 1 < node.len() {
                step.next = Some(node.record(index + 1).block);
            }
            let record = node.record(index);
            (at, first) = (record.mapping, record.block);
        }
        Ok((version, step))
    }

    /// The first record of a node, from `index` on, whose leaf is in a segment that is checked; the
    /// number of records where there is none.
    fn first_checked(&self, node: &Node, index: usize) -> usize {
        let is_checked = |index: &usize| {
            let entry = node.record(*index).mapping.entry();
            let checks = |live: &mut LiveNodes| entry.is_some_and(|it| live.checks(it.at.segment));
            self.with_live(checks) == Some(true)
        };
        (index..node.len()).find(is_checked).unwrap_or(node.len())
    }

    /// Reads a node from the drives, whatever memory has.
    async fn read_node(&self, entry: Entry) -> Result<Arc<Node>, IoError> {
        let one = Buffer::new(BLOCK_BYTES);
        let (buffer, read) = self.shard.read_run([entry].into_iter(), one).await;
        read?;
        Node::parse(buffer).map(Arc::new).ok_or(IoError::Internal)
    }

    fn note(&self, layer: LayerId, step: &Step, scrub: &mut Scrub) {
        self.with_live(|live| {
            live.came_to(&step.seen);
            step.blocks
                .iter()
                .for_each(|entry| live.recount.met(*entry));
            if step.lost_from.is_some() {
                live.recount.missed_some();
            }
        });
        scrub.report.nodes += step.seen.len() as u64;
        let losses = &mut scrub.losses;
        if let Some(start) = step.lost_from {
            self.shard.state.borrow_mut().unmapped.insert(LayerBlock {
                layer,
                block: start,
            });
        }
        let state = self.shard.state.borrow();
        for lost in &step.lost {
            losses.lose_node(&state.tables, layer, lost.start, Some(lost.end));
        }
        if let Some(start) = step.lost_from {
            losses.lose_node(&state.tables, layer, start, step.next);
        }
    }

    /// Makes the redundancy of map rows agree with their nodes, where that is certain to lose
    /// nothing. The caller holds the upkeep lock: no merge comes in between.
    pub(super) async fn check_rows(&self, number: SegmentNumber, segment: &Segment, image: &Image) {
        let shape = image.shape;
        let complete = self.with_live(|live| live.is_complete(number, segment));
        for row in image.first..image.first + image.rows {
            let nodes: Vec<Option<u32>> = (0..shape.data)
                .map(|column| {
                    let at = Location {
                        segment: number,
                        column: column as u8,
                        row,
                    };
                    self.with_live(|live| live.checksum_at(at)).flatten()
                })
                .collect();
            let certain = complete == Some(true) || nodes.iter().all(Option::is_some);
            if !certain || nodes.iter().all(Option::is_none) {
                continue;
            }
            if let Some(mut good) = good_nodes(image, row, &nodes) {
                let mut redundant: Vec<Buffer> = (0..shape.redundant)
                    .map(|_| Buffer::new(BLOCK_BYTES))
                    .collect();
                let data: Vec<&[u8]> = good.iter().map(|block| &block[..]).collect();
                redundancy::generate(shape, &data, &mut redundant, 0);
                good.append(&mut redundant);
                self.shard.rewrite(image, &segment.columns, row, good).await;
            }
        }
    }
}

/// The data columns of a row of which each place has a node that lives, with its checksum, or is
/// dead: then its content does not matter. `None` if a node cannot be had.
fn good_nodes(image: &Image, row: u32, nodes: &[Option<u32>]) -> Option<Vec<Buffer>> {
    let one = |(column, node): (usize, &Option<u32>)| match node {
        Some(crc) => {
            let valid = |block: &[u8]| crc_fast::crc32_iscsi(block) == *crc;
            image.valid_block(column, row, &valid).map(|found| found.0)
        }
        None => Some(match image.block(column, row) {
            Some(block) => Buffer::copy_of(block),
            None => Buffer::zeroed(BLOCK_BYTES),
        }),
    };
    nodes.iter().enumerate().map(one).collect()
}

/// Blocks of a leaf that are where no header tells of them.
fn strays(layer: LayerId, leaf: &Node, scrub: &Scrub) -> Vec<Live> {
    let stray = |record: crate::format::node::NodeRecord| match record.mapping {
        Mapping::Block(entry) if scrub.gaps.has(entry.at) => {
            let block = record.block;
            let owner = LayerBlock { layer, block };
            Some(Live { owner, entry })
        }
        _ => None,
    };
    leaf.records().filter_map(stray).collect()
}
