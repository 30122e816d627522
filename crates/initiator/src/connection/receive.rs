//! From bytes to completions.

use std::ops::Range;

use block::Buffer;
use nvme::pdu::{
    CommonHeader, DIGEST_BYTES, DataHeader, InitializeResponse, PduType, ReadyToTransfer,
    ResponseCapsule, TerminateRequest, digests, flags,
};
use nvme::{
    CompletionEntry, FatalError, FatalErrorStatus, HeaderRules, PduLayout, Receiver, RunningDigest,
    Status, digest, field,
};
use zerocopy::FromBytes;

use super::{Connection, Data, Outgoing, Phase};
use crate::LossReason;

/// Room for the longest PDU front: 255 bytes up to the data, or a terminate request.
const FRONT_BYTES_MAX: usize = 256;

/// Payloads with at least this much to come are received straight into their buffer.
pub(super) const LENT_BYTES_MIN: u32 = 16 << 10;

/// Asked for while a large payload is due: its header and what is not worth a receive of its own.
const HINT_BYTES: usize = 4096;

/// Longest data PDU accepted; what counts is the command it belongs to, checked separately.
const DATA_BYTES_MAX: u32 = 1 << 30;

/// Where in the stream of PDUs the receiver is.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The front of a PDU that came in pieces.
    front: [u8; FRONT_BYTES_MAX],
    front_bytes: usize,
    payload: Option<Payload>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            front: [0; FRONT_BYTES_MAX],
            front_bytes: 0,
            payload: None,
        }
    }
}

/// The data of the PDU that is being received.
#[derive(Clone, Copy, Debug)]
struct Payload {
    id: u16,
    flags: u8,
    remaining: u32,
    /// What has been computed, and how much of the digest on the wire has been seen.
    digest: Option<(RunningDigest, [u8; DIGEST_BYTES], usize)>,
}

