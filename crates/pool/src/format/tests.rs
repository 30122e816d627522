//! The structs and `docs/formats/pool.md` say the same.

use super::{stripe, superblock};
use std::mem::offset_of;

/// Rows `| field | offset | bytes |` of the table under a heading.
fn table(heading: &str) -> Vec<(String, usize, usize)> {
    let page = include_str!("../../../../docs/formats/pool.md");
    let start = page.find(heading).expect("the heading");
    let section = page[start + heading.len()..]
        .split("\n## ")
        .next()
        .unwrap_or_default();
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let name = cells.next()?.to_owned();
        Some((
            name,
            cells.next()?.parse().ok()?,
            cells.next()?.parse().ok()?,
        ))
    });
    rows.collect()
}

fn check(heading: &str, fields: &[(&str, usize)], end: usize) {
    let table = table(heading);
    let names: Vec<(&str, usize)> = table
        .iter()
        .map(|(name, offset, _)| (name.as_str(), *offset))
        .collect();
    assert_eq!(names, fields, "{heading}");
    let mut next = 0;
    for (name, offset, bytes) in &table {
        assert_eq!(*offset, next, "{heading}: {name} follows what is before it");
        next += bytes;
    }
    assert_eq!(next, end, "{heading}: the last field ends the structure");
}

macro_rules! offsets {
    ($type:ty: $($field:ident),*) => {
        [$((stringify!($field), offset_of!($type, $field))),*]
    };
}

#[test]
fn the_page_has_the_superblock_as_it_is() {
    let fields = offsets!(superblock::Superblock: magic, version, checksum, pool_id, secret,
        drive_id, sequence, incarnation, epoch, holder, drive_blocks, zone_base, zone_blocks,
        slot_blocks, body_bytes, body_checksum, level, width, drive_index, reserved0, name,
        ancestors, members, reserved);
    check(
        "## Superblock",
        &fields,
        size_of::<superblock::Superblock>(),
    );
}

#[test]
fn the_page_has_the_stripe_header_as_it_is() {
    let fields = offsets!(stripe::Fixed: magic, version, rows, records, reserved0, segment,
        generation, row, shard, incarnation, sequence, durable_through, checksum, reserved2);
    check("## Stripe", &fields, size_of::<stripe::Fixed>());
}
