//! Header and data digests: CRC32C (NVMe/TCP 1.0 §3.3.1.1).

/// The digest of `bytes`, as it stands on the wire.
pub fn digest(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
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
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// The digest so far, as it stands on the wire.
    pub fn wire(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
