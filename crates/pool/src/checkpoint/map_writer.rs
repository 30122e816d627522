//! [`MapWriter`]: new map nodes on their way into map segments, and what a merge changes.

use crate::drives::redundancy;
use crate::format::node::Node;
use crate::ids::{LayerId, SegmentNumber};
use crate::location::{BLOCK_BYTES, BlockNumber, Entry, LayerBlock, Location};
use crate::map::fold::Ledger;
use crate::map::tree::{NodeSink, Nodes};
use crate::segments::zones::Zone;
use crate::segments::{Kind, LiveChanges, SegmentState};
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Core;
use crate::shard::messages::Turnover;
use crate::shard::state::State;
use block::{BlockDevice, Buffer, Durability, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Nodes are written when so many rows are full.
const ROWS_AT_ONCE: u32 = 16;
/// Others on this core have a turn after so many nodes, be they all in memory.
const LOADS_IN_A_ROW: u64 = 64;
/// A node is unreadable after so many reads, and so long between them. As long as it may yet be
/// that drives are not ready for a moment, more: so often in all, for all nodes of a checkpoint.
const READS_MIN: usize = 3;
const READS_AGAIN_MAX: usize = 50;
pub(crate) const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// A node that drives could not be asked for, be it for a moment, is asked for so often: hosts wait
/// about as long. Then the checkpoint fails, with the maps on the drives as they were.
const READS_WHILE_AWAY_MAX: usize = 300;
/// A checkpoint gives up so many nodes at most.
const UNREADABLE_MAX: usize = 16;

/// Rows being filled.
struct Rows {
    segment: SegmentNumber,
    columns: Vec<Option<Zone>>,
    row: u32,
    rows_max: u32,
    nodes: Vec<Arc<Node>>,
}

/// Collects the nodes of one checkpoint; nothing of it counts until the superblock names it.
pub(crate) struct MapWriter<'a, D> {
    coordinator: &'a Coordinator<D>,
    rows: RefCell<Option<Rows>>,
    /// For the caches.
    turnover: RefCell<Turnover>,
    /// Nodes that were made (true) or replaced in segments that a scrub checks, in their order.
    pub checked: RefCell<Vec<(Entry, bool)>>,
    /// Blocks that have got into a leaf, by their segments: those that a scrub counts.
    pub handed_on: RefCell<LiveChanges>,
    /// Change of each segment's live count.
    pub changes: RefCell<LiveChanges>,
    /// Change of the number of nodes.
    pub nodes: Cell<i64>,
    /// Change of the number of mapped blocks since it was last taken.
    mapped: Cell<i64>,
    /// Nodes stored.
    stored: Cell<u64>,
    /// Nodes loaded, from the cache or a drive.
    loaded: Cell<u64>,
    /// Reads of nodes that could not be read at once.
    read_again: Cell<usize>,
    /// Nodes that could not be read, and were given up.
    unreadable: Cell<usize>,
    /// Some were not.
    passed_over: Cell<bool>,
    /// Segments out of which every node was moved.
    pub cleared: RefCell<BTreeSet<SegmentNumber>>,
}

