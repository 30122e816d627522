//! RAID 6 as it is usually done: every block has its place, and a small write reads what it
//! replaces. The baseline beside which a log of write-once stripes is measured.
//!
//! A write of one block costs three reads (old data, P, Q) and then three writes; a write of more
//! than half a row of columns reads the other columns instead, and a write of whole rows reads
//! nothing. Up to two drives may be lost at a time, by [`InplaceRaid6::fail`] or by an error of
//! the drive: reads then reconstruct, and writes keep the parity of what is lost. There is no
//! journal and no write-intent bitmap: after a crash in the middle of a write, parity may disagree
//! with the data (the write hole).

mod layout;
mod rows;
mod stripe;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ops::Range;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba, write_joined};
use parity::{Column, MAX_DATA_COLUMNS};

use crate::join::join_all;
use layout::{Layout, Piece};
use rows::RowLocks;

/// Largest piece that write-zeroes writes at once.
const ZEROES_BYTES: usize = 1 << 20;

/// Why drives do not make an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// The number of drives is out of bounds.
    #[error("{0} drives; allowed: 4 to {max}", max = MAX_DATA_COLUMNS + 2)]
    Drives(usize),
    /// The drives' block sizes differ.
    #[error("drives of {0} and of {1} bytes a block")]
    BlockBytes(u32, u32),
    /// A strip is not a whole number of blocks, or the smallest drive has no room for one.
    #[error("a strip of {0} bytes does not suit the drives")]
    StripBytes(u32),
    /// A drive failed while it was prepared.
    #[error("preparing a drive: {0}")]
    Io(IoError),
}

/// What the array has asked of its drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read operations.
    pub reads: u64,
    /// Blocks read.
    pub read_blocks: u64,
    /// Write operations.
    pub writes: u64,
    /// Blocks written.
    pub written_blocks: u64,
}

struct Member<D> {
    drive: D,
    lost: Cell<bool>,
}

/// An array of 4 or more drives, of which any two may be lost.
pub struct InplaceRaid6<D> {
    members: Vec<Member<D>>,
    layout: Layout,
    geometry: Geometry,
    rows: RowLocks,
    traffic: Cell<Traffic>,
}

impl<D: BlockDevice> InplaceRaid6<D> {
    /// An array over `drives` whose parity is in order, with strips of `strip_bytes`; each drive
    /// is used as far as the smallest one reaches.
    ///
    /// # Errors
    /// When the drives or the strip are not fit for it.
    pub fn open(drives: Vec<D>, strip_bytes: u32) -> Result<InplaceRaid6<D>, ArrayError> {
        let count = drives.len();
        let geometries: Vec<Geometry> = drives.iter().map(D::geometry).collect();
        let (Some(first), 4..) = (geometries.first(), count) else {
            return Err(ArrayError::Drives(count));
        };
        if count > MAX_DATA_COLUMNS + 2 {
            return Err(ArrayError::Drives(count));
        }
        let block_bytes = first.block_bytes;
        if let Some(other) = geometries
            .iter()
            .find(|other| other.block_bytes != block_bytes)
        {
            return Err(ArrayError::BlockBytes(block_bytes, other.block_bytes));
        }
        let strip_blocks = u64::from(strip_bytes / block_bytes);
        let smallest = geometries.iter().map(|geometry| geometry.block_count).min();
        let stripes = smallest.unwrap_or(0).checked_div(strip_blocks).unwrap_or(0);
        if stripes == 0 || !strip_bytes.is_multiple_of(block_bytes) {
            return Err(ArrayError::StripBytes(strip_bytes));
        }
        let layout = Layout {
            drives: count,
            strip_blocks,
            stripes,
        };
        let blocks = stripes * layout.stripe_blocks();
        let mut geometry =
            Geometry::new(block_bytes, blocks).map_err(|_| ArrayError::StripBytes(strip_bytes))?;
        geometry.optimal_write_blocks = u32::try_from(layout.stripe_blocks()).unwrap_or(u32::MAX);
        geometry.volatile_write_cache = geometries.iter().any(|drive| drive.volatile_write_cache);
        let member = |drive| Member {
            drive,
            lost: Cell::new(false),
        };
        Ok(InplaceRaid6 {
            members: drives.into_iter().map(member).collect(),
            layout,
            geometry,
            rows: RowLocks::default(),
            traffic: Cell::default(),
        })
    }

