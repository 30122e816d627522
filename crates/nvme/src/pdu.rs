//! PDU headers (NVMe/TCP 1.0 §3.6).

use zerocopy::little_endian::{U16, U32};

use crate::{CompletionEntry, SubmissionEntry};

open_enum! {
    /// What a PDU is: byte 0 of its header.
    #[derive(zerocopy::Unaligned)]
    pub struct PduType(u8);
    /// Host: initialize connection request.
    INITIALIZE_REQUEST = 0x00;
    /// Controller: initialize connection response.
    INITIALIZE_RESPONSE = 0x01;
    /// Host: terminate connection request.
    HOST_TERMINATE = 0x02;
    /// Controller: terminate connection request.
    CONTROLLER_TERMINATE = 0x03;
    /// Host: command capsule.
    COMMAND_CAPSULE = 0x04;
    /// Controller: response capsule.
    RESPONSE_CAPSULE = 0x05;
    /// Host: data for a write.
    HOST_DATA = 0x06;
    /// Controller: data of a read.
    CONTROLLER_DATA = 0x07;
    /// Controller: ready to transfer.
    READY_TO_TRANSFER = 0x09;
}

/// Bits of [`CommonHeader::flags`].
pub mod flags {
    /// A header digest follows the header.
    pub const HEADER_DIGEST: u8 = 1 << 0;
    /// A data digest follows the data.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// This data PDU is the last of its transfer.
    pub const LAST_PDU: u8 = 1 << 2;
    /// The command succeeded and no response capsule follows.
    pub const SUCCESS: u8 = 1 << 3;
}

/// Bits of [`InitializeRequest::digests`] and [`InitializeResponse::digests`].
pub mod digests {
    /// Header digests are used on the connection.
    pub const HEADER: u8 = 1 << 0;
    /// Data digests are used on the connection.
    pub const DATA: u8 = 1 << 1;
}

/// Bytes of a terminate request's header.
pub const TERMINATE_HEADER_BYTES: usize = 24;
/// A terminate request carries at most this much of the offending PDU's header.
pub const TERMINATE_DATA_BYTES_MAX: usize = 128;
/// Bytes of a header or data digest.
pub const DIGEST_BYTES: usize = 4;
/// The smallest MAXH2CDATA a controller may state.
pub const HOST_DATA_BYTES_MIN: u32 = 4096;

wire! {
    /// The first eight bytes of every PDU.
    pub struct CommonHeader [8] {
        /// What follows.
        pub pdu_type: PduType,
        /// See [`flags`].
        pub flags: u8,
        /// HLEN: bytes of the header without digest.
        pub header_bytes: u8,
        /// PDO: offset of the data from the start of the PDU.
        pub data_offset: u8,
        /// PLEN: bytes of the PDU with digests.
        pub pdu_bytes: U32,
    }

    /// ICReq (§3.6.2.2).
    pub struct InitializeRequest [128] {
        /// Common header.
        pub common: CommonHeader,
        /// PFV: 0 for this version.
        pub format_version: U16,
        /// HPDA: data alignment the host wants from the controller, in dwords, 0's based.
        pub host_data_alignment: u8,
        /// See [`digests`].
        pub digests: u8,
        /// MAXR2T: transfers the host lets be outstanding per command, 0's based.
        pub ready_to_transfer_max: U32,
        /// Reserved.
        pub reserved: [u8; 112],
    }

    /// ICResp (§3.6.2.3).
    pub struct InitializeResponse [128] {
        /// Common header.
        pub common: CommonHeader,
        /// PFV: 0 for this version.
        pub format_version: U16,
        /// CPDA: data alignment the controller wants from the host, in dwords, 0's based.
        pub controller_data_alignment: u8,
        /// See [`digests`].
        pub digests: u8,
        /// MAXH2CDATA: the longest data of one host data PDU.
        pub host_data_bytes_max: U32,
        /// Reserved.
        pub reserved: [u8; 112],
    }

    /// H2CTermReq and C2HTermReq (§3.6.2.4, §3.6.2.5); the offending header follows.
    pub struct TerminateRequest [24] {
        /// Common header.
        pub common: CommonHeader,
        /// FES: see [`FatalErrorStatus`](crate::FatalErrorStatus).
        pub status: U16,
        /// FEI: where in the offending header, or the digest computed over it.
        pub information: U32,
        /// Reserved.
        pub reserved: [u8; 10],
    }

    /// CapsuleCmd (§3.6.2.6); in-capsule data may follow.
    pub struct CommandCapsule [72] {
        /// Common header.
        pub common: CommonHeader,
        /// The command.
        pub entry: SubmissionEntry,
    }

    /// CapsuleResp (§3.6.2.7).
    pub struct ResponseCapsule [24] {
        /// Common header.
        pub common: CommonHeader,
        /// The completion.
        pub entry: CompletionEntry,
    }

    /// H2CData and C2HData (§3.6.2.8, §3.6.2.9); data follows.
    pub struct DataHeader [24] {
        /// Common header.
        pub common: CommonHeader,
        /// CCCID: the command's identifier.
        pub command_id: U16,
        /// TTAG: the transfer tag of the R2T answered; reserved from controller to host.
        pub transfer_tag: U16,
        /// DATAO: offset of this data in the command's data.
        pub offset: U32,
        /// DATAL: bytes of data in this PDU.
        pub length: U32,
        /// Reserved.
        pub reserved: [u8; 4],
    }

    /// R2T (§3.6.2.10).
    pub struct ReadyToTransfer [24] {
        /// Common header.
        pub common: CommonHeader,
        /// CCCID: the command's identifier.
        pub command_id: U16,
        /// TTAG: to be repeated in the data PDUs that answer.
        pub transfer_tag: U16,
        /// R2TO: offset in the command's data.
        pub offset: U32,
        /// R2TL: bytes asked for.
        pub length: U32,
        /// Reserved.
        pub reserved: [u8; 4],
    }
}

impl CommonHeader {
    /// A header of a PDU without data and without digest.
    pub fn new(pdu_type: PduType, header_bytes: u8) -> CommonHeader {
        CommonHeader {
            pdu_type,
            flags: 0,
            header_bytes,
            data_offset: 0,
            pdu_bytes: U32::new(u32::from(header_bytes)),
        }
    }
}

impl InitializeRequest {
    /// A request with these parameters (alignment and R2T limit 0's based, as on the wire).
    pub fn new(
        host_data_alignment: u8,
        digests: u8,
        ready_to_transfer_max: u32,
    ) -> InitializeRequest {
        InitializeRequest {
            common: CommonHeader::new(PduType::INITIALIZE_REQUEST, 128),
            format_version: U16::ZERO,
            host_data_alignment,
            digests,
            ready_to_transfer_max: U32::new(ready_to_transfer_max),
            reserved: [0; 112],
        }
    }
}

impl InitializeResponse {
    /// A response with these parameters (alignment 0's based, as on the wire).
    pub fn new(
        controller_data_alignment: u8,
        digests: u8,
        host_data_bytes_max: u32,
    ) -> InitializeResponse {
        InitializeResponse {
            common: CommonHeader::new(PduType::INITIALIZE_RESPONSE, 128),
            format_version: U16::ZERO,
            controller_data_alignment,
            digests,
            host_data_bytes_max: U32::new(host_data_bytes_max),
            reserved: [0; 112],
        }
    }
}