impl<'a, D: BlockDevice + 'static> MapWriter<'a, D> {
    pub fn new(coordinator: &'a Coordinator<D>) -> MapWriter<'a, D> {
        MapWriter {
            coordinator,
            rows: RefCell::new(None),
            turnover: RefCell::default(),
            checked: RefCell::default(),
            handed_on: RefCell::default(),
            changes: RefCell::default(),
            nodes: Cell::new(0),
            mapped: Cell::new(0),
            stored: Cell::new(0),
            loaded: Cell::new(0),
            read_again: Cell::new(0),
            unreadable: Cell::new(0),
            passed_over: Cell::new(false),
            cleared: RefCell::default(),
        }
    }

    /// The first shard, whose drives and state the map is written with.
    fn shard(&self) -> &'a Core<D> {
        &self.coordinator.shard
    }

    /// What caches are to be told.
    pub fn take_turnover(&self) -> Arc<Turnover> {
        self.turnover.take().into()
    }

    /// Nodes that could not be read were given up, and what they told of was not taken off counts.
    pub fn has_lost_nodes(&self) -> bool {
        self.unreadable.get() > 0
    }

    /// Every node of the maps has been moved out of some segments, if all could be read.
    pub fn note_cleared(&self, segments: BTreeSet<SegmentNumber>) {
        if !self.passed_over.get() {
            self.cleared.replace(segments);
        }
    }

    /// Nodes that will live in a segment of the map when what has been written so far counts.
    pub fn live_nodes_in(&self, state: &State, number: SegmentNumber) -> i64 {
        let tree = state.segments.get(number).map_or(0, |it| it.live_tree);
        let change = self.changes.borrow().get(&number).copied();
        i64::from(tree) + change.unwrap_or(0)
    }

    /// A node was made, or one was replaced.
    fn change_nodes(&self, entry: Entry, made: bool) {
        let by = if made { 1 } else { -1 };
        self.change(entry.at.segment, by);
        self.nodes.set(self.nodes.get() + by);
        let live = self.coordinator.live_nodes.borrow();
        if live
            .as_ref()
            .is_some_and(|live| live.checks(entry.at.segment))
        {
            self.checked.borrow_mut().push((entry, made));
        }
    }

    fn change(&self, segment: SegmentNumber, by: i64) {
        *self.changes.borrow_mut().entry(segment).or_default() += by;
    }

    /// Rows in the open map segment, or in a new one.
    fn begin_rows(&self) -> Result<Rows, IoError> {
        let (coordinator, shard) = (self.coordinator, self.shard());
        let mut state = shard.state.borrow_mut();
        let state = &mut *state;
        if let Some(number) = coordinator.own_map.open_segment()
            && let Some(segment) = state.segments.get_mut(number)
        {
            if segment.rows < shard.zone_rows && shard.rules().accepts(&segment.columns) {
                return Ok(Rows {
                    segment: number,
                    columns: segment.columns.clone(),
                    row: segment.rows,
                    rows_max: (shard.zone_rows - segment.rows).min(ROWS_AT_ONCE),
                    nodes: Vec::new(),
                });
            }
            segment.state = SegmentState::Sealed;
        }
        let number = coordinator.allocate(state, Kind::Map).or_else(|| {
            // A removal that leaves no room for the map is given up.
            shard.array.leaving.borrow_mut().clear();
            coordinator.tell_leaving();
            coordinator.allocate(state, Kind::Map)
        });
        let number = number.or_else(|| coordinator.take_ready_for_map(state));
        let number = number.or_else(|| {
            // Rather a map that lacks drives too than none.
            coordinator.set_cramped(coordinator.width_with_gone());
            coordinator.allocate(state, Kind::Map)
        });
        let number = number.ok_or(IoError::CapacityExceeded)?;
        coordinator.own_map.open(number);
        let segment = state.segments.get_mut(number).ok_or(IoError::Internal)?;
        segment.state = SegmentState::Open;
        Ok(Rows {
            segment: number,
            columns: segment.columns.clone(),
            row: 0,
            rows_max: shard.zone_rows.min(ROWS_AT_ONCE),
            nodes: Vec::new(),
        })
    }

    /// Writes what has been collected; the last row is padded.
    pub async fn write_out(&self) -> Result<(), IoError> {
        // The rows stay visible to `load` until they are on the drives.
        let (segment, columns, row, buffers, rows) = {
            let collected = self.rows.borrow();
            let Some(collected) = collected.as_ref().filter(|rows| !rows.nodes.is_empty()) else {
                return Ok(());
            };
            let shape = self.shard().array.shape(collected.columns.len());
            let rows = collected.nodes.len().div_ceil(shape.data);
            let mut buffers: Vec<Buffer> = (0..shape.width())
                .map(|_| Buffer::zeroed(rows * BLOCK_BYTES))
                .collect();
            for (index, node) in collected.nodes.iter().enumerate() {
                let start = index / shape.data * BLOCK_BYTES;
                let column = &mut buffers[index % shape.data];
                column[start..start + BLOCK_BYTES].copy_from_slice(node.bytes());
            }
            let (data, redundant) = buffers.split_at_mut(shape.data);
            let data: Vec<&[u8]> = data.iter().map(|column| &column[..]).collect();
            redundancy::generate(shape, &data, redundant, 0);
            let buffers = buffers.into_iter().map(|column| vec![column]).collect();
            let columns = collected.columns.clone();
            (
                collected.segment,
                columns,
                collected.row,
                buffers,
                rows as u32,
            )
        };
        // Whoever has the pool by now may have filled that zone.
        let verified = self.coordinator.verify().await;
        verified.map_err(|_| IoError::NotReady)?;
        let blocks = u64::from(rows) * columns.len() as u64;
        if let Some(segment) = self.shard().state.borrow_mut().segments.get_mut(segment) {
            segment.rows = row + rows;
        }
        self.shard()
            .array
            .write_columns(&columns, row, buffers, Durability::Cached)
            .await
            .1?;
        self.shard()
            .array
            .count(|counters| counters.map_blocks_written += blocks);
        *self.rows.borrow_mut() = None;
        Ok(())
    }
}

impl<D: BlockDevice + 'static> Ledger for MapWriter<'_, D> {
    fn take_mapped(&self) -> i64 {
        self.mapped.take()
    }

    fn nodes(&self) -> usize {
        let before = self.coordinator.own_map.nodes();
        before.saturating_add_signed(self.nodes.get()) as usize
    }

    fn room(&self) -> usize {
        let (coordinator, shard) = (self.coordinator, self.shard());
        let before = coordinator.own_map.nodes();
        let updates = shard.settings.checkpoint_updates as u64;
        let room = shard.size().map_reserve_nodes(before, updates);
        let room = room.saturating_sub(self.stored.get());
        let state = shard.state.borrow();
        // What is kept is kept by what could be formed with all drives.
        let lacks = state.segments.lacking(shard.array.taking_mask()).next();
        lacks.map_or(room, |_| room.min(coordinator.nodes_storable(&state))) as usize
    }