    /// Like [`InplaceRaid6::open`], after zeroing the drives so that parity is in order.
    ///
    /// # Errors
    /// Also when a drive cannot be zeroed.
    pub async fn create(drives: Vec<D>, strip_bytes: u32) -> Result<InplaceRaid6<D>, ArrayError> {
        let array = InplaceRaid6::open(drives, strip_bytes)?;
        let used = BlockRange::new(Lba(0), array.layout.stripes * array.layout.strip_blocks);
        for member in &array.members {
            let zeroed = member.drive.write_zeroes(used, Durability::Cached).await;
            zeroed.map_err(ArrayError::Io)?;
        }
        Ok(array)
    }

    /// Stops using drive number `drive`; false if there is no such drive.
    pub fn fail(&self, drive: usize) -> bool {
        self.members
            .get(drive)
            .inspect(|member| member.lost.set(true))
            .is_some()
    }

    /// How many drives are lost.
    pub fn lost_drives(&self) -> usize {
        self.members
            .iter()
            .filter(|member| member.lost.get())
            .count()
    }

    /// What the array has asked of its drives since it was opened.
    pub fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// The drives, in order.
    pub fn drives(&self) -> impl Iterator<Item = &D> {
        self.members.iter().map(|member| &member.drive)
    }

    fn member(&self, stripe: u64, column: Column) -> &Member<D> {
        &self.members[self.layout.drive_of(stripe, column)]
    }

    fn has(&self, stripe: u64, column: Column) -> bool {
        !self.member(stripe, column).lost.get()
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    fn bytes_of(&self, rows: &Range<u64>) -> usize {
        (rows.end - rows.start) as usize * self.block_bytes()
    }

    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }

    /// The run of blocks that `bytes` bytes from `start` are.
    fn request(&self, start: Lba, bytes: usize) -> Result<BlockRange, IoError> {
        if bytes == 0 || !bytes.is_multiple_of(self.block_bytes()) {
            return Err(IoError::InvalidRequest);
        }
        self.geometry
            .range_of_bytes(start, bytes)
            .ok_or(IoError::OutOfRange)
    }
}

impl<D: BlockDevice> BlockDevice for InplaceRaid6<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, start: Lba, mut buffer: Buffer) -> (Buffer, Result<(), IoError>) {
        let range = match self.request(start, buffer.len()) {
            Ok(range) => range,
            Err(error) => return (buffer, Err(error)),
        };
        let pieces: Vec<Piece> = self.layout.pieces(range).collect();
        if let [piece] = &pieces[..] {
            return self.read_piece(piece, buffer).await;
        }
        let reads = pieces
            .iter()
            .map(|piece| self.read_piece(piece, Buffer::new(self.bytes_of(&piece.rows))));
        for (piece, (read, result)) in pieces.iter().zip(join_all(reads).await) {
            if result.is_err() {
                return (buffer, result);
            }
            let at = piece.at_block as usize * self.block_bytes();
            buffer[at..at + read.len()].copy_from_slice(&read);
        }
        (buffer, Ok(()))
    }

    async fn write(
        &self,
        start: Lba,
        buffer: Buffer,
        durability: Durability,
    ) -> (Buffer, Result<(), IoError>) {
        let range = match self.request(start, buffer.len()) {
            Ok(range) => range,
            Err(error) => return (buffer, Err(error)),
        };
        let bands = self.layout.bands(range);
        let writes = bands
            .iter()
            .map(|band| self.write_band(band, &buffer, durability));
        let results = join_all(writes).await;
        (buffer, results.into_iter().collect())
    }

    async fn write_vectored(
        &self,
        start: Lba,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> (Vec<Buffer>, Result<(), IoError>) {
        write_joined(self, start, buffers, durability).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let live = self.members.iter().filter(|member| !member.lost.get());
        let flushes = live.map(|member| async move {
            if member.drive.flush().await.is_err() {
                member.lost.set(true);
            }
        });
        join_all(flushes).await;
        if self.lost_drives() > 2 {
            Err(IoError::WriteFault)
        } else {
            Ok(())
        }
    }

    async fn deallocate(&self, range: BlockRange) -> Result<(), IoError> {
        // Parity covers what is there: no drive may forget a block behind the array's back.
        if self.geometry.contains(range) {
            Ok(())
        } else {
            Err(IoError::OutOfRange)
        }
    }

    async fn write_zeroes(&self, range: BlockRange, durability: Durability) -> Result<(), IoError> {
        if !self.geometry.contains(range) {
            return Err(IoError::OutOfRange);
        }
        let most = (ZEROES_BYTES / self.block_bytes()) as u64;
        let mut done = 0;
        while done < range.blocks {
            let blocks = most.min(range.blocks - done);
            let zeroes = Buffer::zeroed(blocks as usize * self.block_bytes());
            self.write(Lba(range.start.0 + done), zeroes, durability)
                .await
                .1?;
            done += blocks;
        }
        Ok(())
    }
}
