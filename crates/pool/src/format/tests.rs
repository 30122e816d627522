//! The structs and `docs/formats/pool.md` say the same, byte for byte.

use crate::format::body::{Body, Decided, DecidedLog};
use crate::format::node::{Node, NodeRecord};
use crate::format::{stripe, superblock};
use crate::ids::{
    Generation, Incarnation, LayerId, SegmentNumber, Sequence, ShardId, SnapshotId, VolumeId,
};
use crate::location::{BlockNumber, Entry, Location, Mapping, numbered};
use crate::segments::zones::Zone;
use crate::segments::{Kind, Segment, SegmentState};
use crate::volumes::{Fold, Layer, Redirect, Root, Snapshot, Volume};
use Value::{Number, Text};
use std::mem::offset_of;
use std::sync::Arc;
use stripe::{Header, Place, Record};

/// The rows of the table under a heading, cell by cell.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = include_str!("../../../../docs/formats/pool.md");
    let start = page.find(&format!("\n{heading}")).expect("the heading") + 1;
    let section = page[start + heading.len()..]
        .split("\n## ")
        .next()
        .and_then(|section| section.split("\n### ").next())
        .unwrap_or_default();
    let cells = |line: &str| {
        let cells = line.split('|').skip(1).map(str::trim);
        cells.map(str::to_owned).collect::<Vec<String>>()
    };
    let lines = section.lines().filter(|line| line.starts_with('|'));
    lines.skip(2).map(cells).collect()
}

/// Rows `| field | offset | bytes |` of the table under a heading.
fn table(heading: &str) -> Vec<(String, usize, usize)> {
    let row = |cells: Vec<String>| {
        let number = |index: usize| cells.get(index)?.parse().ok();
        Some((cells.first()?.clone(), number(1)?, number(2)?))
    };
    rows(heading).into_iter().filter_map(row).collect()
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
        ancestors, members, claim, closed, apart_at, apart, content,
        features, taken_from, reserved);
    check(
        "## Superblock",
        &fields,
        size_of::<superblock::Superblock>(),
    );
    let fields =
        offsets!(superblock::Member: id, state, reserved0, domain, reserved1, blocks, joined);
    check("### Member (", &fields, size_of::<superblock::Member>());
}

#[test]
fn the_page_has_the_stripe_header_as_it_is() {
    let fields = offsets!(stripe::Fixed: magic, version, rows, records, reserved0, segment,
        generation, row, shard, incarnation, sequence, durable_through, checksum, newest);
    check("## Stripe", &fields, size_of::<stripe::Fixed>());
}

/// What a field holds in the samples below.
enum Value<'a> {
    Number(u64),
    Text(&'a [u8]),
}

