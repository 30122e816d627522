//! What scenarios of blocks that go bad share: finding a pool's own blocks on its drives by what
//! begins them, and flipping bits in them.

use sim::SimDrive;

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
