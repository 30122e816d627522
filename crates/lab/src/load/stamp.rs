//! The stamp: what a verified block carries, so that any later reader can judge it alone.

use super::random::SplitMix;
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes at the start of each verified block that hold its stamp.
pub const STAMP_BYTES: usize = 40;

/// Starts every stamped block; chosen to be no text and no common fill pattern.
const MAGIC: u64 = 0x9d1e_f1a5_4b5d_c0d3;

/// Where the checksum lies in the stamp; it covers every other byte of the block.
const CHECKSUM_AT: usize = 32;

/// Who wrote a block, which block it is, and which write of it.
///
/// On the medium, little endian: magic (8), seed (8), block address (8), generation (8), CRC32C of
/// the rest of the block (4), zero (4); then filling that depends on all of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The run that wrote it.
    pub seed: u64,
    /// The logical block it was written to.
    pub block: u64,
    /// Counts the writes of this block, from 1.
    pub generation: u64,
}

/// Why a block carries no valid stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// Never stamped, or overwritten by someone else.
    #[error("no stamp")]
    Absent,
    /// It starts like a stamped block, but the checksum is of other bytes: torn or corrupted.
    #[error("checksum {found:#010x} in the stamp, {computed:#010x} over the block")]
    Checksum {
        /// As stored in the block.
        found: u32,
        /// As computed from the block.
        computed: u32,
    },
}

impl Stamp {
    /// Fills `block` (at least [`STAMP_BYTES`] long) with this stamp and content derived from it.
    pub fn write(&self, block: &mut [u8]) {
        let Some((head, filling)) = block.split_first_chunk_mut::<STAMP_BYTES>() else {
            return;
        };
        head[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..16].copy_from_slice(&self.seed.to_le_bytes());
        head[16..24].copy_from_slice(&self.block.to_le_bytes());
        head[24..32].copy_from_slice(&self.generation.to_le_bytes());
        head[CHECKSUM_AT..].fill(0);
        let key = self.seed ^ self.block.rotate_left(32) ^ self.generation.rotate_left(17);
        SplitMix::new(key).fill(filling);
        let checksum = checksum_of(block);
        block[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The stamp that `block` carries, once its checksum has been found right.
    ///
    /// # Errors
    /// [`StampError`] when there is none or the block is not whole.
    pub fn read(block: &[u8]) -> Result<Stamp, StampError> {
        let head = block
            .first_chunk::<STAMP_BYTES>()
            .ok_or(StampError::Absent)?;
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        if word(0) != MAGIC {
            return Err(StampError::Absent);
        }
        let found = word(CHECKSUM_AT) as u32;
        let computed = checksum_of(block);
        if found != computed {
            return Err(StampError::Checksum { found, computed });
        }
        Ok(Stamp {
            seed: word(8),
            block: word(16),
            generation: word(24),
        })
    }
}

fn checksum_of(block: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..CHECKSUM_AT]);
    digest.update(&block[CHECKSUM_AT + 4..]);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stamp_reads_back_and_any_changed_byte_is_noticed(
            seed: u64, block: u64, generation: u64, at in 0usize..512, flip in 1u8..,
        ) {
            let stamp = Stamp { seed, block, generation };
            let mut bytes = vec![0xaa; 512];
            stamp.write(&mut bytes);
            prop_assert_eq!(Stamp::read(&bytes), Ok(stamp));
            bytes[at] ^= flip;
            prop_assert!(Stamp::read(&bytes).is_err());
        }
    }

    #[test]
    fn generations_differ_in_content_beyond_the_header() {
        let mut first = vec![0; 4096];
        let mut second = vec![0; 4096];
        let stamp = |generation| Stamp {
            seed: 1,
            block: 2,
            generation,
        };
        stamp(1).write(&mut first);
        stamp(2).write(&mut second);
        let halves = [&first[..2048], &second[2048..]].concat();
        assert!(matches!(
            Stamp::read(&halves),
            Err(StampError::Checksum { .. })
        ));
    }

    #[test]
    fn foreign_bytes_carry_no_stamp() {
        assert_eq!(Stamp::read(&[0; 4096]), Err(StampError::Absent));
        assert_eq!(Stamp::read(&[0xff; 20]), Err(StampError::Absent));
    }
}
