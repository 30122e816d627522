//! Looking at the two slots of a drive: superblocks, their copies, and the tables beside them.

use crate::drives::drive::{device_blocks, read_blocks};
use crate::error::label::DamagedLabel;
use crate::format::drive_layout::{DriveLayout, FIRST_SLOT};
use crate::format::encoded::Encoded;
use crate::format::superblock::{MAGIC, NotSuperblock, Superblock, TELLING_VERSION};
use crate::labels::slots::{PIECE_BLOCKS, Slot, Tables};
use crate::location::BLOCK_BYTES;
use crate::mutation::Mutation;
use block::{BlockDevice, Buffer, IoError};
use crc_fast::{CrcAlgorithm, Digest};
use std::time::Duration;
use zerocopy::FromBytes;

/// A drive that would not read a superblock is asked so often, and after so long again: what is
/// not known of for a moment must not be taken for gone.
const READS_MAX: usize = 4;
pub(super) const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A block in which a superblock belongs.
pub(super) struct Head {
    pub parsed: Result<Box<Superblock>, NotSuperblock>,
    /// What is there, though it may not be whole.
    raw: Box<Superblock>,
}

impl Head {
    /// It is a superblock, or was.
    fn is_one(&self) -> bool {
        self.raw.magic == MAGIC
    }
}

/// What is at both ends of a slot.
#[derive(Default)]
pub(super) struct Side {
    pub near: Option<Head>,
    /// A copy, where it is one of what is or was beside it.
    far: Option<Box<Superblock>>,
    /// The drive would not read the superblock.
    unread: Option<IoError>,
}

/// What there is of a slot.
pub(super) enum Seen {
    Whole(Box<Slot>),
    Not,
    /// It may be whole.
    Unread(IoError),
}

impl Side {
    fn near(&self) -> Option<&Superblock> {
        self.near.as_ref()?.parsed.as_deref().ok()
    }

    pub fn last_sequence(&self) -> u64 {
        let all = self.near().into_iter().chain(self.far.as_deref());
        all.map(|it| it.sequence.get()).max().unwrap_or(0)
    }

    /// There is something here that would be taken for a superblock, with other tables beside it.
    pub fn has_superblock(&self) -> bool {
        self.far.is_some() || self.near.as_ref().is_some_and(Head::is_one)
    }

    /// What the superblock said that is or was here, if it was written after its tables and its
    /// copy were durable. A copy alone says nothing: it may never have been finished.
    pub fn content_written(&self) -> Option<u64> {
        let head = self.near.as_ref()?;
        let decayed = matches!(head.parsed, Ok(_) | Err(NotSuperblock::Damaged));
        let (content, sequence) = (head.raw.content.get(), head.raw.sequence.get());
        // A bit may be wrong in these very words.
        let tells = head.raw.version.get() >= TELLING_VERSION && content <= sequence;
        let passes = Mutation::TakesOlderLabels.is_planted();
        (decayed && head.is_one() && tells && !passes).then_some(content)
    }

    /// Its superblock, if that cannot be used.
    pub fn damaged(&self) -> Option<DamagedLabel> {
        let head = self.near.as_ref()?;
        match &head.parsed {
            Ok(_) | Err(NotSuperblock::Damaged) => Some(DamagedLabel::of(&head.raw, None)),
            Err(NotSuperblock::Implausible(why)) => {
                Some(DamagedLabel::of(&head.raw, Some(why.clone())))
            }
            Err(NotSuperblock::Foreign | NotSuperblock::Newer(_)) => None,
        }
    }

