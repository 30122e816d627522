//! Where the superblocks, tables and zones of a drive lie. No I/O.

use crate::format::superblock::{MEMBER_NONE, Superblock};
use std::ops::Range;

/// The first superblock is here: block 0 stays free of anything that looks like a partition table.
pub(crate) const FIRST_SLOT: u64 = 1;

/// How the blocks of a drive are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriveLayout {
    /// Size of the drive.
    pub blocks: u64,
    /// First block of zone 0.
    pub zone_base: u32,
    pub zone_blocks: u32,
    /// Blocks of each of the two superblock slots.
    pub slot_blocks: u32,
}

impl DriveLayout {
    pub fn new(blocks: u64, zone_blocks: u32, slot_blocks: u32) -> DriveLayout {
        let align = zone_blocks.min(256);
        let zone_base = (FIRST_SLOT as u32 + slot_blocks).next_multiple_of(align);
        DriveLayout {
            blocks,
            zone_base,
            zone_blocks,
            slot_blocks,
        }
    }

    pub fn zones(&self) -> u32 {
        let reserved = u64::from(self.zone_base) + u64::from(self.slot_blocks);
        let zones = self.blocks.saturating_sub(reserved) / u64::from(self.zone_blocks.max(1));
        u32::try_from(zones).unwrap_or(u32::MAX)
    }

    /// The blocks behind the first superblock slot and before the second.
    pub fn between_slots(&self) -> Range<u64> {
        let slot = u64::from(self.slot_blocks);
        FIRST_SLOT + slot..self.blocks - slot
    }

    /// Where the superblock of a slot lies: in the slot for even sequence numbers in the drive's
    /// second block, in the odd one in its last. Overwriting either end of a drive leaves the
    /// other. A copy is at the other end of the slot.
    pub fn superblock(&self, odd: bool, copy: bool) -> u64 {
        let slot = u64::from(self.slot_blocks);
        match (odd, copy) {
            (false, false) => FIRST_SLOT,
            (false, true) => FIRST_SLOT + slot - 1,
            (true, true) => self.blocks - slot,
            (true, false) => self.blocks - 1,
        }
    }

    /// Where tables of so many blocks begin, beside the superblock or beside its copy.
    pub fn tables(&self, odd: bool, copy: bool, blocks: u64) -> u64 {
        let superblock = self.superblock(odd, copy);
        match odd == copy {
            true => superblock + 1,
            false => superblock - blocks,
        }
    }

    /// Whether a slot has room for a copy of the superblock beside tables of so many blocks, and
    /// for a copy of these as well.
    pub fn has_room_for_copies(&self, blocks: u64) -> (bool, bool) {
        let slot = u64::from(self.slot_blocks);
        (blocks + 2 <= slot, 2 * blocks + 2 <= slot)
    }
}

/// Zones of each member.
pub(crate) fn zones(superblock: &Superblock) -> Vec<u32> {
    let (zone_blocks, slot_blocks) = (superblock.zone_blocks.get(), superblock.slot_blocks.get());
    let members = superblock.members.iter();
    let zones = members.map(|member| match member.state {
        MEMBER_NONE => 0,
        _ => DriveLayout::new(member.blocks.get(), zone_blocks, slot_blocks).zones(),
    });
    zones.collect()
}
