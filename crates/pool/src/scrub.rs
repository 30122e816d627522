//! Scrub: reads everything that lives, data, map and redundancy, and repairs what it can.

use crate::checkpoint::Resume;
use crate::coordinator::Coordinator;
use crate::error::PoolError;
use crate::events::PoolEvent;
use crate::format::stripe::{Header, Place};
use crate::location::{BLOCK_BYTES, Entry, Location, Mapping};
use crate::log::{ROWS_MAX, place};
use crate::messages::Order;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::recovery::Image;
use crate::redundancy;
use crate::segments::{Kind, Segment};
use crate::tree::Nodes;
use block::{BlockDevice, Buffer, IoError};
use std::collections::BTreeMap;

/// Rows that are checked in one go, while hosts on the same core wait: two of the largest stripes.
const WINDOW_ROWS: u32 = 2 * ROWS_MAX;

/// Every node of every map and its checksum: about 24 MiB for each TiB mapped, while a scrub runs.
type LiveNodes = BTreeMap<Location, u32>;

/// A block that could not be read with all the redundancy there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostBlock {
    /// The layer that holds it: of a volume, or of a snapshot below it.
    pub layer: u32,
    /// Which block of it.
    pub block: u64,
}

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Stripes checked, redundancy included.
    pub stripes: u64,
    /// Map nodes checked.
    pub nodes: u64,
    /// Blocks that were wrong and are right now.
    pub repaired: u64,
    /// Data that is lost.
    pub lost: Vec<LostBlock>,
    /// Map nodes that are lost, and everything below them.
    pub lost_nodes: u64,
}

impl<D: BlockDevice + 'static> Pool<D> {
    /// Checks every stripe and every node of the map, and repairs what redundancy allows. Gives
    /// way to hosts.
    ///
    /// # Errors
    /// [`PoolError::ScrubStopped`] after [`stop_scrub`](Pool::stop_scrub) or when the pool closes.
    pub async fn scrub(&self) -> Result<ScrubReport, PoolError> {
        let core = &self.core;
        core.scrub_unwanted.set(false);
        let sealed = core.checkpoint_with(Resume::AtFreeze, |state| {
            state.seal_open();
            state.at_freeze.seal = true;
            let table = state.segments.table().iter();
            Ok(table
                .map(|(number, found)| (*number, found.clone()))
                .collect::<Vec<_>>())
        });
        let segments = sealed.await?;
        let before = core.array.counters.get().repaired_blocks;
        let mut report = ScrubReport::default();
        let mut pace = Pace::new(core);
        let live = core.scrub_nodes(&mut pace, &mut report).await?;
        let total_segments = segments.len() as u64;
        for (done_segments, (number, segment)) in (0..).zip(segments) {
            core.array.events.push(PoolEvent::Scrub {
                done_segments,
                total_segments,
            });
            let mut next = Some(0);
            while let Some(row) = next {
                core.rest(&mut pace).await?;
                let window = Window {
                    number,
                    begun: &segment,
                    row,
                };
                next = core.scrub_window(window, &live, &mut report).await;
            }
        }
        report.repaired = core.array.counters.get().repaired_blocks - before;
        core.array.events.push(PoolEvent::ScrubEnded {
            repaired_blocks: report.repaired,
            lost_blocks: report.lost.len() as u64,
            lost_nodes: report.lost_nodes,
        });
        Ok(report)
    }

    /// Ends a scrub that is under way: what it has repaired stays so, and the next one begins
    /// anew.
    pub fn stop_scrub(&self) {
        self.core.scrub_unwanted.set(true);
    }
}

