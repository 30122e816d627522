//! Drives as a stranger could make them: numbers in what lies on a drive are others, and every
//! checksum is right. The places are those of `docs/formats/pool.md`.

mod newest;
mod places;
mod using;

pub use newest::{NewestLabel, forget_newest_label, newest_label};
pub use places::{Place, header_places, label_places, node_places, table_places};
pub use using::open_and_use;

use crate::drive::SimDrive;
use block::BlockDevice;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

const BLOCK: usize = 4096;
/// A superblock begins so.
pub(crate) const LABEL: &[u8] = b"FLSHYARD";
const HEADER: &[u8] = b"FYST";
const NODE: &[u8] = b"FYMN";
const DRIVE_BLOCKS: Place = places::field("drive_blocks", 112, 8);
const SLOT_BLOCKS: Place = places::field("slot_blocks", 128, 4);
const BODY_BYTES: Place = places::field("body_bytes", 132, 4);
const BODY_CHECKSUM: Place = places::field("body_checksum", 136, 4);
const CHECKSUM: Place = places::field("checksum", 12, 4);
/// Of a stripe.
pub const SEQUENCE: Place = places::field("sequence", 40, 8);
const SECRET: std::ops::Range<usize> = 32..48;
const HEADER_CHECKSUM: std::ops::Range<usize> = 56..72;
/// Where the records of a node begin, and what each takes.
const NODE_RECORDS: usize = 32;
const NODE_RECORD: usize = 16;

/// The blocks of a drive in which a label is.
fn labels(drive: &SimDrive) -> Vec<u64> {
    let last = drive.geometry().block_count - 1;
    let mut places = vec![1, last];
    places.retain(|at| drive.content(*at).starts_with(LABEL));
    places
}

/// The blocks in which copies of these are.
fn copies(drive: &SimDrive) -> Vec<u64> {
    let blocks = drive.geometry().block_count;
    let label = labels(drive).first().map(|at| drive.content(*at));
    let slot = label.map_or(0, |label| SLOT_BLOCKS.read(&label));
    let mut places = match slot > 1 && slot < blocks {
        true => vec![slot, blocks - slot],
        false => Vec::new(),
    };
    places.retain(|at| drive.content(*at).starts_with(LABEL));
    places
}

/// Where the tables of a label, or of a copy, are: on the inner side of its slot.
fn tables_at(label: &[u8], at: u64) -> (u64, usize) {
    let bytes = BODY_BYTES.read(label) as usize;
    let blocks = bytes.div_ceil(BLOCK) as u64;
    let end = DRIVE_BLOCKS.read(label);
    let start = match at == 1 || at + SLOT_BLOCKS.read(label) == end {
        true => at + 1,
        false => at.saturating_sub(blocks),
    };
    (start, bytes)
}

fn tables_of(drive: &SimDrive, label: &[u8], at: u64) -> Vec<u8> {
    let (start, bytes) = tables_at(label, at);
    let blocks = start..start + bytes.div_ceil(BLOCK) as u64;
    let mut tables: Vec<u8> = blocks.flat_map(|block| drive.content(block)).collect();
    tables.truncate(bytes);
    tables
}

fn seal(label: &mut [u8]) {
    CHECKSUM.write(label, 0);
    let checksum = crc_fast::crc32_iscsi(label);
    CHECKSUM.write(label, checksum.into());
}

/// The latest tables of a drive; empty if it has no label.
pub fn tables(drive: &SimDrive) -> Vec<u8> {
    let sequence = places::field("sequence", 64, 8);
    let newest = labels(drive).into_iter().max_by_key(|at| {
        let label = drive.content(*at);
        sequence.read(&label)
    });
    newest.map_or_else(Vec::new, |at| tables_of(drive, &drive.content(at), at))
}

/// Changes every label of a drive, and every copy.
pub fn alter_labels(drive: &SimDrive, change: impl Fn(&mut [u8])) {
    let copies = copies(drive);
    for at in labels(drive).into_iter().chain(copies) {
        let mut label = drive.content(at);
        change(&mut label);
        seal(&mut label);
        drive.put(at, label);
    }
}