    /// The slot, by its superblock or by the copy, and by its tables or by a copy of these.
    pub async fn whole<D: BlockDevice>(self, device: &D, odd: bool, tables: Tables) -> Seen {
        let mut failure = self.unread;
        let near = self.near.and_then(|head| head.parsed.ok());
        let near_is_whole = near.is_some();
        let near = near.map(|superblock| (superblock, false));
        let far = self.far.map(|superblock| (superblock, true));
        let mut all: Vec<(Box<Superblock>, bool)> = near.into_iter().chain(far).collect();
        all.sort_by_key(|(superblock, copy)| (std::cmp::Reverse(superblock.rank()), *copy));
        for (superblock, copy) in all {
            match read_tables(device, &superblock, odd, tables).await {
                Ok(Some((body, from_copy))) => {
                    // A copy with tables of its own may be the later one, by itself.
                    let by_copy = match copy {
                        true => !near_is_whole,
                        false => from_copy,
                    };
                    return Seen::Whole(Box::new(Slot {
                        by_copy,
                        superblock: *superblock,
                        body,
                        odd,
                        torn_beside: false,
                        alone: false,
                        unread_beside: None,
                        later_beside: None,
                        last_sequence: 0,
                    }));
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Seen::Not, Seen::Unread)
    }
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
        parsed: Superblock::parse(&buffer).map(Box::new),
        raw: Superblock::read_from_bytes(&buffer)
            .map_or_else(|_| Box::new(Superblock::zeroed()), Box::new),
    })
}

/// Where the superblock of the odd slot may be, the likeliest place first.
fn odd_places(blocks: u64, even: Option<&Head>) -> Vec<u64> {
    let end = blocks.saturating_sub(1);
    let told = |raw: &Superblock| raw.drive_blocks.get().saturating_sub(1);
    let places = match even {
        // What another pool may have left at the end of a larger drive is not this one's.
        Some(head) if head.parsed.is_ok() => vec![told(&head.raw)],
        Some(Head {
            parsed: Err(NotSuperblock::Damaged | NotSuperblock::Implausible(_)),
            raw,
            ..
        }) => vec![told(raw), end],
        _ => vec![end],
    };
    let inside = |at: &u64| (FIRST_SLOT + 1..blocks).contains(at);
    places.into_iter().filter(inside).collect()
}

/// The superblock of the even slot of a drive, and that of the odd one.
async fn read_near<D: BlockDevice>(device: &D) -> [Side; 2] {
    let blocks = device_blocks(device);
    let even = match FIRST_SLOT < blocks {
        true => read_head(device, FIRST_SLOT).await,
        false => Err(IoError::OutOfRange),
    };
    let mut odd = Side::default();
    for at in odd_places(blocks, even.as_ref().ok()) {
        match read_head(device, at).await {
            Ok(mut head) => {
                // It is somebody else's if it says that the drive's end is elsewhere.
                if let Ok(found) = &head.parsed
                    && found.drive_blocks.get() != at + 1
                {
                    head.parsed = Err(NotSuperblock::Foreign);
                }
                let better = match &odd.near {
                    Some(before) => before.parsed.is_err() && head.parsed.is_ok(),
                    None => true,
                };
                if better {
                    odd.near = Some(head);
                }
            }
            Err(error) => odd.unread = Some(error),
        }
    }
    let even = match even {
        Ok(head) => Side {
            near: Some(head),
            ..Side::default()
        },
        Err(error) => Side {
            unread: Some(error),
            ..Side::default()
        },
    };
    [even, odd]
}

/// What is at both ends of both slots of a drive, the even slot first. Where no superblock is left
/// nothing is looked for: a drive that was wiped by other means is blank.
pub(super) async fn read_sides<D: BlockDevice>(device: &D) -> [Side; 2] {
    let mut sides = read_near(device).await;
    let heads = sides.iter().filter_map(|side| side.near.as_ref());
    let heads: Vec<(&Superblock, bool)> = heads
        .filter(|head| head.is_one())
        .map(|head| (&*head.raw, head.parsed.is_ok()))
        .collect();
    // One that is whole knows where the copies are.
    let whole = heads.iter().any(|(_, whole)| *whole);
    let told = heads.iter().filter(|(_, is_whole)| *is_whole || !whole);
    let told: Vec<Box<Superblock>> = told.map(|(raw, _)| Box::new((*raw).clone())).collect();
    for raw in told {
        for (side, odd) in sides.iter_mut().zip([false, true]) {
            if side.far.is_none() {
                side.far = read_copy(device, &raw, odd).await;
            }
        }
    }
    sides
}

