//! Header and data digests: CRC32C (NVMe/TCP 1.0 §3.3.1.1).

use crc_fast::{CrcAlgorithm, Digest};

/// The digest of `bytes`, as it stands on the wire.
pub fn digest(bytes: &[u8]) -> [u8; 4] {
    crc_fast::crc32_iscsi(bytes).to_le_bytes()
}

/// A digest over bytes that arrive in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningDigest(u32);

impl RunningDigest {
    /// The digest of no bytes.
    pub fn new() -> RunningDigest {
        RunningDigest(0)
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        // The state is the checksum before its last step, which inverts it.
        let state = u64::from(!self.0);
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
        digest.update(bytes);
        self.0 = digest.finalize() as u32;
    }

    /// The digest so far, as it stands on the wire.
    pub fn wire(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A bit at a time, as RFC 3720 section 12.1 defines it.
    fn defined(bytes: &[u8]) -> u32 {
        let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
        let byte = |crc, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
        !bytes.iter().fold(!0, byte)
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_give_the_digest_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..9000),
            cuts in prop::collection::vec(0usize..9000, 0..4),
        ) {
            prop_assert_eq!(digest(&bytes), defined(&bytes).to_le_bytes());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut running = RunningDigest::new();
            for ends in cuts.windows(2) {
                running.update(&bytes[ends[0]..ends[1]]);
            }
            prop_assert_eq!(running.wire(), digest(&bytes));
        }
    }

    /// RFC 3720 appendix B.4 gives these.
    #[test]
    fn digests_match_the_published_vectors() {
        assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest(&rising), [0x4e, 0x79, 0xdd, 0x46]);
        let mut running = RunningDigest::new();
        running.update(&rising[..7]);
        running.update(&rising[7..]);
        assert_eq!(running.wire(), digest(&rising));
    }
}
