//! [`ChapHash`]: the hash functions, plain and keyed.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

/// What a hash or an HMAC gives; wiped when dropped, for some of them are keys.
pub type Digest = Zeroizing<Vec<u8>>;

/// A hash function of DH-HMAC-CHAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChapHash {
    /// 32 bytes.
    Sha256,
    /// 48 bytes.
    Sha384,
    /// 64 bytes.
    Sha512,
}

/// A text that names no hash function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hash {0:?}; allowed: sha256, sha384, sha512")]
pub struct UnknownHash(pub String);

impl ChapHash {
    /// All of them, weakest first.
    pub const ALL: [ChapHash; 3] = [ChapHash::Sha256, ChapHash::Sha384, ChapHash::Sha512];

    /// HashID.
    pub fn id(self) -> u8 {
        match self {
            ChapHash::Sha256 => 1,
            ChapHash::Sha384 => 2,
            ChapHash::Sha512 => 3,
        }
    }

    /// The hash with this HashID.
    pub fn from_id(id: u8) -> Option<ChapHash> {
        ChapHash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Bytes of its digests.
    pub fn digest_bytes(self) -> usize {
        match self {
            ChapHash::Sha256 => 32,
            ChapHash::Sha384 => 48,
            ChapHash::Sha512 => 64,
        }
    }

    /// The hash of `bytes`.
    pub fn hash(self, bytes: &[u8]) -> Digest {
        Zeroizing::new(match self {
            ChapHash::Sha256 => Sha256::digest(bytes).to_vec(),
            ChapHash::Sha384 => Sha384::digest(bytes).to_vec(),
            ChapHash::Sha512 => Sha512::digest(bytes).to_vec(),
        })
    }

    /// The HMAC of `parts`, one after the other, under `key`.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        match self {
            ChapHash::Sha256 => keyed::<Hmac<Sha256>>(key, parts),
            ChapHash::Sha384 => keyed::<Hmac<Sha384>>(key, parts),
            ChapHash::Sha512 => keyed::<Hmac<Sha512>>(key, parts),
        }
    }
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Digest {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("an HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().to_vec())
}

impl fmt::Display for ChapHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ChapHash::Sha256 => "sha256",
            ChapHash::Sha384 => "sha384",
            ChapHash::Sha512 => "sha512",
        })
    }
}

impl FromStr for ChapHash {
    type Err = UnknownHash;

    fn from_str(text: &str) -> Result<ChapHash, UnknownHash> {
        ChapHash::ALL
            .into_iter()
            .find(|hash| hash.to_string() == text)
            .ok_or_else(|| UnknownHash(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn hmacs_are_those_of_the_rfc() {
        let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        for (hash, first) in [
            (ChapHash::Sha256, [0x5b, 0xdc, 0xc1, 0x46]),
            (ChapHash::Sha384, [0xaf, 0x45, 0xd2, 0xe3]),
            (ChapHash::Sha512, [0x16, 0x4b, 0x7a, 0x7b]),
        ] {
            let mac = hash.hmac(b"Jefe", &parts);
            assert_eq!((mac.len(), &mac[..4]), (hash.digest_bytes(), &first[..]));
            assert_eq!(ChapHash::from_id(hash.id()), Some(hash));
            assert_eq!(hash.to_string().parse(), Ok(hash));
        }
        assert_eq!(ChapHash::from_id(0), None);
        assert!("md5".parse::<ChapHash>().is_err());
    }
}
