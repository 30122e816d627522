//! Superblock slots on drives: reading both, writing one, and saying whose a drive is.

use crate::drive::{DriveLayout, FIRST_SLOT, device_blocks, read_blocks, write_blocks};
use crate::error::PoolError;
use crate::format::superblock::{MEMBER_ACTIVE, Newer, NotSuperblock, Superblock, VERSION};
use crate::level::Level;
use crate::location::BLOCK_BYTES;
use block::{BlockDevice, Buffer, Durability, IoError};

/// Identifies a pool for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub [u8; 16]);

/// Identifies a drive of a pool for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub [u8; 16]);

/// Identifies a host that holds pools; all zeroes stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub [u8; 16]);

/// Sixteen bytes in hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a drive's label says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The pool's name.
    pub pool_name: String,
    /// The pool's level.
    pub level: Level,
    /// This drive.
    pub drive: DriveId,
    /// Its position among the members.
    pub index: usize,
    /// How many members the pool has.
    pub members: usize,
    /// The newest membership that this drive knows.
    pub epoch: u64,
    /// The members that work, as of that membership.
    pub active: Vec<DriveId>,
    /// The host that holds the pool; `None` after an export.
    pub holder: Option<HostId>,
}

/// A valid slot: the superblock and its tables.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub superblock: Superblock,
    pub body: Vec<u8>,
    /// It is the one at the drive's end.
    pub odd: bool,
    /// The other one has a superblock whose tables were never written whole.
    pub torn_beside: bool,
    /// There is no other one that is whole.
    pub alone: bool,
    /// The largest number of a superblock on the drive.
    pub last_sequence: u64,
}

impl Slot {
    /// See [`Superblock::rank`].
    pub fn rank(&self) -> (u64, u64, u64) {
        self.superblock.rank()
    }

    pub fn layout(&self) -> DriveLayout {
        DriveLayout {
            blocks: self.superblock.drive_blocks.get(),
            zone_base: self.superblock.zone_base.get(),
            zone_blocks: self.superblock.zone_blocks.get(),
            slot_blocks: self.superblock.slot_blocks.get(),
        }
    }
}

/// What a drive carries.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Blank,
    Newer(Newer),
    Slot(Box<Slot>),
}

/// Reads both slots of a drive and returns the later valid one.
pub(crate) async fn find<D: BlockDevice>(device: &D) -> Result<Found, IoError> {
    let blocks = device_blocks(device);
    let mut best: Option<Slot> = None;
    let (mut torn, mut whole) = ([false; 2], 0);
    let mut last_sequence = 0;
    let mut newer = None;
    let mut failure = None;
    for odd in [false, true] {
        let at = superblock_at(blocks, odd);
        if at >= blocks {
            continue;
        }
        let (buffer, result) = read_blocks(device, at, Buffer::new(BLOCK_BYTES)).await;
        if let Err(error) = result {
            failure = Some(error);
            continue;
        }
        match Superblock::parse(&buffer) {
            Ok(superblock) => {
                last_sequence = last_sequence.max(superblock.sequence.get());
                let slot = read_body(device, superblock, odd, at).await;
                torn[usize::from(odd)] = slot.is_none();
                whole += usize::from(slot.is_some());
                let later =
                    |slot: &Slot| best.as_ref().is_none_or(|best| slot.rank() > best.rank());
                best = slot.filter(later).or(best);
            }
            Err(NotSuperblock::Newer(found)) => newer = Some(found),
            Err(NotSuperblock::Foreign | NotSuperblock::Damaged) => {}
        }
    }
    match (best, newer, failure) {
        (_, Some(newer), _) => Ok(Found::Newer(newer)),
        (Some(mut slot), None, _) => {
            slot.torn_beside = torn[usize::from(!slot.odd)];
            slot.alone = whole == 1;
            slot.last_sequence = last_sequence;
            Ok(Found::Slot(Box::new(slot)))
        }
        (None, None, Some(error)) => Err(error),
        (None, None, None) => Ok(Found::Blank),
    }
}