impl Connection {
    /// Takes bytes from the controller, any number of them.
    ///
    /// # Errors
    /// The reason for which the connection is over. If the controller is to be told, that is now
    /// the only output.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), LossReason> {
        while !bytes.is_empty() {
            if let Some(reason) = self.loss() {
                return Err(reason);
            }
            let step = match self.decoder.payload {
                Some(payload) => Ok(self.receive_data(payload, bytes)),
                None => self.receive_front(bytes),
            };
            match step {
                Ok(taken) => bytes = &bytes[taken..],
                Err(Broken { error, header }) => return Err(self.break_off(error, &header)),
            }
        }
        self.loss().map_or(Ok(()), Err)
    }

    /// How many bytes, of `capacity`, to ask the socket for: few while most of what is to come is
    /// large payloads, so that their bulk goes straight to its buffers ([`Connection::lend`]).
    pub fn receive_hint_bytes(&self, capacity: usize) -> usize {
        if self.reads.large > 0 && 2 * self.reads.large >= self.reads.all {
            capacity.min(HINT_BYTES)
        } else {
            capacity
        }
    }

    /// The memory that the rest of a large payload belongs in, and where in it; it comes back
    /// through [`Connection::returned`].
    pub fn lend(&mut self) -> Option<(Buffer, Range<usize>)> {
        let payload = self.decoder.payload?;
        if payload.remaining < LENT_BYTES_MIN || self.loss().is_some() {
            return None;
        }
        let slot = &mut self.commands.slots[usize::from(payload.id)];
        let start = slot.part.transferred as usize;
        let buffer = slot.lend()?;
        Some((buffer, start..start + payload.remaining as usize))
    }

    /// Takes back memory that was lent, with `bytes` more of the payload in it.
    pub fn returned(&mut self, buffer: Buffer, bytes: usize) {
        let Some(payload) = self.decoder.payload else {
            return;
        };
        let slot = &mut self.commands.slots[usize::from(payload.id)];
        slot.give_back(buffer);
        let bytes = bytes.min(payload.remaining as usize);
        self.advance(payload, bytes);
        self.commands.finish_if_whole(payload.id);
    }

    fn break_off(&mut self, error: FatalError, header: &[u8]) -> LossReason {
        let mut quoted = [0; 24];
        let quoted_bytes = header.len().min(quoted.len());
        quoted[..quoted_bytes].copy_from_slice(&header[..quoted_bytes]);
        let reason = LossReason::Protocol(error);
        self.fail(reason);
        let quoted_bytes = quoted_bytes as u8;
        self.outgoing.push_back(Outgoing::Terminate {
            error,
            quoted,
            quoted_bytes,
        });
        reason
    }

    /// Takes bytes of a PDU's front: everything before its data. Returns how many.
    fn receive_front(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if self.decoder.front_bytes == 0
            && let Ok((header, _)) = CommonHeader::ref_from_prefix(bytes)
        {
            let layout = self.layout(header)?;
            let front_bytes = front_bytes(&layout);
            if let Some(front) = bytes.get(..front_bytes) {
                self.handle_front(&layout, front)?;
                return Ok(front_bytes);
            }
        }
        self.gather_front(bytes)
    }

    /// The same for a front that arrives in pieces.
    fn gather_front(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let decoder = &mut self.decoder;
        let mut taken = 0;
        let mut wanted = size_of::<CommonHeader>();
        let mut layout = None;
        loop {
            let step = wanted
                .saturating_sub(decoder.front_bytes)
                .min(bytes.len() - taken);
            let at = decoder.front_bytes;
            decoder.front[at..at + step].copy_from_slice(&bytes[taken..taken + step]);
            decoder.front_bytes += step;
            taken += step;
            if decoder.front_bytes < wanted {
                return Ok(taken);
            }
            if let Some(layout) = layout {
                let front = decoder.front;
                decoder.front_bytes = 0;
                self.handle_front(&layout, &front[..wanted])?;
                return Ok(taken);
            }
            let Ok((header, _)) = CommonHeader::ref_from_prefix(&decoder.front) else {
                return Ok(taken);
            };
            let found = layout_of(&self.rules, self.phase, header)?;
            wanted = front_bytes(&found);
            layout = Some(found);
        }
    }

    fn layout(&self, header: &CommonHeader) -> Result<PduLayout, Broken> {
        layout_of(&self.rules, self.phase, header)
    }

    fn handle_front(&mut self, layout: &PduLayout, front: &[u8]) -> Result<(), Broken> {
        let header_bytes = layout.header_bytes as usize;
        let (header, rest) = front.split_at(header_bytes.min(front.len()));
        let broken = |error| Broken::new(error, header);
        if layout.header_digest {
            let found = rest
                .first_chunk::<DIGEST_BYTES>()
                .copied()
                .unwrap_or_default();
            if found != digest(header) {
                let information = u32::from_le_bytes(found);
                let status = FatalErrorStatus::HEADER_DIGEST_ERROR;
                return Err(broken(FatalError::new(status, information)));
            }
        }
        match layout.pdu_type {
            PduType::CONTROLLER_DATA => self.data_starts(layout, header),
            PduType::RESPONSE_CAPSULE => self.response(header),
            PduType::READY_TO_TRANSFER => self.ready_to_transfer(header),
            PduType::INITIALIZE_RESPONSE => self.initialized(header),
            _ => {
                self.terminated(header);
                Ok(())
            }
        }
        .map_err(broken)
    }

    fn initialized(&mut self, header: &[u8]) -> Result<(), FatalError> {
        let response = read::<InitializeResponse>(header)?;
        let header_digest = response.digests & digests::HEADER != 0;
        let data_digest = response.digests & digests::DATA != 0;
        let host_data_bytes_max = response.host_data_bytes_max.get();
        let unsupported = |offset| FatalError::new(FatalErrorStatus::UNSUPPORTED_PARAMETER, offset);
        if response.format_version.get() != 0 {
            return Err(unsupported(field::FORMAT_VERSION));
        }
        if response.controller_data_alignment > 31 {
            return Err(FatalError::invalid_field(field::DATA_ALIGNMENT));
        }
        if header_digest && !self.settings.header_digest
            || data_digest && !self.settings.data_digest
        {
            return Err(FatalError::invalid_field(field::DIGESTS));
        }
        if host_data_bytes_max < nvme::pdu::HOST_DATA_BYTES_MIN
            || !host_data_bytes_max.is_multiple_of(4)
        {
            return Err(FatalError::invalid_field(field::LIMIT));
        }
        self.rules = HeaderRules {
            receiver: Receiver::Host,
            header_digest,
            data_digest,
            data_alignment_bytes: 4,
            data_bytes_max: DATA_BYTES_MAX,
        };
        self.data_alignment_bytes = (u32::from(response.controller_data_alignment) + 1) * 4;
        self.host_data_bytes_max = host_data_bytes_max;
        self.phase = Phase::Ready;
        Ok(())
    }

    fn terminated(&mut self, header: &[u8]) {
        let error = match TerminateRequest::ref_from_prefix(header) {
            Ok((request, _)) => request.error(),
            Err(_) => FatalError::sequence(),
        };
        self.fail(LossReason::Terminated(error));
    }

    fn response(&mut self, header: &[u8]) -> Result<(), FatalError> {
        let capsule = read::<ResponseCapsule>(header)?;
        let id = capsule.entry.command_id.get();
        let Some(slot) = self.commands.known(id) else {
            return Err(FatalError::invalid_field(RESPONSE_COMMAND_ID));
        };
        let mut entry = capsule.entry;
        let short = matches!(slot.data, Data::In(_))
            && slot.part.transferred < slot.data_bytes
            && entry.status().is_success();
        if slot.part.damaged {
            entry.status = Status::TRANSIENT_TRANSPORT_ERROR.wire().into();
        } else if short {
            entry.status = Status::DATA_TRANSFER_ERROR.wire().into();
        }
        self.conclude(id, Ok(entry));
        Ok(())
    }

    /// NVMe/TCP 1.0 §3.6.2.10: an R2T asks for the next part of a write's data.
    fn ready_to_transfer(&mut self, header: &[u8]) -> Result<(), FatalError> {
        let request = read::<ReadyToTransfer>(header)?;
        let (offset, length) = (request.offset.get(), request.length.get());
        let limit = self.settings.ready_to_transfer_max.max(1);
        let id = request.command_id.get();
        let Some(slot) = self.commands.known(id) else {
            return Err(FatalError::invalid_field(field::COMMAND_ID));
        };
        let writes = matches!(slot.data, Data::Out(_)) || slot.lent;
        if !writes || slot.part.in_capsule {
            return Err(FatalError::invalid_field(field::COMMAND_ID));
        }
        if offset != slot.part.transferred {
            return Err(FatalError::invalid_field(field::OFFSET));
        }
        if length == 0 || length > slot.data_bytes - slot.part.transferred {
            return Err(FatalError::new(
                FatalErrorStatus::DATA_OUT_OF_RANGE,
                field::LENGTH,
            ));
        }
        if slot.part.queued >= limit {
            return Err(FatalError::new(FatalErrorStatus::LIMIT_EXCEEDED, 0));
        }
        slot.part.transferred += length;
        slot.part.queued += 1;
        let transfer_tag = request.transfer_tag.get();
        self.outgoing.push_back(Outgoing::Transfer {
            id,
            transfer_tag,
            offset,
            length,
        });
        Ok(())
    }

    /// NVMe/TCP 1.0 §3.6.2.9: the header of data for a read.
    fn data_starts(&mut self, layout: &PduLayout, header: &[u8]) -> Result<(), FatalError> {
        let data = read::<DataHeader>(header)?;
        let (offset, length) = (data.offset.get(), data.length.get());
        let id = data.command_id.get();
        let Some(slot) = self
            .commands
            .known(id)
            .filter(|slot| matches!(slot.data, Data::In(_)))
        else {
            return Err(FatalError::invalid_field(field::COMMAND_ID));
        };
        if slot.part.last_seen {
            return Err(FatalError::sequence());
        }
        if length != layout.data_bytes {
            return Err(FatalError::invalid_field(field::LENGTH));
        }
        if offset != slot.part.transferred || length > slot.data_bytes - slot.part.transferred {
            return Err(FatalError::new(
                FatalErrorStatus::DATA_OUT_OF_RANGE,
                field::OFFSET,
            ));
        }
        slot.part.last_seen = layout.flags & flags::LAST_PDU != 0;
        let fresh = (RunningDigest::new(), [0; DIGEST_BYTES], 0);
        self.decoder.payload = Some(Payload {
            id,
            flags: layout.flags,
            remaining: length,
            digest: layout.data_digest.then_some(fresh),
        });
        Ok(())
    }

    /// Takes bytes of a payload and of the digest behind it. Returns how many.
    fn receive_data(&mut self, mut payload: Payload, bytes: &[u8]) -> usize {
        if payload.remaining > 0 {
            let step = bytes.len().min(payload.remaining as usize);
            let slot = &mut self.commands.slots[usize::from(payload.id)];
            let start = slot.part.transferred as usize;
            if let Some(memory) = slot.incoming().get_mut(start..start + step) {
                memory.copy_from_slice(&bytes[..step]);
            }
            self.advance(payload, step);
            return step;
        }
        let Some((computed, found, have)) = &mut payload.digest else {
            return 0;
        };
        let step = bytes.len().min(DIGEST_BYTES - *have);
        found[*have..*have + step].copy_from_slice(&bytes[..step]);
        *have += step;
        if *have < DIGEST_BYTES {
            self.decoder.payload = Some(payload);
            return step;
        }
        let damaged = computed.wire() != *found;
        self.commands.slots[usize::from(payload.id)].part.damaged |= damaged;
        self.data_ends(payload);
        step
    }

    /// Accounts for `bytes` of payload that have just arrived in their place.
    fn advance(&mut self, mut payload: Payload, bytes: usize) {
        let slot = &mut self.commands.slots[usize::from(payload.id)];
        let start = slot.part.transferred as usize;
        slot.part.transferred += bytes as u32;
        payload.remaining -= bytes as u32;
        if let Some((computed, ..)) = &mut payload.digest {
            computed.update(
                slot.incoming()
                    .get(start..start + bytes)
                    .unwrap_or_default(),
            );
        }
        self.decoder.payload = Some(payload);
        if payload.remaining == 0 && payload.digest.is_none() {
            self.data_ends(payload);
        }
    }

    fn data_ends(&mut self, payload: Payload) {
        self.decoder.payload = None;
        if payload.flags & flags::SUCCESS == 0 || self.loss().is_some() {
            return;
        }
        let slot = &self.commands.slots[usize::from(payload.id)];
        let status = if slot.part.damaged {
            Status::TRANSIENT_TRANSPORT_ERROR
        } else if slot.part.transferred < slot.data_bytes {
            Status::DATA_TRANSFER_ERROR
        } else {
            Status::SUCCESS
        };
        self.conclude(payload.id, Ok(CompletionEntry::new(payload.id, status)));
    }
}

