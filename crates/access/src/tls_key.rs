//! [`TlsKey`]: what a host and a node share for TLS, and the keys of TLS that follow from it
//! (NVMe/TCP 1.1 §3.6.1.3 to §3.6.1.5).

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use crate::Nqn;
use crate::chap::{ChapHash, Digest};
use crate::interchange::{Interchange, random};

const PREFIX: &str = "NVMeTLSkey-1:";
/// What the names are followed by in the digest of a key.
const BINDING: &[u8] = b"NVMe-over-Fabrics";
const RETAINED_LABEL: &str = "tls13 HostNQN";
const TLS_LABEL: &str = "tls13 nvme-tls-psk";

/// What a name is preceded by where a key is derived for it.
const DERIVED: &[u8] = b"flashyard TLS key\0";

/// A hash, and with it one of the two cipher suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PskHash {
    /// `TLS_AES_128_GCM_SHA256`.
    Sha256,
    /// `TLS_AES_256_GCM_SHA384`.
    Sha384,
}

impl PskHash {
    fn of_length(bytes: usize) -> Option<PskHash> {
        [PskHash::Sha256, PskHash::Sha384]
            .into_iter()
            .find(|hash| hash.bytes() == bytes)
    }

    /// The number that stands for it in texts and identities.
    fn id(self) -> u8 {
        self.function().id()
    }

    fn bytes(self) -> usize {
        self.function().digest_bytes()
    }

    fn function(self) -> ChapHash {
        match self {
            PskHash::Sha256 => ChapHash::Sha256,
            PskHash::Sha384 => ChapHash::Sha384,
        }
    }

    /// HKDF-Extract without salt, then HKDF-Expand to the hash's own length: one block.
    fn derive(self, input: &[u8], information: &[&[u8]]) -> Digest {
        let salt = [0; 48];
        let salt = salt.get(..self.bytes()).unwrap_or(&salt);
        let extracted = self.function().hmac(salt, &[input]);
        let parts = [information, &[&[1]]].concat();
        self.function().hmac(&extracted, &parts)
    }

    /// HKDF-Expand-Label (RFC 8446 §7.1); `None` when the context is too long for it.
    fn derive_labelled(self, input: &[u8], label: &str, context: &str) -> Option<Digest> {
        let length = (self.bytes() as u16).to_be_bytes();
        let label_bytes = [u8::try_from(label.len()).ok()?];
        let context_bytes = [u8::try_from(context.len()).ok()?];
        let (label, context) = (label.as_bytes(), context.as_bytes());
        Some(self.derive(
            input,
            &[&length, &label_bytes, label, &context_bytes, context],
        ))
    }

    /// What libnvme up to 1.15 took for HKDF-Expand-Label: no lengths of the parts, and its own
    /// length in the wrong order of bytes.
    fn derive_as_old_libnvme(self, input: &[u8], label: &str, context: &str) -> Digest {
        let length = (self.bytes() as u16).to_le_bytes();
        self.derive(input, &[&length, label.as_bytes(), context.as_bytes()])
    }
}

/// A configured PSK, as `NVMeTLSkey-1:HH:BASE64:`. Never shown: only [`TlsKey::reveal`] gives the
/// text back.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsKey {
    key: Zeroizing<Vec<u8>>,
    hash: PskHash,
    /// The key is bound to its host before anything else is made of it.
    transformed: bool,
}

/// Why a text is no TLS key. Says nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsKeyError {
    /// Not `NVMeTLSkey-1:HH:BASE64:`.
    #[error("not of the form NVMeTLSkey-1:HH:BASE64: that nvme gen-tls-key prints")]
    Form,
    /// A hash that is not known.
    #[error("hash {0}; allowed: 00 (none), 01 (SHA-256), 02 (SHA-384)")]
    Hash(u8),
    /// A key of a length that is not allowed.
    #[error("key of {0} bytes; allowed: 32 or 48, and as long as the hash")]
    Length(usize),
    /// The checksum is that of another key.
    #[error("the checksum does not fit the key: part of it is missing or changed")]
    Checksum,
}

/// A pre-shared key of TLS, for one host and one subsystem.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// What the host names it by in the handshake.
    pub identity: String,
    /// The key itself.
    pub secret: Digest,
    /// The hash of the handshake.
    pub hash: PskHash,
}

