//! Scrub: reads everything that lives, data, map and redundancy, and repairs what it can.
//!
//! First the stripes of every segment, by their headers; then a walk through all maps, which finds
//! what no header tells of as well; then the rows in which the maps lie.
//!
//! Memory holds the nodes of some segments of the maps at a time. Where there are more, the maps
//! are walked through once for each part of them: leaves of other parts are passed over, so each
//! is read once more at most.

mod lost;
mod nodes;
mod recount;
mod strays;

pub use crate::reporting::lost::ScrubReport;

use crate::checkpoint::Resume;
use crate::checkpoint::map_writer::READ_AGAIN_AFTER;
use crate::error::PoolError;
use crate::format::stripe::{Header, Place, ROWS_MAX};
use crate::ids::SegmentNumber;
use crate::location::{BLOCK_BYTES, Entry, LayerBlock};
use crate::recovery::image::Image;
use crate::reporting::event::PoolEvent;
use crate::scrub::lost::Losses;
use crate::scrub::strays::Gaps;
use crate::segments::live_nodes::{LiveNodes, parts};
use crate::segments::runs::Live;
use crate::segments::zones::Zone;
use crate::segments::{Kind, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::messages::Order;
use crate::shard::pace::Pace;
use crate::stripes::item::place;
use crate::volumes::Holder;
use block::{BlockDevice, Buffer, IoError};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Rows that are checked in one go, while hosts on the same core wait: two of the largest stripes.
const WINDOW_ROWS: u32 = 2 * ROWS_MAX;

/// A scrub ends when it has waited for so long for drives that are not ready.
const AWAY_MAX: Duration = Duration::from_secs(60);

/// A scrub that is under way.
struct Scrub {
    pace: Pace,
    report: ScrubReport,
    losses: Losses,
    gaps: Gaps,
    /// The walk through the maps looks at what their leaves tell of, not only at nodes.
    leaves: bool,
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Checks every stripe and every node of the map, and repairs what redundancy allows.
    ///
    /// # Errors
    /// [`IoError::NotReady`] if drives are not ready for a minute: what is lost is not known then.
    pub async fn scrub(self: &Rc<Self>) -> Result<ScrubReport, PoolError> {
        self.scrub_unwanted.set(false);
        // What hosts have written so far is checked as well.
        let sealed = self.checkpoint_with(Resume::AtFreeze, |_| {
            self.at_freeze.borrow_mut().seal = true;
            Ok(())
        });
        sealed.await?;
        let begun = self.begin_scrub().await?;
        let before = self.shard.array.counters.get().repaired_blocks;
        let mut scrub = Scrub {
            pace: Pace::new(&self.shard),
            report: ScrubReport::default(),
            losses: Losses::default(),
            gaps: Gaps::default(),
            leaves: true,
        };
        let Begun { watch, data, maps } = begun;
        let maps_segments: usize = maps.iter().map(Vec::len).sum();
        let total_segments = (data.len() + maps_segments) as u64;
        let mut done_segments = 0;
        for (number, segment) in &data {
            self.tell_scrub(&mut done_segments, total_segments);
            self.scrub_segment(*number, segment, &mut scrub).await?;
        }
        for part in &maps {
            if !scrub.leaves {
                self.watch_part(part).await;
            }
            self.walk_maps(&mut scrub).await?;
            scrub.report.walks += 1;
            scrub.report.recounted += self.recount(part).await;
            for (number, segment) in part {
                self.tell_scrub(&mut done_segments, total_segments);
                self.scrub_segment(*number, segment, &mut scrub).await?;
            }
            scrub.leaves = false;
        }
        drop(watch);
        if scrub.report.recounted > 0 || !self.shard.state.borrow().unmapped.is_empty() {
            // What holds nothing is free, and nodes that are lost are given up.
            self.checkpoint_with(Resume::AtFreeze, |_| Ok(())).await?;
        }
        let mut report = scrub.report;
        report.repaired = self.shard.array.counters.get().repaired_blocks - before;
        scrub.losses.tell(&mut report);
        self.shard.array.events.push(PoolEvent::ScrubEnded {
            repaired_blocks: report.repaired,
            lost_blocks: report.lost_blocks,
            lost_nodes: report.lost_nodes,
        });
        Ok(report)
    }
}

/// The segments that there were when a scrub began.
struct Begun<'a, D> {
    watch: Watch<'a, D>,
    data: Vec<(SegmentNumber, Segment)>,
    /// Those of the maps, in parts of which memory holds one at a time.
    maps: Vec<Vec<(SegmentNumber, Segment)>>,
}

