//! [`Agreement`]: the responses that prove knowledge of a secret (NVMe 2.0 §8.13.5.5).

use subtle::ConstantTimeEq;

use super::{ChapHash, Digest};
use crate::{Nqn, Secret};

/// SC_C: no secure channel is wanted with it.
const NO_SECURE_CHANNEL: &[u8] = &[0];

/// What both ends of one transaction agree on.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The hash that was chosen.
    pub hash: ChapHash,
    /// T_ID.
    pub transaction: u16,
    /// Who connects.
    pub host_nqn: Nqn,
    /// To what.
    pub subsystem_nqn: Nqn,
}

impl Agreement {
    /// Key of an augmented challenge: the hash of the shared secret of the Diffie-Hellman exchange.
    pub fn session_key(&self, shared_secret: &[u8]) -> Digest {
        self.hash.hash(shared_secret)
    }

    /// What proves that the host knows `secret`; `session_key` is there unless the group is null.
    pub fn host_response(
        &self,
        secret: &Secret,
        challenge: &[u8],
        sequence: u32,
        session_key: Option<&Digest>,
    ) -> Digest {
        let (host, subsystem) = (self.host_nqn.as_str(), self.subsystem_nqn.as_str());
        let key = secret.transformed(&self.host_nqn);
        let names = [b"HostHost", host.as_bytes(), &[0], subsystem.as_bytes()];
        self.response(&key, challenge, sequence, session_key, names)
    }

    /// What proves that the controller knows `secret`.
    pub fn controller_response(
        &self,
        secret: &Secret,
        challenge: &[u8],
        sequence: u32,
        session_key: Option<&Digest>,
    ) -> Digest {
        let (host, subsystem) = (self.host_nqn.as_str(), self.subsystem_nqn.as_str());
        let key = secret.transformed(&self.subsystem_nqn);
        let names = [b"Controller", subsystem.as_bytes(), &[0], host.as_bytes()];
        self.response(&key, challenge, sequence, session_key, names)
    }

    fn response(
        &self,
        key: &[u8],
        challenge: &[u8],
        sequence: u32,
        session_key: Option<&Digest>,
        names: [&[u8]; 4],
    ) -> Digest {
        let augmented = session_key.map(|key| self.hash.hmac(key, &[challenge]));
        let challenge = augmented.as_deref().map_or(challenge, Vec::as_slice);
        let (sequence, transaction) = (sequence.to_le_bytes(), self.transaction.to_le_bytes());
        let [role, first, separator, second] = names;
        let parts = [
            challenge,
            &sequence,
            &transaction,
            NO_SECURE_CHANNEL,
            role,
            first,
            separator,
            second,
        ];
        self.hash.hmac(key, &parts)
    }
}

/// Whether two responses are the same, in a time that does not say where they differ.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}
