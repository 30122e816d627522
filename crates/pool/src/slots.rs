//! Superblock slots on drives: finding both, telling what is there, writing one.
//!
//! The slot for even numbers is at the drive's start. The other one is at the end that the drive
//! had when it got its label: a drive that has been enlarged since has it where it was.

use crate::drive::{DriveLayout, FIRST_SLOT, device_blocks, read_blocks, write_blocks};
use crate::error::PoolError;
use crate::format::body::Body;
use crate::format::plausible::{self, Implausible};
use crate::format::superblock::{Newer, NotSuperblock, Superblock};
use crate::join::join_answers;
use crate::labels::{DamagedLabel, DriveId, PoolId};
use crate::location::BLOCK_BYTES;
use crate::mutation::Mutation;
use block::{BlockDevice, Buffer, Durability, IoError};
use crc_fast::{CrcAlgorithm, Digest};
use std::collections::BTreeSet;
use std::time::Duration;
use zerocopy::FromBytes;

/// A drive that would not read a superblock is asked so often, and after so long again: what is
/// not known of for a moment must not be taken for gone.
const READS_MAX: usize = 4;
const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Tables are read in pieces of so many blocks.
const PIECE_BLOCKS: usize = 256;

/// What becomes of tables that are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// A pool is to be opened by them.
    Kept,
    /// Nobody needs them: a look at a drive takes the memory of a piece.
    Checked,
}

/// A valid slot: the superblock and its tables.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub superblock: Superblock,
    /// Nothing where the tables were only [checked](Tables::Checked).
    pub body: Vec<u8>,
    /// It is the one at the drive's end.
    pub odd: bool,
    /// The other one has a superblock whose tables were never written whole.
    pub torn_beside: bool,
    /// There is no other one that is whole.
    pub alone: bool,
    /// The drive would not read the place of the other one, which may be the later.
    pub unread_beside: bool,
    /// The largest number of a superblock on the drive.
    pub last_sequence: u64,
}

impl Slot {
    /// See [`Superblock::rank`].
    pub fn rank(&self) -> (u64, u64, u64) {
        self.superblock.rank()
    }

