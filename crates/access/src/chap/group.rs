//! [`DhGroup`]: the Diffie-Hellman groups, and one end's values in one of them.

use std::fmt;
use std::str::FromStr;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use zeroize::{Zeroize, Zeroizing};

use super::primes;

/// What both ends share, as long as the group's modulus; wiped when dropped.
pub type SharedSecret = Zeroizing<Vec<u8>>;

/// A group of DH-HMAC-CHAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DhGroup {
    /// No Diffie-Hellman exchange.
    Null,
    /// 2048 bits.
    Ffdhe2048,
    /// 3072 bits.
    Ffdhe3072,
    /// 4096 bits.
    Ffdhe4096,
    /// 6144 bits.
    Ffdhe6144,
    /// 8192 bits.
    Ffdhe8192,
}

/// A text that names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("group {0:?}; allowed: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192")]
pub struct UnknownGroup(pub String);

/// The other end's value is none of the group, or one that gives the secret away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end's Diffie-Hellman value is not usable in its group")]
pub struct PeerValueError;

impl DhGroup {
    /// All of them, weakest first.
    pub const ALL: [DhGroup; 6] = [
        DhGroup::Null,
        DhGroup::Ffdhe2048,
        DhGroup::Ffdhe3072,
        DhGroup::Ffdhe4096,
        DhGroup::Ffdhe6144,
        DhGroup::Ffdhe8192,
    ];

    /// DHgID.
    pub fn id(self) -> u8 {
        match self {
            DhGroup::Null => 0,
            DhGroup::Ffdhe2048 => 1,
            DhGroup::Ffdhe3072 => 2,
            DhGroup::Ffdhe4096 => 3,
            DhGroup::Ffdhe6144 => 4,
            DhGroup::Ffdhe8192 => 5,
        }
    }

    /// The group with this DHgID.
    pub fn from_id(id: u8) -> Option<DhGroup> {
        DhGroup::ALL.into_iter().find(|group| group.id() == id)
    }

    /// Bits of the modulus; none for the null group.
    pub fn bits(self) -> u32 {
        match self {
            DhGroup::Null => 0,
            DhGroup::Ffdhe2048 => 2048,
            DhGroup::Ffdhe3072 => 3072,
            DhGroup::Ffdhe4096 => 4096,
            DhGroup::Ffdhe6144 => 6144,
            DhGroup::Ffdhe8192 => 8192,
        }
    }

    /// Bytes of a value that is exchanged.
    pub fn value_bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// How long exponents are: what RFC 7919 §5.2 asks for at least, rounded up to bytes.
    fn exponent_bits(self) -> u32 {
        match self {
            DhGroup::Null => 0,
            DhGroup::Ffdhe2048 => 232,
            DhGroup::Ffdhe3072 => 280,
            DhGroup::Ffdhe4096 => 328,
            DhGroup::Ffdhe6144 => 376,
            DhGroup::Ffdhe8192 => 400,
        }
    }

    fn modulus(self) -> Option<Odd<BoxedUint>> {
        let digits = match self {
            DhGroup::Null => return None,
            DhGroup::Ffdhe2048 => primes::FFDHE2048,
            DhGroup::Ffdhe3072 => primes::FFDHE3072,
            DhGroup::Ffdhe4096 => primes::FFDHE4096,
            DhGroup::Ffdhe6144 => primes::FFDHE6144,
            DhGroup::Ffdhe8192 => primes::FFDHE8192,
        };
        let prime = BoxedUint::from_be_hex(digits, self.bits()).into_option()?;
        Odd::new(prime).into_option()
    }
}

/// One end's private and public value in a group. Each exchange takes a new one.
pub struct KeyPair {
    group: DhGroup,
    private: BoxedUint,
    public: Vec<u8>,
}

impl KeyPair {
    /// New values from the kernel's randomness. Takes milliseconds in the large groups: not for a
    /// thread that has other things to do.
    pub fn generate(group: DhGroup) -> KeyPair {
        let mut random = Zeroizing::new(vec![0; group.exponent_bits() as usize / 8]);
        getrandom::fill(&mut random).expect("the kernel gives random bytes");
        // The highest bit is set, so that no exponent is short, and a few bits do not matter.
        if let Some(first) = random.first_mut() {
            *first |= 0x80;
        }
        KeyPair::of(group, &random)
    }

    /// The values that follow from `private`, big-endian, which must fit the group's exponents.
    fn of(group: DhGroup, private: &[u8]) -> KeyPair {
        let bits = group.bits().max(64);
        let private = BoxedUint::from_be_slice_truncated(private, bits);
        let two = BoxedUint::from(2_u64).resize(bits);
        let public = raise(group, two, &private).to_vec();
        KeyPair {
            group,
            private,
            public,
        }
    }

    /// The group.
    pub fn group(&self) -> DhGroup {
        self.group
    }

