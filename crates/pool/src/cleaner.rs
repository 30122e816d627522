//! The cleaner: moves what still lives out of a segment, so that the segment can be freed.

use crate::core::Core;
use crate::format::stripe::{Header, Place, Record};
use crate::join::join_all;
use crate::location::{BLOCK_BYTES, Entry, Location, Mapping};
use crate::log::{Source, moved_batch, place};
use crate::segments::{Kind, Segment, State as SegmentState, Zone};
use block::{BlockDevice, Buffer, IoError};
use std::rc::Rc;

/// A segment that is not empty after so many cleanings will not be.
const ATTEMPTS_MAX: u32 = 4;

/// How much cleaning a segment frees for what it costs, weighed by how long it has been cold;
/// `None` if it would free nothing.
pub(crate) fn score(segment: &Segment, zone_rows: u32, moved_width: f64, now: u64) -> Option<f64> {
    let frees = segment.columns.len() as f64 * f64::from(zone_rows);
    // Headers and padding of the stripes that take the blocks in: about one row in sixteen.
    let takes = segment.live() as f64 * moved_width * 1.07;
    let age = now.saturating_sub(segment.sequence) as f64;
    (frees > takes).then(|| (frees - takes) * (1.0 + age.sqrt()) / (1.0 + takes))
}

/// What is known of the segment being cleaned.
struct Victim {
    number: u32,
    generation: u32,
    columns: Vec<Option<Zone>>,
    rows: u32,
}

