//! Recovery: finds the stripes written since the checkpoint, decides about each, applies them.
//!
//! Nothing is served until the decisions are on the drives, in a new incarnation, so deciding again
//! after a crash half way is harmless. The maps need not have what was found by then: what was
//! decided stands beside them until the next merge, and is replayed again after a crash.

pub(crate) mod image;

use crate::drives::redundancy;
use crate::error::PoolError;
use crate::format::body::{Decided, DecidedLog};
use crate::format::plausible::UNDER_WAY_MAX;
use crate::format::stripe::{Bounds, Header, Place, ROWS_MAX, Record};
use crate::ids::{Incarnation, SegmentNumber, Sequence, ShardId};
use crate::location::{BLOCK_BYTES, Entry, LayerBlock, Mapping};
use crate::mutation::Mutation;
use crate::recovery::image::{Image, READ_AGAIN_AFTER, READS_MAX, hidden_in};
use crate::segments::slices::Share;
use crate::segments::zones::Zone;
use crate::segments::{Kind, SegmentState};
use crate::shard::core::Core;
use crate::stripes::item::{Completed, place};
use block::{BlockDevice, Buffer, Durability, IoError};
use std::collections::BTreeMap;

/// Rows read at once: as far as stripes in flight may reach past one that is torn.
pub(crate) const WINDOW_ROWS: u32 = 8 * ROWS_MAX;

/// A stripe is torn, or not there, if so many reads say so.
const READS_OF_TORN: usize = 2;

/// How the pool was dealt to shards when it was open last, and where their logs begin.
pub(crate) struct Before {
    pub slice_blocks: u64,
    /// For each shard, the last stripe that the maps have.
    pub sequences: Vec<Sequence>,
    /// What was written before that, and is not in the maps either.
    pub decided: Option<Decided>,
    /// What was new in the superblocks last, as far as was found.
    pub content: u64,
    /// A later superblock that is lost: that is accepted.
    pub lost: Option<u64>,
    /// What drives do not read counts as never written, and what stripes tell of as lost.
    pub accept_loss: bool,
}

/// What was decided, and what is lost.
pub(crate) struct Recovered {
    pub log: Decided,
    /// The largest number of a superblock of which stripes tell, where it is later than what was
    /// opened.
    pub lost: Option<u64>,
}

/// Headers of stripes by incarnation, shard and sequence number.
type Found = BTreeMap<(Incarnation, ShardId, Sequence), Header>;

/// Takes the log of one shard out of what was found.
fn take_log(
    found: &mut Found,
    incarnation: Incarnation,
    shard: ShardId,
) -> BTreeMap<Sequence, Header> {
    let mut own = found.split_off(&(incarnation, shard, Sequence::NONE));
    let behind = (incarnation, shard.next(), Sequence::NONE);
    found.append(&mut own.split_off(&behind));
    own.into_iter().map(|((_, _, at), it)| (at, it)).collect()
}

/// Refuses to go on from a state of which stripes say that it is not the last one, unless that is
/// accepted: then the largest number of a superblock of which they tell.
fn lost_in(before: &Before, found: &Found) -> Result<Option<u64>, PoolError> {
    let newest = found.values().map(|header| header.newest).max();
    let passes = Mutation::TakesOlderLabels.is_planted() || Mutation::IgnoresWitnesses.is_planted();
    match newest.filter(|number| *number > before.content && !passes) {
        Some(found) if !before.accept_loss => Err(PoolError::RolledBack {
            opened: before.content,
            found,
        }),
        found => Ok(found.max(before.lost)),
    }
}

fn reads_of_torn() -> usize {
    match Mutation::BelievesOneRead.is_planted() {
        true => 1,
        false => READS_OF_TORN,
    }
}

fn key(header: &Header) -> (Incarnation, ShardId, Sequence) {
    (header.place.incarnation, header.shard, header.sequence)
}

