//! Copying a column of a segment to another zone. Every block is checked by its checksum, and
//! rebuilt where it is wrong; parity is made anew.

use crate::format::stripe::{Header, Place, ROWS_MAX, Record};
use crate::level::Shape;
use crate::location::BLOCK_BYTES;
use crate::recovery::image::Image;
use crate::segments::attempts::Stuck;
use crate::segments::zones::Zone;
use crate::segments::{ColumnMove, Segment};
use crate::shard::coordinator::Coordinator;
use crate::shard::pace::Pace;
use block::{BlockDevice, Buffer, Durability};
use std::ops::Range;
use std::time::Duration;

/// Rows that are copied in one go, while upkeep waits: many stripes, for each costs a look whether
/// the pool is still this host's.
const WINDOW_ROWS: u32 = 8 * ROWS_MAX;

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Whole,
    /// A block can be had neither from its zone nor from its row, for now or for good.
    Stuck(Stuck),
    /// The segment is no longer what it was, or its new drive has gone, or the pool stops.
    GivenUp,
}

/// Some rows of a segment of which one column is copied.
struct Rows<'a> {
    wanted: &'a ColumnMove,
    segment: &'a Segment,
    image: Image,
}

/// The data column whose blocks a column holds; none for parity.
fn data_in(shape: Shape, column: usize) -> Option<usize> {
    match shape.mirrors() {
        true => Some(column % shape.data),
        false => (column < shape.data).then_some(column),
    }
}

