//! NVMe/RDMA (NVMe over RDMA transport specification 1.0): what both ends say while they connect,
//! and data that is reached by a key.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros};

use crate::SglDescriptor;
use crate::command::sgl;

/// RECFMT of all private data.
const RECORD_FORMAT: u16 = 0;

/// The longest data that a [`KeyedDataBlock`] describes.
pub const DATA_BYTES_MAX: u32 = 0x00ff_ffff;

open_enum! {
    /// STS of a [`ConnectReject`].
    pub struct RejectStatus(u16);
    /// The private data is too short.
    INVALID_LENGTH = 0x01;
    /// RECFMT is not 0.
    INVALID_FORMAT = 0x02;
    /// The queue identifier is not one that there may be.
    INVALID_QUEUE_ID = 0x03;
    /// HSQSIZE is more than the controller has.
    INVALID_SEND_SIZE = 0x04;
    /// HRQSIZE is less than responses need.
    INVALID_RECEIVE_SIZE = 0x05;
    /// The controller has no room for another queue.
    NO_RESOURCES = 0x06;
    /// IRD.
    INVALID_RESPONDER_RESOURCES = 0x07;
    /// ORD.
    INVALID_INITIATOR_DEPTH = 0x08;
    /// CNTLID.
    INVALID_CONTROLLER_ID = 0x09;
}

wire! {
    /// What a host says when it connects a queue.
    pub struct ConnectRequest [32] {
        /// RECFMT: 0.
        pub record_format: U16,
        /// QID.
        pub queue_id: U16,
        /// HRQSIZE: receives that the host has posted.
        pub host_receives: U16,
        /// HSQSIZE, 0's based: capsules that the host may have under way.
        pub host_sends: U16,
        /// CNTLID, where the host says it (1.1).
        pub controller_id: U16,
        /// Reserved.
        pub reserved: [u8; 22],
    }

    /// What the controller says when it agrees.
    pub struct ConnectAccept [32] {
        /// RECFMT: 0.
        pub record_format: U16,
        /// CRQSIZE: receives that the controller has posted.
        pub controller_receives: U16,
        /// Reserved.
        pub reserved: [u8; 28],
    }

    /// What the controller says when it does not.
    pub struct ConnectReject [4] {
        /// RECFMT: 0.
        pub record_format: U16,
        /// STS: a [`RejectStatus`].
        pub status: U16,
    }

    /// A keyed SGL data block descriptor (NVMe 2.0 §4.3.2): memory of the host, and its key.
    pub struct KeyedDataBlock [16] {
        /// Where it begins.
        pub address: U64,
        /// Bytes, in 24 bits.
        pub length: [u8; 3],
        /// Key.
        pub key: U32,
        /// [`sgl::KEYED_DATA_BLOCK`] or [`sgl::KEYED_DATA_BLOCK_INVALIDATE`].
        pub kind: u8,
    }
}

impl ConnectRequest {
    /// A host wants to have `depth` commands in flight on a queue of this controller; who has no
    /// controller yet says 0.
    pub fn new(queue_id: u16, depth: u16, controller_id: u16) -> ConnectRequest {
        let mut request = ConnectRequest::new_zeroed();
        request.queue_id = U16::new(queue_id);
        request.host_receives = U16::new(depth.saturating_add(1));
        request.host_sends = U16::new(depth);
        request.controller_id = U16::new(controller_id);
        request
    }

    /// The request in private data, behind which the connection manager may have more bytes.
    ///
    /// # Errors
    /// What the host is to be told: it says nothing, or nothing that this version knows.
    pub fn of(private: &[u8]) -> Result<&ConnectRequest, RejectStatus> {
        let (request, _) =
            ConnectRequest::ref_from_prefix(private).map_err(|_| RejectStatus::INVALID_LENGTH)?;
        match request.record_format.get() {
            RECORD_FORMAT => Ok(request),
            _ => Err(RejectStatus::INVALID_FORMAT),
        }
    }

    /// Entries of the host's submission queue.
    pub fn entries(&self) -> u32 {
        u32::from(self.host_sends.get()) + 1
    }
}

impl ConnectAccept {
    /// The controller has posted so many receives.
    pub fn new(controller_receives: u16) -> ConnectAccept {
        let mut accept = ConnectAccept::new_zeroed();
        accept.controller_receives = U16::new(controller_receives);
        accept
    }

    /// The answer in private data, if it is one that this version knows.
    pub fn of(private: &[u8]) -> Option<&ConnectAccept> {
        let (accept, _) = ConnectAccept::ref_from_prefix(private).ok()?;
        (accept.record_format.get() == RECORD_FORMAT).then_some(accept)
    }
}

impl ConnectReject {
    /// The controller does not agree, for this reason.
    pub fn new(status: RejectStatus) -> ConnectReject {
        ConnectReject {
            record_format: U16::new(RECORD_FORMAT),
            status: U16::new(status.0),
        }
    }

    /// Why the controller does not agree, if the private data is such an answer.
    pub fn status_of(private: &[u8]) -> Option<RejectStatus> {
        let (reject, _) = ConnectReject::ref_from_prefix(private).ok()?;
        (reject.record_format.get() == RECORD_FORMAT).then_some(RejectStatus(reject.status.get()))
    }
}

