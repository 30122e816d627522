//! Validation of a PDU's common header: which PDU it is, and where its digests and data lie.

use zerocopy::little_endian::{U16, U32};

use crate::pdu::{
    CommonHeader, DIGEST_BYTES, PduType, TERMINATE_DATA_BYTES_MAX, TERMINATE_HEADER_BYTES,
    TerminateRequest, flags,
};

open_enum! {
    /// FES: why a connection is terminated (NVMe/TCP 1.0 §3.6.2.4 and §3.6.2.5).
    pub struct FatalErrorStatus(u16);
    /// A header field is not what it may be; FEI is its byte offset.
    INVALID_HEADER_FIELD = 0x01;
    /// A PDU that may not come at this point.
    SEQUENCE_ERROR = 0x02;
    /// The header digest does not match; FEI is the digest received.
    HEADER_DIGEST_ERROR = 0x03;
    /// Data outside of what the transfer is about.
    DATA_OUT_OF_RANGE = 0x04;
    /// More data, or more transfers, than was allowed.
    LIMIT_EXCEEDED = 0x05;
    /// A parameter that is not supported; FEI is its byte offset.
    UNSUPPORTED_PARAMETER = 0x06;
}

/// A transport error after which the connection must end: FES and FEI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fatal transport error {status:?}, information {information:#x}")]
pub struct FatalError {
    /// FES.
    pub status: FatalErrorStatus,
    /// FEI.
    pub information: u32,
}

impl FatalError {
    /// An error of this kind.
    pub fn new(status: FatalErrorStatus, information: u32) -> FatalError {
        FatalError {
            status,
            information,
        }
    }

    /// A header field is wrong; `offset` is its first byte.
    pub fn invalid_field(offset: u32) -> FatalError {
        FatalError::new(FatalErrorStatus::INVALID_HEADER_FIELD, offset)
    }

    /// An error of a kind that needs no more information.
    pub fn of(status: FatalErrorStatus) -> FatalError {
        FatalError::new(status, 0)
    }

    /// A PDU came that may not come now.
    pub fn sequence() -> FatalError {
        FatalError::of(FatalErrorStatus::SEQUENCE_ERROR)
    }
}

/// Byte offsets of header fields, as FEI wants them.
pub mod field {
    /// PDU type.
    pub const TYPE: u32 = 0;
    /// Flags.
    pub const FLAGS: u32 = 1;
    /// HLEN.
    pub const HEADER_BYTES: u32 = 2;
    /// PDO.
    pub const DATA_OFFSET: u32 = 3;
    /// PLEN.
    pub const PDU_BYTES: u32 = 4;
    /// PFV of an initialize request or response.
    pub const FORMAT_VERSION: u32 = 8;
    /// HPDA or CPDA.
    pub const DATA_ALIGNMENT: u32 = 10;
    /// Digest bits of an initialize request or response.
    pub const DIGESTS: u32 = 11;
    /// MAXR2T or MAXH2CDATA.
    pub const LIMIT: u32 = 12;
    /// CCCID of a data PDU or R2T.
    pub const COMMAND_ID: u32 = 8;
    /// TTAG of a data PDU or R2T.
    pub const TRANSFER_TAG: u32 = 10;
    /// DATAO or R2TO.
    pub const OFFSET: u32 = 12;
    /// DATAL or R2TL.
    pub const LENGTH: u32 = 16;
}

/// Which end of the connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The target: accepts PDUs that hosts send.
    Controller,
    /// The initiator: accepts PDUs that controllers send.
    Host,
}

/// What a receiver checks headers against: changes once, when the connection is initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRules {
    /// Which end reads.
    pub receiver: Receiver,
    /// Header digests were negotiated.
    pub header_digest: bool,
    /// Data digests were negotiated.
    pub data_digest: bool,
    /// The alignment this end asked data to have, in bytes: a multiple of 4.
    pub data_alignment_bytes: u32,
    /// The longest data this end accepts in one PDU.
    pub data_bytes_max: u32,
}

impl HeaderRules {
    /// The rules before the connection is initialized: no digests.
    pub fn before_initialize(receiver: Receiver) -> HeaderRules {
        HeaderRules {
            receiver,
            header_digest: false,
            data_digest: false,
            data_alignment_bytes: 4,
            data_bytes_max: 0,
        }
    }

    /// Checks `header` against the specification and these rules.
    ///
    /// # Errors
    /// The fatal error the specification names for the first field that is wrong.
    #[inline]
    pub fn layout(&self, header: &CommonHeader) -> Result<PduLayout, FatalError> {
        let shape = self.shape(header.pdu_type)?;
        if header.header_bytes != shape.header_bytes {
            return Err(FatalError::invalid_field(field::HEADER_BYTES));
        }
        let digested = shape.digests && self.header_digest;
        if header.flags & !shape.flags != 0
            || (header.flags & flags::HEADER_DIGEST != 0) != digested
            || (header.flags & (flags::LAST_PDU | flags::SUCCESS)) == flags::SUCCESS
        {
            return Err(FatalError::invalid_field(field::FLAGS));
        }
        let digest_bytes = if digested { DIGEST_BYTES as u32 } else { 0 };
        let front = u32::from(header.header_bytes) + digest_bytes;
        let total = header.pdu_bytes.get();
        let (data_offset, data_bytes, data_digest) = match shape.data {
            Data::None => self.without_data(header, front)?,
            Data::Terminate => terminate_data(header)?,
            Data::Optional if total == front => self.without_data(header, front)?,
            Data::Optional | Data::Required => self.with_data(header, front)?,
        };
        Ok(PduLayout {
            pdu_type: header.pdu_type,
            flags: header.flags,
            header_bytes: u32::from(header.header_bytes),
            header_digest: digested,
            data_offset,
            data_bytes,
            data_digest,
            total_bytes: total,
        })
    }

