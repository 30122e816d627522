//! How an image is packed.
//!
//! It is the drives one after the other: size in blocks (8 bytes), number of blocks that are not
//! zero (8), then each: its number (8), number of runs (2), and runs of equal words: how many (2),
//! the word (8). Numbers are little-endian.

use super::BLOCK;
use crate::drive::{Power, SimDrive};
use block::BlockDevice;
use std::rc::Rc;

const WORD: usize = 8;

pub(super) fn drive_bytes(drive: &SimDrive) -> Vec<u8> {
    let blocks = drive.blocks_written();
    let mut bytes = Vec::new();
    bytes.extend(drive.geometry().block_count.to_le_bytes());
    bytes.extend((blocks.len() as u64).to_le_bytes());
    for (number, content) in blocks {
        let mut runs: Vec<(u16, &[u8])> = Vec::new();
        for word in content.chunks(WORD) {
            match runs.last_mut() {
                Some((count, last)) if *last == word => *count += 1,
                _ => runs.push((1, word)),
            }
        }
        bytes.extend(number.to_le_bytes());
        bytes.extend((runs.len() as u16).to_le_bytes());
        for (count, word) in runs {
            bytes.extend(count.to_le_bytes());
            bytes.extend(word);
        }
    }
    bytes
}

/// The drives of an image; `None` if it is not one.
pub fn drives(image: &[u8]) -> Option<Vec<SimDrive>> {
    let power = Power::new(1);
    power.switch_on(u64::MAX);
    drives_on(&power, image)
}

/// The same, of a machine whose power may fail.
pub fn drives_on(power: &Rc<Power>, image: &[u8]) -> Option<Vec<SimDrive>> {
    let mut rest = image;
    let mut drives = Vec::new();
    while !rest.is_empty() {
        let drive = SimDrive::new(number(&mut rest, 8)?, power.clone());
        for _ in 0..number(&mut rest, 8)? {
            let block = number(&mut rest, 8)?;
            let mut content = Vec::with_capacity(BLOCK);
            for _ in 0..number(&mut rest, 2)? {
                let count = number(&mut rest, 2)? as usize;
                let word = number(&mut rest, 8)?.to_le_bytes();
                content.extend(word.repeat(count));
            }
            drive.put(block, (content.len() == BLOCK).then_some(content)?);
        }
        drives.push(drive);
    }
    Some(drives)
}

fn number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let (head, tail) = rest.split_at_checked(bytes)?;
    *rest = tail;
    let byte = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
    Some(head.iter().rev().fold(0, byte))
}
