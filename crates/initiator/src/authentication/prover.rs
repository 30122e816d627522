//! [`Prover`]: the host's side of DH-HMAC-CHAP on one queue, as a machine without a socket.

use access::chap::{Agreement, ChapHash, DhGroup, Digest, KeyPair, same};
use access::{Nqn, Secret};
use nvme::authentication::{
    Challenge, ChallengeReply, Failure, FailureMessage, MessageHeader, MessageId, MessageType,
    Negotiate, Success1, Success2, message, split,
};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

/// What a host proves with, and what it lets controllers choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// What the host proves to know.
    pub host: Secret,
    /// What the controller has to prove to know, if it has to.
    pub controller: Option<Secret>,
    /// Hashes on offer, the best first.
    pub hashes: Vec<ChapHash>,
    /// Groups on offer, the best first.
    pub groups: Vec<DhGroup>,
}

impl Credentials {
    /// Offers every hash, and every group that is one: whoever answers for the controller chooses.
    pub fn new(host: Secret, controller: Option<Secret>) -> Credentials {
        let none = Credentials {
            host,
            controller,
            hashes: Vec::new(),
            groups: Vec::new(),
        };
        none.at_least(ChapHash::Sha256, DhGroup::Ffdhe2048)
    }

    /// Offers the hashes and the groups that are not weaker than these.
    #[must_use]
    pub fn at_least(self, hash: ChapHash, group: DhGroup) -> Credentials {
        let hashes = ChapHash::ALL.into_iter().rev();
        let groups = DhGroup::ALL.into_iter().rev();
        Credentials {
            hashes: hashes.filter(|offered| *offered >= hash).collect(),
            groups: groups.filter(|offered| *offered >= group).collect(),
            ..self
        }
    }
}

/// Why a queue is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The controller refuses the host.
    #[error("the controller refuses this host: {0:?}")]
    OfHost(Failure),
    /// The host refuses the controller.
    #[error("this host refuses the controller: {0:?}")]
    OfController(Failure),
}

/// One transaction, seen from the host.
#[derive(Debug)]
pub struct Prover {
    credentials: Credentials,
    agreement: Agreement,
    /// What the controller has to answer, and what it has to be answered with.
    expected: Option<Digest>,
}

impl Prover {
    /// A transaction of its own number.
    pub fn new(credentials: Credentials, host_nqn: Nqn, subsystem_nqn: Nqn) -> Prover {
        let mut transaction = [0; 2];
        getrandom::fill(&mut transaction).expect("the kernel gives random bytes");
        Prover {
            credentials,
            agreement: Agreement {
                hash: ChapHash::Sha256,
                transaction: u16::from_le_bytes(transaction),
                host_nqn,
                subsystem_nqn,
            },
            expected: None,
        }
    }

    /// AUTH_Negotiate.
    pub fn offer(&self) -> Vec<u8> {
        let hashes: Vec<u8> = self
            .credentials
            .hashes
            .iter()
            .map(|hash| hash.id())
            .collect();
        let groups: Vec<u8> = self
            .credentials
            .groups
            .iter()
            .map(|group| group.id())
            .collect();
        Negotiate::new(self.agreement.transaction, &hashes, &groups)
            .as_bytes()
            .to_vec()
    }

