//! Tables: by themselves, and beside the superblock that they belong to.

use crate::format::body::{Body, Decided};
use crate::format::drive_layout::zones;
use crate::format::node::LEVELS_MAX;
use crate::format::plausible::{
    COUNT_MAX, Implausible, Of, ZONES_MAX, is_printable, right, within,
};
use crate::format::superblock::Superblock;
use crate::ids::{Generation, Incarnation, LayerId, SegmentNumber, Sequence};
use crate::level::{DRIVES_MAX, Level};
use crate::location::{ATOMIC_BLOCKS, ROWS_MAX, VOLUME_BLOCKS_MAX};
use crate::segments::zones::Zone;
use crate::segments::{Kind, Segment};
use crate::volumes::{ATTRIBUTES_BYTES_MAX, IDS_END, Layer, NAME_BYTES_MAX, Tables};
use std::collections::{BTreeSet, HashSet};

/// Lives of segments: with none left for its map a pool can do nothing any more, and no pool comes
/// to that.
const GENERATION_MAX: Generation = Generation::new(u32::MAX - (1 << 16));
/// Stripes are counted as everything else is.
const SEQUENCE_MAX: Sequence = Sequence::new(COUNT_MAX);
/// No drives have more blocks than so many together.
const BLOCKS_MAX: u64 = ZONES_MAX * ROWS_MAX as u64;

/// Names that are looked at before others on this core have a turn.
const NAMES_IN_A_ROW: usize = 8192;

/// Refuses tables that no pool writes beside this superblock. Those of a large pool take a while:
/// others on this core have their turns.
pub(crate) async fn tables(body: &Body, superblock: &Superblock) -> Result<(), Implausible> {
    let zones = zones(superblock);
    let rows = superblock.zone_blocks.get();
    slice("slice_blocks", body.slice_blocks)?;
    let generations = Generation::NONE..=GENERATION_MAX;
    within("next_generation", body.next_generation, generations)?;
    for sequence in &body.sequences {
        within(
            "sequence of a shard",
            *sequence,
            Sequence::NONE..=SEQUENCE_MAX,
        )?;
    }
    within("map_nodes", body.map_nodes, 0..=BLOCKS_MAX)?;
    segments(body, superblock, &zones)?;
    reactor::yield_now().await;
    layers(body, rows)?;
    reactor::yield_now().await;
    redirects(&body.tables)?;
    reactor::yield_now().await;
    volumes(&body.tables)?;
    snapshots(&body.tables)?;
    names(&body.tables).await?;
    match &body.decided {
        Some(decided) => self::decided(decided, Incarnation::new(superblock.incarnation.get())),
        None => Ok(()),
    }
}

fn slice(field: &str, blocks: u32) -> Result<(), Implausible> {
    let whole = blocks > 0 && u64::from(blocks).is_multiple_of(ATOMIC_BLOCKS);
    right(whole, field, blocks, "multiples of 16")
}

fn segments(body: &Body, superblock: &Superblock, zones: &[u32]) -> Result<(), Implausible> {
    let level = Level::from_code(superblock.level).unwrap_or(Level::Raid0);
    let width = usize::from(superblock.width);
    let widest = level.shape(width).width().max(level.narrow(width).width());
    let rows = superblock.zone_blocks.get();
    let mut taken: Vec<Zone> = Vec::new();
    for (number, segment) in &body.segments {
        let field = |name| Of(name, "segment", number.get());
        let numbers = SegmentNumber::FIRST..=SegmentNumber::LAST;
        within("number of a segment", *number, numbers)?;
        let generations = Generation::NONE..=body.next_generation;
        within(field("generation"), segment.generation, generations)?;
        within(field("rows"), segment.rows, 0..=rows)?;
        within(
            field("sequence"),
            segment.sequence,
            Sequence::NONE..=SEQUENCE_MAX,
        )?;
        let width = segment.columns.len();
        let shape = level.shape(width);
        let formed = width == 0 || width <= widest && shape.width() == width;
        let words = format_args!("0, or a width of {level} up to {widest}");
        right(formed, field("columns"), width, words)?;
        let data = if width == 0 { DRIVES_MAX } else { shape.data };
        let most = u64::from(rows) * data as u64;
        within(field("live_blocks"), segment.live_tree.into(), 0..=most)?;
        columns(*number, segment, zones)?;
        taken.extend(segment.columns.iter().flatten());
    }
    taken.sort_unstable();
    let twice = taken.windows(2).find(|pair| pair[0] == pair[1]);
    let words = twice.map_or_else(String::new, |pair| {
        format!("zone {} of drive {}", pair[0].index, pair[0].drive)
    });
    right(twice.is_none(), "a zone of two columns", words, "none")
}

/// Every column is in a zone that there is, each on another drive.
fn columns(number: SegmentNumber, segment: &Segment, zones: &[u32]) -> Result<(), Implausible> {
    let field = |name| Of(name, "segment", number.get());
    let mut drives: u32 = 0;
    for zone in segment.columns.iter().flatten() {
        let drive = usize::from(zone.drive);
        let there = zones.get(drive).copied().unwrap_or(0);
        right(there > 0, field("a drive"), drive, "members of the pool")?;
        within(field("a zone"), zone.index, 0..=there - 1)?;
        let first = drives >> drive & 1 == 0;
        right(first, field("the drive of two columns"), drive, "none")?;
        drives |= 1 << drive;
    }
    Ok(())
}

