//! [`Secret`]: what a host or a controller proves to know, in the text form that nvme-cli uses.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::Nqn;
use crate::chap::{ChapHash, DhGroup, Digest};
use crate::interchange::{Interchange, random};

const PREFIX: &str = "DHHC-1:";
/// What a name is followed by where a key is bound to it (NVMe 2.0 §8.13.5.7).
const BINDING: &[u8] = b"NVMe-over-Fabrics";

/// What a name is preceded by where a secret is derived for it.
const DERIVED: &[u8] = b"flashyard host secret\0";

/// A secret of DH-HMAC-CHAP: `DHHC-1:TT:BASE64:` with the transformation and, in base 64, the key
/// and its CRC-32. Never shown: only [`Secret::reveal`] gives the text back.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: Zeroizing<Vec<u8>>,
    transformation: Option<ChapHash>,
}

/// Why a text is no secret. Says nothing of the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Not `DHHC-1:TT:BASE64:`.
    #[error("not of the form DHHC-1:TT:BASE64: that nvme gen-dhchap-key prints")]
    Form,
    /// A transformation that is not known.
    #[error("transformation {0}; allowed: 00 (none), 01 (SHA-256), 02 (SHA-384), 03 (SHA-512)")]
    Transformation(u8),
    /// A key of a length that is not allowed.
    #[error("key of {0} bytes; allowed: 32, 48 or 64, and as long as the transformation's hash")]
    Length(usize),
    /// The checksum is that of another key.
    #[error("the checksum does not fit the key: part of the secret is missing or changed")]
    Checksum,
}

impl Secret {
    /// A new secret, bound to names by `transformation` and as long as its hash; 32 bytes without.
    pub fn generate(transformation: Option<ChapHash>) -> Secret {
        Secret {
            key: random(transformation.map_or(32, ChapHash::digest_bytes)),
            transformation,
        }
    }

    /// The secret of the host called `nqn` that follows from what its keeper knows: always the
    /// same, and nothing of what it follows from.
    pub fn derived(from: &[u8], nqn: &Nqn) -> Secret {
        let hash = ChapHash::Sha256;
        Secret {
            key: hash.hmac(from, &[DERIVED, nqn.as_str().as_bytes()]),
            transformation: Some(hash),
        }
    }

    /// The text form, for whoever is to be given the secret.
    pub fn reveal(&self) -> Zeroizing<String> {
        let transformation = self.transformation.map_or(0, ChapHash::id);
        Interchange::write(PREFIX, transformation, &self.key)
    }

