//! Labels: a superblock by itself, and beside the newest one of its pool.

use crate::format::drive_layout::{DriveLayout, FIRST_SLOT};
use crate::format::plausible::{
    COUNT_MAX, Implausible, Of, TABLES_BYTES_MAX, ZONES_MAX, is_printable, right, within,
};
use crate::format::superblock::{MEMBER_FAILED, MEMBER_NONE, MEMBERS, Member, Superblock};
use crate::level::{DRIVES_MAX, Level};
use crate::location::{BLOCK_BYTES, ROWS_MAX};
use crate::segments::zones::{ZONE_BLOCKS_MIN, ZONES_MIN};
use std::collections::BTreeSet;

/// Blocks of a slot: one for the superblock and one for tables at least. No pool of so many zones
/// as there may be has larger ones.
const SLOT_BLOCKS: std::ops::RangeInclusive<u32> = 2..=1 << 24;

/// Refuses a superblock that no pool writes.
pub(crate) fn label(found: &Superblock) -> Result<(), Implausible> {
    for (field, count) in [
        ("sequence", found.sequence),
        ("incarnation", found.incarnation),
        ("epoch", found.epoch.number),
    ] {
        within(field, count.get(), 0..=COUNT_MAX)?;
    }
    let content = found.content.get();
    within("content", content, 0..=found.sequence.get())?;
    width(found)?;
    sizes(found)?;
    members(found)?;
    own_place(found)?;
    name(found)
}

fn width(found: &Superblock) -> Result<(), Implausible> {
    let level = Level::from_code(found.level);
    right(level.is_some(), "level", found.level, "0, 1, 5, 6 and 10")?;
    let width = usize::from(found.width);
    let fits = level.is_some_and(|level| level.allows_width(width, DRIVES_MAX));
    let widths = level.map_or_else(String::new, |level| level.widths(DRIVES_MAX));
    right(fits, "width", width, widths)
}

fn sizes(found: &Superblock) -> Result<(), Implausible> {
    let (zone, slot) = (found.zone_blocks.get(), found.slot_blocks.get());
    within("zone_blocks", zone, ZONE_BLOCKS_MIN..=ROWS_MAX)?;
    within("slot_blocks", slot, SLOT_BLOCKS)?;
    let layout = DriveLayout::new(found.drive_blocks.get(), zone, slot);
    let base = found.zone_base.get();
    right(
        base == layout.zone_base,
        "zone_base",
        base,
        layout.zone_base,
    )?;
    let tables = (u64::from(slot) - FIRST_SLOT) * BLOCK_BYTES as u64;
    let bytes = u64::from(found.body_bytes.get());
    within("body_bytes", bytes, 1..=tables.min(TABLES_BYTES_MAX))
}

fn members(found: &Superblock) -> Result<(), Implausible> {
    let (zone, slot) = (found.zone_blocks.get(), found.slot_blocks.get());
    let mut ids = BTreeSet::new();
    let mut all = 0;
    for (index, member) in found.members.iter().enumerate() {
        let field = |name| Of(name, "member", index as u32);
        within(field("state"), member.state, MEMBER_NONE..=MEMBER_FAILED)?;
        if member.state == MEMBER_NONE {
            continue;
        }
        right(ids.insert(member.id), field("id"), "another's", "its own")?;
        within(field("domain"), member.domain.get(), 0..=0)?;
        let blocks = member.blocks.get();
        let zones = DriveLayout::new(blocks, zone, slot).zones();
        let some = u64::from(ZONES_MIN)..=ZONES_MAX;
        let words = format_args!("such that there are {ZONES_MIN} to {ZONES_MAX} zones");
        let enough = some.contains(&u64::from(zones));
        right(enough, field("blocks"), blocks, words)?;
        all += u64::from(zones);
    }
    within("zones of all members", all, 1..=ZONES_MAX)
}

/// A drive gets only superblocks that list it.
fn own_place(found: &Superblock) -> Result<(), Implausible> {
    let index = usize::from(found.drive_index);
    within("drive_index", index, 0..=MEMBERS - 1)?;
    let own = &found.members[index];
    let listed = own.state != MEMBER_NONE && own.id == found.drive_id;
    right(
        listed,
        format_args!("id of member {index}"),
        "another's",
        "drive_id",
    )?;
    own_blocks(index, own, found.drive_blocks.get())
}

fn own_blocks(index: usize, member: &Member, blocks: u64) -> Result<(), Implausible> {
    right(
        member.blocks.get() == blocks,
        format_args!("blocks of member {index}"),
        member.blocks,
        blocks,
    )
}

fn name(found: &Superblock) -> Result<(), Implausible> {
    let end = found.name.iter().position(|byte| *byte == 0);
    let bytes = &found.name[..end.unwrap_or(found.name.len())];
    let is_name = |name: &str| !name.is_empty() && is_printable(name);
    right(
        std::str::from_utf8(bytes).is_ok_and(is_name),
        "name",
        format_args!("{:?}", String::from_utf8_lossy(bytes)),
        "1 to 64 bytes of UTF-8 without control characters",
    )
}

/// Refuses a drive that is the member at `index` by the newest superblock of its pool, `head`, and
/// says otherwise of what never changes.
pub(crate) fn member(
    head: &Superblock,
    index: usize,
    label: &Superblock,
) -> Result<(), Implausible> {
    for (field, theirs, ours) in [
        ("level", u32::from(label.level), u32::from(head.level)),
        ("width", label.width.into(), head.width.into()),
        (
            "zone_blocks",
            label.zone_blocks.get(),
            head.zone_blocks.get(),
        ),
        (
            "slot_blocks",
            label.slot_blocks.get(),
            head.slot_blocks.get(),
        ),
    ] {
        let at = format_args!("{field} on member {index}");
        right(theirs == ours, at, theirs, ours)?;
    }
    let same = label.secret == head.secret;
    let at = format_args!("secret on member {index}");
    right(same, at, "another", "that of the pool")?;
    own_blocks(index, &head.members[index], label.drive_blocks.get())
}