/// An identifier that has been given.
fn given(tables: &Tables, field: impl std::fmt::Display, id: u32) -> Result<(), Implausible> {
    within(field, id, 1..=tables.next_id.saturating_sub(1))
}

fn layers(body: &Body, rows: u32) -> Result<(), Implausible> {
    let tables = &body.tables;
    within("next_id", tables.next_id, 0..=IDS_END)?;
    for (id, layer) in &tables.layers {
        let field = |name| Of(name, "layer", id.get());
        given(tables, "the identifier of a layer", id.get())?;
        within(field("mapped_blocks"), layer.mapped, 0..=VOLUME_BLOCKS_MAX)?;
        if let Some(parent) = layer.parent {
            // A parent is older than what stands on it: so there is no circle of them.
            let there = parent < *id && tables.layers.contains_key(parent);
            right(there, field("parent"), parent, "layers of lower numbers")?;
        }
        root(body, *id, layer, rows)?;
    }
    let Some(fold) = tables.folding else {
        return Ok(());
    };
    let stands = tables.parent(fold.child) == Some(fold.layer);
    let words = format_args!("a layer that stands on layer {}", fold.layer);
    right(stands, "folding_child", fold.child, words)
}

/// The top node of a map is in a segment of the map.
fn root(body: &Body, id: LayerId, layer: &Layer, rows: u32) -> Result<(), Implausible> {
    let field = |name| Of(name, "layer", id.get());
    let Some(root) = layer.root else {
        return Ok(());
    };
    within(field("levels"), root.level, 0..=LEVELS_MAX - 1)?;
    let Some(entry) = root.mapping.entry() else {
        return Ok(());
    };
    let segment = body.segments.get(entry.at.segment);
    let of_map = segment.filter(|segment| segment.kind == Kind::Map);
    let columns = of_map.map_or(0, |segment| segment.columns.len());
    let there = usize::from(entry.at.column) < columns && entry.at.row < rows;
    let at = format_args!(
        "segment {}, column {}, row {}",
        entry.at.segment, entry.at.column, entry.at.row
    );
    right(there, field("location"), at, "rows of segments of the map")
}

fn redirects(tables: &Tables) -> Result<(), Implausible> {
    for (id, redirect) in &tables.redirects {
        given(tables, "the layer of a redirect", id.get())?;
        if let Some(heir) = redirect.to {
            given(tables, format_args!("heir of layer {id}"), heir.get())?;
        }
    }
    match tables.redirect_in_circle() {
        Some(layer) => right(false, "an heir of layer", layer, "others than itself"),
        None => Ok(()),
    }
}

fn volumes(tables: &Tables) -> Result<(), Implausible> {
    let mut tops = BTreeSet::new();
    let mut reserved: u64 = 0;
    for (id, volume) in &tables.volumes {
        let field = |name| Of(name, "volume", id.0);
        given(tables, "the identifier of a volume", id.0)?;
        within(field("blocks"), volume.blocks, 1..=VOLUME_BLOCKS_MAX)?;
        let there = tables.layers.contains_key(volume.layer);
        let own = there && tops.insert(volume.layer);
        right(own, field("layer"), volume.layer, "a layer of its own")?;
        if let Some(origin) = volume.origin {
            given(tables, field("origin"), origin.0)?;
        }
        let bytes = volume.attributes.len();
        within(field("attributes"), bytes, 0..=ATTRIBUTES_BYTES_MAX)?;
        reserved += if volume.reserved { volume.blocks } else { 0 };
        within("blocks that are reserved", reserved, 0..=BLOCKS_MAX)?;
    }
    Ok(())
}

fn snapshots(tables: &Tables) -> Result<(), Implausible> {
    for (id, snapshot) in &tables.snapshots {
        let field = |name| Of(name, "snapshot", id.0);
        given(tables, "the identifier of a snapshot", id.0)?;
        given(tables, field("volume"), snapshot.volume.0)?;
        within(field("blocks"), snapshot.blocks, 1..=VOLUME_BLOCKS_MAX)?;
        let there = tables.layers.contains_key(snapshot.layer);
        right(there, field("layer"), snapshot.layer, "layers")?;
    }
    Ok(())
}

/// Names are such as are given, and each is given once.
async fn names(tables: &Tables) -> Result<(), Implausible> {
    let mut names = HashSet::new();
    for (turn, top) in (0_usize..).zip(tables.tops()) {
        if turn.is_multiple_of(NAMES_IN_A_ROW) {
            reactor::yield_now().await;
        }
        let is_name = (1..=NAME_BYTES_MAX).contains(&top.name.len()) && is_printable(top.name);
        let words = "1 to 255 bytes without control characters, each once";
        let found = format_args!("{:?}", top.name);
        right(is_name && names.insert(top.name), "a name", found, words)?;
    }
    Ok(())
}

fn decided(decided: &Decided, incarnation: Incarnation) -> Result<(), Implausible> {
    slice("decided slice_blocks", decided.slice_blocks)?;
    within(
        "decided incarnation",
        decided.incarnation,
        Incarnation::LEAST..=incarnation,
    )?;
    for log in &decided.logs {
        within(
            "the end of a decided log",
            log.through,
            Sequence::NONE..=SEQUENCE_MAX,
        )?;
        within(
            "the beginning of a decided log",
            log.since,
            Sequence::NONE..=log.through,
        )?;
        let mut before = log.since;
        for torn in &log.torn {
            within("a torn stripe", *torn, before.next()..=log.through)?;
            before = *torn;
        }
    }
    Ok(())
}