impl KeyedDataBlock {
    /// Memory of `length` bytes, of which the low 24 bits count.
    pub fn new(address: u64, length: u32, key: u32, invalidate: bool) -> KeyedDataBlock {
        let [low, middle, high, _] = length.to_le_bytes();
        KeyedDataBlock {
            address: U64::new(address),
            length: [low, middle, high],
            key: U32::new(key),
            kind: match invalidate {
                true => sgl::KEYED_DATA_BLOCK_INVALIDATE,
                false => sgl::KEYED_DATA_BLOCK,
            },
        }
    }

    /// The descriptor seen as this kind, if it is one.
    pub fn of(descriptor: &SglDescriptor) -> Option<&KeyedDataBlock> {
        let block: &KeyedDataBlock = zerocopy::transmute_ref!(descriptor);
        let keyed = [sgl::KEYED_DATA_BLOCK, sgl::KEYED_DATA_BLOCK_INVALIDATE];
        keyed.contains(&block.kind).then_some(block)
    }

    /// This block as the descriptor it is.
    pub fn descriptor(&self) -> SglDescriptor {
        zerocopy::transmute!(*self)
    }

    /// Bytes.
    pub fn length_bytes(&self) -> u32 {
        let [low, middle, high] = self.length;
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// Whether the answer is to end the key.
    pub fn invalidates(&self) -> bool {
        self.kind == sgl::KEYED_DATA_BLOCK_INVALIDATE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn a_connect_request_is_laid_out_as_the_specification_says() {
        let mut bytes = vec![0, 0, 3, 0, 128, 0, 127, 0, 0x34, 0x12];
        bytes.resize(56, 0);
        let request = ConnectRequest::of(&bytes).unwrap();
        assert_eq!((request.queue_id.get(), request.entries()), (3, 128));
        assert_eq!(request.host_receives.get(), 128);
        assert_eq!(request.controller_id.get(), 0x1234);
        assert_eq!(ConnectAccept::new(0x0201).as_bytes()[..4], [0, 0, 1, 2]);
        let reject = ConnectReject::new(RejectStatus::NO_RESOURCES);
        assert_eq!(reject.as_bytes(), [0, 0, 6, 0]);
        let said = ConnectRequest::new(3, 127, 0x1234);
        assert_eq!(said.as_bytes(), &bytes[..32]);
    }

    #[test]
    fn private_data_that_is_short_or_of_another_format_is_named() {
        let short = ConnectRequest::of(&[0; 31]);
        assert_eq!(short, Err(RejectStatus::INVALID_LENGTH));
        let mut other = [0; 32];
        other[0] = 1;
        let other = ConnectRequest::of(&other);
        assert_eq!(other, Err(RejectStatus::INVALID_FORMAT));
    }

    #[test]
    fn answers_are_read_from_private_data_and_nothing_else_is() {
        let mut bytes = ConnectAccept::new(128).as_bytes().to_vec();
        bytes.resize(196, 0);
        let accept = ConnectAccept::of(&bytes).unwrap();
        assert_eq!(accept.controller_receives.get(), 128);
        assert_eq!(ConnectAccept::of(&bytes[..31]), None);
        bytes[0] = 1;
        assert_eq!(ConnectAccept::of(&bytes), None);
        let reject = ConnectReject::new(RejectStatus::INVALID_QUEUE_ID);
        let status = ConnectReject::status_of(reject.as_bytes());
        assert_eq!(status, Some(RejectStatus::INVALID_QUEUE_ID));
        assert_eq!(ConnectReject::status_of(&[0, 0, 3]), None);
        assert_eq!(ConnectReject::status_of(&[1, 0, 3, 0]), None);
    }

    #[test]
    fn a_keyed_block_is_laid_out_as_the_specification_says() {
        let block = KeyedDataBlock::new(0x1122_3344_5566_7788, 0x00c0_ffee, 0xaabb_ccdd, true);
        let bytes = [
            0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xee, 0xff, 0xc0, 0xdd, 0xcc, 0xbb,
            0xaa, 0x4f,
        ];
        assert_eq!(block.as_bytes(), bytes);
        assert_eq!(KeyedDataBlock::of(&SglDescriptor::transport(1)), None);
    }

    proptest! {
        #[test]
        fn keyed_blocks_keep_what_they_are_made_of(
            address: u64,
            length in 0..1_u32 << 24,
            key: u32,
            invalidate: bool,
        ) {
            let descriptor = KeyedDataBlock::new(address, length, key, invalidate).descriptor();
            let block = KeyedDataBlock::of(&descriptor).unwrap();
            prop_assert_eq!(block.address.get(), address);
            prop_assert_eq!(block.length_bytes(), length);
            prop_assert_eq!((block.key.get(), block.invalidates()), (key, invalidate));
        }

        #[test]
        fn any_private_data_is_a_request_or_has_a_status(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            match ConnectRequest::of(&bytes) {
                Ok(request) => prop_assert_eq!(request.as_bytes(), &bytes[..32]),
                Err(RejectStatus::INVALID_LENGTH) => prop_assert!(bytes.len() < 32),
                Err(status) => {
                    prop_assert_eq!(status, RejectStatus::INVALID_FORMAT);
                    prop_assert!(bytes[..2] != [0, 0]);
                }
            }
        }
    }
}