    /// The tables, if they are such as a pool writes.
    pub fn tables(&self) -> Result<Body, PoolError> {
        let version = self.superblock.version.get();
        let mut body =
            Body::decode(&self.body, version).map_err(|_| PoolError::Damaged("tables"))?;
        plausible::tables(&body, &self.superblock)?;
        body.tables.shorten_redirects();
        Ok(body)
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
    /// A label was there, and none is whole.
    Damaged(DamagedLabel),
    Slot(Box<Slot>),
}

/// A drive that answers nothing for so long, while a pool is opened that can do without it, counts
/// as absent: hosts wait for the pool. Busy drives, and such as try hard to read, take seconds.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What the drives that are given carry, each at its position.
pub(crate) struct Given {
    pub slots: Vec<Option<Box<Slot>>>,
    pub damaged: Vec<(usize, DamagedLabel)>,
    /// Positions of drives that are not waited for any more.
    pub silent: BTreeSet<usize>,
}

impl Given {
    /// Looks at drives of which a pool is to be opened. All that can be read from now on is
    /// durable: what a host that died has left in a drive's cache would be lost with the power, and
    /// what is built upon it.
    ///
    /// Those that were `silent` before are not asked. Others that are count as absent after some
    /// time, if what there is by then is `enough`.
    pub async fn of<D: BlockDevice>(
        drives: &[D],
        silent: &BTreeSet<usize>,
        enough: impl Fn(&[Option<&Slot>], &[(usize, DamagedLabel)]) -> bool,
    ) -> Result<Given, PoolError> {
        let asked = drives.iter().enumerate();
        let asked = asked.filter(|(position, _)| !silent.contains(position));
        let positions: Vec<usize> = asked.clone().map(|(position, _)| position).collect();
        let looks = asked.map(async |(_, device)| {
            device.flush().await?;
            find(device, Tables::Kept).await
        });
        let without = |found: &[Option<&Result<Found, IoError>>]| {
            let slots = found.iter().map(|found| match found {
                Some(Ok(Found::Slot(slot))) => Some(&**slot),
                _ => None,
            });
            let damaged = positions
                .iter()
                .zip(found)
                .filter_map(|(at, found)| match found {
                    Some(Ok(Found::Damaged(label))) => Some((*at, label.clone())),
                    _ => None,
                });
            let (slots, damaged): (Vec<_>, Vec<_>) = (slots.collect(), damaged.collect());
            enough(&slots, &damaged)
        };
        let found = join_answers(looks, ANSWERS_WITHIN, without).await;
        let mut given = Given {
            slots: drives.iter().map(|_| None).collect(),
            damaged: Vec::new(),
            silent: silent.clone(),
        };
        for (position, found) in positions.into_iter().zip(found) {
            match found {
                Some(Ok(Found::Slot(slot))) => given.slots[position] = Some(slot),
                Some(Ok(Found::Newer(newer))) => return Err(PoolError::NewerFormat(newer.into())),
                Some(Ok(Found::Damaged(label))) => given.damaged.push((position, label)),
                // A drive that cannot be read is as good as absent.
                Some(Ok(Found::Blank) | Err(_)) => {}
                None => {
                    given.silent.insert(position);
                }
            }
        }
        for (index, (device, slot)) in drives.iter().zip(&given.slots).enumerate() {
            if let Some(slot) = slot {
                check_size(index, device, slot)?;
            }
        }
        Ok(given)
    }
}

/// Half of the superblocks, and whatever lay there, are gone from a drive that became smaller; it
/// may get its size back.
fn check_size<D: BlockDevice>(index: usize, device: &D, slot: &Slot) -> Result<(), PoolError> {
    let (found, before) = (device_blocks(device), slot.layout().blocks);
    match found < before {
        true => Err(PoolError::DriveShrank {
            index,
            found,
            before,
        }),
        false => Ok(()),
    }
}

/// A block in which a superblock belongs.
struct Head {
    at: u64,
    parsed: Result<Superblock, NotSuperblock>,
    /// What is there, though it may not be whole.
    raw: Superblock,
}

/// Reads, again and again if it must.
async fn read_patiently<D: BlockDevice>(
    device: &D,
    at: u64,
    bytes: usize,
) -> Result<Buffer, IoError> {
    let mut reads = 1;
    loop {
        let (buffer, result) = read_blocks(device, at, Buffer::new(bytes)).await;
        match result {
            Ok(()) => return Ok(buffer),
            Err(error @ (IoError::DeviceGone | IoError::OutOfRange)) => return Err(error),
            Err(error) if reads == READS_MAX => return Err(error),
            Err(_) => reads += 1,
        }
        reactor::sleep(READ_AGAIN_AFTER).await;
    }
}

async fn read_head<D: BlockDevice>(device: &D, at: u64) -> Result<Head, IoError> {
    let buffer = read_patiently(device, at, BLOCK_BYTES).await?;
    Ok(Head {
        at,
        parsed: Superblock::parse(&buffer),
        raw: Superblock::read_from_bytes(&buffer).unwrap_or_else(|_| Superblock::zeroed()),
    })
}

/// Where the superblock of the odd slot may be, the likeliest place first.
fn odd_places(blocks: u64, even: Result<&Head, &IoError>) -> Vec<u64> {
    let end = blocks.saturating_sub(1);
    let told = |raw: &Superblock| raw.drive_blocks.get().saturating_sub(1);
    let places = match even {
        // What another pool may have left at the end of a larger drive is not this one's.
        Ok(head) if head.parsed.is_ok() => vec![told(&head.raw)],
        Ok(Head {
            parsed: Err(NotSuperblock::Damaged | NotSuperblock::Implausible(_)),
            raw,
            ..
        }) => vec![told(raw), end],
        _ => vec![end],
    };
    let inside = |at: &u64| (FIRST_SLOT + 1..blocks).contains(at);
    places.into_iter().filter(inside).collect()
}

/// The superblocks' blocks of a drive, even slot first, that can be read.
async fn read_heads<D: BlockDevice>(device: &D) -> ([Option<Head>; 2], Option<IoError>) {
    let blocks = device_blocks(device);
    let even = match FIRST_SLOT < blocks {
        true => read_head(device, FIRST_SLOT).await,
        false => Err(IoError::OutOfRange),
    };
    let mut failure = None;
    let mut odd: Option<Head> = None;
    for at in odd_places(blocks, even.as_ref()) {
        match read_head(device, at).await {
            Ok(mut head) => {
                // It is somebody else's if it says that the drive's end is elsewhere.
                if let Ok(found) = &head.parsed
                    && found.drive_blocks.get() != at + 1
                {
                    head.parsed = Err(NotSuperblock::Foreign);
                }
                let better = match &odd {
                    Some(before) => before.parsed.is_err() && head.parsed.is_ok(),
                    None => true,
                };
                if better {
                    odd = Some(head);
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    let even = even.map_err(|error| failure = Some(error)).ok();
    ([even, odd], failure)
}

/// Reads both slots of a drive and returns the later valid one.
pub(crate) async fn find<D: BlockDevice>(device: &D, tables: Tables) -> Result<Found, IoError> {
    if device_blocks(device) <= FIRST_SLOT {
        // There is no place for one.
        return Ok(Found::Blank);
    }
    let (heads, mut failure) = read_heads(device).await;
    let mut best: Option<Slot> = None;
    let (mut torn, mut whole) = ([false; 2], 0);
    let mut last_sequence = 0;
    let mut newer = None;
    let mut damaged = None;
    for (head, odd) in heads.into_iter().zip([false, true]) {
        let Some(head) = head else {
            continue;
        };
        match head.parsed {
            Ok(superblock) => {
                last_sequence = last_sequence.max(superblock.sequence.get());
                let slot = match read_body(device, superblock, (odd, head.at), tables).await {
                    Ok(slot) => slot,
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                };
                torn[usize::from(odd)] = slot.is_none();
                whole += usize::from(slot.is_some());
                if slot.is_none() {
                    damaged = Some(DamagedLabel::of(&head.raw, None));
                }
                let later =
                    |slot: &Slot| best.as_ref().is_none_or(|best| slot.rank() > best.rank());
                best = slot.filter(later).or(best);
            }
            Err(NotSuperblock::Newer(found)) => newer = Some(found),
            Err(NotSuperblock::Damaged) => {
                damaged = damaged.or(Some(DamagedLabel::of(&head.raw, None)));
            }
            // What was made on purpose says more than what decayed.
            Err(NotSuperblock::Implausible(why)) => {
                damaged = Some(DamagedLabel::of(&head.raw, Some(why)));
            }
            Err(NotSuperblock::Foreign) => {}
        }
    }
    match (best, newer, damaged, failure) {
        (_, Some(newer), ..) => Ok(Found::Newer(newer)),
        (Some(mut slot), ..) => {
            slot.torn_beside = torn[usize::from(!slot.odd)];
            slot.alone = whole == 1;
            slot.unread_beside = failure.is_some();
            slot.last_sequence = last_sequence;
            Ok(Found::Slot(Box::new(slot)))
        }
        (None, None, Some(label), _) => Ok(Found::Damaged(label)),
        (None, None, None, Some(error)) => Err(error),
        (None, None, None, None) => Ok(Found::Blank),
    }
}

/// The superblocks of a member, be their tables torn or not. A block that the drive cannot read has
/// none: whoever wrote one there since would have made it readable.
pub(crate) async fn heads<D: BlockDevice>(
    device: &D,
    layout: DriveLayout,
) -> Result<[Option<Superblock>; 2], IoError> {
    let mut heads = [None, None];
    for odd in [false, true] {
        let at = layout.slot(odd, 0);
        let (buffer, result) = read_blocks(device, at, Buffer::new(BLOCK_BYTES)).await;
        match result {
            Ok(()) => heads[usize::from(odd)] = Superblock::parse(&buffer).ok(),
            Err(IoError::UnrecoveredRead) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(heads)
}

/// The slot of a superblock; `None` if its tables were never written whole.
async fn read_body<D: BlockDevice>(
    device: &D,
    superblock: Superblock,
    (odd, at): (bool, u64),
    tables: Tables,
) -> Result<Option<Slot>, IoError> {
    let bytes = superblock.body_bytes.get() as usize;
    let blocks = bytes.div_ceil(BLOCK_BYTES) as u64;
    if blocks >= u64::from(superblock.slot_blocks.get()) {
        return Ok(None);
    }
    let start = match odd {
        true => at.checked_sub(blocks),
        false => Some(at + 1),
    };
    let Some(start) = start else {
        return Ok(None);
    };
    let mut body = Vec::new();
    let mut checksum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut left = bytes;
    for at in (start..start + blocks).step_by(PIECE_BLOCKS) {
        let piece = left.min(PIECE_BLOCKS * BLOCK_BYTES);
        left -= piece;
        let buffer = read_patiently(device, at, piece.next_multiple_of(BLOCK_BYTES)).await?;
        checksum.update(&buffer[..piece]);
        if tables == Tables::Kept {
            body.extend_from_slice(&buffer[..piece]);
        }
    }
    let whole = checksum.finalize() == u64::from(superblock.body_checksum.get());
    Ok(whole.then_some(Slot {
        superblock,
        body,
        odd,
        torn_beside: false,
        alone: false,
        unread_beside: false,
        last_sequence: 0,
    }))
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
    match Mutation::SuperblockStaysCached.is_planted() {
        true => Ok(()),
        false => device.flush().await,
    }
}

/// Makes the superblock of a slot of a member unreadable, durably.
pub(crate) async fn wipe_slot<D: BlockDevice>(
    device: &D,
    layout: DriveLayout,
    odd: bool,
) -> Result<(), IoError> {
    wipe_block(device, layout.slot(odd, 0)).await
}

async fn wipe_block<D: BlockDevice>(device: &D, at: u64) -> Result<(), IoError> {
    let zeroes = Buffer::zeroed(BLOCK_BYTES);
    write_blocks(device, at, zeroes, Durability::Cached)
        .await
        .1?;
    device.flush().await
}

/// Makes every superblock unreadable that a drive may have, whole or not, durably. The first one
/// last: it tells where the other is.
pub(crate) async fn wipe_all<D: BlockDevice>(device: &D) -> Result<(), IoError> {
    let blocks = device_blocks(device);
    let mut places = vec![blocks.saturating_sub(1)];
    if FIRST_SLOT < blocks
        && let Ok(head) = read_head(device, FIRST_SLOT).await
    {
        places.extend(odd_places(blocks, Ok(&head)));
    }
    places.push(FIRST_SLOT);
    for at in places.into_iter().filter(|at| *at < blocks) {
        wipe_block(device, at).await?;
    }
    Ok(())
}

impl DamagedLabel {
    fn of(raw: &Superblock, implausible: Option<Implausible>) -> DamagedLabel {
        DamagedLabel {
            implausible: implausible.map(Box::new),
            pool: PoolId(raw.pool_id),
            pool_name: raw.name(),
            drive: DriveId(raw.drive_id),
            index: usize::from(raw.drive_index),
        }
    }
}
