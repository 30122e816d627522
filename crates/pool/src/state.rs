//! How the state of a shard begins, and what a checkpoint does to it. No I/O.

use crate::core::{Core, State};
use crate::drives::array::Array;
use crate::location::BLOCK_BYTES;
use crate::map::cache::NodeCache;
use crate::map::overlay::Overlay;
use crate::options::Settings;
use crate::segments::readers::Readers;
use crate::segments::slices::Share;
use crate::segments::{SegmentState, Segments};
use crate::stripes::class::Class;
use crate::volumes::Tables;
use reactor::sync::Notify;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

impl State {
    /// A state in which nothing has happened since the checkpoint.
    pub fn new(segments: Segments, tables: Tables, share: Share, sequence: u64) -> State {
        State {
            promised: tables.promised_blocks(),
            unneeded: tables.unneeded().is_some(),
            tables_version: 1,
            segments,
            overlay: Default::default(),
            frozen: Default::default(),
            spare: Default::default(),
            tables,
            share,
            sequence,
            applied: sequence,
            open: [None; Class::COUNT],
            map_open: None,
            completed: BTreeMap::new(),
            in_flight: 0,
            moved_in_flight: 0,
            frugal: false,
            segment_opened: false,
            queue: VecDeque::new(),
            queued_blocks: 0,
            admitted: Default::default(),
            starved: false,
            urgent: false,
            moving: Default::default(),
            cleaning: None,
            gate: 0,
            unannounced: BTreeSet::new(),
            map_nodes: 0,
            era: 0,
            readers: Readers::default(),
            limbo: VecDeque::new(),
            vacated: Vec::new(),
            settled: BTreeSet::new(),
            stuck: BTreeSet::new(),
            emptied: BTreeMap::new(),
            unmapped: BTreeSet::new(),
            replaced: BTreeMap::new(),
            covered: sequence,
            attempts: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            lent: BTreeMap::new(),
            for_moves: BTreeSet::new(),
            room: 0,
            at_freeze: Default::default(),
            retiring: Vec::new(),
        }
    }

    /// Blocks that this shard has added to what lives, or is about to, since the last merge.
    pub fn room_used(&self) -> u64 {
        self.admitted.blocks()
    }

    /// Takes over updates from before the pool was opened, as if they had just been written.
    pub fn take_over(&mut self, recovered: Overlay) {
        let mut blocks = 0;
        for entry in recovered.entries() {
            self.segments.overlay_gained(entry);
            blocks += 1;
        }
        self.overlay = recovered;
        self.admitted.recovered(blocks);
        self.room = self.room_used();
    }

    /// Hands out the updates that recovery found: to each shard those of its blocks.
    pub fn deal_recovered(&mut self) -> VecDeque<Overlay> {
        let found = std::mem::take(&mut self.overlay);
        for entry in found.entries() {
            self.segments.overlay_lost(entry);
        }
        let Share {
            slice_blocks,
            shards,
            ..
        } = self.share;
        found.deal(slice_blocks, shards).into()
    }

    /// True when a checkpoint may show that less lives, or is about to, than is counted.
    pub fn may_hold_less(&self) -> bool {
        let merging = !self.overlay.is_empty() || !self.frozen.is_empty();
        merging || !self.admitted.is_exact() || self.unneeded
    }

    /// Seals every open data segment.
    pub fn seal_open(&mut self) {
        for number in self.open.iter_mut().filter_map(Option::take) {
            if let Some(segment) = self.segments.get_mut(number) {
                segment.state = SegmentState::Sealed;
            }
        }
    }

    /// Sets the updates aside for a merge.
    pub fn set_aside(&mut self) {
        let empty = std::mem::take(&mut self.spare);
        self.frozen = Arc::new(std::mem::replace(&mut self.overlay, empty));
        self.admitted.freeze();
    }

    /// The updates that were set aside are in the maps: the room they took is taken for good.
    pub fn drop_frozen(&mut self) {
        let frozen = std::mem::take(&mut self.frozen);
        for entry in frozen.entries() {
            self.segments.overlay_lost(entry);
        }
        // Another core may still hold it.
        self.spare = Arc::into_inner(frozen).map_or_else(Overlay::default, Overlay::emptied);
        self.room = self.room.saturating_sub(self.admitted.merged());
    }

    /// Puts the tables as of a merge in place, and forgets updates of layers that are gone.
    pub fn replace_tables(&mut self, tables: Tables) {
        let before = std::mem::replace(&mut self.tables, tables);
        self.tables_changed();
        for layer in before.layers.keys() {
            if self.tables.layers.contains_key(layer) {
                continue;
            }
            for entry in self.overlay.remove_layer(*layer) {
                self.segments.overlay_lost(entry);
            }
        }
    }
}

impl<D> Core<D> {
    /// A shard at its beginning.
    pub fn new(
        array: Array<D>,
        settings: Settings,
        secret: [u8; 16],
        incarnation: u64,
        width: usize,
        zone_rows: u32,
        state: State,
    ) -> Core<D> {
        let cache_bytes = settings.map_cache_bytes / state.share.shards as usize;
        Core {
            array,
            settings,
            secret,
            incarnation: Cell::new(incarnation),
            newest: Cell::new(0),
            width,
            zone_rows,
            shards: state.share.shards,
            known_size: Cell::new(None),
            state: RefCell::new(state),
            cache: RefCell::new(NodeCache::new(cache_bytes / BLOCK_BYTES)),
            together: RefCell::default(),
            work: Notify::new(),
            upkeep: Notify::new(),
            landed: Notify::new(),
            looked_up: Notify::new(),
            looks: Cell::new(0),
            told: Cell::default(),
            requests: Cell::new(0),
            look_at_blocks: Cell::new(0),
            link: OnceCell::new(),
            offline: Cell::new(None),
            stopping: Cell::new(false),
        }
    }
}