    fn shape(&self, pdu_type: PduType) -> Result<Shape, FatalError> {
        let shape = |header_bytes, flags, digests, data| Shape {
            header_bytes,
            flags,
            digests,
            data,
        };
        let both = flags::HEADER_DIGEST | flags::DATA_DIGEST;
        let last = both | flags::LAST_PDU;
        let found = match (self.receiver, pdu_type) {
            (Receiver::Controller, PduType::INITIALIZE_REQUEST)
            | (Receiver::Host, PduType::INITIALIZE_RESPONSE) => shape(128, 0, false, Data::None),
            (Receiver::Controller, PduType::HOST_TERMINATE)
            | (Receiver::Host, PduType::CONTROLLER_TERMINATE) => {
                shape(24, 0, false, Data::Terminate)
            }
            (Receiver::Controller, PduType::COMMAND_CAPSULE) => {
                shape(72, both, true, Data::Optional)
            }
            (Receiver::Controller, PduType::HOST_DATA) => shape(24, last, true, Data::Required),
            (Receiver::Host, PduType::RESPONSE_CAPSULE | PduType::READY_TO_TRANSFER) => {
                shape(24, flags::HEADER_DIGEST, true, Data::None)
            }
            (Receiver::Host, PduType::CONTROLLER_DATA) => {
                shape(24, last | flags::SUCCESS, true, Data::Required)
            }
            _ => return Err(FatalError::invalid_field(field::TYPE)),
        };
        Ok(found)
    }

    fn without_data(
        &self,
        header: &CommonHeader,
        front: u32,
    ) -> Result<(u32, u32, bool), FatalError> {
        if header.flags & flags::DATA_DIGEST != 0 {
            return Err(FatalError::invalid_field(field::FLAGS));
        }
        if header.pdu_bytes.get() != front {
            return Err(FatalError::invalid_field(field::PDU_BYTES));
        }
        // PDO is reserved here, and reserved fields are not checked.
        Ok((front, 0, false))
    }

    fn with_data(&self, header: &CommonHeader, front: u32) -> Result<(u32, u32, bool), FatalError> {
        if (header.flags & flags::DATA_DIGEST != 0) != self.data_digest {
            return Err(FatalError::invalid_field(field::FLAGS));
        }
        let offset = u32::from(header.data_offset);
        if offset < front || !offset.is_multiple_of(self.data_alignment_bytes.max(4)) {
            return Err(FatalError::invalid_field(field::DATA_OFFSET));
        }
        let digest_bytes = if self.data_digest {
            DIGEST_BYTES as u32
        } else {
            0
        };
        let data_bytes = header
            .pdu_bytes
            .get()
            .checked_sub(offset + digest_bytes)
            .filter(|bytes| *bytes > 0 && *bytes <= self.data_bytes_max)
            .ok_or(FatalError::invalid_field(field::PDU_BYTES))?;
        Ok((offset, data_bytes, self.data_digest))
    }
}

fn terminate_data(header: &CommonHeader) -> Result<(u32, u32, bool), FatalError> {
    let front = TERMINATE_HEADER_BYTES as u32;
    let data_bytes = header
        .pdu_bytes
        .get()
        .checked_sub(front)
        .filter(|bytes| *bytes <= TERMINATE_DATA_BYTES_MAX as u32)
        .ok_or(FatalError::invalid_field(field::PDU_BYTES))?;
    Ok((front, data_bytes, false))
}

/// What the specification fixes for one type of PDU.
struct Shape {
    header_bytes: u8,
    flags: u8,
    digests: bool,
    data: Data,
}

enum Data {
    None,
    Optional,
    Required,
    Terminate,
}

/// A PDU whose common header is valid: where its parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduLayout {
    /// What it is.
    pub pdu_type: PduType,
    /// Its flags.
    pub flags: u8,
    /// Bytes of the header, without its digest.
    pub header_bytes: u32,
    /// A header digest follows the header.
    pub header_digest: bool,
    /// Where the data starts; where it would start, if there is none.
    pub data_offset: u32,
    /// Bytes of data.
    pub data_bytes: u32,
    /// A data digest follows the data.
    pub data_digest: bool,
    /// Bytes of the whole PDU.
    pub total_bytes: u32,
}

impl TerminateRequest {
    /// A request that says `error`, to be followed by `quoted_bytes` of the offending header.
    pub fn new(pdu_type: PduType, error: FatalError, quoted_bytes: usize) -> TerminateRequest {
        let quoted_bytes = quoted_bytes.min(TERMINATE_DATA_BYTES_MAX);
        let mut common = CommonHeader::new(pdu_type, TERMINATE_HEADER_BYTES as u8);
        common.pdu_bytes = U32::new((TERMINATE_HEADER_BYTES + quoted_bytes) as u32);
        TerminateRequest {
            common,
            status: U16::new(error.status.0),
            information: U32::new(error.information),
            reserved: [0; 10],
        }
    }

    /// The error it says.
    pub fn error(&self) -> FatalError {
        FatalError::new(FatalErrorStatus(self.status.get()), self.information.get())
    }
}
