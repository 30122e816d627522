//! [`State`]: everything of a shard that changes, and the rules by which it does. No I/O.

use crate::format::stripe::Record;
use crate::ids::{LayerId, SegmentNumber, Sequence};
use crate::location::{BlockNumber, Entry, LayerBlock, Location};
use crate::map::overlay::{Counted, Overlay};
use crate::map::updates::Updates;
use crate::segments::attempts::Attempts;
use crate::segments::emptied::EmptiedSegments;
use crate::segments::moving::Moving;
use crate::segments::ready::ReadySegments;
use crate::segments::slices::Share;
use crate::segments::victims::Victims;
use crate::segments::zones::Zone;
use crate::segments::{Kind, Segment, SegmentState, Segments};
use crate::shard::admitted::Admitted;
use crate::shard::eras::Eras;
use crate::shard::limbo::Freed;
use crate::stripes::class::Rules;
use crate::stripes::item::Completed;
use crate::stripes::open::OpenSegments;
use crate::stripes::order::LogOrder;
use crate::stripes::queue::Queue;
use crate::volumes::Tables;
use crate::volumes::current::CurrentTables;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Everything that changes.
pub(crate) struct State {
    pub segments: Segments,
    /// What the maps do not have yet.
    pub updates: Updates,
    /// The tables of volumes, snapshots and layers.
    pub tables: CurrentTables,
    /// The blocks that this shard serves.
    pub share: Share,
    /// Stripes under way, and how far the log has come.
    pub log: LogOrder,
    /// Segments that stripes go to.
    pub open: OpenSegments,
    /// Free segments are few: stripes are not padded if that can be helped.
    pub frugal: bool,
    /// Writes and deallocations not yet in a stripe.
    pub queue: Queue,
    /// Space that writes under way will take, and how much there is.
    pub admitted: Admitted,
    /// Blocks on their way out of a segment that is being cleaned.
    pub moving: Moving,
    /// Segments that can be cleaned.
    pub victims: Victims,
    /// Which of the segments that lie ready may be written.
    pub ready: ReadySegments,
    /// Who reads as of which merge, and what was freed below them.
    pub eras: Eras,
    /// How often each segment has been cleaned, and which cannot be emptied.
    pub attempts: Attempts,
    /// Segments out of which everything was moved since the last checkpoint that could be.
    pub emptied: EmptiedSegments,
    /// Blocks that the cleaner or a scrub could not look up: the next checkpoint gives up the nodes
    /// of the map that told of them.
    pub unmapped: BTreeSet<LayerBlock>,
    /// Segments to which stripes of a former holder may still come: their zones stay theirs.
    pub quarantined: BTreeSet<SegmentNumber>,
}

impl State {
    /// A state in which nothing has happened since the checkpoint.
    pub fn new(segments: Segments, tables: Arc<Tables>, share: Share, sequence: Sequence) -> State {
        State {
            segments,
            updates: Updates::default(),
            tables: CurrentTables::new(tables),
            share,
            log: LogOrder::new(sequence),
            open: OpenSegments::default(),
            frugal: false,
            queue: Queue::default(),
            admitted: Default::default(),
            moving: Default::default(),
            victims: Victims::default(),
            ready: ReadySegments::default(),
            eras: Eras::default(),
            attempts: Attempts::default(),
            emptied: EmptiedSegments::default(),
            unmapped: BTreeSet::new(),
            quarantined: BTreeSet::new(),
        }
    }

    /// Takes over updates from before the pool was opened, as if they had just been written.
    pub fn take_over(&mut self, recovered: Overlay) {
        let mut blocks = 0;
        for entry in recovered.entries() {
            self.segments.overlay_gained(entry);
            blocks += 1;
        }
        self.updates.take_over(recovered);
        self.admitted.recovered(blocks);
    }

    /// Hands out the updates that recovery found: to each shard those of its blocks.
    pub fn deal_recovered(&mut self) -> VecDeque<Overlay> {
        let found = self.updates.take_recovered();
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
        !self.updates.are_merged() || !self.admitted.is_exact() || self.tables.unneeded()
    }

    /// Seals every open data segment.
    pub fn seal_open(&mut self) {
        for number in self.open.close_all() {
            if let Some(segment) = self.segments.get_mut(number) {
                segment.state = SegmentState::Sealed;
            }
        }
    }

    /// Sets the updates aside for a merge.
    pub fn set_aside(&mut self) {
        self.updates.set_aside();
        self.admitted.freeze();
    }

    /// The updates that were set aside are in the maps. They were counted before, in turns, since
    /// they do not change.
    pub fn drop_frozen(&mut self, counted: &Counted) {
        for (number, blocks) in counted {
            self.segments.overlay_lost_blocks(*number, *blocks);
        }
        self.updates.merged();
        self.admitted.merged();
    }

    /// Puts the tables as of a merge in place, and forgets updates of layers that are gone.
    pub fn replace_tables(&mut self, tables: Arc<Tables>) {
        let before = self.tables.replace(tables);
        let written: Vec<LayerId> = self.updates.latest().layers().collect();
        for layer in written {
            let gone = !self.tables.layers.contains_key(layer);
            if !gone || !before.layers.contains_key(layer) {
                continue;
            }
            for entry in self.updates.remove_layer(layer) {
                self.segments.overlay_lost(entry);
            }
        }
    }