    /// What the other end is told: as long as the modulus; empty for the null group.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// What both ends share, given the other's value. As slow as [`KeyPair::generate`].
    ///
    /// # Errors
    /// [`PeerValueError`] unless the value is as long as the modulus and between 2 and p - 2.
    pub fn shared_secret(&self, peer: &[u8]) -> Result<SharedSecret, PeerValueError> {
        if peer.len() != self.group.value_bytes() {
            return Err(PeerValueError);
        }
        let Some(modulus) = self.group.modulus() else {
            return Ok(Zeroizing::new(Vec::new()));
        };
        let bits = self.group.bits();
        let value = BoxedUint::from_be_slice(peer, bits).map_err(|_| PeerValueError)?;
        let one = BoxedUint::one().resize(bits);
        let last = modulus.as_ref().wrapping_sub(&one);
        if value <= one || value >= last {
            return Err(PeerValueError);
        }
        Ok(raise(self.group, value, &self.private))
    }
}

impl Drop for KeyPair {
    fn drop(&mut self) {
        self.private.zeroize();
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KeyPair")
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

/// `base` to the power of `private`, in constant time for the exponents of a group.
fn raise(group: DhGroup, base: BoxedUint, private: &BoxedUint) -> SharedSecret {
    let Some(modulus) = group.modulus() else {
        return Zeroizing::new(Vec::new());
    };
    let parameters = BoxedMontyParams::new(modulus);
    let base = BoxedMontyForm::new(base, &parameters);
    let mut power = base
        .pow_bounded_exp(private, group.exponent_bits())
        .retrieve();
    let bytes = Zeroizing::new(power.to_be_bytes().into_vec());
    power.zeroize();
    bytes
}

impl fmt::Display for DhGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits() {
            0 => formatter.write_str("null"),
            bits => write!(formatter, "ffdhe{bits}"),
        }
    }
}

impl FromStr for DhGroup {
    type Err = UnknownGroup;

    fn from_str(text: &str) -> Result<DhGroup, UnknownGroup> {
        DhGroup::ALL
            .into_iter()
            .find(|group| group.to_string() == text)
            .ok_or_else(|| UnknownGroup(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last bytes of g^x for x = bytes 1, 2, 3 and so on, as Python's `pow` has them.
    const KNOWN: [(DhGroup, [u8; 4], [u8; 4]); 5] = [
        (
            DhGroup::Ffdhe2048,
            [0x77, 0x7a, 0xb6, 0xdd],
            [0x02, 0x65, 0x4d, 0x26],
        ),
        (
            DhGroup::Ffdhe3072,
            [0x0c, 0x57, 0x8f, 0x02],
            [0x9e, 0x77, 0xa6, 0xd0],
        ),
        (
            DhGroup::Ffdhe4096,
            [0x47, 0x96, 0xcc, 0x8d],
            [0xfe, 0x80, 0x80, 0xb2],
        ),
        (
            DhGroup::Ffdhe6144,
            [0xd6, 0xa1, 0xc3, 0x83],
            [0x07, 0x71, 0x99, 0x17],
        ),
        (
            DhGroup::Ffdhe8192,
            [0x7b, 0x5c, 0xd7, 0x65],
            [0xe4, 0x71, 0x03, 0xbc],
        ),
    ];

    #[test]
    fn public_values_are_powers_of_two() {
        for (group, first, last) in KNOWN {
            let count = group.exponent_bits() / 8;
            let private: Vec<u8> = (1..=count).map(|byte| byte as u8).collect();
            let pair = KeyPair::of(group, &private);
            let public = pair.public();
            assert_eq!(public.len(), group.value_bytes());
            assert_eq!(public[..4], first, "{group}");
            assert_eq!(public[public.len() - 4..], last, "{group}");
        }
    }

    #[test]
    fn both_ends_share_one_secret_of_the_modulus_length() {
        for group in DhGroup::ALL {
            let (one, other) = (KeyPair::generate(group), KeyPair::generate(group));
            let shared = one.shared_secret(other.public()).unwrap();
            assert_eq!(shared, other.shared_secret(one.public()).unwrap());
            assert_eq!(shared.len(), group.value_bytes());
            assert_eq!(DhGroup::from_id(group.id()), Some(group));
            assert_eq!(group.to_string().parse(), Ok(group));
        }
        let pair = KeyPair::generate(DhGroup::Ffdhe2048);
        assert_ne!(
            pair.public(),
            KeyPair::generate(DhGroup::Ffdhe2048).public()
        );
        assert!(!format!("{pair:?}").contains("private"));
    }

    /// 0, 1, p - 1, p and anything longer or shorter would fix the secret or is no value.
    #[test]
    fn values_that_give_the_secret_away_are_refused() {
        let group = DhGroup::Ffdhe2048;
        let pair = KeyPair::generate(group);
        let bytes = group.value_bytes();
        let prime = group.modulus().unwrap().as_ref().to_be_bytes().into_vec();
        let mut one = vec![0; bytes];
        one[bytes - 1] = 1;
        let mut last = prime.clone();
        last[bytes - 1] -= 1;
        for value in [vec![0; bytes], one, last.clone(), prime, vec![0xff; bytes]] {
            assert_eq!(pair.shared_secret(&value), Err(PeerValueError));
        }
        last[bytes - 1] -= 1;
        assert!(pair.shared_secret(&last).is_ok());
        assert_eq!(pair.shared_secret(&last[1..]), Err(PeerValueError));
        assert_eq!(pair.shared_secret(&[]), Err(PeerValueError));
    }
}