/// Byte offset of CID in a response capsule.
const RESPONSE_COMMAND_ID: u32 = 20;

/// A PDU that ends the connection, and as much of its header as the controller is to be quoted.
struct Broken {
    error: FatalError,
    header: Vec<u8>,
}

impl Broken {
    fn new(error: FatalError, header: &[u8]) -> Broken {
        Broken {
            error,
            header: header.to_vec(),
        }
    }
}

fn layout_of(
    rules: &HeaderRules,
    phase: Phase,
    header: &CommonHeader,
) -> Result<PduLayout, Broken> {
    use zerocopy::IntoBytes;
    let layout = rules
        .layout(header)
        .map_err(|error| Broken::new(error, header.as_bytes()))?;
    let initial = layout.pdu_type == PduType::INITIALIZE_RESPONSE;
    let expected = match phase {
        Phase::Initializing => initial || layout.pdu_type == PduType::CONTROLLER_TERMINATE,
        _ => !initial,
    };
    if expected {
        Ok(layout)
    } else {
        Err(Broken::new(FatalError::sequence(), header.as_bytes()))
    }
}

/// Bytes before a PDU's data; of a PDU whose data is of no use here, all of it.
fn front_bytes(layout: &PduLayout) -> usize {
    if layout.pdu_type == PduType::CONTROLLER_DATA {
        layout.data_offset as usize
    } else {
        layout.total_bytes as usize
    }
}

fn read<T>(header: &[u8]) -> Result<&T, FatalError>
where
    T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    T::ref_from_bytes(header).map_err(|_| FatalError::invalid_field(field::HEADER_BYTES))
}