impl<D: BlockDevice + 'static> Core<D> {
    /// What stripes of a segment of so many columns can be.
    pub fn bounds(&self, columns: usize) -> Bounds {
        Bounds {
            data: self.array.shape(columns).data,
            rows: self.zone_rows,
        }
    }

    /// Rolls the logs forward from the checkpoint that has been loaded; returns what was decided
    /// about those of the last incarnation.
    pub async fn recover(&self, before: Before) -> Result<Recovered, PoolError> {
        let mut found = Found::new();
        let incarnation = self.incarnation.get();
        let earlier = before.decided.iter().map(|decided| decided.incarnation);
        let incarnations: Vec<Incarnation> = std::iter::once(incarnation).chain(earlier).collect();
        let numbers: Vec<SegmentNumber> = {
            let state = self.state.borrow();
            let table = state.segments.table().iter();
            let written = table.filter(|(_, segment)| {
                segment.kind != Kind::Map && segment.state != SegmentState::Sealed
            });
            written.map(|(number, _)| *number).collect()
        };
        for number in &numbers {
            self.scan(*number, (&incarnations, before.accept_loss), &mut found)
                .await?;
        }
        let lost = lost_in(&before, &found)?;
        if let Some(decided) = &before.decided {
            self.repeat(decided, &mut found).await?;
        }
        let mut logs = Vec::with_capacity(before.sequences.len());
        for (shard, since) in (0..).map(ShardId::new).zip(&before.sequences) {
            let mut log = take_log(&mut found, incarnation, shard);
            log.retain(|at, _| at > since);
            let share = Share {
                slice_blocks: before.slice_blocks,
                shards: before.sequences.len() as u64,
                shard,
            };
            let rolled = self.roll_forward(share, *since, log, before.accept_loss);
            logs.push(rolled.await?);
        }
        let last = logs.iter().map(|log| log.through).max().unwrap_or_default();
        let mut state = self.state.borrow_mut();
        for number in numbers {
            if let Some(segment) = state.segments.get_mut(number) {
                segment.state = SegmentState::Sealed;
            }
        }
        state.log.go_on_behind(last);
        let log = Decided {
            incarnation,
            slice_blocks: before.slice_blocks as u32,
            logs,
        };
        Ok(Recovered { log, lost })
    }

    /// Applies logs once more about which everything was decided by an earlier recovery.
    async fn repeat(&self, decided: &Decided, found: &mut Found) -> Result<(), PoolError> {
        for (shard, log) in (0..).map(ShardId::new).zip(&decided.logs) {
            let share = Share {
                slice_blocks: u64::from(decided.slice_blocks),
                shards: decided.logs.len() as u64,
                shard,
            };
            let mut own = take_log(found, decided.incarnation, shard);
            let all = log.since.behind(log.through);
            let counts = all.filter(|at| log.torn.binary_search(at).is_err());
            for sequence in counts {
                let header = own.remove(&sequence);
                let header = header.ok_or(PoolError::LogDamaged(sequence.get()))?;
                self.replay(share, header).await?;
            }
        }
        Ok(())
    }

    /// Applies what one shard wrote; returns what counted. Shards have no block in common, so
    /// their order does not matter.
    async fn roll_forward(
        &self,
        share: Share,
        since: Sequence,
        log: BTreeMap<Sequence, Header>,
        accept_loss: bool,
    ) -> Result<DecidedLog, PoolError> {
        let durable = log.values().map(|header| header.durable_through).max();
        let durable = durable.unwrap_or(since);
        if let Some(missing) = since
            .behind(durable)
            .find(|number| !log.contains_key(number))
        {
            return Err(PoolError::LogDamaged(missing.get()));
        }
        let last = log.keys().next_back().copied().unwrap_or(since);
        if last.stripes_since(durable) > UNDER_WAY_MAX {
            // So many cannot have been under way: acknowledged ones are missing.
            return Err(PoolError::LogDamaged(durable.next().get()));
        }
        // What is behind the last stripe that is whole needs no mention: nothing of it counts.
        let mut torn = Vec::new();
        let mut through = match Mutation::ForgetsTornStripes.is_planted() {
            true => last,
            false => durable,
        };
        for (sequence, header) in log {
            // What is known to have been durable counts, and need not be read again, even if a
            // block has been lost since: reading that block must fail, not give back what was
            // there before.
            if sequence <= durable || self.is_whole(&header, accept_loss).await? {
                torn.extend(through.until(sequence));
                through = through.max(sequence);
                self.replay(share, header).await?;
            }
        }
        Ok(DecidedLog {
            since,
            through,
            torn,
        })
    }

    /// The header in a block, of any of these incarnations.
    fn header_in(
        &self,
        block: &[u8],
        place: Place,
        bounds: Bounds,
        incarnations: &[Incarnation],
    ) -> Option<Header> {
        incarnations.iter().find_map(|incarnation| {
            let incarnation = *incarnation;
            let place = Place {
                incarnation,
                ..place
            };
            Header::decode(&self.secret, place, false, bounds, block)
        })
    }

    /// Reads a stripe and checks every block of it; see [`complete`](Core::complete).
    async fn is_whole(&self, header: &Header, accept_loss: bool) -> Result<bool, PoolError> {
        if Mutation::TakesTornStripes.is_planted() {
            return Ok(true);
        }
        let Some(columns) = self.columns(header.place.segment) else {
            return Ok(false);
        };
        let shape = self.array.shape(columns.len());
        let rows = header.rows.min(self.zone_rows - header.place.row);
        let hidden = |image: &Image| hidden_in(image, header);
        let from = header.place.row;
        // What a drive brought wrong once must not make a stripe torn for good.
        for _ in 0..reads_of_torn() {
            let image = self.read_decided(shape, &columns, (from, rows), accept_loss, hidden);
            if self.complete(&image.await?, &columns, header).await {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for stripes in one segment, behind the rows that the checkpoint knows.
    async fn scan(
        &self,
        number: SegmentNumber,
        (incarnations, accept_loss): (&[Incarnation], bool),
        found: &mut Found,
    ) -> Result<(), PoolError> {
        let Some((columns, generation, start)) = ({
            let state = self.state.borrow();
            let segment = state.segments.get(number);
            segment.map(|found| (found.columns.clone(), found.generation, found.rows))
        }) else {
            return Ok(());
        };
        let first_row = Place {
            segment: number,
            generation,
            row: start,
            incarnation: self.incarnation.get(),
        };
        // Stripes lie one behind the other, so their first column mostly says it all.
        let (mut row, mut end) = (start, start);
        while let Some(headers) = self
            .next_headers(&columns, Place { row, ..first_row }, incarnations)
            .await
        {
            for header in headers {
                row = header.place.row + header.rows;
                end = row;
                found.insert(key(&header), header);
            }
        }
        while row < self.zone_rows {
            let window = Place { row, ..first_row };
            let headers = self.headers_in(&columns, window, (incarnations, accept_loss));
            let headers = headers.await?;
            let Some((_, last)) = headers.last_key_value() else {
                break;
            };
            end = last.place.row + last.rows;
            row = end.max(row + WINDOW_ROWS);
            let headers = headers.into_values();
            found.extend(headers.map(|header| (key(&header), header)));
        }
        if let Some(segment) = self.state.borrow_mut().segments.get_mut(number) {
            segment.rows = end.min(self.zone_rows);
        }
        Ok(())
    }

    /// The headers of stripes in a window of rows from `place` on, by their rows, whichever column
    /// is wrong.
    async fn headers_in(
        &self,
        columns: &[Option<Zone>],
        place: Place,
        (incarnations, accept_loss): (&[Incarnation], bool),
    ) -> Result<BTreeMap<u32, Header>, PoolError> {
        let (shape, bounds) = (self.array.shape(columns.len()), self.bounds(columns.len()));
        let rows = (self.zone_rows - place.row).min(WINDOW_ROWS);
        let window = place.row..place.row + rows;
        let hidden = |image: &Image| window.clone().find_map(|row| image.undecided(0, row));
        let mut headers = BTreeMap::new();
        for _ in 0..reads_of_torn() {
            let image = self.read_decided(shape, columns, (place.row, rows), accept_loss, hidden);
            let image = image.await?;
            let mut row = window.start;
            while row < window.end {
                let place = Place { row, ..place };
                let decode = |block: &[u8]| self.header_in(block, place, bounds, incarnations);
                let block = image.may_hold_header(row).then(|| {
                    let valid = |block: &[u8]| decode(block).is_some();
                    image.valid_block(0, row, &valid)
                });
                let header = block.flatten().and_then(|(block, _)| decode(&block));
                row += header.as_ref().map_or(1, |header| header.rows);
                headers.extend(header.map(|header| (header.place.row, header)));
            }
            // That column was read before. Where it is gone, each header is rebuilt from its row,
            // and a drive that brings that wrong once must not hide what is there.
            if image.columns.first().is_some_and(Option::is_some) {
                break;
            }
        }
        Ok(headers)
    }

    /// The headers of stripes that lie one behind the other from `place` on, as far as one read of
    /// the first column tells. `None` if there is none.
    async fn next_headers(
        &self,
        columns: &[Option<Zone>],
        place: Place,
        incarnations: &[Incarnation],
    ) -> Option<Vec<Header>> {
        let rows = self.zone_rows.saturating_sub(place.row).min(WINDOW_ROWS);
        if rows == 0 {
            return None;
        }
        let zone = columns.first().copied().flatten();
        let bounds = self.bounds(columns.len());
        let buffer = Buffer::new(rows as usize * BLOCK_BYTES);
        let (buffer, result) = self.array.read_zone(zone, place.row, buffer).await;
        result.ok()?;
        let mut headers: Vec<Header> = Vec::new();
        let mut row = place.row;
        while row < place.row + rows {
            let at = (row - place.row) as usize * BLOCK_BYTES;
            let block = &buffer[at..at + BLOCK_BYTES];
            let place = Place { row, ..place };
            let Some(header) = self.header_in(block, place, bounds, incarnations) else {
                break;
            };
            row += header.rows;
            headers.push(header);
        }
        (!headers.is_empty()).then_some(headers)
    }

    /// Checks every block of a stripe, and writes again what its columns have wrong, redundancy
    /// included. False if a block cannot be had: the stripe is torn.
    pub async fn complete(&self, image: &Image, columns: &[Option<Zone>], header: &Header) -> bool {
        let Some(good) = self.good_columns(image, header) else {
            return false;
        };
        self.rewrite(image, columns, header.place.row, good).await;
        true
    }

    /// The columns of a stripe as they should be. `None` if a block cannot be had.
    pub fn good_columns(&self, image: &Image, header: &Header) -> Option<Vec<Buffer>> {
        let shape = image.shape;
        let bounds = self.bounds(shape.width());
        let rows = header.rows as usize;
        let checksums: Vec<u32> = header.records.iter().filter_map(Record::crc).collect();
        let end = header.place.row + header.rows;
        if checksums.len() + 1 != rows * shape.data || image.first + image.rows < end {
            return None;
        }
        let mut good: Vec<Buffer> = (0..shape.width())
            .map(|_| Buffer::new(rows * BLOCK_BYTES))
            .collect();
        for index in 0..rows * shape.data {
            let at = place(header.place.segment, header.place.row, header.rows, index);
            let decode = |block: &[u8]| {
                Header::decode(&self.secret, header.place, false, bounds, block).is_some()
            };
            let valid = |block: &[u8]| match index.checked_sub(1) {
                Some(data) => crc_fast::crc32_iscsi(block) == checksums[data],
                None => decode(block),
            };
            let (block, _) = image.valid_block(usize::from(at.column), at.row, &valid)?;
            let start = (at.row - header.place.row) as usize * BLOCK_BYTES;
            good[usize::from(at.column)][start..start + BLOCK_BYTES].copy_from_slice(&block);
        }
        let (data, redundant) = good.split_at_mut(shape.data);
        let data: Vec<&[u8]> = data.iter().map(|column| &column[..]).collect();
        redundancy::generate(shape, &data, redundant, 0);
        Some(good)
    }

    /// Writes the columns that differ from what they should be.
    pub async fn rewrite(
        &self,
        image: &Image,
        columns: &[Option<Zone>],
        row: u32,
        good: Vec<Buffer>,
    ) {
        for (column, good) in good.into_iter().enumerate() {
            let (Some(zone), Some(_)) = (columns[column], &image.columns[column]) else {
                continue;
            };
            let wrong = (row..)
                .zip(good.chunks(BLOCK_BYTES))
                .filter(|(row, block)| image.block(column, *row) != Some(*block));
            let wrong = wrong.count() as u64;
            if wrong > 0 {
                self.array
                    .count(|counters| counters.repaired_blocks += wrong);
                if self.array.serving.get() {
                    self.array.corrupt(usize::from(zone.drive), wrong);
                }
                // A drive that refuses is out of the pool from here on.
                let write = self
                    .array
                    .write_zone(zone, row, vec![good], Durability::Durable);
                let _ = write.await;
            }
        }
    }

    /// What a layer itself says about a block, of drives that may not be ready yet.
    async fn find_own_patiently(&self, of: LayerBlock) -> Result<Option<Mapping>, IoError> {
        for _ in 1..READS_MAX {
            match self.find_own(of).await {
                Err(IoError::NotReady) => reactor::sleep(READ_AGAIN_AFTER).await,
                found => return found,
            }
        }
        self.find_own(of).await
    }

    async fn replay(&self, share: Share, mut header: Header) -> Result<(), PoolError> {
        if Mutation::ForgetsHoles.is_planted() {
            let stays = |record: &Record| !matches!(record, Record::Hole { .. });
            header.records.retain(stays);
        }
        let mut counts = BTreeMap::new();
        for record in &header.records {
            let Record::Moved {
                layer,
                block,
                from,
                generation,
                ..
            } = *record
            else {
                continue;
            };
            let layer = self.state.borrow().tables.resolve(layer);
            let Some(layer) = layer else {
                continue;
            };
            let owner = LayerBlock { layer, block };
            let here = match self.find_own_patiently(owner).await {
                // Nothing in the log has replaced it before this, and it was there as of the map:
                // the cleaner looked, and no checkpoint comes between that and its stripe.
                Err(IoError::UnrecoveredRead) => true,
                now => matches!(now?, Some(Mapping::Block(Entry { at, .. })) if at == from),
            };
            let same = self
                .state
                .borrow()
                .segments
                .get(from.segment)
                .map(|found| found.generation);
            counts.insert(owner, here && same == Some(generation));
        }
        let stripe = Completed {
            segment: header.place.segment,
            row: header.place.row,
            rows: header.rows,
            durable_through: header.durable_through,
            records: header.records,
            requests: Vec::new(),
            result: Ok(()),
        };
        self.state
            .borrow_mut()
            .apply(&stripe, share, |_, owner, _| {
                counts.get(&owner).copied().unwrap_or(false)
            });
        Ok(())
    }
}