/// Changes the tables behind every label of a drive, and behind copies that have some; they stay as
/// long as they are.
pub fn alter_tables(drive: &SimDrive, change: impl Fn(&mut [u8])) {
    let mut changed = std::collections::BTreeMap::new();
    let copies = copies(drive);
    for at in labels(drive).into_iter().chain(copies.iter().copied()) {
        let mut label = drive.content(at);
        let mut tables = tables_of(drive, &label, at);
        let (old, said) = (crc_fast::crc32_iscsi(&tables), BODY_CHECKSUM.read(&label));
        if !copies.contains(&at) || u64::from(old) == said {
            change(&mut tables);
            changed.insert(said, crc_fast::crc32_iscsi(&tables));
            let (start, _) = tables_at(&label, at);
            for (block, content) in (start..).zip(tables.chunks(BLOCK)) {
                let mut content = content.to_vec();
                content.resize(BLOCK, 0);
                drive.put(block, content);
            }
        }
        if let Some(checksum) = changed.get(&said) {
            BODY_CHECKSUM.write(&mut label, (*checksum).into());
        }
        seal(&mut label);
        drive.put(at, label);
    }
}

/// The largest sequence number of a stripe on some drives.
pub fn last_sequence(drives: &[SimDrive]) -> u64 {
    let headers = drives
        .iter()
        .flat_map(|drive| blocks_that_begin(drive, HEADER));
    let sequences = headers.map(|(_, header)| SEQUENCE.read(&header));
    sequences.max().unwrap_or(0)
}

/// Changes every stripe's header on a drive.
pub fn alter_headers(drive: &SimDrive, change: impl Fn(&mut [u8])) {
    let Some(label) = labels(drive).first().map(|at| drive.content(*at)) else {
        return;
    };
    let mut secret = [0; 16];
    secret.copy_from_slice(&label[SECRET]);
    for (at, mut header) in blocks_that_begin(drive, HEADER) {
        change(&mut header);
        let mut hasher = SipHasher24::new_with_key(&secret);
        header[HEADER_CHECKSUM].fill(0);
        hasher.write(&header);
        header[HEADER_CHECKSUM].copy_from_slice(&hasher.finish128().as_bytes());
        drive.put(at, header);
    }
}

fn blocks_that_begin(drive: &SimDrive, magic: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut blocks = drive.blocks_written();
    blocks.retain(|(_, content)| content.starts_with(magic));
    blocks
}

/// Changes every node of the maps, leaves first; what points at one has its new checksum.
pub fn alter_nodes(drives: &[SimDrive], change: impl Fn(&mut [u8])) {
    let level = |node: &[u8]| node[4];
    let mut nodes: Vec<(usize, u64, Vec<u8>)> = Vec::new();
    for (index, drive) in drives.iter().enumerate() {
        let found = blocks_that_begin(drive, NODE).into_iter();
        nodes.extend(found.map(|(at, node)| (index, at, node)));
    }
    nodes.sort_by_key(|(_, _, node)| level(node));
    let mut renamed = std::collections::BTreeMap::new();
    for (index, at, mut node) in nodes {
        let before = crc_fast::crc32_iscsi(&node);
        if level(&node) > 0 {
            for record in node[NODE_RECORDS..].chunks_exact_mut(NODE_RECORD) {
                rename(&mut record[12..], &renamed);
            }
        }
        change(&mut node);
        renamed.insert(before, crc_fast::crc32_iscsi(&node));
        drives[index].put(at, node);
    }
    for drive in drives {
        alter_tables(drive, |tables| {
            for place in table_places(tables) {
                if place.name == "layer checksum" {
                    rename(&mut tables[place.offset..place.offset + 4], &renamed);
                }
            }
        });
    }
}

/// Puts the new checksum in the place of an old one.
fn rename(bytes: &mut [u8], renamed: &std::collections::BTreeMap<u32, u32>) {
    let mut old = [0; 4];
    old.copy_from_slice(&bytes[..4]);
    if let Some(new) = renamed.get(&u32::from_le_bytes(old)) {
        bytes[..4].copy_from_slice(&new.to_le_bytes());
    }
}