    async fn give_way(&self) {
        reactor::yield_now().await;
    }
}

impl<D: BlockDevice + 'static> Nodes for MapWriter<'_, D> {
    async fn load(&self, entry: Entry) -> Result<Arc<Node>, IoError> {
        if let Some(rows) = &*self.rows.borrow()
            && rows.segment == entry.at.segment
            && entry.at.row >= rows.row
        {
            let data = self.shard().array.shape(rows.columns.len()).data;
            let index = (entry.at.row - rows.row) as usize * data + usize::from(entry.at.column);
            if let Some(node) = rows.nodes.get(index) {
                return Ok(node.clone());
            }
        }
        let loaded = self.loaded.get() + 1;
        self.loaded.set(loaded);
        if loaded.is_multiple_of(LOADS_IN_A_ROW) {
            reactor::yield_now().await;
        }
        let mut reads = 1;
        loop {
            let loaded = self.shard().load(entry).await;
            let patient = match loaded {
                Err(IoError::NotReady) => reads < READS_WHILE_AWAY_MAX,
                Err(IoError::UnrecoveredRead) => {
                    let again = self.read_again.get();
                    let patient = reads < READS_MIN || again < READS_AGAIN_MAX;
                    self.read_again.set(again + usize::from(patient));
                    patient
                }
                _ => false,
            };
            if !patient || self.shard().offline.get().is_some() {
                return loaded;
            }
            reads += 1;
            reactor::sleep(READ_AGAIN_AFTER).await;
        }
    }
}

impl<D: BlockDevice + 'static> NodeSink for MapWriter<'_, D> {
    async fn store(&self, node: Node) -> Result<Entry, IoError> {
        if self.rows.borrow().is_none() {
            let begun = self.begin_rows()?;
            *self.rows.borrow_mut() = Some(begun);
        }
        let crc = node.crc();
        let (entry, full) = {
            let mut rows = self.rows.borrow_mut();
            let rows = rows.as_mut().ok_or(IoError::Internal)?;
            let data = self.shard().array.shape(rows.columns.len()).data;
            let index = rows.nodes.len();
            let at = Location {
                segment: rows.segment,
                column: (index % data) as u8,
                row: rows.row + (index / data) as u32,
            };
            let node = Arc::new(node);
            rows.nodes.push(node.clone());
            let entry = Entry { at, crc };
            let made = &mut self.turnover.borrow_mut().made;
            if !self.coordinator.peers().is_empty()
                && made.len() < self.shard().settings.nodes_passed_on()
            {
                made.push((entry, node.clone()));
            }
            self.shard().cache.borrow_mut().insert(entry, node);
            (entry, rows.nodes.len() == rows.rows_max as usize * data)
        };
        self.change_nodes(entry, true);
        self.stored.set(self.stored.get() + 1);
        if full {
            self.write_out().await?;
        }
        Ok(entry)
    }

    fn discard(&self, entry: Entry) {
        if self.shard().cache.borrow().contains(entry) {
            self.turnover.borrow_mut().gone.push(entry);
        }
        self.change_nodes(entry, false);
    }

    /// Few of them are given up, each in its turn: what makes many unreadable at once may be over
    /// soon, and the maps on the drives are still as they were.
    fn unreadable(
        &self,
        layer: LayerId,
        blocks: Range<BlockNumber>,
    ) -> Result<Range<BlockNumber>, IoError> {
        let so_far = self.unreadable.get() + 1;
        self.unreadable.set(so_far);
        if so_far > UNREADABLE_MAX {
            return Err(IoError::UnrecoveredRead);
        }
        let most = self.shard().state.borrow().tables.blocks_most();
        let end = BlockNumber::FIRST + most;
        let blocks = blocks.start..blocks.end.min(end).max(blocks.start + 1);
        tracing::error!(
            layer = layer.get(),
            blocks = ?blocks.start.get()..blocks.end.get(),
            "a node of the map cannot be read"
        );
        let count = blocks.end - blocks.start;
        let first = LayerBlock {
            layer,
            block: blocks.start,
        };
        self.shard().lose_blocks(first, count);
        Ok(blocks)
    }

    fn passed_over(&self) {
        self.passed_over.set(true);
    }

    fn gained(&self, entry: Entry) {
        self.change(entry.at.segment, 1);
        self.mapped.set(self.mapped.get() + 1);
        let live = self.coordinator.live_nodes.borrow();
        if live
            .as_ref()
            .is_some_and(|live| live.recount.counts(entry.at.segment))
        {
            let mut handed_on = self.handed_on.borrow_mut();
            *handed_on.entry(entry.at.segment).or_default() += 1;
        }
    }

    fn lost(&self, entry: Entry) {
        self.change(entry.at.segment, -1);
        self.mapped.set(self.mapped.get() - 1);
    }
}
