//! The newest label of a drive, as far as it matters how many drives have it.

use super::{
    BLOCK, BODY_CHECKSUM, CHECKSUM, DRIVE_BLOCKS, SLOT_BLOCKS, labels, places, tables_at, tables_of,
};
use crate::drive::SimDrive;
use std::ops::Range;

const MEMBERS: usize = 1232;
const MEMBER_BYTES: usize = 40;
const MEMBERS_MAX: usize = 32;
const ACTIVE: u8 = 1;

/// The newest label of a drive that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestLabel {
    /// Epoch, incarnation and sequence number.
    pub rank: (u64, u64, u64),
    /// The drive that it is on.
    pub drive: [u8; 16],
    /// The drives that work, by it.
    pub active: Vec<[u8; 16]>,
    /// The blocks of the superblock, those of the tables, and of copies.
    pub parts: Vec<Range<u64>>,
}

/// The newest label of a drive that has one.
pub fn newest_label(drive: &SimDrive) -> Option<NewestLabel> {
    let found = labels(drive).into_iter();
    let whole = found.filter_map(|at| read(drive, at));
    whole.max_by_key(|label| label.rank)
}

/// Takes the newest label of a drive away, without a trace.
pub fn forget_newest_label(drive: &SimDrive) {
    let Some(newest) = newest_label(drive) else {
        return;
    };
    for at in labels(drive) {
        if read(drive, at).is_some_and(|label| label.rank == newest.rank) {
            let label = drive.content(at);
            drive.put(at, vec![0; BLOCK]);
            drive.put(copy_of(&label, at), vec![0; BLOCK]);
        }
    }
}

/// Where the copy of a superblock is.
fn copy_of(label: &[u8], at: u64) -> u64 {
    let (slot, end) = (SLOT_BLOCKS.read(label), DRIVE_BLOCKS.read(label));
    if at == 1 { slot } else { end - slot }
}

fn identifier(from: &[u8]) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&from[..16]);
    id
}

fn read(drive: &SimDrive, at: u64) -> Option<NewestLabel> {
    let label = drive.content(at);
    let mut unsealed = label.clone();
    CHECKSUM.write(&mut unsealed, 0);
    if CHECKSUM.read(&label) != u64::from(crc_fast::crc32_iscsi(&unsealed)) {
        return None;
    }
    let tables = tables_of(drive, &label, at);
    if BODY_CHECKSUM.read(&label) != u64::from(crc_fast::crc32_iscsi(&tables)) {
        return None;
    }
    let number = |offset| places::field("", offset, 8).read(&label);
    let members = label[MEMBERS..].chunks_exact(MEMBER_BYTES);
    let active = members.take(MEMBERS_MAX).filter(|it| it[16] == ACTIVE);
    let (start, bytes) = tables_at(&label, at);
    let blocks = bytes.div_ceil(BLOCK) as u64;
    let mut parts = vec![at..at + 1, start..start + blocks];
    // At the other end of the slot are copies.
    let copy = copy_of(&label, at);
    if drive.content(copy) == label {
        parts.push(copy..copy + 1);
        let (start, _) = tables_at(&label, copy);
        if tables_of(drive, &label, copy) == tables {
            parts.push(start..start + blocks);
        }
    }
    Some(NewestLabel {
        rank: (number(80), number(72), number(64)),
        drive: identifier(&label[48..]),
        active: active.map(identifier).collect(),
        parts,
    })
}
