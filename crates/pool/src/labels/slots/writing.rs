//! Writing a slot, and making one, or all of a drive, unreadable.
//!
//! Tables and copies are durable before the superblock is written that names them. So one that is
//! there with other tables, or that is damaged beside a copy that is too, was whole once.

use crate::drives::drive::write_blocks;
use crate::error::PoolError;
use crate::format::drive_layout::DriveLayout;
use crate::format::superblock::{MEMBER_ACTIVE, Superblock, TELLING_VERSION};
use crate::join::join_all;
use crate::labels::slots::Slot;
use crate::labels::slots::look::places;
use crate::location::BLOCK_BYTES;
use crate::mutation::Mutation;
use block::{BlockDevice, Buffer, Durability, IoError};

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
    let head = sealed.seal();
    let mut tables = Buffer::zeroed(blocks * BLOCK_BYTES);
    tables[..body.len()].copy_from_slice(body);
    let at = layout.tables(odd, false, blocks as u64);
    let mut writes = vec![(at, tables)];
    writes.extend(copies(&sealed, &head, layout, odd, body));
    let writes = writes
        .into_iter()
        .map(|(at, buffer)| write_blocks(device, at, buffer, Durability::Cached));
    for (_, written) in join_all(writes).await {
        written?;
    }
    let flushes = !Mutation::SuperblockStaysCached.is_planted();
    if flushes {
        device.flush().await?;
    }
    let mut superblock = Buffer::new(BLOCK_BYTES);
    superblock.copy_from_slice(&head);
    let at = layout.superblock(odd, false);
    write_blocks(device, at, superblock, Durability::Cached)
        .await
        .1?;
    match flushes {
        true => device.flush().await,
        false => Ok(()),
    }
}

/// What goes to the other end of a slot: the superblock once more, and the tables where no other
/// drive has them, as far as there is room.
fn copies(
    superblock: &Superblock,
    head: &[u8; BLOCK_BYTES],
    layout: DriveLayout,
    odd: bool,
    body: &[u8],
) -> Option<(u64, Buffer)> {
    let blocks = body.len().div_ceil(BLOCK_BYTES);
    let (one, both) = layout.has_room_for_copies(blocks as u64);
    if !one || superblock.version.get() < TELLING_VERSION {
        return None;
    }
    let members = superblock.members.iter();
    let active = members.filter(|member| member.state == MEMBER_ACTIVE);
    let tables = if both && active.count() == 1 {
        blocks
    } else {
        0
    };
    let mut buffer = Buffer::zeroed((1 + tables) * BLOCK_BYTES);
    let (head_at, tables_at) = match odd {
        true => (0, BLOCK_BYTES),
        false => (tables * BLOCK_BYTES, 0),
    };
    buffer[head_at..head_at + BLOCK_BYTES].copy_from_slice(head);
    if tables > 0 {
        buffer[tables_at..tables_at + body.len()].copy_from_slice(body);
    }
    let first = layout.tables(odd, true, tables as u64);
    Some((first.min(layout.superblock(odd, true)), buffer))
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
    if slot.torn_beside {
        // For good: the next tables written there may be the very same, and must not make what is
        // there count after all, be it a copy of what was never finished.
        wipe_slot(device, slot.layout(), !slot.odd).await?;
    }
    let behind = slot.rank() < newest.rank();
    if behind || slot.alone && slot.rank() == newest.rank() {
        let mut superblock = newest.superblock.clone();
        superblock.drive_index = index as u8;
        superblock.drive_id = slot.superblock.drive_id;
        let (layout, body) = (slot.layout(), &newest.body);
        write_in(device, &superblock, layout, !slot.odd, body).await?;
    }
    Ok(())
}