impl<D: BlockDevice + 'static> Coordinator<D> {
    /// Copies a column, window by window, and gives way to hosts. It is durable once the drives are
    /// flushed.
    pub async fn copy(&self, wanted: &ColumnMove, pace: &mut Pace) -> Copied {
        let mut row = 0;
        loop {
            self.give_way(pace).await;
            // Who closes the pool takes the lock after saying so, and a drive joins under it.
            let _alone = self.upkeep_lock.lock().await;
            if self.ends() {
                return Copied::GivenUp;
            }
            let segment = {
                let state = self.shard.state.borrow();
                let segments = &state.segments;
                let there = segments.has(wanted) && segments.zones().is_filling(wanted.to);
                segments.get(wanted.number).filter(|_| there).cloned()
            };
            let Some(segment) = segment else {
                return Copied::GivenUp;
            };
            if row >= segment.rows {
                return Copied::Whole;
            }
            let rows = (segment.rows - row).min(WINDOW_ROWS);
            let copied = self.copy_rows(wanted, &segment, row, rows).await;
            if !self.shard.array.newly_failed.borrow().is_empty() {
                self.shard.upkeep.notify_one();
            }
            match copied {
                Ok(next) => row = next,
                Err(end) => return end,
            }
        }
    }

    /// A writer that waits for space waits for this, perhaps.
    async fn give_way(&self, pace: &mut Pace) {
        let due = match self.a_writer_waits() {
            true => Duration::ZERO,
            false => pace.due(&self.shard),
        };
        match due {
            Duration::ZERO => reactor::yield_now().await,
            due => drop(reactor::timeout(due, self.unbalanced.notified()).await),
        }
        *pace = Pace::new(&self.shard);
    }

    /// Copies some rows; returns the one to go on from.
    async fn copy_rows(
        &self,
        wanted: &ColumnMove,
        segment: &Segment,
        first: u32,
        rows: u32,
    ) -> Result<u32, Copied> {
        let shape = self.shard.array.shape(segment.columns.len());
        let parity = data_in(shape, wanted.column).is_none();
        // The headers, what is to be copied, and for parity what it is made of.
        let needed = |(column, zone): (usize, &Option<Zone>)| {
            zone.filter(|_| column == 0 || column == wanted.column || parity)
        };
        let needed: Vec<Option<Zone>> = segment.columns.iter().enumerate().map(needed).collect();
        let rows = Rows {
            wanted,
            segment,
            image: self.shard.read_image(shape, &needed, first, rows).await,
        };
        let end = first + rows.image.rows;
        let mut copy = Vec::with_capacity(rows.image.rows as usize * BLOCK_BYTES);
        let mut row = first;
        while row < end {
            let header = self.header_at(&rows, row).await?;
            let next = row + header.as_ref().map_or(1, |header| header.rows.max(1));
            if next > end && row > first {
                break;
            }
            let stripe = self.good_stripe(&rows, row..next.min(end), header.as_ref());
            copy.extend_from_slice(&stripe.await?);
            row = next.min(end);
        }
        let copy = vec![Buffer::copy_of(&copy)];
        // Whoever has the pool by now may have filled that zone.
        self.verify().await.map_err(|_| Copied::GivenUp)?;
        let write = self
            .shard
            .array
            .write_zone(wanted.to, first, copy, Durability::Cached);
        write.await.1.map_err(|_| Copied::GivenUp)?;
        Ok(row)
    }

    /// The header of the stripe that begins in a row; none where a stripe was torn.
    async fn header_at(&self, rows: &Rows<'_>, row: u32) -> Result<Option<Header>, Copied> {
        let place = Place {
            segment: rows.wanted.number,
            generation: rows.segment.generation,
            row,
            incarnation: self.shard.incarnation.get(),
        };
        let bounds = self.shard.bounds(rows.segment.columns.len());
        let decode = |block: &[u8]| Header::decode(&self.shard.secret, place, true, bounds, block);
        if let Some(header) = rows.image.block(0, row).and_then(decode) {
            return Ok(Some(header));
        }
        let read = self.shard.read_header(&rows.segment.columns, place).await;
        read.map_err(|error| Copied::Stuck(Stuck::by(error)))
    }

    /// What a column should have in the rows of a stripe.
    async fn good_stripe(
        &self,
        rows: &Rows<'_>,
        stripe: Range<u32>,
        header: Option<&Header>,
    ) -> Result<Vec<u8>, Copied> {
        let (image, column) = (&rows.image, rows.wanted.column);
        let mut good = Vec::with_capacity(stripe.len() * BLOCK_BYTES);
        let data = data_in(image.shape, column);
        if let (Some(header), Some(data)) = (header, data) {
            for row in stripe {
                let index = data * header.rows as usize + (row - header.place.row) as usize;
                good.extend_from_slice(&self.good_block(rows, row, header, index).await?);
            }
            return Ok(good);
        }
        if let Some(made) = header.and_then(|header| self.shard.good_columns(image, header)) {
            let found = stripe.zip(made[column].chunks(BLOCK_BYTES));
            let wrong = found.filter(|(row, block)| image.block(column, *row) != Some(*block));
            self.found_wrong(rows.wanted.from, wrong.count() as u64);
            return Ok(made[column].to_vec());
        }
        // Torn by a power failure: it is nobody's.
        for row in stripe {
            match image.block(column, row) {
                Some(block) => good.extend_from_slice(block),
                None => good.extend_from_slice(&self.read_again(rows, row).await?),
            }
        }
        Ok(good)
    }

    /// A block of a data column, the one of this index in its stripe, or a copy of it.
    async fn good_block(
        &self,
        rows: &Rows<'_>,
        row: u32,
        header: &Header,
        index: usize,
    ) -> Result<Buffer, Copied> {
        let checksum = index.checked_sub(1).map(|before| {
            let mut checksums = header.records.iter().filter_map(Record::crc);
            checksums.nth(before)
        });
        let bounds = self.shard.bounds(rows.segment.columns.len());
        let valid = |block: &[u8]| match checksum {
            None => {
                Header::decode(&self.shard.secret, header.place, false, bounds, block).is_some()
            }
            Some(checksum) => Some(crc_fast::crc32_iscsi(block)) == checksum,
        };
        let (columns, column) = (&rows.segment.columns, rows.wanted.column);
        if let Some(block) = rows.image.block(column, row).filter(|block| valid(block)) {
            return Ok(Buffer::copy_of(block));
        }
        let rebuilt = self
            .shard
            .array
            .rebuild(columns, column, row, Ok(()), &valid);
        let why = match rebuilt.await {
            Ok(rebuilt) => {
                self.found_wrong(rows.wanted.from, 1);
                return Ok(rebuilt);
            }
            Err(error) => Stuck::by(error),
        };
        // A stripe that was torn has such blocks, and they are nobody's: it goes over as it is if
        // that is what the drive has, and not what became of it on the way here.
        let again = self.read_again(rows, row).await?;
        let same = rows.image.block(column, row) == Some(&again[..]);
        match same || valid(&again) {
            true => Ok(again),
            false => Err(Copied::Stuck(why)),
        }
    }

    /// A block of the column that is copied, once more from where it is.
    async fn read_again(&self, rows: &Rows<'_>, row: u32) -> Result<Buffer, Copied> {
        let from = Some(rows.wanted.from);
        let one = Buffer::new(BLOCK_BYTES);
        let (again, read) = self.shard.array.read_zone(from, row, one).await;
        read.map_err(|error| Copied::Stuck(Stuck::by(error)))?;
        Ok(again)
    }

    /// Blocks of a zone are other than they should be, and right in the copy.
    fn found_wrong(&self, zone: Zone, blocks: u64) {
        if blocks > 0 {
            self.shard
                .array
                .count(|counters| counters.repaired_blocks += blocks);
            self.shard.array.corrupt(usize::from(zone.drive), blocks);
        }
    }
}
