//! [`Image`]: some rows of a segment in memory, and what can be told from them.

use crate::drives::redundancy;
use crate::error::PoolError;
use crate::format::stripe::{Header, MAGIC, Record};
use crate::level::Shape;
use crate::location::BLOCK_BYTES;
use crate::segments::zones::Zone;
use crate::shard::core::Core;
use crate::stripes::item::place;
use block::{BlockDevice, Buffer, IoError};
use std::collections::BTreeSet;
use std::time::Duration;

/// Rows that say neither yes nor no are read so often, and after so long again.
pub(crate) const READS_MAX: usize = 10;
pub(crate) const READ_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Bytes of a block in which a header's beginning is sought.
const HEAD_BYTES: usize = 64;

/// Some rows of a segment in memory.
pub(crate) struct Image {
    pub shape: Shape,
    pub first: u32,
    pub rows: u32,
    pub columns: Vec<Option<ImageColumn>>,
}

/// Some rows of one column.
pub(crate) struct ImageColumn {
    bytes: Buffer,
    /// Rows of the image that the drive would not read.
    unreadable: BTreeSet<u32>,
}

impl Image {
    pub fn block(&self, column: usize, row: u32) -> Option<&[u8]> {
        let found = self.columns.get(column)?.as_ref()?;
        let row = row - self.first;
        let start = row as usize * BLOCK_BYTES;
        let bytes = found.bytes.get(start..start + BLOCK_BYTES)?;
        (!found.unreadable.contains(&row)).then_some(bytes)
    }

    /// Columns that are lacking where too many are to tell what one has in a row, be it that it has
    /// nothing. Drives that are gone say so by themselves: one has to be there and not read.
    pub fn undecided(&self, column: usize, row: u32) -> Option<usize> {
        let lacks = |column: usize| self.block(column, row).is_none();
        let shape = self.shape;
        let lacking = (0..shape.width()).filter(|column| lacks(*column)).count();
        let hidden = lacks(column)
            && match shape.mirrors() {
                true => shape.copies(column % shape.data).all(lacks),
                false => lacking > shape.redundant,
            };
        let mut there = self.columns.iter().flatten();
        let refuses = there.any(|found| found.unreadable.contains(&(row - self.first)));
        (hidden && refuses).then_some(lacking)
    }

    /// False where no header begins, whatever column is wrong: what is mostly so is found out from
    /// the first bytes of each.
    pub fn may_hold_header(&self, row: u32) -> bool {
        let begins = |head: &[u8]| head.starts_with(&MAGIC);
        let head = |column| Some(&self.block(column, row)?[..HEAD_BYTES]);
        let heads: Vec<Option<&[u8]>> = (0..self.shape.width()).map(head).collect();
        heads[0].is_some_and(begins)
            || redundancy::rebuild(self.shape, &heads, 0, &begins).is_some()
    }

    /// The block as it should be: from its column or rebuilt. `true`: its column has it wrong.
    pub fn valid_block(
        &self,
        column: usize,
        row: u32,
        valid: &dyn Fn(&[u8]) -> bool,
    ) -> Option<(Buffer, bool)> {
        if let Some(block) = self.block(column, row)
            && valid(block)
        {
            return Some((Buffer::copy_of(block), false));
        }
        let blocks: Vec<Option<&[u8]>> = (0..self.shape.width())
            .map(|column| self.block(column, row))
            .collect();
        let rebuilt = redundancy::rebuild(self.shape, &blocks, column, valid)?;
        Some((rebuilt, true))
    }
}

/// Columns that are lacking where they may hide that a stripe is whole: no block of it that can be
/// read says that it is not.
pub(crate) fn hidden_in(image: &Image, header: &Header) -> Option<usize> {
    let checksums = header.records.iter().filter_map(Record::crc);
    let mut hidden = None;
    for (index, checksum) in (1..).zip(checksums) {
        let at = place(header.place.segment, header.place.row, header.rows, index);
        let column = usize::from(at.column);
        match image.block(column, at.row) {
            Some(block) if crc_fast::crc32_iscsi(block) != checksum => return None,
            Some(_) => {}
            None => hidden = hidden.or_else(|| image.undecided(column, at.row)),
        }
    }
    hidden
}

impl<D: BlockDevice + 'static> Core<D> {
    /// Reads some rows of every column; a column whose drive is gone is not there.
    pub async fn read_image(
        &self,
        shape: Shape,
        columns: &[Option<Zone>],
        first: u32,
        rows: u32,
    ) -> Image {
        let reads = columns.iter().map(|zone| async move {
            let buffer = Buffer::new(rows as usize * BLOCK_BYTES);
            let (mut buffer, result) = self.array.read_zone(*zone, first, buffer).await;
            let mut unreadable = BTreeSet::new();
            if result.is_ok() {
                return Some(ImageColumn {
                    bytes: buffer,
                    unreadable,
                });
            }
            // One bad block must not hide the others.
            for row in 0..rows {
                let one = Buffer::new(BLOCK_BYTES);
                let (one, result) = self.array.read_zone(*zone, first + row, one).await;
                let range = row as usize * BLOCK_BYTES..(row as usize + 1) * BLOCK_BYTES;
                match result {
                    Ok(()) => buffer[range].copy_from_slice(&one),
                    Err(IoError::DeviceGone) => return None,
                    Err(_) => drop(unreadable.insert(row)),
                }
            }
            Some(ImageColumn {
                bytes: buffer,
                unreadable,
            })
        });
        Image {
            shape,
            first,
            rows,
            columns: crate::join::join_all(reads).await,
        }
    }

    /// Reads some rows, again and again while columns that do not read may hide something there:
    /// acknowledged writes must not be taken for never written because drives were not ready.
    pub async fn read_decided(
        &self,
        shape: Shape,
        columns: &[Option<Zone>],
        (first, rows): (u32, u32),
        accept_loss: bool,
        hidden: impl Fn(&Image) -> Option<usize>,
    ) -> Result<Image, PoolError> {
        let mut reads = 1;
        loop {
            let image = self.read_image(shape, columns, first, rows).await;
            match hidden(&image) {
                None => return Ok(image),
                Some(_) if accept_loss => return Ok(image),
                Some(drives) if reads == READS_MAX => {
                    return Err(PoolError::LogUnreadable { drives });
                }
                Some(_) => reads += 1,
            }
            reactor::sleep(READ_AGAIN_AFTER).await;
        }
    }
}