/// The superblocks of a drive, be their tables torn or not. A block that the drive cannot read has
/// none: whoever wrote one there since would have made it readable.
pub(crate) async fn heads<D: BlockDevice>(device: &D) -> Result<[Option<Superblock>; 2], IoError> {
    let blocks = device_blocks(device);
    let mut heads = [None, None];
    for odd in [false, true] {
        let at = superblock_at(blocks, odd);
        let (buffer, result) = read_blocks(device, at, Buffer::new(BLOCK_BYTES)).await;
        match result {
            Ok(()) => heads[usize::from(odd)] = Superblock::parse(&buffer).ok(),
            Err(IoError::UnrecoveredRead) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(heads)
}

/// Where the superblock of a slot lies; its tables are on the drive's inner side of it.
fn superblock_at(blocks: u64, odd: bool) -> u64 {
    match odd {
        false => FIRST_SLOT,
        true => blocks.saturating_sub(1),
    }
}

async fn read_body<D: BlockDevice>(
    device: &D,
    superblock: Superblock,
    odd: bool,
    at: u64,
) -> Option<Slot> {
    let bytes = superblock.body_bytes.get() as usize;
    let blocks = bytes.div_ceil(BLOCK_BYTES) as u64;
    if blocks >= u64::from(superblock.slot_blocks.get()) {
        return None;
    }
    let start = if odd { at.checked_sub(blocks)? } else { at + 1 };
    let mut body = Vec::new();
    if blocks > 0 {
        let buffer = Buffer::new(blocks as usize * BLOCK_BYTES);
        let (buffer, result) = read_blocks(device, start, buffer).await;
        result.ok()?;
        body.extend_from_slice(&buffer[..bytes]);
    }
    (crc_fast::crc32_iscsi(&body) == superblock.body_checksum.get()).then_some(Slot {
        superblock,
        body,
        odd,
        torn_beside: false,
        alone: false,
        last_sequence: 0,
    })
}

/// Writes a superblock and its tables to the slot of its sequence number, durably.
pub(crate) async fn write<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    layout: DriveLayout,
    body: &[u8],
) -> Result<(), IoError> {
    let odd = !superblock.sequence.get().is_multiple_of(2);
    write_in(device, superblock, layout, odd, body).await
}

/// Writes a superblock and its tables to a slot, durably.
pub(crate) async fn write_in<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    layout: DriveLayout,
    odd: bool,
    body: &[u8],
) -> Result<(), IoError> {
    let mut sealed = superblock.clone();
    sealed.drive_blocks = layout.blocks.into();
    sealed.zone_base = layout.zone_base.into();
    sealed.zone_blocks = layout.zone_blocks.into();
    sealed.slot_blocks = layout.slot_blocks.into();
    sealed.body_bytes = (body.len() as u32).into();
    sealed.body_checksum = crc_fast::crc32_iscsi(body).into();
    let blocks = body.len().div_ceil(BLOCK_BYTES);
    if blocks >= layout.slot_blocks as usize {
        return Err(IoError::CapacityExceeded);
    }
    let mut buffer = Buffer::zeroed((1 + blocks) * BLOCK_BYTES);
    let (head, tables) = match odd {
        false => (0, BLOCK_BYTES),
        true => (blocks * BLOCK_BYTES, 0),
    };
    buffer[head..head + BLOCK_BYTES].copy_from_slice(&sealed.seal());
    buffer[tables..tables + body.len()].copy_from_slice(body);
    let start = layout.slot(odd, blocks as u64);
    write_blocks(device, start, buffer, Durability::Cached)
        .await
        .1?;
    device.flush().await
}

/// Why a pool of a later version is not opened.
pub(crate) fn newer_format(newer: Newer) -> PoolError {
    PoolError::NewerFormat {
        version: newer.version,
        known: VERSION,
        pool: PoolId(newer.pool_id),
        pool_name: newer.name(),
    }
}

/// Says which pool a drive belongs to, if any.
pub async fn probe<D: BlockDevice>(device: &D) -> Result<Option<Label>, PoolError> {
    match find(device).await? {
        Found::Blank => Ok(None),
        Found::Newer(newer) => Err(newer_format(newer)),
        Found::Slot(slot) => {
            let superblock = &slot.superblock;
            let level = Level::from_code(superblock.level).ok_or(PoolError::Damaged("label"))?;
            Ok(Some(Label {
                pool: PoolId(superblock.pool_id),
                pool_name: superblock.name(),
                level,
                drive: DriveId(superblock.drive_id),
                index: usize::from(superblock.drive_index),
                members: superblock
                    .members
                    .iter()
                    .filter(|member| member.state != 0)
                    .count(),
                epoch: superblock.epoch.number.get(),
                active: superblock
                    .members
                    .iter()
                    .filter(|member| member.state == MEMBER_ACTIVE)
                    .map(|member| DriveId(member.id))
                    .collect(),
                holder: (superblock.holder != [0; 16]).then_some(HostId(superblock.holder)),
            }))
        }
    }
}

/// Makes a drive forget the pool that it belongs to.
pub async fn wipe<D: BlockDevice>(device: &D) -> Result<(), PoolError> {
    for odd in [false, true] {
        wipe_slot(device, odd).await?;
    }
    Ok(())
}

/// Makes the superblock of a slot unreadable, durably.
pub(crate) async fn wipe_slot<D: BlockDevice>(device: &D, odd: bool) -> Result<(), IoError> {
    let blocks = device_blocks(device);
    let at = superblock_at(blocks, odd);
    if at < blocks {
        let zeroes = Buffer::zeroed(BLOCK_BYTES);
        write_blocks(device, at, zeroes, Durability::Cached)
            .await
            .1?;
    }
    device.flush().await
}