impl TlsKey {
    /// A new key.
    pub fn generate(hash: PskHash) -> TlsKey {
        TlsKey {
            key: random(hash.bytes()),
            hash,
            transformed: true,
        }
    }

    /// The key of the host called `nqn` that follows from what its keeper knows: always the same,
    /// and nothing of what it follows from. With SHA-256, by which every host's TLS can prove it.
    pub fn derived(from: &[u8], nqn: &Nqn) -> TlsKey {
        let hash = PskHash::Sha256;
        TlsKey {
            key: hash
                .function()
                .hmac(from, &[DERIVED, nqn.as_str().as_bytes()]),
            hash,
            transformed: true,
        }
    }

    /// The text form, for whoever is to be given the key.
    pub fn reveal(&self) -> Zeroizing<String> {
        let hash = if self.transformed { self.hash.id() } else { 0 };
        Interchange::write(PREFIX, hash, &self.key)
    }

    /// The keys that `host` may offer for a connection to `subsystem`, the best first: what a host
    /// offers is the first of them.
    ///
    /// The last one is what libnvme up to 1.15 makes of a key with a hash. Without a hash, and in
    /// version 0, it gives its other key the same identity; those cannot be told apart.
    pub fn psks(&self, host: &Nqn, subsystem: &Nqn) -> Vec<TlsPsk> {
        self.psks_of(host.as_str(), subsystem.as_str())
    }

    fn psks_of(&self, host: &str, subsystem: &str) -> Vec<TlsPsk> {
        let retained = match self.transformed {
            true => self.hash.derive_labelled(&self.key, RETAINED_LABEL, host),
            false => Some(self.key.clone()),
        };
        let Some(retained) = retained else {
            return Vec::new();
        };
        let (names, number) = (format!("{host} {subsystem}"), self.hash.id());
        let digest = self.digest(&retained, &names);
        let mut psks = Vec::new();
        let mut push = |identity: String, secret: Option<Digest>| {
            psks.extend(secret.map(|secret| TlsPsk {
                identity,
                secret,
                hash: self.hash,
            }));
        };
        let context = format!("{number:02} {digest}");
        let secret = self.hash.derive_labelled(&retained, TLS_LABEL, &context);
        push(format!("NVMe1R{number:02} {names} {digest}"), secret);
        let identity = format!("NVMe0R{number:02} {names}");
        let secret = self.hash.derive_labelled(&retained, TLS_LABEL, &identity);
        push(identity, secret);
        if self.transformed {
            let retained = self
                .hash
                .derive_as_old_libnvme(&self.key, RETAINED_LABEL, host);
            let digest = self.digest(&retained, &names);
            let context = format!("{number:02} {digest}");
            let secret = self
                .hash
                .derive_as_old_libnvme(&retained, TLS_LABEL, &context);
            push(format!("NVMe1R{number:02} {names} {digest}"), Some(secret));
        }
        psks
    }

    /// The digest by which version 1 names a key.
    fn digest(&self, retained: &[u8], names: &str) -> String {
        let parts: [&[u8]; 3] = [names.as_bytes(), b" ", BINDING];
        Base64::encode_string(&self.hash.function().hmac(retained, &parts))
    }
}

impl FromStr for TlsKey {
    type Err = TlsKeyError;

    fn from_str(text: &str) -> Result<TlsKey, TlsKeyError> {
        let Interchange { hash, key, intact } =
            Interchange::read(PREFIX, text).ok_or(TlsKeyError::Form)?;
        if hash > PskHash::Sha384.id() {
            return Err(TlsKeyError::Hash(hash));
        }
        let of_length = PskHash::of_length(key.len());
        let fits = |found: &PskHash| hash == 0 || found.id() == hash;
        let Some(found) = of_length.filter(fits) else {
            return Err(TlsKeyError::Length(key.len()));
        };
        if !intact {
            return Err(TlsKeyError::Checksum);
        }
        Ok(TlsKey {
            key,
            hash: found,
            transformed: hash != 0,
        })
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TlsKey(..)")
    }
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TlsPsk({})", self.identity)
    }
}

#[cfg(test)]
mod tests;