    /// Maps a block that a stripe brought.
    pub fn map_block(&mut self, owner: LayerBlock, entry: Entry) {
        if let Some(old) = self.updates.put(owner.layer, owner.block, entry) {
            self.segments.overlay_lost(old);
        }
        self.segments.overlay_gained(entry);
    }

    /// Applies a durable stripe of the shard that has `share`. `moved` decides whether a moved
    /// block still counts.
    pub fn apply(
        &mut self,
        stripe: &Completed,
        share: Share,
        mut moved: impl FnMut(&mut State, LayerBlock, Location) -> bool,
    ) {
        let mut index = 0;
        // Mostly all blocks of a stripe are of one layer.
        let mut known = None;
        for record in &stripe.records {
            let at = stripe.place(index + 1);
            index += usize::from(record.crc().is_some());
            match *record {
                Record::Data { layer, block, crc } => {
                    if let Some(layer) = self.resolve_again(layer, &mut known) {
                        let owner = LayerBlock { layer, block };
                        self.moving.end(owner);
                        self.map_block(owner, Entry { at, crc });
                        self.admitted.wrote();
                    }
                }
                Record::Moved {
                    layer,
                    block,
                    crc,
                    from,
                    ..
                } => {
                    if let Some(layer) = self.resolve_again(layer, &mut known) {
                        let owner = LayerBlock { layer, block };
                        if moved(self, owner, from) {
                            self.map_block(owner, Entry { at, crc });
                        }
                    }
                }
                Record::Hole {
                    layer,
                    block,
                    blocks,
                } => {
                    if let Some(layer) = self.tables.resolve(layer) {
                        self.unmap(share, layer, block..block + u64::from(blocks));
                    }
                }
                Record::Pad { .. } => {}
            }
        }
    }

    /// As [`Tables::resolve`]; `known` is the layer that was last asked for, and the answer.
    fn resolve_again(
        &self,
        layer: LayerId,
        known: &mut Option<(LayerId, Option<LayerId>)>,
    ) -> Option<LayerId> {
        match *known {
            Some((asked, answer)) if asked == layer => answer,
            _ => known.insert((layer, self.tables.resolve(layer))).1,
        }
    }

    /// Unmaps blocks that were given back, those in `share`.
    pub fn unmap(&mut self, share: Share, layer: LayerId, blocks: Range<BlockNumber>) {
        if blocks.is_empty() {
            return;
        }
        self.moving.end_all(layer, blocks.clone(), share);
        for entry in self.updates.clear(layer, blocks, share) {
            self.segments.overlay_lost(entry);
        }
    }

    /// Frees what was freed in an era that no reader is in any more.
    pub fn release_limbo(&mut self) {
        let mut numbers = BTreeSet::new();
        for freed in self.eras.take_free() {
            match freed {
                Freed::Segment(number) => {
                    numbers.insert(number);
                    self.attempts.forget(number);
                }
                Freed::Zone(zone) => self.segments.zones_mut().vacate([zone]),
            }
        }
        self.segments.release(&numbers);
    }

    /// Adds the zones of a drive that joined, or takes away those of one that left.
    pub fn set_drive(&mut self, drive: usize, zones: u32) {
        let stays = |zone: Zone| usize::from(zone.drive) != drive;
        self.eras.retain_zones(stays);
        self.segments.zones_mut().set_drive(drive, zones);
    }

    /// A segment is never written again, and what was to be written there has been.
    pub fn is_final(&self, number: SegmentNumber, segment: &Segment) -> bool {
        let settled = segment.kind == Kind::Map || self.victims.is_settled(number);
        segment.state == SegmentState::Sealed && settled
    }

    /// Zones that no segment has any more, and that wait for their readers.
    pub fn zones_in_limbo(&self) -> impl Iterator<Item = Zone> {
        self.eras.limbo().zones()
    }

    /// A freed segment waits for its readers.
    pub fn in_limbo(&self, number: SegmentNumber) -> bool {
        self.eras.limbo().has(number)
    }

    /// Segments that have been made ready and that no other shard has.
    pub fn made_ready(&self, kind: Kind) -> impl Iterator<Item = (SegmentNumber, &Segment)> {
        let ready = self.segments.numbers(kind, SegmentState::Ready);
        ready
            .filter(|number| !self.ready.is_lent(*number))
            .filter_map(|number| Some((number, self.segments.get(number)?)))
    }

    /// Those of them that may be written: a checkpoint that is durable names them.
    pub fn announced(&self, kind: Kind) -> impl Iterator<Item = (SegmentNumber, &Segment)> {
        let made = self.made_ready(kind);
        made.filter(|(number, _)| self.ready.is_announced(*number))
    }

    /// Wide ones that hosts leave to the cleaner. It rests while zones are held back.
    pub fn kept_for_cleaner(&self, rules: &Rules) -> usize {
        match self.segments.zones().are_held() {
            true => 0,
            false => rules.kept,
        }
    }
}
