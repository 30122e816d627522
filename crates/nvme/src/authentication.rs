//! In-band authentication: the commands and the messages of DH-HMAC-CHAP (NVMe 2.0 §6.1, §6.2,
//! §8.13).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::command::{SglDescriptor, command_flags, view};
use crate::fabrics::FabricsType;
use crate::{AdminOpcode, SubmissionEntry};

/// SECP of the protocols of this page.
pub const SECURITY_PROTOCOL: u8 = 0xe9;
/// SPSP0 and SPSP1.
pub const PROTOCOL_SPECIFIC: u8 = 1;
/// AuthID of DH-HMAC-CHAP in AUTH_Negotiate.
pub const DH_HMAC_CHAP: u8 = 1;
/// SC_C: no secure channel is to follow.
pub const NO_SECURE_CHANNEL: u8 = 0;
/// Where an AUTH_Negotiate has its groups; hashes stand at the start.
const GROUPS_AT: usize = 30;

/// AUTHREQ in the result of a Connect.
pub mod requirement {
    /// The queue is to be authenticated.
    pub const AUTHENTICATE: u32 = 1 << 17;
    /// The queue is to be authenticated, and a secure channel is to follow.
    pub const AUTHENTICATE_AND_SECURE: u32 = 1 << 18;
}

open_enum! {
    /// AUTH_TYPE.
    #[derive(zerocopy::Unaligned)]
    pub struct MessageType(u8);
    /// Messages that all protocols share.
    COMMON = 0x00;
    /// Messages of DH-HMAC-CHAP.
    DH_HMAC_CHAP = 0x01;
}

open_enum! {
    /// AUTH_ID.
    #[derive(zerocopy::Unaligned)]
    pub struct MessageId(u8);
    /// AUTH_Negotiate.
    NEGOTIATE = 0x00;
    /// DH-HMAC-CHAP_Challenge.
    CHALLENGE = 0x01;
    /// DH-HMAC-CHAP_Reply.
    REPLY = 0x02;
    /// DH-HMAC-CHAP_Success1.
    SUCCESS1 = 0x03;
    /// DH-HMAC-CHAP_Success2.
    SUCCESS2 = 0x04;
    /// AUTH_Failure2.
    FAILURE2 = 0xf0;
    /// AUTH_Failure1.
    FAILURE1 = 0xf1;
}

open_enum! {
    /// Reason code explanation of AUTH_Failure1 and AUTH_Failure2; the reason code is always 1.
    #[derive(zerocopy::Unaligned)]
    pub struct Failure(u8);
    /// Authentication failed.
    FAILED = 0x01;
    /// The protocol is not usable.
    PROTOCOL_UNUSABLE = 0x02;
    /// Secure channel concatenation mismatch.
    SECURE_CHANNEL_MISMATCH = 0x03;
    /// The hash function is not usable.
    HASH_UNUSABLE = 0x04;
    /// The group is not usable.
    GROUP_UNUSABLE = 0x05;
    /// Incorrect payload.
    INCORRECT_PAYLOAD = 0x06;
    /// Incorrect protocol message.
    INCORRECT_MESSAGE = 0x07;
}