/// Some rows of a segment that are checked in one go.
struct Window<'a> {
    number: u32,
    /// The segment as it was when the scrub began.
    begun: &'a Segment,
    row: u32,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Gives way to hosts; says when there is nothing to go on with.
    async fn rest(&self, pace: &mut Pace) -> Result<(), PoolError> {
        pace.rest(self).await;
        if let Some(reason) = self.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        if self.scrub_unwanted.get() || self.stopping.get() {
            return Err(PoolError::ScrubStopped);
        }
        Ok(())
    }

    /// Checks some rows of a segment, if it is still there; returns the row to go on from.
    async fn scrub_window(
        &self,
        window: Window<'_>,
        live: &LiveNodes,
        report: &mut ScrubReport,
    ) -> Option<u32> {
        let Window { number, begun, row } = window;
        let map = begun.kind == Kind::Map;
        // While the map's redundancy is set right nobody may write behind it.
        let _alone = if map {
            Some(self.upkeep_lock.lock().await)
        } else {
            None
        };
        let _reading = self.reading();
        let segment = {
            let state = self.state.borrow();
            let found = state.segments.get(number);
            let same = found.filter(|found| found.generation == begun.generation);
            // One that waits for earlier readers only may be freed and written meanwhile.
            let may_change = map || state.settled.contains(&number) && !state.in_limbo(number);
            same.filter(|_| may_change).cloned()
        };
        let segment = segment?;
        let shape = self.array.shape(segment.columns.len());
        let end = if map { begun.rows } else { segment.rows };
        let rows = end.checked_sub(row)?.min(WINDOW_ROWS);
        if rows == 0 {
            return None;
        }
        let image = self.read_image(shape, &segment.columns, row, rows).await;
        let next = if map {
            self.scrub_rows(number, &segment, &image, live).await;
            row + rows
        } else {
            self.scrub_stripes(number, &segment, &image, report).await
        };
        (next < end).then_some(next)
    }

    /// Checks the stripes in an image; returns the row to go on from.
    async fn scrub_stripes(
        &self,
        number: u32,
        segment: &Segment,
        image: &Image,
        report: &mut ScrubReport,
    ) -> u32 {
        let end = image.first + image.rows;
        let mut row = image.first;
        while row < end {
            let place = Place {
                segment: number,
                generation: segment.generation,
                row,
                incarnation: self.incarnation.get(),
            };
            let decode = |block: &[u8]| Header::decode(&self.secret, place, true, block);
            let header = image.valid_block(0, row, &|block| decode(block).is_some());
            let Some(header) = header.and_then(|(block, _)| decode(&block)) else {
                row += 1;
                continue;
            };
            let rows = header.rows.max(1);
            if row + rows > end && row > image.first {
                return row;
            }
            report.stripes += 1;
            if !self.complete(image, &segment.columns, &header).await {
                self.list_lost(segment, &header, report).await;
            }
            row += rows;
        }
        row
    }

    /// A stripe that is not whole: which of its live blocks cannot be read. One that was torn by
    /// a power failure has none.
    async fn list_lost(&self, segment: &Segment, header: &Header, report: &mut ScrubReport) {
        let mut index = 0;
        for record in &header.records {
            let at = place(
                header.place.segment,
                header.place.row,
                header.rows,
                index + 1,
            );
            index += usize::from(record.crc().is_some());
            let Some((layer, block, crc)) = record.owner() else {
                continue;
            };
            let Some(layer) = self.state.borrow().tables.resolve(layer) else {
                continue;
            };
            let entry = Entry { at, crc };
            if !self.lives(layer, block, entry).await {
                continue;
            }
            let buffer = Buffer::new(BLOCK_BYTES);
            if self
                .array
                .read_block(&segment.columns, entry, buffer)
                .await
                .1
                .is_err()
            {
                report.lost.push(LostBlock { layer, block });
                self.lose_block(layer, block);
            }
        }
    }

    /// Whether a block still is where it was, as its shard knows.
    async fn lives(&self, layer: u32, block: u64, entry: Entry) -> bool {
        let owner = self.state.borrow().share.owner(block);
        let Some(peer) = self.peer(owner) else {
            return self.find_own(layer, block).await == Ok(Some(Mapping::Block(entry)));
        };
        let asked = peer.outbox.ask(|reply| Order::Lives {
            layer,
            block,
            entry,
            reply,
        });
        self.answer(asked).await.unwrap_or(false)
    }

    /// Makes the redundancy of map rows agree with their nodes. `live` has every node of these
    /// rows: what is not in it is dead, and its content does not matter.
    async fn scrub_rows(&self, number: u32, segment: &Segment, image: &Image, live: &LiveNodes) {
        let shape = image.shape;
        for row in image.first..image.first + image.rows {
            let node = |column: usize| {
                live.get(&Location {
                    segment: number,
                    column: column as u8,
                    row,
                })
            };
            if (0..shape.data).all(|column| node(column).is_none()) {
                continue;
            }
            let mut good: Vec<Buffer> = Vec::with_capacity(shape.width());
            for column in 0..shape.data {
                let found = image.block(column, row);
                good.push(match (found, node(column)) {
                    (Some(block), Some(crc)) if crc_fast::crc32_iscsi(block) == *crc => {
                        Buffer::copy_of(block)
                    }
                    (Some(block), None) => Buffer::copy_of(block),
                    (None, None) => Buffer::zeroed(BLOCK_BYTES),
                    // It has been lost again, or its drive is: reading it will repair it.
                    (_, Some(_)) => break,
                });
            }
            if good.len() < shape.data {
                continue;
            }
            let mut redundant: Vec<Buffer> = (0..shape.redundant)
                .map(|_| Buffer::new(BLOCK_BYTES))
                .collect();
            let data: Vec<&[u8]> = good.iter().map(|block| &block[..]).collect();
            redundancy::generate(shape, &data, &mut redundant, 0);
            good.append(&mut redundant);
            self.rewrite(image, &segment.columns, row, good).await;
        }
    }

    /// Reads every node of every map from the drives.
    async fn scrub_nodes(
        &self,
        pace: &mut Pace,
        report: &mut ScrubReport,
    ) -> Result<LiveNodes, PoolError> {
        let mut live = LiveNodes::new();
        let layers: Vec<u32> = self.state.borrow().tables.layers.keys().copied().collect();
        for layer in layers {
            let mut from = Some(0);
            while let Some(block) = from {
                self.rest(pace).await?;
                from = match self.scrub_path(layer, block, &mut live, report).await {
                    Ok(next) => next,
                    Err(_) => {
                        report.lost_nodes += 1;
                        None
                    }
                };
            }
        }
        Ok(live)
    }

    /// Reads the nodes from a layer's root to the leaf of `block`; returns where the next leaf
    /// begins. The tree may change between two calls.
    async fn scrub_path(
        &self,
        layer: u32,
        block: u64,
        live: &mut LiveNodes,
        report: &mut ScrubReport,
    ) -> Result<Option<u64>, IoError> {
        let _reading = self.reading();
        let root = self
            .state
            .borrow()
            .tables
            .layers
            .get(&layer)
            .and_then(|layer| layer.root);
        let Some(root) = root else {
            return Ok(None);
        };
        let (mut at, mut next) = (root.mapping, None);
        for level in (0..=root.level).rev() {
            let entry = at.entry().ok_or(IoError::Internal)?;
            self.read_run([entry].into_iter(), Buffer::new(BLOCK_BYTES))
                .await
                .1?;
            report.nodes += 1;
            live.insert(entry.at, entry.crc);
            let node = self.load(entry).await?;
            if level > 0 {
                let index = node.rank(block).max(1) - 1;
                if index + 1 < node.len() {
                    next = Some(node.record(index + 1).block);
                }
                at = node.record(index).mapping;
            }
        }
        Ok(next)
    }
}
