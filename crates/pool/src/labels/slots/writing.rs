//! Writing a slot, and making one, or all of a drive, unreadable.
//!
//! Tables and copies are durable before the superblock is written that names them. So one that is
//! there with other tables, or that is damaged beside a copy that is too, was whole once.

use crate::drives::drive::write_blocks;
use crate::error::PoolError;
use crate::format::drive_layout::DriveLayout;
use crate::format::encoded::Encoded;
use crate::format::superblock::{MEMBER_ACTIVE, Superblock, TELLING_VERSION};
use crate::join::join;
use crate::labels::slots::look::places;
use crate::labels::slots::{PIECE_BLOCKS, Slot};
use crate::location::BLOCK_BYTES;
use crate::mutation::Mutation;
use block::{BlockDevice, Buffer, Durability, IoError};

/// How the two ends of a slot are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// At once: copies are made of what one wrong bit must not take away.
    AtOnce,
    /// One after the other, each with a superblock and tables that make a label, if there is room.
    /// A request that comes late of a process that died spoils one end, as does a crash. Neither
    /// spoils both ends of a slot.
    InTurn,
}

/// Writes a superblock and its tables to the slot of its sequence number, durably.
pub(crate) async fn write<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    layout: DriveLayout,
    tables: &Encoded,
    ends: Ends,
) -> Result<(), IoError> {
    let odd = !superblock.sequence.get().is_multiple_of(2);
    write_in(device, superblock, layout, odd, tables, ends).await
}

/// Writes a superblock and its tables to a slot, durably.
pub(crate) async fn write_in<D: BlockDevice>(
    device: &D,
    superblock: &Superblock,
    layout: DriveLayout,
    odd: bool,
    tables: &Encoded,
    ends: Ends,
) -> Result<(), IoError> {
    let body = tables.bytes();
    let mut sealed = superblock.clone();
    sealed.drive_blocks = layout.blocks.into();
    sealed.zone_base = layout.zone_base.into();
    sealed.zone_blocks = layout.zone_blocks.into();
    sealed.slot_blocks = layout.slot_blocks.into();
    sealed.body_bytes = (body.len() as u32).into();
    sealed.body_checksum = tables.checksum().into();
    let blocks = body.len().div_ceil(BLOCK_BYTES) as u64;
    if blocks >= u64::from(layout.slot_blocks) {
        return Err(IoError::CapacityExceeded);
    }
    let head = sealed.seal();
    let places = |copy| {
        let tables = layout.tables(odd, copy, blocks);
        (layout.superblock(odd, copy), tables)
    };
    let (near_head, near_tables) = places(false);
    let (far_head, far_tables) = places(true);
    let flush = async || match Mutation::SuperblockStaysCached.is_planted() {
        true => Ok(()),
        false => device.flush().await,
    };
    if ends == Ends::InTurn && takes_turns(&sealed, layout, blocks) {
        write_tables(device, far_tables, body).await?;
        flush().await?;
        write_head(device, far_head, &head).await?;
        flush().await?;
        write_tables(device, near_tables, body).await?;
    } else {
        let (copy_superblock, copy_tables) = copies(&sealed, layout, blocks);
        let near = write_tables(device, near_tables, body);
        let far = async {
            if copy_superblock {
                write_head(device, far_head, &head).await?;
            }
            if copy_tables {
                write_tables(device, far_tables, body).await?;
            }
            Ok(())
        };
        let (near, far) = join(near, far).await;
        near.and(far)?;
    }
    flush().await?;
    write_head(device, near_head, &head).await?;
    flush().await
}

/// Whether each end of a slot can have a label of its own.
fn takes_turns(superblock: &Superblock, layout: DriveLayout, blocks: u64) -> bool {
    superblock.version.get() >= TELLING_VERSION
        && layout.has_room_for_copies(blocks).1
        && !Mutation::WritesEndsAtOnce.is_planted()
}

