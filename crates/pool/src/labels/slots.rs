//! Superblock slots on drives: finding both, telling what is there, writing one.
//!
//! The slot for even numbers is at the drive's start. The other one is at the end that the drive
//! had when it got its label: a drive that has been enlarged since has it where it was. A slot has
//! the superblock twice, and of a pool of which one drive is left the tables too: one wrong bit
//! takes nothing away. How a slot is written tells what was never finished from what has decayed;
//! see `docs/decisions/pool-labels.md`.

mod look;
mod writing;

pub(crate) use writing::{Ends, bring_up, wipe_all, wipe_slot, write, write_in};

use crate::drives::drive::{device_blocks, read_blocks};
use crate::error::PoolError;
use crate::error::label::DamagedLabel;
use crate::format::body::Body;
use crate::format::drive_layout::{DriveLayout, FIRST_SLOT};
use crate::format::encoded::Encoded;
use crate::format::plausible::{self, Implausible};
use crate::format::superblock::{Newer, NotSuperblock, Superblock};
use crate::ids::{DriveId, PoolId};
use crate::join::join_answers;
use crate::labels::slots::look::{READ_AGAIN_AFTER, Seen, layout_of, read_sides};
use crate::location::BLOCK_BYTES;
use crate::mutation::Mutation;
use block::{BlockDevice, Buffer, IoError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What becomes of tables that are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// A pool is to be opened by them.
    Kept,
    /// Nobody needs them: a look at a drive takes the memory of a piece.
    Checked,
}

/// Tables are read and written in pieces of so many blocks: at all drives at the same time, so
/// that whole ones of a large pool would keep its core from others for tens of milliseconds.
const PIECE_BLOCKS: usize = 64;
/// Others on this core have a turn after so many entries of tables.
const ENTRIES_IN_A_ROW: usize = 1024;

/// A valid slot: the superblock and its tables.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub superblock: Superblock,
    /// Nothing where the tables were only [checked](Tables::Checked).
    pub body: Encoded,
    /// It is the one at the drive's end.
    pub odd: bool,
    /// Only a copy told what this one or the other one says.
    pub by_copy: bool,
    /// The other one has a superblock and is not whole.
    pub torn_beside: bool,
    /// There is no other one that is whole.
    pub alone: bool,
    /// Why the drive would not read the place of the other one, which may be the later.
    pub unread_beside: Option<IoError>,
    /// The other one was written whole, has decayed, and had what is later than this: its
    /// [`content`](Superblock::content).
    pub later_beside: Option<u64>,
    /// The largest number of a superblock on the drive.
    pub last_sequence: u64,
}

impl Slot {
    /// See [`Superblock::rank`].
    pub fn rank(&self) -> (u64, u64, u64) {
        self.superblock.rank()
    }

    /// The tables, if they are such as a pool writes. Others on this core have their turns.
    pub async fn tables(&self) -> Result<Body, PoolError> {
        let version = self.superblock.version.get();
        let body = Body::decode_in_turns(self.body.bytes(), version, ENTRIES_IN_A_ROW).await;
        let mut body = body.map_err(|_| PoolError::Damaged("tables"))?;
        plausible::tables(&body, &self.superblock).await?;
        Arc::make_mut(&mut body.tables).shorten_redirects();
        Ok(body)
    }

    pub fn layout(&self) -> DriveLayout {
        layout_of(&self.superblock)
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
    /// One that is not ready is waited for as long as one that is silent: it may have the pool's
    /// latest state. Those that were `silent` before are not asked. Others that are count as absent
    /// after some time, if what there is by then is `enough`.
    pub async fn of<D: BlockDevice>(
        drives: &[D],
        silent: &BTreeSet<usize>,
        enough: impl Fn(&[Option<&Slot>], &[(usize, DamagedLabel)]) -> bool,
    ) -> Result<Given, PoolError> {
        let asked = drives.iter().enumerate();
        let asked = asked.filter(|(position, _)| !silent.contains(position));
        let positions: Vec<usize> = asked.clone().map(|(position, _)| position).collect();
        let looks = asked.map(async |(_, device)| look_patiently(device).await);
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

/// Looks at a drive, again and again while it is not ready.
async fn look_patiently<D: BlockDevice>(device: &D) -> Result<Found, IoError> {
    let until = reactor::now() + ANSWERS_WITHIN;
    loop {
        let found = match device.flush().await {
            Ok(()) => find(device, Tables::Kept).await,
            Err(error) => Err(error),
        };
        let away = match &found {
            Ok(Found::Slot(slot)) => slot.unread_beside == Some(IoError::NotReady),
            Ok(_) => false,
            Err(error) => *error == IoError::NotReady,
        };
        let impatient = Mutation::OpensWhatIsReady.is_planted();
        if !away || impatient || reactor::now() >= until {
            return found;
        }
        reactor::sleep(READ_AGAIN_AFTER).await;
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

/// Reads both slots of a drive and returns the later valid one.
pub(crate) async fn find<D: BlockDevice>(device: &D, tables: Tables) -> Result<Found, IoError> {
    if device_blocks(device) <= FIRST_SLOT {
        // There is no place for one.
        return Ok(Found::Blank);
    }
    // Superblocks are large, and opening a pool is deep: apart, they leave the stack small.
    let sides = Box::pin(read_sides(device)).await;
    let mut failure = None;
    let mut best: Option<Slot> = None;
    let (mut torn, mut whole, mut later, mut by_copy) = ([false; 2], 0, None, false);
    let mut last_sequence = 0;
    let (mut newer, mut damaged) = (None, None);
    for (side, odd) in sides.into_iter().zip([false, true]) {
        last_sequence = last_sequence.max(side.last_sequence());
        let (content, label) = (side.content_written(), side.damaged());
        if let Some(Err(NotSuperblock::Newer(found))) = side.near.as_ref().map(|it| &it.parsed) {
            newer = Some(*found);
        }
        let had_one = side.has_superblock();
        match Box::pin(side.whole(device, odd, tables)).await {
            Seen::Whole(slot) => {
                whole += 1;
                by_copy |= slot.by_copy;
                let is_later = best.as_ref().is_none_or(|best| slot.rank() > best.rank());
                best = Some(*slot).filter(|_| is_later).or(best);
            }
            Seen::Not => {
                torn[usize::from(odd)] = had_one;
                later = later.max(content);
                // What was made on purpose says more than what decayed.
                let says_more = label.as_ref().is_some_and(|it| it.implausible.is_some());
                damaged = if says_more { label } else { damaged.or(label) };
            }
            Seen::Unread(error) => {
                later = later.max(content);
                failure = Some(error);
            }
        }
    }
    match (best, newer, damaged, failure) {
        (_, Some(newer), ..) => Ok(Found::Newer(newer)),
        (Some(mut slot), ..) => {
            slot.torn_beside = torn[usize::from(!slot.odd)];
            slot.alone = whole == 1;
            slot.by_copy = by_copy;
            slot.unread_beside = failure;
            slot.later_beside = later.filter(|later| *later > slot.superblock.content());
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
        let at = layout.superblock(odd, false);
        let (buffer, result) = read_blocks(device, at, Buffer::new(BLOCK_BYTES)).await;
        match result {
            Ok(()) => heads[usize::from(odd)] = Superblock::parse(&buffer).ok(),
            Err(IoError::UnrecoveredRead) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(heads)
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
