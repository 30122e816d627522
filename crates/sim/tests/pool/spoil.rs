//! What scenarios of blocks that go bad share: finding a pool's own blocks on its drives by what
//! begins them, and flipping bits in them.

use crate::support::{BLOCK, open};
use block::{BlockDevice, Buffer, IoError, Lba};
use sim::{Power, SimDrive};
use std::collections::BTreeMap;

/// Begins the header of a stripe.
pub const HEADER: &[u8] = b"FYST";

/// A block on a drive: the drive's place among those given, the block, what is in it.
pub type Found = (usize, u64, Vec<u8>);

/// Every block of the drives that begins so.
pub fn beginning(drives: &[SimDrive], magic: &[u8]) -> Vec<Found> {
    let of_one = |(index, drive): (usize, &SimDrive)| {
        let blocks = drive.blocks_written().into_iter();
        let own = blocks.filter(|(_, content)| content.starts_with(magic));
        own.map(move |(at, content)| (index, at, content))
            .collect::<Vec<_>>()
    };
    drives.iter().enumerate().flat_map(of_one).collect()
}

/// A little-endian number of four bytes in a block.
pub fn word(content: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"))
}

/// Flips a bit of a block, behind what it begins with.
pub fn spoil(drive: &SimDrive, at: u64) {
    let mut content = drive.content(at);
    content[4000] ^= 1;
    drive.put(at, content);
}

/// Flips a bit in every copy of a block, so that a mirror has none left.
pub fn spoil_copies(drives: &[SimDrive], content: &[u8]) {
    for (index, at, found) in beginning(drives, &content[..4]) {
        if found == content {
            spoil(&drives[index], at);
        }
    }
}

/// Begins a node of a map.
pub const NODE: &[u8] = b"FYMN";

/// Rows of a zone.
const ROWS: u64 = 32;

/// The other two blocks of the row of a block, in a segment of three columns of which each is the
/// sum of the others.
pub fn row_of(drives: &[SimDrive], (drive, at, content): &Found) -> Option<[(usize, u64); 2]> {
    let others: Vec<usize> = (0..drives.len()).filter(|other| other != drive).collect();
    let rows = |drive: usize| {
        let blocks = drives[drive].blocks_written().into_iter();
        blocks.filter(|(other, _)| other % ROWS == at % ROWS)
    };
    let second: BTreeMap<Vec<u8>, u64> = rows(others[1]).map(|(at, found)| (found, at)).collect();
    rows(others[0]).find_map(|(first_at, found)| {
        let sum: Vec<u8> = found.iter().zip(content).map(|(a, b)| a ^ b).collect();
        let second_at = second.get(&sum)?;
        Some([(others[0], first_at), (others[1], *second_at)])
    })
}

/// What could be read if all ended now: opens copies of the drives, and says of every block whether
/// it reads, and what its first byte is.
pub async fn readable(drives: &[SimDrive], blocks: u64) -> Vec<Option<u8>> {
    let power = Power::new(9);
    power.switch_on(u64::MAX);
    let copy = |drive: &SimDrive| {
        let copy = SimDrive::new(drive.geometry().block_count, power.clone());
        for (at, content) in drive.blocks_written() {
            copy.put(at, content);
        }
        copy
    };
    let copies: Vec<SimDrive> = drives.iter().map(copy).collect();
    let pool = open(&copies).await;
    let device = pool.volume(pool.volumes()[0].id).expect("the volume");
    let found = read_each(&device, blocks).await;
    pool.close().await.expect("closed");
    found
}

/// The first byte of each block; `None` for those that are lost.
pub async fn read_each<D: BlockDevice>(device: &D, blocks: u64) -> Vec<Option<u8>> {
    let mut found = Vec::new();
    for block in 0..blocks {
        let (buffer, read) = device.read(Lba(block), Buffer::new(BLOCK)).await;
        assert!(
            matches!(read, Ok(()) | Err(IoError::UnrecoveredRead)),
            "{read:?}"
        );
        found.push(read.is_ok().then(|| buffer[0]));
    }
    found
}