impl<D: BlockDevice + 'static> Core<D> {
    /// The segment that is best cleaned now, and the share of it that lives.
    pub fn victim(&self) -> Option<(u32, f64)> {
        let state = self.state.borrow();
        let shape = self.rules().wide();
        let width = shape.width() as f64 / shape.data as f64;
        let candidates = state
            .settled
            .iter()
            .filter(|number| !state.stuck.contains(number));
        candidates
            .filter_map(|number| {
                let segment = state.segments.get(*number)?;
                let data = segment.kind != Kind::Map && segment.state == SegmentState::Sealed;
                if !data || segment.live() == 0 {
                    return None;
                }
                let score = score(segment, self.zone_rows, width, state.applied)?;
                let blocks =
                    f64::from(self.zone_rows) * self.array.shape(segment.columns.len()).data as f64;
                Some((*number, score, segment.live() as f64 / blocks))
            })
            .max_by(|left, right| left.1.total_cmp(&right.1))
            .map(|(number, _, filled)| (number, filled))
    }

    /// Moves every live block out of a segment. The caller holds the upkeep lock. False when
    /// there is no segment to move them to.
    pub async fn clean(self: &Rc<Self>, number: u32) -> Result<bool, IoError> {
        let _reading = self.reading();
        let victim = {
            let mut state = self.state.borrow_mut();
            let attempts = state.attempts.entry(number).or_default();
            *attempts += 1;
            if *attempts > ATTEMPTS_MAX {
                // Its live count will not fall: better degraded than cleaned for ever.
                state.stuck.insert(number);
                return Ok(true);
            }
            let Some(segment) = state.segments.get(number) else {
                return Ok(true);
            };
            Victim {
                number,
                generation: segment.generation,
                columns: segment.columns.clone(),
                rows: segment.rows,
            }
        };
        let mut row = 0;
        while row < victim.rows {
            let Some(header) = self.header_at(&victim, row).await else {
                row += 1;
                continue;
            };
            let mut moves = self.live_blocks(&victim, row, &header).await?;
            row += header.rows.max(1);
            if !self.move_blocks(&mut moves).await {
                return Ok(false);
            }
        }
        let mut state = self.state.borrow_mut();
        // What still counts as live was replaced and awaits the next merge, or cannot be read.
        state.settled.remove(&number);
        Ok(true)
    }

    async fn header_at(&self, victim: &Victim, row: u32) -> Option<Header> {
        let place = Place {
            segment: victim.number,
            generation: victim.generation,
            row,
            incarnation: self.incarnation.get(),
        };
        let decode = |block: &[u8]| Header::decode(&self.secret, place, true, block);
        let zone = victim.columns.first().copied().flatten();
        let (buffer, result) = self
            .array
            .read_zone(zone, row, Buffer::new(BLOCK_BYTES))
            .await;
        if result.is_ok()
            && let Some(header) = decode(&buffer)
        {
            return Some(header);
        }
        let valid = |block: &[u8]| decode(block).is_some();
        let rebuilt = self.array.rebuild(&victim.columns, 0, row, &valid).await?;
        decode(&rebuilt)
    }

    /// Reads the blocks of a stripe that the map still points at, and marks them as moving.
    async fn live_blocks(
        &self,
        victim: &Victim,
        row: u32,
        header: &Header,
    ) -> Result<Vec<(Record, Source)>, IoError> {
        let mut live: Vec<(u32, u64, Entry)> = Vec::new();
        let mut index = 0;
        for record in &header.records {
            let at = place(victim.number, row, header.rows, index + 1);
            index += usize::from(record.crc().is_some());
            let Some((layer, block, crc)) = record.owner() else {
                continue;
            };
            let layer = self.state.borrow().tables.resolve(layer);
            let entry = Entry { at, crc };
            if let Some(layer) = layer
                && self.begin_move(layer, block, entry).await?
            {
                live.push((layer, block, entry));
            }
        }
        let reads = live.iter().map(|(_, _, entry)| {
            self.array
                .read_block(&victim.columns, *entry, Buffer::new(BLOCK_BYTES))
        });
        let blocks = join_all(reads).await;
        let mut moves = Vec::with_capacity(live.len());
        for ((layer, block, entry), (buffer, result)) in live.into_iter().zip(blocks) {
            if result.is_err() {
                let mut state = self.state.borrow_mut();
                state.moving.remove(&(layer, block));
                state.stuck.insert(victim.number);
                drop(state);
                if result == Err(IoError::UnrecoveredRead) {
                    self.lose_block(layer, block);
                }
                continue;
            }
            let generation = victim.generation;
            let record = Record::Moved {
                layer,
                block,
                crc: entry.crc,
                from: entry.at,
                generation,
            };
            moves.push((
                record,
                Source {
                    buffer: Rc::new(buffer),
                    block: 0,
                },
            ));
        }
        Ok(moves)
    }

    /// Marks a block as moving if it lives at `entry`. The mark comes before the look, so that a
    /// write that lands in between takes it off again.
    async fn begin_move(&self, layer: u32, block: u64, entry: Entry) -> Result<bool, IoError> {
        let key = (layer, block);
        if self
            .state
            .borrow_mut()
            .moving
            .insert(key, entry.at)
            .is_some()
        {
            return Err(IoError::Internal);
        }
        let found = self.find_own(layer, block).await;
        let here = found == Ok(Some(Mapping::Block(entry)));
        let mut state = self.state.borrow_mut();
        let still: Option<Location> = state.moving.get(&key).copied();
        if here && still == Some(entry.at) {
            return Ok(true);
        }
        state.moving.remove(&key);
        found.map(|_| false)
    }

    /// Writes moved blocks and waits until they count. False when there is no room.
    async fn move_blocks(self: &Rc<Self>, moves: &mut Vec<(Record, Source)>) -> bool {
        let count = moves.len() as u64;
        while !moves.is_empty() && self.offline.get().is_none() {
            let batch = {
                let mut state = self.state.borrow_mut();
                moved_batch(&mut state, &self.rules(), moves)
            };
            let Some(batch) = batch else {
                self.state.borrow_mut().moving.clear();
                self.landed_all().await;
                return false;
            };
            self.clone().launch(batch);
        }
        self.landed_all().await;
        self.state.borrow_mut().moving.clear();
        self.array
            .count(|counters| counters.relocated_blocks += count);
        true
    }

    /// Waits until every stripe that has been launched so far is applied.
    async fn landed_all(&self) {
        let last = self.state.borrow().sequence;
        while self.state.borrow().applied < last && self.offline.get().is_none() {
            self.landed.notified().await;
        }
    }
}