/// The bytes of one structure, field after field as the page has them, of the values given.
fn as_the_page_says(heading: &str, values: &[(&str, Value<'_>)]) -> Vec<u8> {
    let rows = rows(heading);
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let mut bytes = Vec::new();
    // A field that the page has must have a value, and the other way round, in the same order.
    let given: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let kept: Vec<&str> = names
        .into_iter()
        .filter(|name| given.contains(name) || !may_be_left_out(heading, name))
        .collect();
    assert_eq!(kept, given, "{heading}");
    for (name, value) in values {
        let row = rows.iter().find(|row| row[0] == *name);
        let row = row.expect("a field of the page");
        // With offsets the width is in the third column, without in the second.
        let width = row[1..3].iter().rev().find_map(|cell| cell.parse().ok());
        match (value, width) {
            (Number(value), Some(width)) => bytes.extend(&value.to_le_bytes()[..width]),
            (Text(text), None) => {
                bytes.extend((text.len() as u16).to_le_bytes());
                bytes.extend(*text);
            }
            _ => panic!("{heading}: {name} is a number or a text"),
        }
    }
    bytes
}

/// Fields that repeat, or that are not there for every entry.
fn may_be_left_out(heading: &str, name: &str) -> bool {
    let some = match heading {
        "### Head" => &[
            "sequence",
            "next_generation",
            "map_nodes",
            "folding",
            "folding_child",
        ][..],
        "### Segment" => &["drive", "zone"],
        "### Layer" => &["location", "checksum"],
        _ => &[],
    };
    some.contains(&name)
}

const AT: Location = Location {
    segment: SegmentNumber::new(0x12_3456),
    column: 9,
    row: 0x3ab_cdef,
};

fn sample() -> Body {
    let mut segment = Segment::new(
        Kind::Narrow,
        Generation::new(6),
        vec![Some(Zone { drive: 3, index: 9 }), None],
    );
    segment.state = SegmentState::Sealed;
    segment.rows = 4;
    segment.live_tree = 2;
    segment.sequence = Sequence::new(77);
    let mut body = Body {
        slice_blocks: 512,
        sequences: [8, 1 << 40].map(Sequence::new).to_vec(),
        next_generation: Generation::new(61),
        map_nodes: 4,
        ..Body::default()
    };
    body.segments.insert(SegmentNumber::new(7), segment);
    let tables = Arc::make_mut(&mut body.tables);
    tables.next_id = 30;
    let mapping = Mapping::Block(Entry { at: AT, crc: 33 });
    let root = Some(Root { level: 2, mapping });
    let layer = |parent, mapped, root| Layer {
        parent,
        mapped,
        root,
    };
    tables.layers.insert(LayerId::new(1), layer(None, 5, root));
    tables
        .layers
        .insert(LayerId::new(2), layer(Some(LayerId::new(1)), 0, None));
    let (to, generation) = (Some(LayerId::new(2)), Generation::new(3));
    tables
        .redirects
        .insert(LayerId::new(9), Redirect { to, generation });
    tables.folding = Some(Fold {
        layer: LayerId::new(1),
        child: LayerId::new(2),
    });
    let volume = Volume {
        name: "a volume".into(),
        blocks: 99,
        layer: LayerId::new(2),
        origin: Some(SnapshotId(4)),
        reserved: true,
        attributes: vec![1, 2],
    };
    tables.volumes.insert(VolumeId(3), volume);
    let snapshot = Snapshot {
        name: "a snapshot".into(),
        blocks: 98,
        layer: LayerId::new(1),
        volume: VolumeId(3),
        taken: Some(1 << 40),
    };
    tables.snapshots.insert(SnapshotId(4), snapshot);
    body
}

fn count(entries: u32) -> Vec<u8> {
    entries.to_le_bytes().to_vec()
}

#[test]
fn the_page_has_the_tables_as_they_are() {
    let packed = (0x12_3456u64 << 31) | (9 << 26) | 0x3ab_cdef;
    let head = "### Head";
    let segment = "### Segment";
    let parts = [
        as_the_page_says(
            head,
            &[("slice_blocks", Number(512)), ("shards", Number(2))],
        ),
        8u64.to_le_bytes().to_vec(),
        (1u64 << 40).to_le_bytes().to_vec(),
        61u32.to_le_bytes().to_vec(),
        4u64.to_le_bytes().to_vec(),
        [1u32.to_le_bytes(), 2u32.to_le_bytes()].concat(),
        count(1),
        as_the_page_says(
            segment,
            &[
                ("number", Number(7)),
                ("generation", Number(6)),
                ("kind", Number(2)),
                ("state", Number(3)),
                ("rows", Number(4)),
                ("live_blocks", Number(2)),
                ("sequence", Number(77)),
                ("columns", Number(2)),
                ("drive", Number(3)),
                ("zone", Number(9)),
            ],
        ),
        vec![255, 0, 0, 0, 0],
        30u32.to_le_bytes().to_vec(),
        count(2),
        as_the_page_says(
            "### Layer",
            &[
                ("id", Number(1)),
                ("parent", Number(0)),
                ("mapped_blocks", Number(5)),
                ("levels", Number(3)),
                ("location", Number(packed)),
                ("checksum", Number(33)),
            ],
        ),
        as_the_page_says(
            "### Layer",
            &[
                ("id", Number(2)),
                ("parent", Number(1)),
                ("mapped_blocks", Number(0)),
                ("levels", Number(0)),
            ],
        ),
        names_as_the_page_says(),
    ];
    assert_eq!(sample().encode(), parts.concat());
    let widths: Vec<String> = rows(head).into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(widths, ["4", "4", "8", "4", "8", "4", "4"]);
}

#[test]
fn the_page_has_what_was_decided_as_it_is() {
    let log = |since, through, torn: &[u64]| DecidedLog {
        since: Sequence::new(since),
        through: Sequence::new(through),
        torn: torn.iter().copied().map(Sequence::new).collect(),
    };
    let mut body = sample();
    let before = body.encode();
    body.decided = Some(Decided {
        incarnation: Incarnation::new(1 << 50),
        slice_blocks: 64,
        logs: vec![log(5, 1 << 41, &[9]), log(6, 6, &[])],
    });
    let one = as_the_page_says(
        "### Decided",
        &[
            ("incarnation", Number(1 << 50)),
            ("slice_blocks", Number(64)),
            ("shards", Number(2)),
            ("since", Number(5)),
            ("through", Number(1 << 41)),
            ("torn", Number(1)),
            ("sequence", Number(9)),
        ],
    );
    let two = [6u64.to_le_bytes(), 6u64.to_le_bytes()].concat();
    let expected = [before, one, two, count(0)].concat();
    assert_eq!(body.encode(), expected);
}

/// Redirects, volumes and snapshots.
fn names_as_the_page_says() -> Vec<u8> {
    let parts = [
        count(1),
        as_the_page_says(
            "### Redirect",
            &[
                ("layer", Number(9)),
                ("heir", Number(2)),
                ("generation", Number(3)),
            ],
        ),
        count(1),
        as_the_page_says(
            "### Volume",
            &[
                ("id", Number(3)),
                ("name", Text(b"a volume")),
                ("blocks", Number(99)),
                ("layer", Number(2)),
                ("origin", Number(4)),
                ("attributes", Text(&[1, 2])),
                ("flags", Number(1)),
            ],
        ),
        count(1),
        as_the_page_says(
            "### Snapshot",
            &[
                ("id", Number(4)),
                ("name", Text(b"a snapshot")),
                ("blocks", Number(98)),
                ("layer", Number(1)),
                ("volume", Number(3)),
            ],
        ),
        count(1),
        as_the_page_says(
            "### Time",
            &[("snapshot", Number(4)), ("taken", Number(1 << 40))],
        ),
        [0; 12].to_vec(),
    ];
    parts.concat()
}

#[test]
fn the_page_has_map_nodes_as_they_are() {
    let packed = (0x12_3456u64 << 31) | (9 << 26) | 0x3ab_cdef;
    let block = 0x12_3456_789a;
    let records = [
        NodeRecord::one(BlockNumber::new(block), Entry { at: AT, crc: 33 }),
        NodeRecord::run(numbered(block + 1..block + 8), Mapping::Hole),
        NodeRecord::run(numbered(block + 8..block + 9), Mapping::Lost),
    ];
    let node = Node::build(LayerId::new(6), 1, &records);
    let magic = u64::from(u32::from_le_bytes(*b"FYMN"));
    let record = |block, location, checksum| {
        as_the_page_says(
            "### Map record",
            &[
                ("block", Number(block)),
                ("location", Number(location)),
                ("checksum", Number(checksum)),
            ],
        )
    };
    let head = as_the_page_says(
        "## Map",
        &[
            ("magic", Number(magic)),
            ("level", Number(1)),
            ("reserved0", Number(0)),
            ("count", Number(3)),
            ("layer", Number(6)),
            ("reserved1", Number(0)),
            ("first", Number(block)),
            ("reserved2", Number(0)),
        ],
    );
    let expected = [
        head,
        record(block, packed, 33),
        record(block + 1, 1 << 55 | 6, 0),
        record(block + 8, 3 << 54, 0),
    ]
    .concat();
    assert_eq!(node.bytes()[..expected.len()], expected);
}

#[test]
fn the_page_has_the_records_of_a_stripe_as_they_are() {
    let packed = (0x12_3456u64 << 31) | (9 << 26) | 0x3ab_cdef;
    let header = Header {
        place: Place {
            segment: SegmentNumber::new(1),
            generation: Generation::new(2),
            row: 3,
            incarnation: Incarnation::new(4),
        },
        shard: ShardId::FIRST,
        rows: 2,
        sequence: Sequence::new(5),
        durable_through: Sequence::new(4),
        newest: 3,
        records: vec![
            Record::Data {
                layer: LayerId::new(21),
                block: BlockNumber::new(22),
                crc: 23,
            },
            Record::Moved {
                layer: LayerId::new(31),
                block: BlockNumber::new(32),
                crc: 33,
                from: AT,
                generation: Generation::new(34),
            },
            Record::Hole {
                layer: LayerId::new(41),
                block: BlockNumber::new(42),
                blocks: 43,
            },
            Record::Pad { crc: 51 },
        ],
    };
    let mut block = vec![0; crate::location::BLOCK_BYTES];
    header.encode(&[7; 16], &mut block);
    let kinds = rows("### Record").into_iter().filter_map(|row| {
        let kind: u64 = row[0].parse().ok()?;
        Some((kind, row[1].clone()))
    });
    let kinds: Vec<(u64, String)> = kinds.collect();
    let kind = |word: &str| {
        let found = kinds.iter().find(|(_, name)| name.starts_with(word));
        found.map_or(0, |(kind, _)| *kind)
    };
    let record = |word: &str, block, layer, value| {
        let fields = table("### Record").into_iter().zip([
            ("block", block),
            ("kind", kind(word)),
            ("layer", layer),
            ("value", value),
        ]);
        let mut bytes = Vec::new();
        for ((name, offset, width), (field, value)) in fields {
            assert_eq!((name.as_str(), offset), (field, bytes.len()));
            let value: u64 = value;
            bytes.extend(&value.to_le_bytes()[..width]);
        }
        bytes
    };
    let expected = [
        record("data", 22, 21, 23),
        record("moved", 32, 31, 33),
        record("from", packed, 34, 0),
        record("hole", 42, 41, 43),
        record("padding", 0, 0, 51),
    ];
    let start = size_of::<stripe::Fixed>();
    assert_eq!(block[start..start + 80], expected.concat());
}