async fn write_head<D: BlockDevice>(
    device: &D,
    at: u64,
    head: &[u8; BLOCK_BYTES],
) -> Result<(), IoError> {
    write_blocks(device, at, Buffer::copy_of(head), Durability::Cached)
        .await
        .1
}

/// Writes tables from a block on, piece by piece.
async fn write_tables<D: BlockDevice>(device: &D, start: u64, body: &[u8]) -> Result<(), IoError> {
    let pieces = body.chunks(PIECE_BLOCKS * BLOCK_BYTES);
    for (at, piece) in (start..).step_by(PIECE_BLOCKS).zip(pieces) {
        if at > start {
            reactor::yield_now().await;
        }
        let mut buffer = Buffer::new(piece.len().next_multiple_of(BLOCK_BYTES));
        let (tables, rest) = buffer.split_at_mut(piece.len());
        tables.copy_from_slice(piece);
        rest.fill(0);
        write_blocks(device, at, buffer, Durability::Cached)
            .await
            .1?;
    }
    Ok(())
}

/// What goes to the other end of a slot, as far as there is room: whether the superblock once more,
/// and whether tables of so many blocks, which are copied where no other drive has them.
fn copies(superblock: &Superblock, layout: DriveLayout, blocks: u64) -> (bool, bool) {
    let (one, both) = layout.has_room_for_copies(blocks);
    if !one || superblock.version.get() < TELLING_VERSION {
        return (false, false);
    }
    let members = superblock.members.iter();
    let active = members.filter(|member| member.state == MEMBER_ACTIVE);
    (true, both && active.count() == 1)
}

/// Makes the superblock of a slot of a member, and the copy of it, unreadable, durably.
pub(crate) async fn wipe_slot<D: BlockDevice>(
    device: &D,
    layout: DriveLayout,
    odd: bool,
) -> Result<(), IoError> {
    for copy in [true, false] {
        wipe_block(device, layout.superblock(odd, copy)).await?;
    }
    Ok(())
}

async fn wipe_block<D: BlockDevice>(device: &D, at: u64) -> Result<(), IoError> {
    let zeroes = Buffer::zeroed(BLOCK_BYTES);
    write_blocks(device, at, zeroes, Durability::Cached)
        .await
        .1?;
    device.flush().await
}

/// Makes every superblock unreadable that a drive may have, whole or not, durably. The first one
/// last: it tells where the others are.
pub(crate) async fn wipe_all<D: BlockDevice>(device: &D) -> Result<(), IoError> {
    for at in places(device).await {
        wipe_block(device, at).await?;
    }
    Ok(())
}

/// Gives a drive that missed the last superblock exactly that one, beside the one that it has: a
/// drive that this tears must not be left with none. One that has it, but nothing beside it, gets
/// it twice: the next one goes where its number says.
pub(crate) async fn bring_up<D: BlockDevice>(
    device: &D,
    index: usize,
    slot: &Slot,
    newest: &Slot,
) -> Result<(), PoolError> {
    let behind = slot.rank() < newest.rank();
    let writes = behind || slot.alone && slot.rank() == newest.rank();
    if (slot.torn_beside || writes) && !Mutation::OverwritesBesideCached.is_planted() {
        // The label of a process that died may be in the drive's cache alone. It has to last before
        // the one beside it is overwritten.
        device.flush().await?;
    }
    if slot.torn_beside {
        // For good: the next tables written there may be the very same, and must not make what is
        // there count after all, be it a copy of what was never finished.
        wipe_slot(device, slot.layout(), !slot.odd).await?;
    }
    if writes {
        let mut superblock = newest.superblock.clone();
        superblock.drive_index = index as u8;
        superblock.drive_id = slot.superblock.drive_id;
        let (layout, body) = (slot.layout(), &newest.body);
        write_in(device, &superblock, layout, !slot.odd, body, Ends::AtOnce).await?;
    }
    Ok(())
}