/// Some rows of a segment that are checked in one go.
struct Window<'a> {
    number: SegmentNumber,
    /// The segment as it was when the scrub began.
    begun: &'a Segment,
    row: u32,
}

/// While it lives merges say which nodes they make and replace.
struct Watch<'a, D>(&'a Coordinator<D>);

impl<D> Drop for Watch<'_, D> {
    fn drop(&mut self) {
        self.0.live_nodes.replace(None);
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Returns the segments that there are now, and has merges say what becomes of the maps from
    /// here on.
    async fn begin_scrub(&self) -> Result<Begun<'_, D>, PoolError> {
        // No merge is under way.
        let _alone = self.upkeep_lock.lock().await;
        if self.live_nodes.borrow().is_some() {
            return Err(PoolError::Invalid("the pool is being scrubbed"));
        }
        let state = self.shard.state.borrow();
        let table = state.segments.table().iter();
        let segments = table.map(|(number, found)| (*number, found.clone()));
        let is_map = |(_, segment): &(SegmentNumber, Segment)| segment.kind == Kind::Map;
        let (maps, data): (Vec<_>, Vec<_>) = segments.partition(is_map);
        let maps = parts(maps, self.shard.settings.scrub_nodes_at_once as u64);
        let first = maps.first().map_or(&[][..], Vec::as_slice);
        let (segments, settled) = (&state.segments, state.victims.settled());
        let live = LiveNodes::new(first, segments, &state.tables, settled);
        self.live_nodes.replace(Some(live));
        Ok(Begun {
            watch: Watch(self),
            data,
            maps,
        })
    }

    /// Has merges say what becomes of another part of the maps; all of what was known is forgotten.
    async fn watch_part(&self, maps: &[(SegmentNumber, Segment)]) {
        // No merge is under way.
        let _alone = self.upkeep_lock.lock().await;
        let state = self.shard.state.borrow();
        // Data has been counted.
        let live = LiveNodes::new(maps, &state.segments, &state.tables, &BTreeSet::new());
        self.live_nodes.replace(Some(live));
    }

    fn tell_scrub(&self, done_segments: &mut u64, total_segments: u64) {
        self.shard.array.events.push(PoolEvent::Scrub {
            done_segments: *done_segments,
            total_segments,
        });
        *done_segments += 1;
    }

    async fn scrub_segment(
        &self,
        number: SegmentNumber,
        begun: &Segment,
        scrub: &mut Scrub,
    ) -> Result<(), PoolError> {
        let mut next = Some(0);
        while let Some(row) = next {
            self.rest(&mut scrub.pace).await?;
            let window = Window { number, begun, row };
            next = self.scrub_window(window, scrub).await?;
        }
        Ok(())
    }

    /// Gives way to hosts; says when there is nothing to go on with.
    async fn rest(&self, pace: &mut Pace) -> Result<(), PoolError> {
        pace.rest(&self.shard).await;
        if let Some(reason) = self.shard.offline.get() {
            return Err(PoolError::Offline(reason));
        }
        if self.scrub_unwanted.get() || self.shard.stopping.get() {
            return Err(PoolError::ScrubStopped);
        }
        Ok(())
    }

    /// Checks some rows of a segment, if it is still there; returns the row to go on from.
    async fn scrub_window(
        &self,
        window: Window<'_>,
        scrub: &mut Scrub,
    ) -> Result<Option<u32>, PoolError> {
        let Window { number, begun, row } = window;
        let map = begun.kind == Kind::Map;
        // While the map's redundancy is set right nobody may write behind it.
        let _alone = if map {
            Some(self.upkeep_lock.lock().await)
        } else {
            None
        };
        let _reading = self.shard.reading();
        let segment = {
            let state = self.shard.state.borrow();
            let found = state.segments.get(number);
            let same = found.filter(|found| found.generation == begun.generation);
            // One that waits for earlier readers only may be freed and written meanwhile.
            let may_change = map || state.victims.is_settled(number) && !state.in_limbo(number);
            same.filter(|_| may_change).cloned()
        };
        let Some(segment) = segment else {
            return Ok(None);
        };
        let shape = self.shard.array.shape(segment.columns.len());
        let end = if map { begun.rows } else { segment.rows };
        let rows = end.saturating_sub(row).min(WINDOW_ROWS);
        if rows == 0 {
            return Ok(None);
        }
        let image = self
            .shard
            .read_image(shape, &segment.columns, row, rows)
            .await;
        // Whoever has the pool by now may have good reason for what is there.
        if self.verify().await.is_err() {
            return Ok(None);
        }
        let next = if map {
            self.check_rows(number, &segment, &image).await;
            row + rows
        } else {
            self.scrub_stripes(number, &segment, &image, scrub).await?
        };
        Ok((next < end).then_some(next))
    }

    /// Checks the stripes in an image; returns the row to go on from.
    async fn scrub_stripes(
        &self,
        number: SegmentNumber,
        segment: &Segment,
        image: &Image,
        scrub: &mut Scrub,
    ) -> Result<u32, PoolError> {
        let end = image.first + image.rows;
        let mut row = image.first;
        let bounds = self.shard.bounds(segment.columns.len());
        while row < end {
            let place = Place {
                segment: number,
                generation: segment.generation,
                row,
                incarnation: self.shard.incarnation.get(),
            };
            let decode =
                |block: &[u8]| Header::decode(&self.shard.secret, place, true, bounds, block);
            let header = image.valid_block(0, row, &|block| decode(block).is_some());
            let Some(header) = header.and_then(|(block, _)| decode(&block)) else {
                if segment.live() > 0 {
                    scrub.gaps.add(number, segment.generation, row);
                }
                row += 1;
                continue;
            };
            let rows = header.rows;
            if row + rows > end && row > image.first {
                return Ok(row);
            }
            scrub.report.stripes += 1;
            if !self.shard.complete(image, &segment.columns, &header).await {
                self.list_lost(segment, &header, &mut scrub.losses).await?;
            }
            row += rows;
        }
        Ok(row)
    }

    /// A stripe that is not whole: which of its live blocks cannot be read. One that was torn by
    /// a power failure has none.
    async fn list_lost(
        &self,
        segment: &Segment,
        header: &Header,
        losses: &mut Losses,
    ) -> Result<(), PoolError> {
        let mut index = 0;
        for record in &header.records {
            let at = place(
                header.place.segment,
                header.place.row,
                header.rows,
                index + 1,
            );
            index += usize::from(record.crc().is_some());
            let Some((owner, crc)) = record.owner() else {
                continue;
            };
            let entry = Entry { at, crc };
            let Some((owner, readers)) = self.find_readers(Live { owner, entry }).await else {
                continue;
            };
            if !self.is_readable(&segment.columns, entry).await? {
                losses.lose(owner, &readers);
                self.shard.lose_block(owner);
            }
        }
        Ok(())
    }

    /// Whether a block can be read, or is lost.
    ///
    /// # Errors
    /// [`IoError::NotReady`] if drives are not ready with it for long.
    async fn is_readable(&self, columns: &[Option<Zone>], entry: Entry) -> Result<bool, IoError> {
        let read = self.patiently(async || {
            let buffer = Buffer::new(BLOCK_BYTES);
            self.shard.array.read_block(columns, entry, buffer).await.1
        });
        match read.await {
            Ok(()) => Ok(true),
            Err(IoError::NotReady) => Err(IoError::NotReady),
            Err(_) => Ok(false),
        }
    }

    /// Reads, again and again while drives are not ready: what they have is not lost.
    async fn patiently<T>(&self, read: impl AsyncFn() -> Result<T, IoError>) -> Result<T, IoError> {
        let until = reactor::now() + AWAY_MAX;
        loop {
            let result = read().await;
            let away = matches!(result, Err(IoError::NotReady));
            if !away || reactor::now() >= until || self.ends() {
                return result;
            }
            reactor::sleep(READ_AGAIN_AFTER).await;
        }
    }

    /// In which layer a block still is where it was, and who reads it.
    async fn find_readers(&self, live: Live) -> Option<(LayerBlock, Vec<Holder>)> {
        let Live { owner, entry } = live;
        let holders = self.shard.state.borrow().tables.holders(owner.layer);
        for layer in holders {
            let owner = LayerBlock { layer, ..owner };
            if let Some(readers) = self.ask_readers(Live { owner, entry }).await {
                return Some((owner, readers));
            }
        }
        None
    }

    /// Who reads a block, as its shard knows; `None` if it is not where it was.
    async fn ask_readers(&self, live: Live) -> Option<Vec<Holder>> {
        let owner = self.shard.state.borrow().share.owner(live.owner.block);
        let Some(peer) = self.peer(owner) else {
            return self.shard.readers_of(live).await;
        };
        let asked = peer.outbox.ask(|reply| Order::Readers(live, reply));
        self.answer(asked).await.ok().flatten()
    }
}
