//! Bytes in: PDU framing, digests, and what each PDU does to the connection.

use std::ops::Range;

use block::Buffer;
use nvme::command::{command_flags, sgl};
use nvme::fabrics::Fabrics;
use nvme::pdu::{
    CommandCapsule, CommonHeader, DIGEST_BYTES, DataHeader, InitializeRequest, InitializeResponse,
    PduType, TerminateRequest, digests,
};
use nvme::rdma::KeyedDataBlock;
use nvme::{
    AdminOpcode, Direction, FatalError, FatalErrorStatus, PduLayout, RunningDigest, Status,
    SubmissionEntry, field,
};
use zerocopy::FromBytes;

use super::connection::{
    Connection, End, Partner, Payload, Phase, Ready, Receiving, SlotState, Tag, Trust,
};
use super::transfer::padding;

/// HPDA may ask for at most this many dwords, 0's based (NVMe/TCP 1.0 §3.6.2.2).
const ALIGNMENT_MAX: u8 = 31;

/// What is to become of a command that just came.
enum Plan {
    Execute,
    InCapsule,
    Transfer(u32),
    Refuse(Status),
}

impl Connection {
    /// Takes the next bytes of the stream and returns how many were used. The rest, a header that
    /// is not complete yet (less than 140 bytes), is to be given again with what follows it.
    /// Look for work, for bytes to send and for the end afterwards.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.end().is_none() {
            let rest = bytes.get(used..).unwrap_or_default();
            let step = match self.receiving {
                Receiving::Header => self.receive_header(rest),
                Receiving::Data(payload) => Ok(self.receive_data(payload, rest)),
                Receiving::Digest(payload) => Ok(self.receive_digest(payload, rest)),
                Receiving::Skip(bytes) => Ok(self.skip(bytes, rest)),
            };
            match step {
                Ok(0) => return used,
                Ok(step) => used += step,
                Err(error) => self.fail(error, rest),
            }
        }
        bytes.len()
    }

    /// Where the next bytes of the stream belong, when at least `bytes_min` of data are missing:
    /// receiving straight into the buffer saves a copy. Whoever takes it must give it back through
    /// [`Connection::direct_received`] before anything else is received.
    pub fn take_direct(&mut self, bytes_min: usize) -> Option<(Buffer, Range<usize>)> {
        let Receiving::Data(payload) = self.receiving else {
            return None;
        };
        let range = payload.at as usize..payload.end as usize;
        if payload.padding > 0 || range.len() < bytes_min || self.end().is_some() {
            return None;
        }
        let slot = self.slots.get_mut(usize::from(payload.slot))?;
        Some((slot.transfer.data.take()?, range))
    }

    /// Gives back what [`Connection::take_direct`] gave; `received` bytes were added.
    pub fn direct_received(&mut self, buffer: Buffer, received: usize) {
        let Receiving::Data(mut payload) = self.receiving else {
            return;
        };
        let start = payload.at as usize;
        let received = received.min((payload.end - payload.at) as usize);
        if let (Some(digest), Some(data)) =
            (&mut payload.digest, buffer.get(start..start + received))
        {
            digest.update(data);
        }
        if let Some(slot) = self.slots.get_mut(usize::from(payload.slot)) {
            slot.transfer.data = Some(buffer);
        }
        payload.at += received as u32;
        self.data_received(payload);
    }

    fn receive_header(&mut self, rest: &[u8]) -> Result<usize, FatalError> {
        let Ok((common, _)) = CommonHeader::ref_from_prefix(rest) else {
            return Ok(0);
        };
        let layout = self.rules.layout(common)?;
        let initialized = self.phase == Phase::Live;
        match layout.pdu_type {
            PduType::HOST_TERMINATE => {}
            PduType::INITIALIZE_REQUEST if initialized => return Err(FatalError::sequence()),
            PduType::INITIALIZE_REQUEST => {}
            _ if !initialized => return Err(FatalError::sequence()),
            _ => {}
        }
        let header_bytes = layout.header_bytes as usize;
        let front = header_bytes
            + if layout.header_digest {
                DIGEST_BYTES
            } else {
                0
            };
        let (Some(header), Some(_)) = (rest.get(..header_bytes), rest.get(..front)) else {
            return Ok(0);
        };
        if let Some(found) = rest
            .get(header_bytes..front)
            .filter(|found| !found.is_empty())
            && found != nvme::digest(header)
        {
            let received = found
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            return Err(FatalError::new(
                FatalErrorStatus::HEADER_DIGEST_ERROR,
                received,
            ));
        }
        self.receive_pdu(&layout, header)?;
        Ok(front)
    }

    fn receive_pdu(&mut self, layout: &PduLayout, header: &[u8]) -> Result<(), FatalError> {
        // `layout` has checked that each header has the length of its struct.
        let cut = FatalError::invalid_field(field::HEADER_BYTES);
        match layout.pdu_type {
            PduType::COMMAND_CAPSULE => {
                let capsule = CommandCapsule::ref_from_bytes(header).map_err(|_| cut)?;
                self.receiving = self.receive_command(layout, &capsule.entry)?;
                if self.phase == Phase::Ended(End::TooManyCommands) {
                    self.push_terminate(FatalError::sequence(), header);
                }
            }
            PduType::HOST_DATA => {
                let header = DataHeader::ref_from_bytes(header).map_err(|_| cut)?;
                self.receiving = self.host_data(layout, header)?;
            }
            PduType::INITIALIZE_REQUEST => {
                let request = InitializeRequest::ref_from_bytes(header).map_err(|_| cut)?;
                self.initialize(request)?;
            }
            _ => {
                let request = TerminateRequest::ref_from_bytes(header).map_err(|_| cut)?;
                self.phase = Phase::Ended(End::HostTerminated(request.error()));
            }
        }
        Ok(())
    }

    fn initialize(&mut self, request: &InitializeRequest) -> Result<(), FatalError> {
        if request.format_version.get() != 0 {
            let status = FatalErrorStatus::UNSUPPORTED_PARAMETER;
            return Err(FatalError::new(status, field::FORMAT_VERSION));
        }
        if request.host_data_alignment > ALIGNMENT_MAX {
            return Err(FatalError::invalid_field(field::DATA_ALIGNMENT));
        }
        let wanted = |bit: u8, allowed: bool| request.digests & bit != 0 && allowed;
        let header_digest = wanted(digests::HEADER, self.settings.header_digest_allowed);
        let data_digest = wanted(digests::DATA, self.settings.data_digest_allowed);
        self.host_alignment = (usize::from(request.host_data_alignment) + 1) * 4;
        self.transfers_per_command =
            u8::try_from(request.ready_to_transfer_max.get().saturating_add(1)).unwrap_or(u8::MAX);
        let agreed = if header_digest { digests::HEADER } else { 0 }
            | if data_digest { digests::DATA } else { 0 };
        // The response itself never has a digest.
        self.push_initialize_response(InitializeResponse::new(
            0,
            agreed,
            self.settings.host_data_bytes_max,
        ));
        self.rules.header_digest = header_digest;
        self.rules.data_digest = data_digest;
        self.phase = Phase::Live;
        Ok(())
    }

    /// A command capsule came.
    fn receive_command(
        &mut self,
        layout: &PduLayout,
        entry: &SubmissionEntry,
    ) -> Result<Receiving, FatalError> {
        if layout.data_bytes > self.settings.in_capsule_bytes_max {
            return Err(FatalError::invalid_field(field::PDU_BYTES));
        }
        let digest_bytes = if layout.data_digest {
            DIGEST_BYTES as u32
        } else {
            0
        };
        let skip = padding(layout) + layout.data_bytes + digest_bytes;
        let next = if skip == 0 {
            Receiving::Header
        } else {
            Receiving::Skip(skip)
        };
        match self.take_command(entry, layout.data_bytes, None) {
            Some(index) => Ok(Receiving::Data(self.in_capsule(index, layout))),
            None => Ok(next),
        }
    }

    /// Takes a command, behind which its capsule has so many bytes, and whose data may be in
    /// memory of the host's. Gives its slot if its data is in the capsule.
    pub(super) fn take_command(
        &mut self,
        entry: &SubmissionEntry,
        capsule_bytes: u32,
        remote: Option<KeyedDataBlock>,
    ) -> Option<u16> {
        let Some(index) = self.open_slot(entry) else {
            self.phase = Phase::Ended(End::TooManyCommands);
            return None;
        };
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.transfer.remote = remote;
        }
        self.submission_head += 1;
        if self.submission_head >= self.queue_entries {
            self.submission_head = 0;
        }
        let plan = self.plan(entry, capsule_bytes);
        let refused = match plan {
            Plan::Refuse(status) => Some(status),
            _ => None,
        };
        if let Some(status) = self.fuse(index, entry.flags, refused) {
            self.refuse(index, status);
            return None;
        }
        match plan {
            Plan::InCapsule => return Some(index),
            Plan::Transfer(length) => self.start_transfer(index, length),
            Plan::Execute | Plan::Refuse(_) => self.data_complete(index),
        }
        None
    }

    fn in_capsule(&mut self, index: u16, layout: &PduLayout) -> Payload {
        let length = layout.data_bytes;
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.state = SlotState::Transferring;
            slot.transfer.length = length;
            slot.transfer.data = Some(Buffer::new(length as usize));
        }
        Payload {
            slot: index,
            window: None,
            padding: padding(layout),
            at: 0,
            end: length,
            digest: layout.data_digest.then(RunningDigest::new),
        }
    }

    /// Where the data of a command is, by its opcode and SGL (NVMe/TCP 1.0 §3.3.2).
    fn plan(&self, entry: &SubmissionEntry, capsule_bytes: u32) -> Plan {
        let opcode = if entry.opcode == AdminOpcode::FABRICS.0 {
            Fabrics::of(entry).fabrics_type.0
        } else {
            entry.opcode
        };
        let refuse = |status: Status| Plan::Refuse(status.do_not_retry());
        let direction = Direction::of(opcode);
        let length = entry.data.length.get();
        match direction {
            Direction::None => return Plan::Execute,
            Direction::Both => return refuse(Status::INVALID_OPCODE),
            Direction::ToController | Direction::ToHost => {}
        }
        // Without data its descriptor says nothing, whatever type it has (NVMe 2.0 §4.3.2).
        if length == 0 && capsule_bytes == 0 && entry.data.kind != sgl::DATA_BLOCK_OFFSET {
            return Plan::Execute;
        }
        if entry.flags & command_flags::TRANSFER_MASK != command_flags::SGL
            || length > self.settings.transfer_bytes_max
        {
            return refuse(Status::INVALID_FIELD);
        }
        match (direction, entry.data.kind) {
            (Direction::ToHost, sgl::TRANSPORT_DATA_BLOCK) => Plan::Execute,
            // Nothing is asked for before a proof; what needs its data is refused without.
            (Direction::ToController, sgl::TRANSPORT_DATA_BLOCK)
                if self.trust != Trust::Host && !self.fetches_for_strangers(length) =>
            {
                Plan::Execute
            }
            (Direction::ToController, sgl::TRANSPORT_DATA_BLOCK) => Plan::Transfer(length),
            (Direction::ToController, sgl::DATA_BLOCK_OFFSET) => {
                if entry.data.address.get() != 0 {
                    refuse(Status::SGL_OFFSET_INVALID)
                } else if length != capsule_bytes {
                    refuse(Status::DATA_SGL_LENGTH_INVALID)
                } else if length == 0 {
                    Plan::Execute
                } else {
                    Plan::InCapsule
                }
            }
            _ => refuse(Status::SGL_TYPE_INVALID),
        }
    }

    /// Pairs fused commands (NVMe 2.0 §3.4.2): they come one right after the other. Returns what
    /// the command is refused with, if it is; `refused` says that it is already.
    fn fuse(&mut self, index: u16, flags: u8, refused: Option<Status>) -> Option<Status> {
        let first = self.fused_first.take();
        let fused = flags & command_flags::FUSED_MASK;
        match (fused, first) {
            (0, None) => refused,
            (0, Some(first)) => {
                self.abandon(first, Status::ABORTED_MISSING_FUSED);
                refused
            }
            (command_flags::FUSED_FIRST, earlier) => {
                if let Some(earlier) = earlier {
                    self.abandon(earlier, Status::ABORTED_MISSING_FUSED);
                }
                if refused.is_none() {
                    self.fused_first = Some(index);
                    self.set_partner(index, Partner::Awaited);
                }
                refused
            }
            (command_flags::FUSED_SECOND, Some(first)) => {
                if refused.is_some() {
                    self.abandon(first, Status::ABORTED_FAILED_FUSED);
                } else {
                    self.set_partner(first, Partner::First(index));
                    self.set_partner(index, Partner::Second(first));
                }
                refused
            }
            (command_flags::FUSED_SECOND, None) => refused.or(Some(Status::ABORTED_MISSING_FUSED)),
            (_, first) => {
                if let Some(first) = first {
                    self.abandon(first, Status::ABORTED_MISSING_FUSED);
                }
                refused.or(Some(Status::INVALID_FIELD.do_not_retry()))
            }
        }
    }

    fn set_partner(&mut self, index: u16, partner: Partner) {
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.partner = partner;
        }
    }

    /// Ends one half of a fused pair that cannot be executed: now, or when its data is in.
    fn abandon(&mut self, index: u16, status: Status) {
        let Some(slot) = self.slots.get_mut(usize::from(index)) else {
            return;
        };
        slot.partner = Partner::None;
        match slot.state {
            SlotState::Transferring => slot.transfer.refused = Some(status),
            _ => self.refuse(index, status),
        }
    }

    fn refuse(&mut self, index: u16, status: Status) {
        self.refused = true;
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.state = SlotState::Executing;
        }
        self.respond(Tag(index), super::Reply::status(status));
    }

    /// A command has all its data: it becomes work, alone or with its partner.
    pub(super) fn data_complete(&mut self, index: u16) {
        let Some(slot) = self.slots.get_mut(usize::from(index)) else {
            return;
        };
        if let Some(status) = slot.transfer.refused {
            let partner = slot.partner;
            if let Partner::First(other) | Partner::Second(other) = partner {
                self.abandon(other, Status::ABORTED_FAILED_FUSED);
            }
            if partner == Partner::Awaited {
                self.fused_first = None;
            }
            return self.refuse(index, status);
        }
        slot.state = SlotState::Ready;
        let (first, second) = match slot.partner {
            Partner::None => return self.hand_out(Ready::One(Tag(index))),
            Partner::Awaited => return,
            Partner::First(second) => (index, second),
            Partner::Second(first) => (first, index),
        };
        let ready = |index: u16| {
            self.slots
                .get(usize::from(index))
                .is_some_and(|slot| slot.state == SlotState::Ready)
        };
        if ready(first) && ready(second) {
            self.hand_out(Ready::Fused(Tag(first), Tag(second)));
        }
    }

    fn hand_out(&mut self, ready: Ready) {
        let (Ready::One(first) | Ready::Fused(first, _)) = ready;
        let (Ready::One(last) | Ready::Fused(_, last)) = ready;
        for tag in [first, last] {
            if let Some(slot) = self.slots.get_mut(usize::from(tag.0)) {
                slot.state = SlotState::Executing;
            }
        }
        self.work.push_back(ready);
    }

    fn receive_data(&mut self, mut payload: Payload, rest: &[u8]) -> usize {
        let skipped = rest.len().min(payload.padding as usize);
        payload.padding -= skipped as u32;
        let wanted = (payload.end - payload.at) as usize;
        let rest = rest.get(skipped..).unwrap_or_default();
        let taken = rest.get(..wanted.min(rest.len())).unwrap_or_default();
        let start = payload.at as usize;
        if let Some(into) = self
            .slots
            .get_mut(usize::from(payload.slot))
            .and_then(|slot| slot.transfer.data.as_mut())
            .and_then(|data| data.get_mut(start..start + taken.len()))
        {
            into.copy_from_slice(taken);
        }
        if let Some(digest) = &mut payload.digest {
            digest.update(taken);
        }
        payload.at += taken.len() as u32;
        self.data_received(payload);
        skipped + taken.len()
    }

    fn data_received(&mut self, payload: Payload) {
        if payload.at < payload.end {
            self.receiving = Receiving::Data(payload);
        } else if payload.digest.is_some() {
            self.receiving = Receiving::Digest(payload);
        } else {
            self.receiving = Receiving::Header;
            self.payload_done(payload, true);
        }
    }

    fn receive_digest(&mut self, payload: Payload, rest: &[u8]) -> usize {
        let Some(found) = rest.get(..DIGEST_BYTES) else {
            return 0;
        };
        self.receiving = Receiving::Header;
        let intact = payload.digest.is_none_or(|digest| digest.wire() == found);
        self.payload_done(payload, intact);
        DIGEST_BYTES
    }

    fn skip(&mut self, bytes: u32, rest: &[u8]) -> usize {
        let skipped = rest.len().min(bytes as usize);
        let left = bytes - skipped as u32;
        self.receiving = if left == 0 {
            Receiving::Header
        } else {
            Receiving::Skip(left)
        };
        skipped
    }

    /// Ends the connection with a C2HTermReq that quotes the offending header.
    fn fail(&mut self, error: FatalError, header: &[u8]) {
        let quoted = CommonHeader::ref_from_prefix(header)
            .map_or(0, |(common, _)| usize::from(common.header_bytes));
        let quoted = header.get(..quoted.min(header.len())).unwrap_or_default();
        self.push_terminate(error, quoted);
        self.phase = Phase::Ended(End::Fatal(error));
    }
}