wire! {
    /// Authentication Send and Authentication Receive.
    pub struct Authentication [64] {
        /// [`AdminOpcode::FABRICS`].
        pub opcode: u8,
        /// See [`command_flags`].
        pub flags: u8,
        /// CID.
        pub command_id: U16,
        /// FCTYPE.
        pub fabrics_type: FabricsType,
        /// Reserved.
        pub reserved: [u8; 19],
        /// SGL1: the message.
        pub data: SglDescriptor,
        /// Reserved.
        pub reserved40: u8,
        /// SPSP0: [`PROTOCOL_SPECIFIC`].
        pub specific0: u8,
        /// SPSP1: [`PROTOCOL_SPECIFIC`].
        pub specific1: u8,
        /// SECP: [`SECURITY_PROTOCOL`].
        pub protocol: u8,
        /// TL or AL: bytes of the message, or of the room for it.
        pub length: U32,
        /// Reserved.
        pub reserved48: [u8; 16],
    }

    /// What every message starts with.
    pub struct MessageHeader [6] {
        /// AUTH_TYPE.
        pub kind: MessageType,
        /// AUTH_ID.
        pub id: MessageId,
        /// Reserved.
        pub reserved: U16,
        /// T_ID.
        pub transaction: U16,
    }

    /// AUTH_Negotiate with one protocol descriptor.
    pub struct Negotiate [72] {
        /// AUTH_TYPE, AUTH_ID, T_ID.
        pub header: MessageHeader,
        /// SC_C.
        pub secure_channel: u8,
        /// NAPD: protocol descriptors.
        pub protocols: u8,
        /// AuthID of the descriptor.
        pub protocol: u8,
        /// Reserved.
        pub reserved: u8,
        /// HALEN: hashes in the list.
        pub hash_count: u8,
        /// DHLEN: groups in the list.
        pub group_count: u8,
        /// Hashes from byte 0, groups from byte 30.
        pub list: [u8; 60],
    }

    /// DH-HMAC-CHAP_Challenge; the challenge and the group's value follow.
    pub struct Challenge [16] {
        /// AUTH_TYPE, AUTH_ID, T_ID.
        pub header: MessageHeader,
        /// HL: bytes of the challenge.
        pub hash_bytes: u8,
        /// Reserved.
        pub reserved: u8,
        /// HashID.
        pub hash: u8,
        /// DHgID.
        pub group: u8,
        /// DHVLEN: bytes of the group's value.
        pub value_bytes: U16,
        /// SEQNUM: S1.
        pub sequence: U32,
    }

    /// DH-HMAC-CHAP_Reply; response, challenge and the group's value follow.
    pub struct ChallengeReply [16] {
        /// AUTH_TYPE, AUTH_ID, T_ID.
        pub header: MessageHeader,
        /// HL: bytes of the response, and of the challenge.
        pub hash_bytes: u8,
        /// Reserved.
        pub reserved: u8,
        /// CVALID: bit 0 says that the challenge is one.
        pub challenge_valid: u8,
        /// Reserved.
        pub reserved9: u8,
        /// DHVLEN: bytes of the group's value.
        pub value_bytes: U16,
        /// SEQNUM: S2; zero when the controller is not to prove anything.
        pub sequence: U32,
    }

    /// DH-HMAC-CHAP_Success1; the response follows when it is valid.
    pub struct Success1 [16] {
        /// AUTH_TYPE, AUTH_ID, T_ID.
        pub header: MessageHeader,
        /// HL: bytes of the response.
        pub hash_bytes: u8,
        /// Reserved.
        pub reserved: u8,
        /// RVALID: bit 0 says that there is a response.
        pub response_valid: u8,
        /// Reserved.
        pub reserved9: [u8; 7],
    }

    /// DH-HMAC-CHAP_Success2.
    pub struct Success2 [16] {
        /// AUTH_TYPE, AUTH_ID, T_ID.
        pub header: MessageHeader,
        /// Reserved.
        pub reserved: [u8; 10],
    }

    /// AUTH_Failure1 and AUTH_Failure2.
    pub struct FailureMessage [8] {
        /// AUTH_TYPE, AUTH_ID, T_ID.
        pub header: MessageHeader,
        /// Reason code: 1, authentication failure.
        pub reason: u8,
        /// Reason code explanation.
        pub explanation: Failure,
    }
}

view!(Authentication);

impl Authentication {
    /// Authentication Send of a message of `bytes` bytes.
    pub fn send(bytes: u32) -> Authentication {
        Authentication::new(FabricsType::AUTHENTICATION_SEND, bytes)
    }

    /// Authentication Receive into `bytes` bytes.
    pub fn receive(bytes: u32) -> Authentication {
        Authentication::new(FabricsType::AUTHENTICATION_RECEIVE, bytes)
    }

    fn new(fabrics_type: FabricsType, bytes: u32) -> Authentication {
        let entry = SubmissionEntry {
            flags: command_flags::SGL,
            ..SubmissionEntry::new(AdminOpcode::FABRICS.0, 0, SglDescriptor::transport(bytes))
        };
        let mut command = *Authentication::of(&entry);
        command.fabrics_type = fabrics_type;
        command.reserved = [0; 19];
        command.specific0 = PROTOCOL_SPECIFIC;
        command.specific1 = PROTOCOL_SPECIFIC;
        command.protocol = SECURITY_PROTOCOL;
        command.length = U32::new(bytes);
        command
    }

    /// True when the command is for the protocols of this page.
    pub fn is_known(&self) -> bool {
        self.protocol == SECURITY_PROTOCOL
            && self.specific0 == PROTOCOL_SPECIFIC
            && self.specific1 == PROTOCOL_SPECIFIC
    }
}

impl MessageHeader {
    /// The header of a message.
    pub fn new(kind: MessageType, id: MessageId, transaction: u16) -> MessageHeader {
        MessageHeader {
            kind,
            id,
            reserved: U16::ZERO,
            transaction: U16::new(transaction),
        }
    }

    /// The header of a message that was received; `None` when there is not even that.
    pub fn of(message: &[u8]) -> Option<MessageHeader> {
        let (header, _) = MessageHeader::read_from_prefix(message).ok()?;
        Some(header)
    }
}

