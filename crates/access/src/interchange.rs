//! [`Interchange`]: the text form that keys of NVMe over Fabrics travel in between programs and
//! people (NVMe 2.0 §8.13.5.8, NVMe/TCP 1.1 §3.6.1.5): `PREFIX:HH:BASE64:`, with a hash and, in
//! base 64, the key and its CRC-32.

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

const CHECKSUM_BYTES: usize = 4;

/// A key as its text has it.
pub(crate) struct Interchange {
    /// The hash that the key is transformed with; what the numbers mean is up to the kind of key.
    pub hash: u8,
    pub key: Zeroizing<Vec<u8>>,
    /// The checksum is that of the key.
    pub intact: bool,
}

impl Interchange {
    /// Reads a text that begins with `prefix`; `None` when it has another form.
    pub fn read(prefix: &str, text: &str) -> Option<Interchange> {
        let (hash, rest) = text.strip_prefix(prefix)?.split_once(':')?;
        let encoded = rest.strip_suffix(':')?;
        let digits = hash.len() == 2 && hash.bytes().all(|byte| byte.is_ascii_digit());
        let hash = hash.parse().ok().filter(|_| digits)?;
        let mut key = Base64::decode_vec(encoded).map(Zeroizing::new).ok()?;
        let bytes = key.len().saturating_sub(CHECKSUM_BYTES);
        let found = key.get(bytes..).and_then(|tail| tail.try_into().ok());
        let found = found.map(u32::from_le_bytes);
        key.truncate(bytes);
        let intact = found == Some(checksum(&key));
        Some(Interchange { hash, key, intact })
    }

    /// The text of a key.
    pub fn write(prefix: &str, hash: u8, key: &[u8]) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(key.len() + CHECKSUM_BYTES));
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&checksum(key).to_le_bytes());
        let encoded = Zeroizing::new(Base64::encode_string(&bytes));
        Zeroizing::new(format!("{prefix}{hash:02}:{}:", *encoded))
    }
}

/// `bytes` random bytes.
pub(crate) fn random(bytes: usize) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(vec![0; bytes]);
    getrandom::fill(&mut key).expect("the kernel gives random bytes");
    key
}

/// CRC-32 of IEEE 802.3. Bit by bit: keys are short and read once.
fn checksum(bytes: &[u8]) -> u32 {
    let folded = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    !folded
}
