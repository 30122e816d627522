//! The contents of a device that something else wrote: seen before it is taken, gone afterwards.
//!
//! File systems, partition tables and members of arrays announce themselves in the first or the
//! last mebibytes of a device. Anything there that is not zero is content, known or not; a table
//! of signatures only gives it a name. The reasons: docs/decisions/drive-contents.md.

mod signatures;
mod table;

use std::fmt;

use block::{BlockDevice, BlockRange, Buffer, Durability, Geometry, IoError, Lba};

use self::signatures::{Ends, Found, mirror};
use self::table::BTRFS_MIRRORS;

/// So much of each end of a device is looked at, and wiped. All that libblkid (util-linux 2.41)
/// looks for is within; the second header of LUKS2 is the farthest from an end, 4 MiB.
const END_BYTES: u64 = 8 << 20;

/// Copies of a superblock between the ends are looked at, and wiped, this far.
const MIRROR_BYTES: u64 = 4096;

/// A device is told to forget what it holds in pieces of this size.
const FORGET_BYTES: u64 = 64 << 30;

/// Content of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    known: Vec<Found>,
    /// The first byte that is something, of those looked at.
    first_byte: u64,
}

impl Contents {
    /// Whether any of it is known by a signature.
    pub fn has_name(&self) -> bool {
        !self.known.is_empty()
    }
}

impl fmt::Display for Contents {
    /// A phrase such as "an ext4 file system, UUID ...".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, found) in self.known.iter().enumerate() {
            let before = if index == 0 { "" } else { " and " };
            write!(formatter, "{before}{found}")?;
        }
        if self.known.is_empty() {
            write!(
                formatter,
                "data of a kind that is not known, from byte {} on",
                self.first_byte
            )?;
        }
        Ok(())
    }
}

/// Says what a device holds; `None` if nothing. `rest` has what lies behind its last whole block.
///
/// # Errors
/// The device's, where an end cannot be read.
pub async fn contents<D: BlockDevice>(
    device: &D,
    rest: &[u8],
) -> Result<Option<Contents>, IoError> {
    let geometry = device.geometry();
    let [head, tail] = ends(&geometry);
    let head = read(device, head).await?;
    let mut tail = read(device, tail).await?;
    tail.extend_from_slice(rest);
    let ends = Ends::new(head, tail, geometry.capacity_bytes() + rest.len() as u64);
    let mut known = ends.signatures();
    for range in mirrors(&geometry) {
        known.extend(mirror(&read(device, range).await?));
    }
    let first_byte = ends.first_byte();
    if known.is_empty() && first_byte.is_none() {
        return Ok(None);
    }
    Ok(Some(Contents {
        known,
        first_byte: first_byte.unwrap_or(0),
    }))
}

/// Says what a device holds before a label that begins at byte `end`; `None` if nothing.
///
/// # Errors
/// The device's, where it cannot be read.
pub async fn contents_before<D: BlockDevice>(
    device: &D,
    end: u64,
) -> Result<Option<Contents>, IoError> {
    let head = read(device, before(&device.geometry(), end)).await?;
    let ends = Ends::new(head, Vec::new(), device.geometry().capacity_bytes());
    let first_byte = ends.first_byte();
    Ok(first_byte.map(|first_byte| Contents {
        known: ends.signatures(),
        first_byte,
    }))
}

/// Makes a device hold nothing before a label that begins at byte `end`, durably.
///
/// # Errors
/// The device's.
pub async fn wipe_before<D: BlockDevice>(device: &D, end: u64) -> Result<(), IoError> {
    let range = before(&device.geometry(), end);
    device.write_zeroes(range, Durability::Cached).await?;
    device.flush().await
}

/// Makes a device hold nothing that anybody would recognise, durably. Where it can forget what it
/// holds, it is told to forget everything.
///
/// # Errors
/// The device's; what it held is then partly gone.
pub async fn wipe<D: BlockDevice>(device: &D) -> Result<(), IoError> {
    forget(device).await;
    let geometry = device.geometry();
    for range in ends(&geometry).into_iter().chain(mirrors(&geometry)) {
        device.write_zeroes(range, Durability::Cached).await?;
    }
    device.flush().await
}

/// Tells a device that what it holds is no longer needed. It is advice: one that does not take it
/// keeps what nobody recognises.
pub async fn forget<D: BlockDevice>(device: &D) {
    let geometry = device.geometry();
    if !geometry.deallocates {
        return;
    }
    let piece = FORGET_BYTES / u64::from(geometry.block_bytes);
    for start in (0..geometry.block_count).step_by(piece as usize) {
        let blocks = piece.min(geometry.block_count - start);
        let range = BlockRange::new(Lba(start), blocks);
        if device.deallocate(range).await.is_err() {
            return;
        }
    }
}

/// Both ends of a device; the second one is empty where the first is all of it.
fn ends(geometry: &Geometry) -> [BlockRange; 2] {
    let blocks = geometry.block_count;
    let end = END_BYTES / u64::from(geometry.block_bytes);
    let head = end.min(blocks);
    let tail = end.min(blocks - head);
    [
        BlockRange::new(Lba(0), head),
        BlockRange::new(Lba(blocks - tail), tail),
    ]
}

/// The blocks before a byte.
fn before(geometry: &Geometry, end: u64) -> BlockRange {
    let blocks = end / u64::from(geometry.block_bytes);
    BlockRange::new(Lba(0), blocks.min(geometry.block_count))
}

/// Places between the ends where copies of superblocks are.
fn mirrors(geometry: &Geometry) -> Vec<BlockRange> {
    let block_bytes = u64::from(geometry.block_bytes);
    let inside = |at: &u64| at + MIRROR_BYTES <= geometry.capacity_bytes();
    let places = BTRFS_MIRRORS.into_iter().filter(inside);
    let range = |at: u64| BlockRange::new(Lba(at / block_bytes), MIRROR_BYTES / block_bytes);
    places.map(range).collect()
}

async fn read<D: BlockDevice>(device: &D, range: BlockRange) -> Result<Vec<u8>, IoError> {
    if range.blocks == 0 {
        return Ok(Vec::new());
    }
    let block_bytes = u64::from(device.geometry().block_bytes);
    let piece = (1 << 20) / block_bytes;
    let mut bytes = Vec::with_capacity((range.blocks * block_bytes) as usize);
    for start in (0..range.blocks).step_by(piece as usize) {
        let blocks = piece.min(range.blocks - start);
        let buffer = Buffer::new((blocks * block_bytes) as usize);
        let (buffer, result) = device.read(Lba(range.start.0 + start), buffer).await;
        result?;
        bytes.extend_from_slice(&buffer);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
