//! The superblocks of a drive and their tables, changed as docs/formats/pool.md has them: what
//! another version of the program, or somebody who should not, may have left there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: u64 = 4096;
const VERSION: usize = 8;
const CHECKSUM: usize = 12;
const POOL: usize = 16;
const SLOT_BLOCKS: usize = 128;
const BODY_BYTES: usize = 132;
const BODY_CHECKSUM: usize = 136;

/// The Castagnoli polynomial, as the format page has it.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |mut crc: u32, byte: &u8| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
        }
        crc
    };
    !bytes.iter().fold(!0, step)
}

fn number(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().unwrap())
}

fn put(block: &mut [u8], at: usize, number: u32) {
    block[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Where the copy of a superblock is: at the other end of its slot.
fn copy_of(block: &[u8], last: u64, odd: bool) -> u64 {
    let slot = u64::from(number(block, SLOT_BLOCKS));
    if odd { last + 1 - slot } else { slot }
}

/// Changes both superblocks of a drive, and their tables; the checksums follow. Copies go: what is
/// changed is not to be mended by them.
fn change(drive: &Path, change: impl Fn(&mut [u8], &mut Vec<u8>)) {
    let file = File::options().read(true).write(true).open(drive).unwrap();
    let last = file.metadata().unwrap().len() / BLOCK - 1;
    let mut changed = 0;
    for (at, odd) in [(1, false), (last, true)] {
        let mut block = vec![0; BLOCK as usize];
        file.read_exact_at(&mut block, at * BLOCK).unwrap();
        if &block[..8] != b"FLSHYARD" {
            continue;
        }
        let bytes = number(&block, BODY_BYTES) as usize;
        let blocks = bytes.div_ceil(BLOCK as usize) as u64;
        let start = if odd { at - blocks } else { at + 1 };
        let mut body = vec![0; bytes];
        file.read_exact_at(&mut body, start * BLOCK).unwrap();
        let (copy, before) = (copy_of(&block, last, odd), (block.clone(), body.clone()));
        change(&mut block, &mut body);
        if (&block, &body) != (&before.0, &before.1) {
            file.write_all_at(&[0; BLOCK as usize], copy * BLOCK)
                .unwrap();
        }
        assert_eq!(body.len(), bytes, "the tables stay where they are");
        put(&mut block, BODY_CHECKSUM, crc32c(&body));
        put(&mut block, CHECKSUM, 0);
        let checksum = crc32c(&block);
        put(&mut block, CHECKSUM, checksum);
        file.write_all_at(&body, start * BLOCK).unwrap();
        file.write_all_at(&block, at * BLOCK).unwrap();
        changed += 1;
    }
    assert!(changed > 0, "{} carries a pool", drive.display());
}

/// Copies a drive but for a bit in each of its two superblocks, and in their copies.
pub fn damage(whole: &Path, to: &Path) {
    let mut content = std::fs::read(whole).unwrap();
    let last = content.len() - BLOCK as usize;
    let slot = number(&content[BLOCK as usize..], SLOT_BLOCKS) as usize * BLOCK as usize;
    let copies = [slot, content.len() - slot];
    for superblock in [BLOCK as usize, last].into_iter().chain(copies) {
        content[superblock + 200] ^= 4;
    }
    std::fs::write(to, content).unwrap();
}

/// Changes a bit in the first of the two superblocks of a drive.
pub fn damage_first(drive: &Path) {
    let file = File::options().read(true).write(true).open(drive).unwrap();
    let (mut byte, at) = ([0], BLOCK + 200);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Writes zeroes over the second of the two superblocks of a drive.
pub fn erase_second(drive: &Path) {
    let file = File::options().write(true).open(drive).unwrap();
    let last = file.metadata().unwrap().len() - BLOCK;
    file.write_all_at(&[0; BLOCK as usize], last).unwrap();
}

/// Makes a drive say that a later version of the format is on it.
pub fn set_version(drive: &Path, version: u32) {
    change(drive, |block, _| put(block, VERSION, version));
}

/// Makes a drive another pool's.
pub fn set_pool(drive: &Path, pool: [u8; 16]) {
    change(drive, |block, _| {
        block[POOL..POOL + 16].copy_from_slice(&pool)
    });
}

/// Puts a number of so many bytes into both superblocks of a drive.
pub fn set_number(drive: &Path, at: usize, bytes: usize, number: u64) {
    change(drive, |block, _| {
        block[at..at + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
    });
}

/// Puts bytes into the tables of a drive.
pub fn set_in_tables(drive: &Path, at: usize, bytes: &[u8]) {
    change(drive, |_, body| {
        body[at..at + bytes.len()].copy_from_slice(bytes)
    });
}

/// Replaces `from` wherever the tables of a drive have it.
pub fn replace_in_tables(drive: &Path, from: &str, to: &str) {
    change(drive, |_, body| {
        assert_eq!(from.len(), to.len());
        let places: Vec<usize> = (0..body.len().saturating_sub(from.len()))
            .filter(|at| body[*at..].starts_with(from.as_bytes()))
            .collect();
        for at in places {
            body[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    });
}

/// Whether the tables of a drive have `text`: in the slots that there are, each by itself.
pub fn tables_have(drive: &Path, text: &str) -> Vec<bool> {
    let found = std::cell::RefCell::new(Vec::new());
    change(drive, |_, body| {
        let has = body
            .windows(text.len())
            .any(|window| window == text.as_bytes());
        found.borrow_mut().push(has);
    });
    found.into_inner()
}