    /// The key that responses are made with: bound to the name of who proves to know it, where a
    /// transformation says so.
    pub(crate) fn transformed(&self, nqn: &Nqn) -> Digest {
        match self.transformation {
            None => self.key.clone(),
            Some(hash) => hash.hmac(&self.key, &[nqn.as_str().as_bytes(), BINDING]),
        }
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Secret, SecretError> {
        let Interchange { hash, key, intact } =
            Interchange::read(PREFIX, text).ok_or(SecretError::Form)?;
        let transformation = match hash {
            0 => None,
            id => Some(ChapHash::from_id(id).ok_or(SecretError::Transformation(id))?),
        };
        let fits = transformation.is_none_or(|hash| hash.digest_bytes() == key.len());
        if ![32, 48, 64].contains(&key.len()) || !fits {
            return Err(SecretError::Length(key.len()));
        }
        if !intact {
            return Err(SecretError::Checksum);
        }
        Ok(Secret {
            key,
            transformation,
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// What a host and the controllers it uses prove to each other, and how. A host that has this
/// gets nothing before it has proved its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKeys {
    /// What the host proves to know.
    pub host: Secret,
    /// What controllers prove to know to hosts that ask.
    pub controller: Option<Secret>,
    /// The hash to use, and no other.
    pub hash: ChapHash,
    /// The group to use, and no other.
    pub group: DhGroup,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chap::Agreement;

    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    const SUBSYSTEM: &str = "nqn.2024-01.io.flashyard:test";

    /// Printed by `nvme gen-dhchap-key -s 000102..`, with the transformations put in.
    const SECRETS: [&str; 4] = [
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
        "DHHC-1:03:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1\
         Njc4OTo7PD0+P4zODhA=:",
    ];

    #[test]
    fn secrets_of_nvme_cli_read_back_and_are_never_shown() {
        for text in SECRETS {
            let secret: Secret = text.parse().unwrap();
            assert_eq!(*secret.reveal(), text);
            assert_eq!(format!("{secret:?}"), "Secret(..)");
        }
        for transformation in [None, Some(ChapHash::Sha384), Some(ChapHash::Sha512)] {
            let secret = Secret::generate(transformation);
            assert_eq!(secret.reveal().parse(), Ok(secret.clone()));
            assert_ne!(secret, Secret::generate(transformation));
        }
    }

    #[test]
    fn a_derived_secret_is_that_of_one_host_and_one_keeper() {
        let nqn = |text: &str| text.parse::<Nqn>().unwrap();
        let derived = Secret::derived(b"keeper", &nqn(HOST));
        assert_eq!(derived, Secret::derived(b"keeper", &nqn(HOST)));
        assert_ne!(derived, Secret::derived(b"keeper", &nqn(SUBSYSTEM)));
        assert_ne!(derived, Secret::derived(b"another", &nqn(HOST)));
        assert_eq!(derived.reveal().parse(), Ok(derived.clone()));
    }

    #[test]
    fn what_is_no_secret_is_refused_with_the_reason() {
        let good = SECRETS[0];
        let longer = SECRETS[3].replace("DHHC-1:03", "DHHC-1:01");
        for (text, reason) in [
            ("", SecretError::Form),
            (good.trim_end_matches(':'), SecretError::Form),
            (&good.replace("DHHC-1", "DHHC-2"), SecretError::Form),
            (&good.replace(":00:", ":0:"), SecretError::Form),
            (&good.replace(":00:", ":xx:"), SecretError::Form),
            (&good.replace("AAEC", "AA*C"), SecretError::Form),
            (
                &good.replace(":00:", ":04:"),
                SecretError::Transformation(4),
            ),
            (&good.replace("AAEC", "AAED"), SecretError::Checksum),
            ("DHHC-1:00:AAECAwQF:", SecretError::Length(2)),
            ("DHHC-1:00::", SecretError::Length(0)),
            (&longer, SecretError::Length(64)),
        ] {
            assert_eq!(text.parse::<Secret>(), Err(reason), "{text}");
        }
    }

    /// First bytes of responses computed by Python's hmac from the specification's formulas.
    #[test]
    fn responses_are_those_of_the_specification() {
        for (hash, secret, host, controller) in [
            (
                ChapHash::Sha256,
                SECRETS[1],
                [0x7f, 0x6a, 0x8b, 0x7c],
                [0xd1, 0xe6, 0xfa, 0x53],
            ),
            (
                ChapHash::Sha384,
                SECRETS[2],
                [0x69, 0xdf, 0xd0, 0xeb],
                [0x25, 0xba, 0x82, 0x7a],
            ),
            (
                ChapHash::Sha512,
                SECRETS[3],
                [0x74, 0x6a, 0xa6, 0xd1],
                [0x4c, 0x98, 0xe1, 0x74],
            ),
        ] {
            let secret: Secret = secret.parse().unwrap();
            let agreement = Agreement {
                hash,
                transaction: 7,
                host_nqn: HOST.parse().unwrap(),
                subsystem_nqn: SUBSYSTEM.parse().unwrap(),
            };
            let challenge = vec![0xc1; hash.digest_bytes()];
            let response = agreement.host_response(&secret, &challenge, 0x0102_0304, None);
            assert_eq!(response[..4], host, "{hash}");
            let key = agreement.session_key(&[0x5a; 256]);
            let response = agreement.controller_response(&secret, &challenge, 9, Some(&key));
            assert_eq!(response[..4], controller, "{hash}");
        }
    }
}
