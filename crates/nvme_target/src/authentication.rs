//! [`Authenticator`]: the controller's side of DH-HMAC-CHAP on one queue (NVMe 2.0 §8.13.5), as a
//! machine: messages in, messages out, and a verdict.

use std::sync::Arc;

use access::chap::{Agreement, ChapHash, DhGroup, Digest, KeyPair, same};
use access::{HostKeys, Nqn};
use nvme::authentication::{
    Challenge, ChallengeReply, DH_HMAC_CHAP, Failure, FailureMessage, MessageHeader, MessageId,
    MessageType, NO_SECURE_CHANNEL, Negotiate, Success1, Success2, message, split,
};
use zerocopy::little_endian::{U16, U32};

/// How often a host may begin before it has finished once.
const ATTEMPTS_MAX: u8 = 4;

/// The longest message that a host may send: a reply in the largest group, with room to spare.
pub const MESSAGE_BYTES_MAX: u32 = 4096;

/// Whether a queue may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The host has not proved anything yet.
    Open,
    /// The host has proved its secret; it may do so again.
    Passed,
    /// The host has failed: the connection is to be closed.
    Failed(Failure),
}

/// One queue's authentication. [`Authenticator::receive`] takes milliseconds in the large groups:
/// it is `Send`, so that it can be run where nothing else has to wait.
#[derive(Debug)]
pub struct Authenticator {
    keys: Arc<HostKeys>,
    agreement: Agreement,
    state: State,
    verdict: Verdict,
    attempts: u8,
}

/// What comes next.
#[derive(Debug)]
enum State {
    /// An AUTH_Negotiate from the host.
    Begin,
    /// The host fetches the challenge.
    Challenge(Offer),
    /// The host's reply to it.
    Reply(Offer),
    /// The host fetches that it has passed, and what it asked the controller to prove.
    Success1(Option<Digest>),
    /// The host says whether the controller has passed.
    Success2,
    /// The host fetches that, and why, it has failed.
    Failure1(Failure),
}

#[derive(Debug)]
struct Offer {
    challenge: Vec<u8>,
    sequence: u32,
    pair: KeyPair,
}

impl Authenticator {
    /// Nothing has been proved yet.
    pub fn new(keys: Arc<HostKeys>, host_nqn: Nqn, subsystem_nqn: Nqn) -> Authenticator {
        Authenticator {
            agreement: Agreement {
                hash: keys.hash,
                transaction: 0,
                host_nqn,
                subsystem_nqn,
            },
            keys,
            state: State::Begin,
            verdict: Verdict::Open,
            attempts: 0,
        }
    }

    /// Whether the queue may be used now.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Takes a message of the host (Authentication Send).
    pub fn receive(&mut self, message: &[u8]) {
        if matches!(self.verdict, Verdict::Failed(_)) {
            return;
        }
        if let Err(failure) = self.take(message) {
            self.state = State::Failure1(failure);
        }
    }

    fn take(&mut self, message: &[u8]) -> Result<(), Failure> {
        let header = MessageHeader::of(message).ok_or(Failure::INCORRECT_PAYLOAD)?;
        if (header.kind, header.id) == (MessageType::COMMON, MessageId::NEGOTIATE) {
            return self.negotiate(message);
        }
        let state = std::mem::replace(&mut self.state, State::Begin);
        match (header.kind, header.id, state) {
            (MessageType::COMMON, MessageId::FAILURE2, State::Reply(_) | State::Success2) => {
                let (said, _) =
                    split::<FailureMessage>(message).ok_or(Failure::INCORRECT_PAYLOAD)?;
                self.verdict = Verdict::Failed(said.explanation);
                Ok(())
            }
            (_, _, State::Reply(_) | State::Success2)
                if header.transaction.get() != self.agreement.transaction =>
            {
                Err(Failure::INCORRECT_PAYLOAD)
            }
            (MessageType::DH_HMAC_CHAP, MessageId::REPLY, State::Reply(offer)) => {
                self.reply(message, &offer)
            }
            (MessageType::DH_HMAC_CHAP, MessageId::SUCCESS2, State::Success2) => {
                split::<Success2>(message).ok_or(Failure::INCORRECT_PAYLOAD)?;
                self.pass();
                Ok(())
            }
            _ => Err(Failure::INCORRECT_MESSAGE),
        }
    }

    fn pass(&mut self) {
        self.verdict = Verdict::Passed;
        self.attempts = 0;
    }

    /// The host offers hashes and groups; the ones demanded must be among them.
    fn negotiate(&mut self, message: &[u8]) -> Result<(), Failure> {
        let (offer, _) = split::<Negotiate>(message).ok_or(Failure::INCORRECT_PAYLOAD)?;
        self.agreement.transaction = offer.header.transaction.get();
        self.attempts += 1;
        if self.attempts > ATTEMPTS_MAX {
            return Err(Failure::FAILED);
        }
        if offer.secure_channel != NO_SECURE_CHANNEL {
            return Err(Failure::SECURE_CHANNEL_MISMATCH);
        }
        if offer.protocols == 0 || offer.protocol != DH_HMAC_CHAP {
            return Err(Failure::PROTOCOL_UNUSABLE);
        }
        let hashes = offer.hashes().ok_or(Failure::INCORRECT_PAYLOAD)?;
        let groups = offer.groups().ok_or(Failure::INCORRECT_PAYLOAD)?;
        let (hash, group) = (self.keys.hash, self.keys.group);
        if !hashes.contains(&hash.id()) {
            return Err(Failure::HASH_UNUSABLE);
        }
        if !groups.contains(&group.id()) {
            return Err(Failure::GROUP_UNUSABLE);
        }
        self.state = State::Challenge(Offer::new(hash, group));
        Ok(())
    }