/// The copy of a superblock of the same drive, by where one says that it is. One that cannot be
/// read tells nothing.
async fn read_copy<D: BlockDevice>(
    device: &D,
    raw: &Superblock,
    odd: bool,
) -> Option<Box<Superblock>> {
    let layout = layout_within(raw, device_blocks(device))?;
    if Mutation::TakesOlderLabels.is_planted() {
        return None;
    }
    let found = read_head(device, layout.superblock(odd, true)).await.ok()?;
    let copy = found.parsed.ok()?;
    let told = copy.version.get() >= TELLING_VERSION && layout_of(&copy) == layout;
    // In one of the two a bit may be wrong.
    let same = copy.pool_id == raw.pool_id || copy.drive_id == raw.drive_id;
    (told && same).then_some(copy)
}

/// How a drive is laid out by its superblock.
pub(super) fn layout_of(superblock: &Superblock) -> DriveLayout {
    DriveLayout {
        blocks: superblock.drive_blocks.get(),
        zone_base: superblock.zone_base.get(),
        zone_blocks: superblock.zone_blocks.get(),
        slot_blocks: superblock.slot_blocks.get(),
    }
}

/// How a drive of so many blocks is laid out, if what may be a damaged superblock can be right.
fn layout_within(raw: &Superblock, blocks: u64) -> Option<DriveLayout> {
    let layout = layout_of(raw);
    let slot = u64::from(layout.slot_blocks);
    let fits = slot > 1 && 2 * slot < layout.blocks && layout.blocks <= blocks;
    fits.then_some(layout)
}

/// The tables of a superblock, or a copy of them: then true. Nothing if neither is what it says.
async fn read_tables<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    odd: bool,
    tables: Tables,
) -> Result<Option<(Encoded, bool)>, IoError> {
    let bytes = superblock.body_bytes.get() as usize;
    let blocks = bytes.div_ceil(BLOCK_BYTES) as u64;
    if blocks >= u64::from(superblock.slot_blocks.get()) {
        return Ok(None);
    }
    let layout = layout_of(superblock);
    let start = layout.tables(odd, false, blocks);
    let near = read_tables_at(device, superblock, start, tables).await;
    if let Ok(Some(body)) = near {
        return Ok(Some((body, false)));
    }
    let copied = superblock.version.get() >= TELLING_VERSION
        && layout.has_room_for_copies(blocks).1
        && !Mutation::TakesOlderLabels.is_planted();
    if copied {
        let start = layout.tables(odd, true, blocks);
        if let Ok(Some(body)) = read_tables_at(device, superblock, start, tables).await {
            return Ok(Some((body, true)));
        }
    }
    near.map(|_| None)
}

/// The tables from a block on, if they are those of a superblock.
async fn read_tables_at<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    start: u64,
    tables: Tables,
) -> Result<Option<Encoded>, IoError> {
    let mut left = superblock.body_bytes.get() as usize;
    let blocks = left.div_ceil(BLOCK_BYTES) as u64;
    // At once, for all drives: tables that grow would be copied in one step, those of every drive.
    let mut body = match tables {
        Tables::Kept => Vec::with_capacity(left),
        Tables::Checked => Vec::new(),
    };
    let mut checksum = Digest::new(CrcAlgorithm::Crc32Iscsi);
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
    let checksum = superblock.body_checksum.get();
    Ok(whole.then(|| Encoded::read(body, checksum)))
}

/// The blocks of a drive that may hold a superblock or a copy of one: the first one last, which
/// tells where others are.
pub(super) async fn places<D: BlockDevice>(device: &D) -> Vec<u64> {
    let blocks = device_blocks(device);
    let sides = read_near(device).await;
    let mut copies = Vec::new();
    for head in sides.iter().filter_map(|side| side.near.as_ref()) {
        if let Some(layout) = layout_within(&head.raw, blocks).filter(|_| head.is_one()) {
            copies.extend([false, true].map(|odd| layout.superblock(odd, true)));
        }
    }
    let even = sides[0].near.as_ref();
    let near = [blocks.saturating_sub(1)].into_iter();
    let near = near.chain(odd_places(blocks, even)).chain([FIRST_SLOT]);
    copies.extend(near);
    copies.retain(|at| *at < blocks);
    copies
}