impl Negotiate {
    /// An offer of these hashes and groups, of which at most 30 each are taken.
    pub fn new(transaction: u16, hashes: &[u8], groups: &[u8]) -> Negotiate {
        let mut message = Negotiate::new_zeroed();
        message.header = MessageHeader::new(MessageType::COMMON, MessageId::NEGOTIATE, transaction);
        message.protocols = 1;
        message.protocol = DH_HMAC_CHAP;
        message.hash_count = hashes.len().min(GROUPS_AT) as u8;
        message.group_count = groups.len().min(GROUPS_AT) as u8;
        let (first, second) = message.list.split_at_mut(GROUPS_AT);
        first
            .iter_mut()
            .zip(hashes)
            .for_each(|(to, from)| *to = *from);
        second
            .iter_mut()
            .zip(groups)
            .for_each(|(to, from)| *to = *from);
        message
    }

    /// The hashes on offer; `None` when the list is longer than its room.
    pub fn hashes(&self) -> Option<&[u8]> {
        let (hashes, _) = self.list.split_at(GROUPS_AT);
        hashes.get(..usize::from(self.hash_count))
    }

    /// The groups on offer; `None` when the list is longer than its room.
    pub fn groups(&self) -> Option<&[u8]> {
        let (_, groups) = self.list.split_at(GROUPS_AT);
        groups.get(..usize::from(self.group_count))
    }
}

impl FailureMessage {
    /// AUTH_Failure1 (from the controller) or AUTH_Failure2 (from the host).
    pub fn new(id: MessageId, transaction: u16, explanation: Failure) -> FailureMessage {
        FailureMessage {
            header: MessageHeader::new(MessageType::COMMON, id, transaction),
            reason: 1,
            explanation,
        }
    }
}

/// A message's fixed part and what follows it; `None` when the message is cut short.
pub fn split<M: FromBytes>(message: &[u8]) -> Option<(M, &[u8])> {
    M::read_from_prefix(message).ok()
}

/// A message of a fixed part and what follows it.
pub fn message(fixed: &(impl IntoBytes + zerocopy::Immutable), parts: &[&[u8]]) -> Vec<u8> {
    [&[fixed.as_bytes()], parts].concat().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The AUTH_Negotiate that Linux 6.12 sends.
    #[test]
    fn an_offer_is_laid_out_as_linux_sends_it() {
        let offer = Negotiate::new(0x0102, &[1, 2, 3], &[0, 1, 2, 3, 4, 5]);
        let bytes = offer.as_bytes();
        assert_eq!(bytes[..12], [0, 0, 0, 0, 2, 1, 0, 1, 1, 0, 3, 6]);
        assert_eq!(bytes[12..16], [1, 2, 3, 0]);
        assert_eq!(bytes[42..49], [0, 1, 2, 3, 4, 5, 0]);
        assert_eq!(offer.hashes(), Some(&[1, 2, 3][..]));
        assert_eq!(offer.groups(), Some(&[0, 1, 2, 3, 4, 5][..]));
        let mut long = offer;
        long.hash_count = 31;
        long.group_count = 255;
        assert_eq!((long.hashes(), long.groups()), (None, None));
    }

    #[test]
    fn commands_and_messages_have_their_fields_where_they_belong() {
        let send = Authentication::send(0x48);
        let bytes = send.as_bytes();
        assert_eq!((bytes[0], bytes[4]), (0x7f, 0x05));
        assert_eq!(bytes[41..48], [1, 1, 0xe9, 0x48, 0, 0, 0]);
        assert!(send.is_known() && Authentication::receive(1).is_known());
        let failure = FailureMessage::new(MessageId::FAILURE1, 3, Failure::HASH_UNUSABLE);
        assert_eq!(failure.as_bytes(), [0, 0xf1, 0, 0, 3, 0, 1, 4]);
        let challenge = Challenge {
            header: MessageHeader::new(MessageType::DH_HMAC_CHAP, MessageId::CHALLENGE, 9),
            hash_bytes: 32,
            reserved: 0,
            hash: 1,
            group: 2,
            value_bytes: U16::new(384),
            sequence: U32::new(5),
        };
        let whole = message(&challenge, &[&[0xaa; 32], &[0xbb; 384]]);
        assert_eq!(
            whole[..16],
            [1, 1, 0, 0, 9, 0, 32, 0, 1, 2, 0x80, 1, 5, 0, 0, 0]
        );
        let (read, rest) = split::<Challenge>(&whole).unwrap();
        assert_eq!((read, rest.len()), (challenge, 416));
        assert!(split::<Challenge>(&whole[..15]).is_none());
        assert_eq!(MessageHeader::of(&whole[..5]), None);
    }
}