    /// The host's response, and perhaps a challenge of its own.
    fn reply(&mut self, message: &[u8], offer: &Offer) -> Result<(), Failure> {
        let hash_bytes = self.agreement.hash.digest_bytes();
        let (reply, rest) = split::<ChallengeReply>(message).ok_or(Failure::INCORRECT_PAYLOAD)?;
        let value_bytes = usize::from(reply.value_bytes.get());
        let fits = usize::from(reply.hash_bytes) == hash_bytes
            && rest.len() >= 2 * hash_bytes + value_bytes;
        if !fits {
            return Err(Failure::INCORRECT_PAYLOAD);
        }
        let (response, rest) = rest.split_at(hash_bytes);
        let (challenge, rest) = rest.split_at(hash_bytes);
        let value = rest.get(..value_bytes).unwrap_or_default();
        let session_key = self.session_key(&offer.pair, value)?;
        let expected = self.agreement.host_response(
            &self.keys.host,
            &offer.challenge,
            offer.sequence,
            session_key.as_ref(),
        );
        if !same(response, &expected) {
            return Err(Failure::FAILED);
        }
        let sequence = reply.sequence.get();
        let asked = reply.challenge_valid & 1 != 0 && sequence != 0;
        if asked && challenge == offer.challenge {
            return Err(Failure::FAILED);
        }
        let proof = match (asked, &self.keys.controller) {
            (false, _) => None,
            (true, None) => return Err(Failure::FAILED),
            (true, Some(secret)) => Some(self.agreement.controller_response(
                secret,
                challenge,
                sequence,
                session_key.as_ref(),
            )),
        };
        self.state = State::Success1(proof);
        Ok(())
    }

    fn session_key(&self, pair: &KeyPair, value: &[u8]) -> Result<Option<Digest>, Failure> {
        let shared = pair.shared_secret(value);
        let shared = shared.map_err(|_| Failure::INCORRECT_PAYLOAD)?;
        Ok((pair.group() != DhGroup::Null).then(|| self.agreement.session_key(&shared)))
    }

    /// The message that the host fetches (Authentication Receive), at most `room` bytes; `None`
    /// when there is none that fits.
    pub fn transmit(&mut self, room: usize) -> Option<Vec<u8>> {
        let message = self.next_message()?;
        if message.len() > room {
            return None;
        }
        self.state = match std::mem::replace(&mut self.state, State::Begin) {
            State::Challenge(offer) => State::Reply(offer),
            State::Success1(Some(_)) => State::Success2,
            State::Success1(None) => {
                self.pass();
                State::Begin
            }
            State::Failure1(failure) => {
                self.verdict = Verdict::Failed(failure);
                State::Begin
            }
            other => other,
        };
        Some(message)
    }

    fn next_message(&self) -> Option<Vec<u8>> {
        let transaction = self.agreement.transaction;
        let header = |id| MessageHeader::new(MessageType::DH_HMAC_CHAP, id, transaction);
        let hash_bytes = self.agreement.hash.digest_bytes() as u8;
        Some(match &self.state {
            State::Challenge(offer) => {
                let value = offer.pair.public();
                let fixed = Challenge {
                    header: header(MessageId::CHALLENGE),
                    hash_bytes,
                    reserved: 0,
                    hash: self.agreement.hash.id(),
                    group: offer.pair.group().id(),
                    value_bytes: U16::new(value.len() as u16),
                    sequence: U32::new(offer.sequence),
                };
                message(&fixed, &[&offer.challenge, value])
            }
            State::Success1(proof) => {
                let fixed = Success1 {
                    header: header(MessageId::SUCCESS1),
                    hash_bytes,
                    reserved: 0,
                    response_valid: u8::from(proof.is_some()),
                    reserved9: [0; 7],
                };
                let proof = proof.as_deref().map_or(&[][..], Vec::as_slice);
                message(&fixed, &[proof])
            }
            State::Failure1(failure) => {
                let fixed = FailureMessage::new(MessageId::FAILURE1, transaction, *failure);
                message(&fixed, &[])
            }
            State::Begin | State::Reply(_) | State::Success2 => return None,
        })
    }
}

impl Offer {
    fn new(hash: ChapHash, group: DhGroup) -> Offer {
        let mut random = vec![0; hash.digest_bytes() + 4];
        getrandom::fill(&mut random).expect("the kernel gives random bytes");
        let (sequence, challenge) = random.split_at(4);
        let sequence = sequence.try_into().map_or(1, u32::from_le_bytes);
        Offer {
            challenge: challenge.to_vec(),
            // Zero would say that nothing is asked for.
            sequence: sequence.max(1),
            pair: KeyPair::generate(group),
        }
    }
}

#[cfg(test)]
mod tests;