    /// DH-HMAC-CHAP_Reply to a DH-HMAC-CHAP_Challenge. Takes milliseconds in the large groups.
    pub fn reply(&mut self, challenge: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.check(challenge, MessageId::CHALLENGE)?;
        let payload = Refusal::OfController(Failure::INCORRECT_PAYLOAD);
        let (fixed, rest) = split::<Challenge>(challenge).ok_or(payload)?;
        let hash = ChapHash::from_id(fixed.hash)
            .filter(|hash| self.credentials.hashes.contains(hash))
            .filter(|hash| hash.digest_bytes() == usize::from(fixed.hash_bytes))
            .ok_or(Refusal::OfController(Failure::HASH_UNUSABLE))?;
        let group = DhGroup::from_id(fixed.group)
            .filter(|group| self.credentials.groups.contains(group))
            .ok_or(Refusal::OfController(Failure::GROUP_UNUSABLE))?;
        self.agreement.hash = hash;
        let value_bytes = usize::from(fixed.value_bytes.get());
        let value = rest
            .get(hash.digest_bytes()..)
            .and_then(|rest| rest.get(..value_bytes))
            .ok_or(payload)?;
        let theirs = rest.get(..hash.digest_bytes()).unwrap_or_default();
        let pair = KeyPair::generate(group);
        let shared = pair.shared_secret(value).map_err(|_| payload)?;
        let session_key = (group != DhGroup::Null).then(|| self.agreement.session_key(&shared));
        let response = self.agreement.host_response(
            &self.credentials.host,
            theirs,
            fixed.sequence.get(),
            session_key.as_ref(),
        );
        let (ours, sequence) = self.ask(session_key.as_ref());
        let fixed = ChallengeReply {
            header: self.header(MessageId::REPLY),
            hash_bytes: fixed.hash_bytes,
            reserved: 0,
            challenge_valid: u8::from(sequence != 0),
            reserved9: 0,
            value_bytes: U16::new(pair.public().len() as u16),
            sequence: U32::new(sequence),
        };
        Ok(message(&fixed, &[&response, &ours, pair.public()]))
    }

    /// A challenge for the controller, with what it has to answer; zeroes when it has not to.
    fn ask(&mut self, session_key: Option<&Digest>) -> (Vec<u8>, u32) {
        let mut challenge = vec![0; self.agreement.hash.digest_bytes()];
        let Some(secret) = &self.credentials.controller else {
            return (challenge, 0);
        };
        let mut sequence = [0; 4];
        getrandom::fill(&mut challenge).expect("the kernel gives random bytes");
        getrandom::fill(&mut sequence).expect("the kernel gives random bytes");
        let sequence = u32::from_le_bytes(sequence).max(1);
        let expected =
            self.agreement
                .controller_response(secret, &challenge, sequence, session_key);
        self.expected = Some(expected);
        (challenge, sequence)
    }

    /// Reads DH-HMAC-CHAP_Success1; gives the DH-HMAC-CHAP_Success2 to send when the controller
    /// had to prove itself.
    pub fn conclude(&mut self, success: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        self.check(success, MessageId::SUCCESS1)?;
        let payload = Refusal::OfController(Failure::INCORRECT_PAYLOAD);
        let (fixed, rest) = split::<Success1>(success).ok_or(payload)?;
        let hash_bytes = self.agreement.hash.digest_bytes();
        if usize::from(fixed.hash_bytes) != hash_bytes {
            return Err(payload);
        }
        let Some(expected) = &self.expected else {
            return Ok(None);
        };
        let response = rest.get(..hash_bytes).ok_or(payload)?;
        if fixed.response_valid & 1 == 0 || !same(response, expected) {
            return Err(Refusal::OfController(Failure::FAILED));
        }
        let mut last = Success2::new_zeroed();
        last.header = self.header(MessageId::SUCCESS2);
        Ok(Some(last.as_bytes().to_vec()))
    }

    /// AUTH_Failure2, which tells the controller why the host will not have it.
    pub fn give_up(&self, failure: Failure) -> Vec<u8> {
        FailureMessage::new(MessageId::FAILURE2, self.agreement.transaction, failure)
            .as_bytes()
            .to_vec()
    }

    fn header(&self, id: MessageId) -> MessageHeader {
        MessageHeader::new(MessageType::DH_HMAC_CHAP, id, self.agreement.transaction)
    }

    /// Whether the message is the one that comes next, of this transaction.
    fn check(&self, message: &[u8], wanted: MessageId) -> Result<(), Refusal> {
        let header =
            MessageHeader::of(message).ok_or(Refusal::OfController(Failure::INCORRECT_PAYLOAD))?;
        if (header.kind, header.id) == (MessageType::COMMON, MessageId::FAILURE1) {
            let said = split::<FailureMessage>(message).map(|(said, _)| said.explanation);
            return Err(Refusal::OfHost(said.unwrap_or(Failure::FAILED)));
        }
        let ours = header.transaction.get() == self.agreement.transaction;
        if !ours || (header.kind, header.id) != (MessageType::DH_HMAC_CHAP, wanted) {
            return Err(Refusal::OfController(Failure::INCORRECT_MESSAGE));
        }
        Ok(())
    }
}
